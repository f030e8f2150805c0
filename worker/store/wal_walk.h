#ifndef MEMWALD_STORE_WAL_WALK_H
#define MEMWALD_STORE_WAL_WALK_H

/*
 * wal_walk - the walk over an entry in its file, with the memory of a window.
 *
 * wal_scan.h walks over bytes in memory. An entry has megabytes, or is a
 * gigabyte of one row; so while there is more than WAL_WINDOW of it, batches are
 * taken one by one: from a window that moves over the entry, or, of one that
 * does not fit in, only the metadata, while the hash is made of its body piece
 * by piece, which stays in the file. What is left then, and what follows
 * something that is not whole, is read and scanned in memory, since only there
 * what it is can be told from what comes behind it (wal_format.h, validity 3 to
 * 5).
 *
 * The window is small and its memory is used again for the whole walk: what a
 * process touches for the first time costs it more than what it then reads
 * there, on some virtual machines a hundred times as much.
 *
 * Long values of a batch that is read stay in the file as well (batch.h, rule
 * 6): whoever copies or sends them takes them from there.
 *
 * Lifetime:	the descriptor must outlive the walk and what was read; a batch
 *		is good until the next call.
 * Locking:	none; one thread at a time.
 * Errors:	IO, NO_MEMORY: then the walk is over. Damage is an answer, as in
 *		wal_format.h.
 */

#include "common/err.h"
#include "worker/store/kind.h"
#include "worker/store/wal_format.h"

#define WAL_WINDOW	(1u << 20)
/* Values that are far have at least so many bytes in their column. */
#define WAL_FAR_MIN	(4u << 20)

struct wal_walk {
	int fd;
	bool ours;
	bool end_recorded;
	uint64_t end;			/* as in struct wal_scan */
	uint64_t size;			/* up to where there are bytes */
	uint64_t offset;
	uint64_t whole_end;		/* behind the last whole batch */
	uint64_t sequence;		/* of that batch */
	char *bytes;			/* of the entry, so many at most: */
	uint64_t room;
	struct wal_scan scan;		/* of what bytes hold */
	bool scanning;			/* to the end */
};

/* From an offset on, up to size bytes of the entry. */
void wal_walk_init(struct wal_walk *, int fd, bool ours, uint64_t offset,
    uint64_t size);
/* As wal_scan_set_end. */
void wal_walk_set_end(struct wal_walk *, uint64_t end);
struct err wal_walk_next(struct wal_walk *, enum wal_found *,
    struct wal_batch *) MUST_CHECK;
void wal_walk_free(struct wal_walk *);

/* The batch that the walk has just found. far: columns whose long values stay
 * in the file. */
struct err wal_walk_read(const struct wal_walk *, const struct wal_batch *,
    const struct arrow_schema *, const bool *far, struct arena *,
    struct batch *) MUST_CHECK;
/* A batch that was found before, at its offset in its entry; the arena holds
 * its bytes, but for those that are far. */
struct err wal_batch_read(int fd, uint64_t offset, uint64_t bytes,
    const struct arrow_schema *, const bool *far, struct arena *,
    struct batch *) MUST_CHECK;

/* Columns of a shape: for who follows or copies, all but the key; for who
 * reads rows, the blobs. NULL: no memory. */
const bool *wal_far_all(const struct store_shape *, struct arena *);
const bool *wal_far_blobs(const struct store_shape *, struct arena *);

#endif
