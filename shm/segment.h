#ifndef MEMWALD_SHM_SEGMENT_H
#define MEMWALD_SHM_SEGMENT_H

/*
 * segment - the one piece of memory that all processes share.
 *
 * A memfd mapping, sized once from the configuration, made and populated by
 * the master before its first fork and inherited by fork at one address (the
 * descriptor is closed at once: nothing is left behind by any death). Never
 * /dev/shm, whose container default is 64 MiB. Fixed-size arrays, indices
 * instead of pointers. Format, in this order, each part on a page of its own:
 *
 *	stamp		magic, version of this layout, sizes: struct shm_stamp
 *	parts		in the order of SHM_PARTS (part.h)
 *
 * Valid: magic, version and all sizes equal what this program computes from
 * the configuration in the stamp. Every process checks that when it attaches.
 *
 * Death:	a cache of the object store; ends with the last process.
 * Lifetime:	shm_segment_create until the process ends. A test may call
 *		shm_segment_destroy and create another.
 * Locking:	created before there is anybody else; each part has its own.
 * Errors:	NO_MEMORY if it cannot be backed or passes the memory limit,
 *		with the size in the message; BAD_INPUT for a configuration out
 *		of bounds.
 */

#include "common/base.h"
#include "common/err.h"
#include "common/slice.h"
#include "shm/budget.h"

struct shm_config {
	uint32_t workers;		/* started at first */
	uint32_t workers_max;		/* slots for them; bounds a resize */
	uint32_t slots;			/* resident stores */
	uint32_t shard_records;		/* shards of others, all stores together */
	uint32_t ordinals;		/* known ordinals, all instances */
	struct slice instance_id;	/* copied */
	struct slice address;		/* where others reach us; copied */
	uint64_t memory_limit;		/* 0: shm_memory_limit() of limit.h */
	uint64_t budget_limits[SHM_BUDGET_COUNT];	/* 0: no limit */
};

#define SHM_SHARD_RECORDS_DEFAULT 65536u
#define SHM_ORDINALS_DEFAULT 1024u

/* What it would take, without making it. */
uint64_t shm_segment_size(const struct shm_config *);
/* One store slot with so many workers. */
uint64_t shm_slot_size(uint32_t workers_max);

struct err shm_segment_create(const struct shm_config *) MUST_CHECK;
void shm_segment_destroy(void);

/* MUST that the mapping is ours and whole; shm_process_attach calls it. */
void shm_segment_check(void);
uint64_t shm_segment_bytes(void);

#endif
