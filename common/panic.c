#include "common/base.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/log.h"
#include "common/panic.h"

static char *slot_text;
static size_t slot_bytes;

void
panic_attach(char *text, size_t bytes)
{
	slot_text = text;
	slot_bytes = bytes;
}

void
panic(const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (slot_text != NULL)
		snprintf(slot_text, slot_bytes, "%s", text);
	log_error("panic, this process ends and is started again "
	    "reason=\"%s\"", text);
	abort();
}

void
panic_must(const char *file, int line, const char *what)
{
	panic("%s:%d: MUST(%s)", file, line, what);
}
