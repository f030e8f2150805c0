#ifndef MEMWALD_MAINTAIN_SEAL_H
#define MEMWALD_MAINTAIN_SEAL_H

/*
 * seal - the tail of one shard becomes a generation.
 *
 *	_mem_wal/SHARD/{8 hex}_gen_{n}/		a Lance table of one fragment:
 *	    data/ _versions/ _deletions/	rows in commit order; older
 *	    _pk_index/ bloom_filter.bin		rows of a key are masked
 *
 * An entry may be sealed when its end is recorded, by its successor or, where
 * it was put whole, by itself; or when this host's owner has closed it; then the manifest's compare-and-set must
 * find the epoch that it was closed under. In every case it must find the
 * replay_after that the seal started from. Else the generation is left to
 * collection and the error reported (design 6.5).
 *
 * Entries are sealed in order and without a gap, so that replay_after never
 * passes one that no generation holds (field fault A.1).
 *
 * Death:	before the manifest: a directory that nothing names. After it:
 *		the rows are in the generation and in the WAL below
 *		replay_after; readers look at one of them.
 * Locking:	the shard's seal guard, held across I/O; no lock.
 * Errors:	BUSY: somebody seals this shard. FENCED: another epoch. Those of
 *		reading and writing.
 */

#include "worker/maintain/maintain.h"

/* WAL bytes that one generation takes up, unless one entry is larger. */
#define SEAL_BYTES_MAX	(256ull << 20)

struct seal_result {
	uint32_t generations;		/* made */
	uint64_t rows;
	bool more;			/* sealable entries are left */
};

/* One generation at most. Nothing to seal is OK with none made. */
struct err seal_shard(struct aged_store *, uint32_t shard,
    struct seal_result *) MUST_CHECK;

#endif
