#ifndef MEMWALD_COMMON_PANIC_H
#define MEMWALD_COMMON_PANIC_H

/*
 * panic - a broken promise of our own: say so, then abort().
 *
 * The text also goes to the memory that panic_attach names (the process slot
 * in the segment), where the master finds it after the death.
 */

#include "common/base.h"

/* Text of at most bytes, NUL included. NULL detaches. */
void panic_attach(char *text, size_t bytes);
NORETURN void panic(const char *fmt, ...) PRINTF_LIKE(1, 2);

#endif
