#ifndef MEMWALD_STORE_WAL_DIGITS_H
#define MEMWALD_STORE_WAL_DIGITS_H

/*
 * wal_digits - the metadata of a batch message, for the two files that write
 * and read them. The format is in wal_format.h.
 */

#include "common/slice.h"

#define WAL_LEN_KEY	"memwald:len"
#define WAL_SEQ_KEY	"memwald:seq"
#define WAL_HASH_KEY	"memwald:xxh3"

#define WAL_LEN_DIGITS	12
#define WAL_SEQ_DIGITS	20
#define WAL_HASH_DIGITS	16

enum { WAL_LEN, WAL_SEQ, WAL_HASH, WAL_PAIR_COUNT };

/* Up to 20 digits; false for anything else. */
bool wal_decimal_parse(struct slice, uint64_t *) MUST_CHECK;

#endif
