#ifndef MEMWALD_MASTER_LOCK_H
#define MEMWALD_MASTER_LOCK_H

/*
 * lock - one server an instance id and data directory.
 *
 * `instance-ID.lock` in the data directory is locked with flock for as long as
 * any process of the server lives: children inherit the open file. So whether
 * somebody lives is decided by the lock, never by the pid inside, which is
 * for people. The file stays behind; removing it would race with who opened it
 * a moment before.
 *
 * Death:	the kernel drops the lock with the last process. Workers whose
 *		master was killed leave within two seconds, so the lock is tried
 *		for a while.
 * Errors:	EXISTS: held by a living server. Others name path and reason.
 *		Texts are static until the next call.
 */

#include "common/base.h"
#include "common/err.h"

/* Makes the directory and its parents where absent. */
struct err lock_make_dir(const char *path) MUST_CHECK;
/* TIMED_OUT: asked to stop meanwhile. The descriptor is not to be closed. */
struct err lock_take(const char *dir, const char *instance_id,
    uint64_t wait_ns, int *fd) MUST_CHECK;

/* For a server that takes over from another: the open file that was passed on
 * is that of this directory and id; BAD_INPUT: it is not. */
struct err lock_adopt(const char *dir, const char *instance_id, int fd)
    MUST_CHECK;
/* Once it has taken over: writes who holds it. */
struct err lock_sign(const char *instance_id, int fd) MUST_CHECK;

#endif
