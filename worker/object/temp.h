#ifndef MEMWALD_OBJECT_TEMP_H
#define MEMWALD_OBJECT_TEMP_H

/*
 * temp - the one way in which a file gets its final name; inside object/ only.
 *
 * A place is the directory that a name lies in, open, and the name's last
 * component. A temp is a file in such a place that nobody else sees yet.
 *
 * Publish: sync the file, link it to its final name, unlink the temporary one,
 * sync the directory. link(2) and not rename, since it refuses a name that is
 * taken. The order is that of field fault A.8; a directory that had to be made
 * was synced into its parent before.
 *
 * Death:	local.h.
 * Errors:	UNKNOWN: linked, but the directory could not be synced; or the
 *		answer to the link was lost.
 */

#include <dirent.h>
#include <sys/stat.h>

#include "common/err.h"
#include "shm/order.h"
#include "worker/object/local.h"

struct object_dir {
	int fd;
	bool appends;			/* object_can_append */
	dev_t dev;			/* which it is, whatever its name */
	ino_t ino;
};

struct place {
	int fd;
	bool owned;			/* else it is the handle's */
	const char *leaf;		/* in the name that was given */
};

struct temp {
	int fd;
	char name[OBJECT_TEMP_MAX];
};

/* CORRUPT for a name that would leave the directory: names of files also come
 * out of manifests that others wrote. */
struct err temp_place_open(struct object_dir *, const char *name, bool make,
    struct place *) MUST_CHECK;
void temp_place_close(struct place *);
/* Opens a directory below; makes and syncs it and its parents. */
struct err temp_dir_open(int fd, const char *name, bool make, int *out)
    MUST_CHECK;

struct err temp_create(int dir_fd, struct temp *) MUST_CHECK;
struct err temp_write(int fd, const void *, size_t) MUST_CHECK;
/* The bytes are on the disk, if not yet for good: pace.h says why. */
struct err temp_sync_step(int fd, uint64_t at, size_t len) MUST_CHECK;
/* The descriptor stays open in any case; the temporary name is gone on OK and
 * on UNKNOWN. */
struct err temp_publish(int dir_fd, struct temp *, const char *leaf) MUST_CHECK;
/* Closes, and unlinks the temporary name if it is there. */
void temp_drop(int dir_fd, struct temp *);
bool temp_is_name(const char *leaf);

/* A listing with temporary names in it. The next name but "." and ".."; NULL at
 * the end, or with an error. */
struct err temp_list_open(struct object_dir *, const char *prefix, DIR **)
    MUST_CHECK;
struct dirent *temp_list_next(DIR *, struct err *);
uint64_t temp_modified_us(const struct stat *);
uint64_t temp_changed_us(const struct stat *);	/* its inode */

/*
 * Said by whatever is about to ask the disk. No lock of the segment is held
 * over that, be it for reading or for writing (design 3): a slow disk would
 * stop every process at the store. Not left out of what ships: it is a load.
 */
static inline void
temp_no_lock(void)
{
	MUST(!shm_order_holds_any());
}

/* What a fault point injects, with the kind that its errno stands for. */
struct err temp_injected(struct err, const char *what);

#endif
