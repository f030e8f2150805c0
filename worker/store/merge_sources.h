#ifndef MEMWALD_STORE_MERGE_SOURCES_H
#define MEMWALD_STORE_MERGE_SOURCES_H

/*
 * merge_sources - the rows of several sources in key order, of each key the
 * one that counts.
 *
 * Each source brings its sorted keys: a key index, or a sorted tail. The merge
 * walks them side by side, without sorting or reading rows; so skipping an
 * offset costs a step of a heap a key, and a list of a million rows costs
 * constant memory. Of one key the row with the highest sequence wins, then the
 * later row of the same source; a row without a sequence (another engine's) is
 * oldest. Equal sequences in two sources are one row that was seen twice while
 * it moved on, or come from two hosts: then the greater created_at wins, then
 * the greater row, column by column (design 1), so that every instance and
 * every fold answers alike. Sequences are read only where a key occurs twice.
 *
 * Lifetime:	what is merged must outlive the merge; the arrays are its own.
 * Locking:	none; one thread at a time.
 * Errors:	CORRUPT, IO of the sources; the merge then ends.
 */

#include "worker/store/base.h"
#include "worker/store/tail.h"

struct merge;

/* A row that won, or may win: where it is. Exactly one of the two is set. */
struct merge_row {
	struct slice key;		/* good as long as the source */
	const struct source *source;
	const struct tail_batch *batch;
	uint32_t row;			/* of the fragment, or in the batch */
};

struct err merge_new(const struct store_shape *, uint32_t sources_max,
    struct merge **) MUST_CHECK;
void merge_free(struct merge *);		/* NULL is fine */
/* Before the first merge_next; at most sources_max generations, indexes of a
 * base and runs of tails. */
void merge_add_source(struct merge *, const struct source *);
void merge_add_base(struct merge *, const struct base *);
/* Of the base only the sources that are true in some, by their number in it;
 * some must outlive the merge. */
void merge_add_base_some(struct merge *, const struct base *, const bool *some);
void merge_add_tail(struct merge *, const struct tail_sorted *);

/* Before the first merge_next: of each key all rows come, the one that counts
 * last. So what is written in this order answers as its sources did, whatever
 * becomes of sequences that are equal. */
void merge_keep_all(struct merge *);

/* The next winner in key order; *found = false at the end. */
struct err merge_next(struct merge *, struct merge_row *, bool *found) MUST_CHECK;

/* Reads the row with all columns of the shape: row *at of the batch. The merge
 * keeps the last batches of tails that it read, since rows of one commit lie
 * apart in key order; what is read is good until the next merge_read. Long
 * blobs may be far (batch.h). */
struct err merge_read(struct merge *, const struct merge_row *,
    const struct batch **, uint64_t *at) MUST_CHECK;
/* With those that are true in columns (NULL: all); of others there may be none. */
struct err merge_read_columns(struct merge *, const struct merge_row *,
    const bool *columns, const struct batch **, uint64_t *at) MUST_CHECK;
/* A whole batch of a tail, good until the next one is read. */
struct err merge_batch(struct merge *, const struct tail_batch *,
    const struct batch **) MUST_CHECK;

/* Which of two rows of one key counts: <0 the second, >0 the first. Equal
 * sequences in one source: the later. The arena is scratch. */
struct err merge_compare(const struct store_shape *, const struct merge_row *,
    const struct merge_row *, struct arena *, int *) MUST_CHECK;

#endif
