#include "common/base.h"

#include <errno.h>

#include "common/err.h"

static const struct {
	int status;
	const char *code;
	const char *text;
	const char *name;
} kinds[] = {
#define X(kind, status, code, text) { status, code, text, #kind },
	ERR_KINDS(X)
#undef X
};

static_assert(ARRAY_LEN(kinds) == ERR_KIND_COUNT, "a row a kind");

struct err
err_from_os(enum err_kind otherwise, const char *what)
{
	struct err e = { (uint16_t)otherwise, errno, what };

	switch (errno) {
	case ENOSPC:
	case EDQUOT:
		e.kind = ERR_FULL;
		break;
	case EMFILE:
	case ENFILE:
		e.kind = ERR_BUSY;
		break;
	case ENOMEM:
		e.kind = ERR_NO_MEMORY;
		break;
	case ENOENT:
		e.kind = ERR_NOT_FOUND;
		break;
	case EEXIST:
		e.kind = ERR_EXISTS;
		break;
	}
	return e;
}

int
err_status(struct err e)
{
	MUST(e.kind < ERR_KIND_COUNT);
	return kinds[e.kind].status;
}

/* What must be written or freed first takes longer than what is only busy. */
uint32_t
err_retry_secs(struct err e)
{
	if (e.kind == ERR_BACKLOG || e.kind == ERR_FULL)
		return 5;
	return err_status(e) == 503 ? 1 : 0;
}

const char *
err_code(struct err e)
{
	MUST(e.kind < ERR_KIND_COUNT);
	return kinds[e.kind].code;
}

const char *
err_text(struct err e)
{
	MUST(e.kind < ERR_KIND_COUNT);
	return kinds[e.kind].text;
}

const char *
err_name(struct err e)
{
	MUST(e.kind < ERR_KIND_COUNT);
	return kinds[e.kind].name;
}
