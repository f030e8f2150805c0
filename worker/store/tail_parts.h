#ifndef MEMWALD_STORE_TAIL_PARTS_H
#define MEMWALD_STORE_TAIL_PARTS_H

/*
 * tail_parts - a tail between its two files: tail.c follows and finds,
 * tail_sort.c puts the rows of entries in key order for lists.
 *
 * Lifetime:	an entry and a run are counted: the tail holds one reference,
 *		each tail_sorted another.
 * Locking:	as tail.h; the counts are atomic.
 */

#include "common/arena.h"
#include "common/list.h"
#include "worker/store/tail.h"

struct key_row {
	const char *key;
	uint32_t key_len;
	uint32_t hash;
	uint32_t batch;			/* in the entry's batches */
	uint32_t row;
};

struct tail_entry {
	struct list link;		/* tail->entries */
	_Atomic uint32_t refs;
	uint64_t position;		/* of the last one kept in it */
	int fd;				/* of lists only where it stays_open: else
					 * the follower opens and closes it */
	bool stays_open;
	bool ours;
	bool whole;			/* entries put whole, and how many: */
	uint32_t whole_count;
	struct object_dir *dir;		/* the store's; where they lie */
	struct uuid shard;
	uint64_t size_bytes;
	uint64_t offset;		/* followed up to here */
	uint32_t batch_count, batch_room;
	struct tail_batch **batches;	/* each its own, since rows point there */
	uint32_t row_count, row_room;
	struct key_row *rows;
	struct arena keys;
	struct tail_run *run;		/* of the rows at the last list; NULL */
	uint64_t bytes;			/* as counted (opened.h) */
};

struct tail_slot {
	struct tail_entry *entry;	/* NULL: free */
	uint32_t row;
	uint32_t hash;
};

struct tail {
	const struct store_shape *shape;
	struct uuid shard;
	struct list entries;
	uint64_t position;		/* of the entry that is followed; 0 */
	uint64_t used, room;		/* of the table; room a power of two */
	struct tail_slot *table;
	uint64_t row_count;
	uint64_t table_bytes;		/* as counted (opened.h) */
};

/* Give a reference back. NULL is fine for a run. */
void tail_entry_drop(struct tail_entry *);
void tail_run_drop(struct tail_run *);
/* Counts what an entry takes by now. */
void tail_entry_count(struct tail_entry *);

static inline struct slice
tail_row_key(const struct key_row *r)
{
	return slice_make(r->key, r->key_len);
}

static inline struct tail_row
tail_row_at(const struct tail_entry *e, uint32_t row)
{
	const struct key_row *r = &e->rows[row];

	return (struct tail_row){ e->batches[r->batch], tail_row_key(r),
	    r->row };
}

#endif
