#ifndef MEMWALD_STORE_WAL_DIGITS_H
#define MEMWALD_STORE_WAL_DIGITS_H

/*
 * wal_digits - the metadata of a batch message, for the files that write and
 * read them. The format is in wal_format.h.
 */

#include "worker/arrow/ipc.h"

#define WAL_LEN_KEY	"memwald:len"
#define WAL_SEQ_KEY	"memwald:seq"
#define WAL_HASH_KEY	"memwald:xxh3"

#define WAL_LEN_DIGITS	12
#define WAL_SEQ_DIGITS	20
#define WAL_HASH_DIGITS	16

enum { WAL_LEN, WAL_SEQ, WAL_HASH, WAL_PAIR_COUNT };

/* Up to 20 digits; false for anything else. */
bool wal_decimal_parse(struct slice, uint64_t *) MUST_CHECK;

/* What stands where a batch may begin. */
struct wal_look {
	struct ipc_message message;
	uint64_t sequence;
	struct slice digits;		/* of the hash; empty: none needed */
};

/* Whether the metadata of look->message are a batch's and fit together; fills
 * in the rest. */
bool wal_look_fits(struct wal_look *, bool ours) MUST_CHECK;
bool wal_hash_is(uint64_t hash, struct slice digits) MUST_CHECK;

#endif
