#ifndef MEMWALD_OBJECT_LOCAL_H
#define MEMWALD_OBJECT_LOCAL_H

/*
 * local - what only a directory of this machine can do, beside object.h.
 *
 * WAL entries are written in place. An entry is born zeroed and synced under a
 * temporary name, ahead of need; its head is written; then it is linked into
 * place, and from then on it never changes its size. Its descriptor is handed
 * out raw, so that the loop may write to it through its ring.
 *
 * Temporary names are `.tmp-PID-UUID` in the directory of the final name, never
 * shared, never listed. Who makes one holds its flock for as long as it is open,
 * and the kernel lets go of that when he dies: a temporary file whose lock can
 * be had has no owner, whatever its pid says (field fault D.6).
 *
 * Death:	leaves temporary files at most; object_clean_temp removes them.
 * Locking:	none; calls may come from any thread.
 * Errors:	as in object.h. FULL leaves nothing under a final name.
 */

#include "worker/object/object.h"

#define OBJECT_TEMP_MAX 64

/* For openat and the like; -1 where the store is not local. Not to be closed. */
int object_dir_fd(const struct object_dir *);

struct object_entry {
	int fd;				/* read and write; the caller closes it
					 * once the entry is linked */
	uint64_t size_bytes;
	char name[OBJECT_NAME_MAX + OBJECT_TEMP_MAX];	/* temporary; ours */
};

/* A zeroed, synced file of this size that will be linked into the directory
 * prefix, which is made. */
struct err object_entry_create(struct object_dir *, const char *prefix,
    uint64_t size_bytes, struct object_entry *) MUST_CHECK;
/* The same, but not zeroed nor synced: whoever links it has written all of it
 * before, but for zeroes at its end. */
struct err object_entry_reserve(struct object_dir *, const char *prefix,
    uint64_t size_bytes, struct object_entry *) MUST_CHECK;
/* Durable under its final name, which must be in the entry's directory. What
 * was written before is durable first. On an error the entry still is the
 * caller's to abandon; after UNKNOWN the name may be there. */
struct err object_entry_link(struct object_dir *, struct object_entry *,
    const char *name) MUST_CHECK;
/* Not linked: closes it and removes it. */
void object_entry_abandon(struct object_dir *, struct object_entry *);
/* For readers, and to sync it: a read only descriptor. */
struct err object_entry_open(struct object_dir *, const char *name, int *fd,
    uint64_t *size_bytes) MUST_CHECK;
/* When it was last written, of the wall clock. */
struct err object_entry_modified(int fd, uint64_t *modified_us) MUST_CHECK;

/* Gives back the blocks of an entry behind its first bytes, which stay, as do
 * its name and size; adds to *bytes what that freed. Done before, or a file
 * system that cannot: OK, and nothing is added. */
struct err object_entry_punch(struct object_dir *, const char *name,
    uint64_t keep_bytes, uint64_t *bytes) MUST_CHECK;

/* Writes and syncs the data in one call (RWF_DSYNC); whole or an error. */
struct err object_write_sync(int fd, const void *, size_t, uint64_t offset)
    MUST_CHECK;
/* Writes many pieces in a row, in steps that leave the disk to others between
 * them. What follows makes it durable: a link, or object_sync. */
struct err object_write_parts(int fd, const struct slice *, uint32_t count,
    uint64_t offset) MUST_CHECK;
/* CORRUPT if the file ends before. */
struct err object_read_at(int fd, void *, size_t, uint64_t offset) MUST_CHECK;
struct err object_sync(int fd) MUST_CHECK;

/* Whether a directory below parent still has the name that it was opened by:
 * NOT_FOUND if that is gone, or another's by now. One look. */
struct err object_dir_here(struct object_dir *parent, const char *name,
    const struct object_dir *) MUST_CHECK;

/*
 * Several steps as one: a lock among all processes of all instances that have
 * this directory, an flock that the kernel takes back when its holder dies. Its
 * file stays: who waits for one that was removed would wait for another's. It
 * protects names, of which not even a put if absent can remove one only if it
 * is still what one has seen. BUSY: not to be had within span_ns.
 */
struct err object_lock(struct object_dir *, const char *name, uint64_t span_ns,
    int *lock) MUST_CHECK;
void object_unlock(int lock);

/* When a directory was changed last: names in it made or removed. */
struct err object_dir_changed(struct object_dir *, const char *name,
    uint64_t *wall_ns) MUST_CHECK;

/* Removes temporary files directly in prefix whose owner is dead. Counts. */
struct err object_clean_temp(struct object_dir *, const char *prefix,
    uint32_t *removed) MUST_CHECK;

/* At start: UNSUPPORTED if a second put of a name is not refused; fencing would
 * protect nothing then (design 8). */
struct err object_probe(struct object_dir *) MUST_CHECK;
/* Whether this is a network file system, where the caller warns. */
bool object_on_network(const struct object_dir *);

#endif
