#ifndef MEMWALD_LANCE_KEY_TABLE_H
#define MEMWALD_LANCE_KEY_TABLE_H

/*
 * key_table - what makes a key index quick, made once from sorted keys.
 *
 * For key_index.c and key_file.c only: both have filled in count, pages and
 * rows, in memory or in a mapping, and finish here.
 */

#include "worker/lance/key_index.h"

/* Cleared, with room for so many. */
struct err key_table_new(uint64_t count, uint32_t page_count,
    struct key_index **) MUST_CHECK;
/* Room for a filter of its own, cleared. */
struct err key_table_own_filter(struct key_index *, size_t bytes) MUST_CHECK;
/* Looks at all keys: that they rise, and the rows of equal ones with them
 * (else CORRUPT); whether one occurs twice; adds them to a filter of its own;
 * takes the samples. Allocates nothing, so that it may be a marked read. */
struct err key_table_scan(struct key_index *) MUST_CHECK;

#endif
