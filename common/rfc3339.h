#ifndef MEMWALD_COMMON_RFC3339_H
#define MEMWALD_COMMON_RFC3339_H

/*
 * rfc3339 - "2026-11-01T08:00:01.237Z" from and to microseconds since 1970.
 *
 * Read: any offset, any number of fraction digits; those beyond microseconds
 * are cut. "t", "z" and a blank for "T" are taken, as RFC 3339 5.6 allows; a
 * leap second counts as the second after it. What thereby, or by its offset,
 * lies before the year 0 or after 9999 in UTC is no time: nothing could be
 * answered for it. Written: in UTC with "Z" and 0, 3 or 6 fraction digits, as
 * many as are needed (contract 1.1).
 */

#include "common/base.h"
#include "common/slice.h"

/* Also of years that only a foreign table can hold: "-290308-..." */
#define RFC3339_TEXT_MAX 40
/* The longest that is read; fraction digits without end are no time. */
#define RFC3339_READ_MAX 64

bool rfc3339_parse(struct slice, int64_t *us) MUST_CHECK;
/* No NUL; answers the length. */
size_t rfc3339_print(char out[RFC3339_TEXT_MAX], int64_t us);

#endif
