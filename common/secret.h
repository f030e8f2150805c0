#ifndef MEMWALD_COMMON_SECRET_H
#define MEMWALD_COMMON_SECRET_H

/*
 * secret - the token that the instances of one data directory share.
 *
 *	file	= token [ LF anything ]		; 16 to 512 bytes of printable
 *						; ASCII without blanks
 *
 * It is read once, before the first fork, so that a server without the file, or
 * with one that is empty, does not start; and so that nobody needs the right to
 * read it later. It is shown nowhere: not in the log, not in status.
 *
 * Lifetime:	of the process; children inherit it.
 * Locking:	constant after secret_load.
 * Errors:	BAD_INPUT with one line that names the file. IO, NOT_FOUND.
 */

#include "common/base.h"
#include "common/err.h"
#include "common/slice.h"

/* "": there is none. */
struct err secret_load(const char *path) MUST_CHECK;
/* Empty: there is none. */
struct slice secret_get(void);
/* In a time that tells nothing of how much of it was right. False if there is
 * none. */
bool secret_is(struct slice given) MUST_CHECK;

#endif
