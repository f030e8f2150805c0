#ifndef MEMWALD_OBJECT_STUB_H
#define MEMWALD_OBJECT_STUB_H

/*
 * stub - what an object store may do to a put, in front of the local one.
 *
 * Only in builds with fault points; tests tell it at run time (memwaldctl
 * fault). A put is of a class by where it goes, each with a row put_* in
 * fault.def, and of what the row is told comes
 *
 *	fail:ERRNO	refused, nothing stored
 *	answer:CONFLICT	S3's 409: nothing stored, to be tried again
 *	answer:UNKNOWN	time-out, nothing stored
 *	drop		stored, and the answer is lost
 *	late		time-out; stored when the next put of its class comes
 *	hold, delay	the store takes its time
 *
 * Large objects, which are written in pieces, know the first three and the
 * last: before a byte of theirs is written.
 *
 * Death:	what was to be stored late is not.
 * Lifetime:	a late put is a copy, kept by the process, one a class.
 * Locking:	a mutex around late puts; calls may come from any thread.
 * Errors:	those that it was told; in other builds none.
 */

#include "worker/object/object.h"

typedef struct err stub_put_fn(struct object_dir *, const char *name,
    const struct slice *parts, uint32_t count);

#ifdef MEMWALD_FAULTS

struct err stub_put(struct object_dir *, const char *name,
    const struct slice *parts, uint32_t count, stub_put_fn *) MUST_CHECK;
/* Before a large object is written. */
struct err stub_write(struct object_dir *, const char *name) MUST_CHECK;

#else

static inline struct err MUST_CHECK
stub_put(struct object_dir *d, const char *name, const struct slice *parts,
    uint32_t count, stub_put_fn *put)
{
	return put(d, name, parts, count);
}

static inline struct err MUST_CHECK
stub_write(struct object_dir *d, const char *name)
{
	(void)d;
	(void)name;
	return OK;
}

#endif

#endif
