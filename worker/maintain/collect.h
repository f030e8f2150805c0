#ifndef MEMWALD_MAINTAIN_COLLECT_H
#define MEMWALD_MAINTAIN_COLLECT_H

/*
 * collect - what no reader of a store needs any more is deleted.
 *
 *	folded generations, sealed WAL entries, old shard manifests
 *	old versions of the base table, and what only they name: data files,
 *	    deletion files, index segments, transactions
 *	what a seal, fold or compaction left that did not come to its end
 *	temporary files of processes that died
 *
 * Found by listing what is there against what the newest state names, so that
 * a restart loses track of nothing. How old it is comes from a mark: a mark is
 * a state of the store (base version; per shard manifest version and
 * replay_after), the serial at which the view was that, and the time. What is
 * not named by that state or a later one is garbage, and goes once
 *
 *	1. the mark is older than --grace-secs, of the monotonic clock: for
 *	   readers of other instances, which look anew each half of it;
 *	2. no process reads a serial older than the mark's: for those of this;
 *	3. the file itself is as old, of the wall clock: for one that came into
 *	   a hole of collected versions, whose writer is about to see that.
 *
 * Marks are kept in memory, one a store. After a restart the first one is made
 * anew, which deletes later and never earlier; nor does a clock that is set
 * back. A mark is gone when nothing was left that it did not name: until the
 * view changes the store then costs nothing (slot->collected_serial).
 *
 * What names garbage goes after it, so that a run that died is found again by
 * the next: generations before the manifests that named them; a version of the
 * table is moved aside (_collect/), and goes after its files. In between, the
 * newest version is looked at again: a pin or a tag made meanwhile brings its
 * version back (store/pin.h).
 *
 * Files that nobody names are deleted only if they bear this instance's name
 * (lance/own.h) or lie in a shard of its own, and were seen unnamed for as long
 * as COLLECT_ABANDONED_NS, or the grace if that is longer: they are of a process
 * that died, or of a commit whose outcome is unknown and that may still come
 * (what failed for sure removes its own: aged_remove). A fold gives up files of half that age.
 *
 * Death:	at every step a state that every read serves, and that the next
 *		run goes on from.
 * Locking:	the store's guard, the caller's, across I/O; a shard's seal
 *		guard while what a seal may have left is looked at; while
 *		versions of the table go, a lock among instances, which is not
 *		waited for (_collect/.lock).
 * Errors:	NOT_FOUND: deleted or pinned meanwhile. TIMED_OUT. Those of
 *		reading: a version that cannot be read stops what it may name
 *		from being deleted. The mark stays, the next run tries again.
 */

#include "worker/maintain/maintain.h"

#define COLLECT_ABANDONED_NS	(60 * NS_PER_SEC)

/* *again_ns: when this store wants it again (clock_mono_ns) although nothing
 * may have changed; 0: when it has changed. Written also on an error. */
struct err collect_store(struct aged_store *, uint64_t *again_ns) MUST_CHECK;

/* At start: whether the store looks as if a collection had left something. If
 * not, it is clean until its view changes. */
bool collect_look(struct object_dir *, struct shm_ref);

/* How old files that no version names yet may become before whoever wrote them
 * starts again. */
uint64_t collect_uncommitted_ns(const struct config *);

#endif
