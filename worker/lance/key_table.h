#ifndef MEMWALD_LANCE_KEY_TABLE_H
#define MEMWALD_LANCE_KEY_TABLE_H

/*
 * key_table - what makes a key index quick, made once from sorted keys.
 *
 * For key_index.c, key_file.c and key_write.c only: the first two have filled
 * in count, pages, rows and places, in memory or in a mapping, and finish here.
 */

#include "worker/lance/key_index.h"

/* Of page_data.lance, in the metadata of the lookup file. */
#define KEY_HASH		"memwald:xxh3"
#define KEY_HASH_DIGITS		16

void key_hash_text(uint64_t hash, char *digits);	/* and a NUL */

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
