#ifndef MEMWALD_STORE_WAL_PARTS_H
#define MEMWALD_STORE_WAL_PARTS_H

/*
 * wal_parts - a WAL between its two files: wal.c lists and reads entries and
 * starts those that are appended to, wal_put.c puts those that are whole.
 *
 * Locking:	as wal.h.
 */

#include "worker/store/wal.h"

/* A head of the largest schema; a generic store may have 1024 columns. */
#define WAL_HEAD_MAX	(1u << 20)

/* Reads and parses the head of an open entry. */
struct err wal_head_load(int fd, uint64_t size, struct arena *,
    struct wal_head *) MUST_CHECK;

/* Of all large batches of a start. */
uint64_t wal_large_bytes(const struct wal_start *);

/* wal_entry_start where the store cannot append. */
struct err wal_entry_put(struct object_dir *, const struct uuid *shard,
    const struct arrow_schema *, const struct wal_start *,
    struct wal_writer *) MUST_CHECK;

#endif
