#ifndef MEMWALD_OBJECT_OBJECT_H
#define MEMWALD_OBJECT_OBJECT_H

/*
 * object - blobs by name, in one store's directory: what a bucket can do.
 *
 * Everything durable goes through these calls: get, put if absent, list,
 * delete. Compare and set is put-if-absent of the next name in a row of
 * versions. A directory handle is opened when work on a store begins; names
 * are relative to it, so that late work on a deleted and re-created store hits
 * the dead tree (design 6.6).
 *
 * Durable means synced: file first, then a link into place, then the directory
 * and every parent directory that was made for it (field fault A.8). A reader
 * never sees half an object.
 *
 * Lifetime:	a handle is reference counted by its owner, not here; close
 *		it once. Calls may come from any thread at the same time.
 * Errors:	EXISTS: the name was taken (nothing stored). NOT_FOUND. FULL.
 *		IO. UNKNOWN: stored or not, read back first (object stores; the
 *		local store answers it when only the last sync failed).
 *
 * What only a local directory can do (write in place, map, descriptors) is in
 * local.h; whoever calls it says so.
 */

#include "common/arena.h"
#include "common/base.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/slice.h"

#define OBJECT_NAME_MAX 512	/* bytes of a name relative to its directory */

struct object_dir;		/* one open directory */

struct object_info {
	struct slice name;	/* last component; good during the call back */
	uint64_t size_bytes;
	uint64_t modified_us;	/* wall clock: written, or given this name */
	bool is_dir;
};

/* Answers false to stop the listing. */
typedef bool object_list_fn(const struct object_info *, void *ctx);

/* The root of everything, "./lance-data"; made when it is absent. */
struct err object_root_open(const char *path, struct object_dir **) MUST_CHECK;
/* A directory below another. NOT_FOUND unless make, which makes and syncs it
 * and its parents. Takes nothing; the parent may be closed before it. */
struct err object_dir_open(struct object_dir *parent, const char *name,
    bool make, struct object_dir **) MUST_CHECK;
void object_dir_close(struct object_dir *);

/*
 * Whether entries can be appended to where they lie (local.h). A bucket cannot:
 * there each commit is an object of its own (design 4). A directory can, unless
 * the root was told to do as a bucket does; what is opened below does the same.
 */
bool object_can_append(const struct object_dir *);
void object_put_only(struct object_dir *root);

/* The whole object into the arena; more than max_bytes is CORRUPT. */
struct err object_get(struct object_dir *, const char *name, size_t max_bytes,
    struct arena *, struct slice *) MUST_CHECK;
/* Durable when it returns OK. Parents of name are made. A store that refuses
 * it for a conflict, with nothing stored, is asked again until this long:
 * then UNAVAILABLE. */
#define OBJECT_PUT_SPAN_NS (10 * NS_PER_SEC)
struct err object_put_new(struct object_dir *, const char *name, struct slice)
    MUST_CHECK;
/* The same of an object whose bytes lie in several places. */
struct err object_put_parts(struct object_dir *, const char *name,
    const struct slice *parts, uint32_t count) MUST_CHECK;
/* A hint or another disposable object: replaced in one step, not synced. */
struct err object_put_hint(struct object_dir *, const char *name, struct slice)
    MUST_CHECK;
/* After UNKNOWN, once the object was read back and is ours: makes it durable.
 * An object that is merely there may be gone after a loss of power. */
struct err object_confirm(struct object_dir *, const char *name) MUST_CHECK;
/* NOT_FOUND or OK: one look, no open. */
struct err object_exists(struct object_dir *, const char *name) MUST_CHECK;
/* Everything directly in prefix ("" the directory itself), in no order; names
 * of unfinished objects are left out. NOT_FOUND if there is no such prefix. */
struct err object_list(struct object_dir *, const char *prefix, object_list_fn *,
    void *ctx) MUST_CHECK;
/* The same of names and is_dir alone; size and time may be 0. A directory of
 * this machine answers it without a look at each object. */
struct err object_list_names(struct object_dir *, const char *prefix,
    object_list_fn *, void *ctx) MUST_CHECK;
/* Absent is OK. */
struct err object_delete(struct object_dir *, const char *name) MUST_CHECK;
/* An object or a whole tree gets another name in one durable step; EXISTS if
 * that is taken. */
struct err object_rename(struct object_dir *from_dir, const char *from,
    struct object_dir *to_dir, const char *to) MUST_CHECK;
/* A whole tree, file by file; absent is OK. */
struct err object_delete_tree(struct object_dir *, const char *name) MUST_CHECK;

struct object_pace;		/* how fast background work may go; pace.h */

/*
 * An object or a whole tree, at the pace of background work (NULL: at once).
 * *gone is added to, also before an error: what went, and the bytes that it
 * took on the disk.
 */
struct object_gone {
	uint64_t objects, bytes;
};

struct err object_delete_paced(struct object_dir *, const char *name,
    struct object_pace *, struct object_gone *) MUST_CHECK;

/*
 * A large object, written front to back in pieces. Nothing is visible before
 * object_writer_finish, which makes it durable under its name (EXISTS: taken).
 * A writer that is not finished is aborted, and leaves nothing.
 */
struct object_writer;

/* Pace NULL: as fast as it can. */
struct err object_writer_open(struct object_dir *, const char *name,
    struct object_pace *, struct object_writer **) MUST_CHECK;
struct err object_writer_write(struct object_writer *, const void *, size_t)
    MUST_CHECK;
/* A range of a file of this machine, copied by the kernel where it can: the
 * bytes never come here. CORRUPT if the file ends before. */
struct err object_writer_copy(struct object_writer *, int fd, uint64_t offset,
    uint64_t len) MUST_CHECK;
/* Zeroes up to a multiple of align, a power of two of at most 4096. */
struct err object_writer_pad(struct object_writer *, uint32_t align) MUST_CHECK;
uint64_t object_writer_at(const struct object_writer *);	/* bytes so far */
/* Both take the writer. */
struct err object_writer_finish(struct object_writer *) MUST_CHECK;
void object_writer_abort(struct object_writer *);

/*
 * An immutable object as bytes in memory. Locally a mapping (checked against
 * its length; SIGBUS becomes CORRUPT in a marked read, design 5).
 */
struct object_map {
	const uint8_t *ptr;
	size_t len;
};

struct err object_map_open(struct object_dir *, const char *name,
    struct object_map *) MUST_CHECK;
void object_map_close(struct object_map *);
/* sparse: what is read of it lies far apart, so that the kernel's read-ahead (of
 * megabytes on some machines) would read the whole file for some values. Until
 * told otherwise that is not so. */
void object_map_sparse(const struct object_map *, bool sparse);

#endif
