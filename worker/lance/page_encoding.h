#ifndef MEMWALD_LANCE_PAGE_ENCODING_H
#define MEMWALD_LANCE_PAGE_ENCODING_H

/*
 * page_encoding - what one page message says, checked, as a struct data_page.
 *
 * Buffers lie inside of the file and hold as many values as the page has; what
 * the values are is not looked at. first and item_first are the caller's.
 *
 * Lifetime:	the page points into the file's bytes; scratch is only used
 *		meanwhile.
 * Errors:	CORRUPT, UNSUPPORTED, NO_MEMORY: those of data_file.h.
 * Source:	lance-format.md 2.2.
 */

#include "worker/lance/data_file.h"

struct Pb__Page;

struct err page_encoding_read(struct arena *scratch, struct slice file,
    struct Pb__Page *, struct data_page *) MUST_CHECK;

#endif
