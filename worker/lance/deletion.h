#ifndef MEMWALD_LANCE_DELETION_H
#define MEMWALD_LANCE_DELETION_H

/*
 * deletion - the rows of a fragment that are no more.
 *
 * A set of row offsets, in memory a Roaring bitmap. Two kinds of files are
 * read: .bin, a portable Roaring bitmap (read by hand, since the library's own
 * reader does not check what it reads), and .arrow, an Arrow file of one uint32
 * column, zstd inside, that the engine writes for small sets. We write .bin.
 *
 *	_deletions/<fragment>-<read version>-<random id>.arrow | .bin
 *
 *	u32 12346, u32 containers	or	u32 12347 | containers-1 << 16,
 *						a bit a container: is it runs
 *	u16 key, u16 cardinality-1	a container, keys rising
 *	u32 offset			a container; with runs only from 4 on
 *	containers: to 4096 values u16 each, rising; more: 8192 bytes of bits;
 *	    runs: u16 count, then u16 start, u16 length-1 each
 *
 * Valid:	keys and values rise, cardinalities are true, containers lie in
 *		order behind each other, and every row is below the fragment's
 *		row count.
 * Lifetime:	the maker's; deletion_free once.
 * Locking:	readers may share one that nobody changes.
 * Errors:	CORRUPT, NO_MEMORY, those of object.h. EXISTS cannot be met by
 *		chance: the id is random.
 * Source:	lance-format.md 6.2; the Roaring format specification.
 */

#include "worker/lance/table.h"

struct deletion;

struct err deletion_new(struct deletion **) MUST_CHECK;
struct err deletion_copy(const struct deletion *, struct deletion **) MUST_CHECK;
void deletion_free(struct deletion *);		/* NULL is fine */

/* Of a table's directory. row_count: physical rows of the fragment. */
struct err deletion_read(struct object_dir *table, uint64_t fragment_id,
    const struct table_deletion *, uint64_t row_count, struct deletion **)
    MUST_CHECK;
/* Durable when OK, under a name of its own; fills in what the manifest says of
 * it. */
struct err deletion_write(struct object_dir *table, uint64_t fragment_id,
    uint64_t read_version, const struct deletion *, struct table_deletion *)
    MUST_CHECK;
/* Bytes of a .bin, for any set: also the fragment bitmap of an index. */
struct err deletion_decode(struct slice, uint64_t row_count, struct deletion **)
    MUST_CHECK;
struct err deletion_encode(const struct deletion *, struct arena *,
    struct slice *) MUST_CHECK;

void deletion_add(struct deletion *, uint32_t row);
void deletion_add_all(struct deletion *, const struct deletion *more);
bool deletion_contains(const struct deletion *, uint32_t row);
uint64_t deletion_count(const struct deletion *);
/* How many of the rows below this one. */
uint64_t deletion_count_below(const struct deletion *, uint64_t row);
/* The smallest row >= *row; false if there is none. */
bool deletion_next(const struct deletion *, uint32_t *row);
size_t deletion_bytes(const struct deletion *);	/* memory, about */

#endif
