#ifndef MEMWALD_MAINTAIN_LEASE_H
#define MEMWALD_MAINTAIN_LEASE_H

/*
 * lease - the right of one server to write under its instance id.
 *
 *	_cluster/lease/UUID/DIGITS.json		a chain (worker/object/chain.h);
 *						UUID: the shard of the id
 *	{"version":7,"writer":UUID,"holder":UUID,"state":"held","instance":"a",
 *	 "address":"10.0.0.1:3000","boot":...,"pid":...,"span_ms":30000,
 *	 "at_ms":...}
 *
 * The holder is one run of a server: its uuid is made with the segment. Rules:
 *
 *	1. A lease is renewed by the next version of its chain. It surely lasts
 *	   for 7/8 of its span from before that put began; then its holder
 *	   stops writing, whether or not it can find out why.
 *	2. Somebody else's lease is dead when its newest version has not changed
 *	   for the whole span that it names, from after the look that found
 *	   that version first to before the one that still finds it; or when it
 *	   says "released". Only then, or where there is none, may another
 *	   holder put the next version.
 *	3. At start, a lease of a server that ran on this boot of this machine
 *	   is dead: we hold the lock file of the id (master/lock.h), which the
 *	   kernel drops with the last process of its server.
 *	4. At start, a lease of another holder that changes while it is watched
 *	   lives: the server is refused. One that has held the lease before
 *	   never ends: it says that it lost it, watches, and comes back when
 *	   that one is dead.
 *	5. A server without a name of its own (host.h) is refused where another
 *	   instance's lease lives, or where lock files may not hold: it would
 *	   share its shards with every other nameless one.
 *
 * Clocks: nothing is assumed of what any clock shows, and no two are compared:
 * holder and watcher each measure spans by their own CLOCK_BOOTTIME, which
 * counts the sleep of a machine and which nobody can set. Assumed is only that
 * over one span they run equally fast to within 1/8. Times of the wall clock are
 * for people. A process that is stopped between looking at its lease and
 * writing, or a virtual machine whose clocks stood still, may write later than
 * it should: no row is lost by that, since a commit is acknowledged only while
 * nobody else has claimed the shard (design 4), and a claim asks for the lease
 * anew. The lease keeps two servers from taking a shard from each other all the
 * time; the fence keeps the rows.
 *
 * Death:	of the maintainer: the next one goes on, the holder is the same.
 *		Of the server: rule 3 here, rule 2 elsewhere. Between a put and
 *		the word in the segment: the next round finds its own version.
 * Lifetime:	one a maintainer.
 * Locking:	a mutex of the process around what the segment is told. Rounds
 *		block on I/O: one at a time, on the pool.
 * Errors:	of a round: storage; the lease stays as it was, and ends in time.
 */

#include "common/clock.h"
#include "common/uuid.h"
#include "shm/instance.h"
#include "worker/object/object.h"

#define LEASE_KEEP	4u		/* versions that stay */
#define LEASE_FORGET_NS	(3600 * NS_PER_SEC)
#define LEASE_BOOT_MAX	40u

struct lease {
	struct object_dir *root;
	uint64_t span_ns;
	bool nameless;
	char boot[LEASE_BOOT_MAX];	/* of this machine */

	/* Another's under our id, as it is watched: rule 2. */
	uint64_t watched_version;	/* 0: nobody is watched */
	uint64_t watched_ns;		/* after the look that found it */
	/* Rule 5: versions of others when they were first looked at. */
	uint64_t first_versions[SHM_INSTANCES_MAX];
};

/* span_ns of true time. */
void lease_init(struct lease *, struct object_dir *root, uint64_t span_ns,
    bool nameless);
/* Renews it, or looks whether it can be had: the segment knows what came of
 * it. For the pool. */
struct err lease_round(struct lease *) MUST_CHECK;
/* At the leases of all other instances. For the pool. */
struct err lease_look(struct lease *) MUST_CHECK;
/* Removes the leases of those that are gone for good, and forgets them: that own
 * no ordinal, as the segment knows it, and have been silent for so long, and for
 * their span; a master that knows nothing of them misses nothing. For the pool. */
struct err lease_forget(struct lease *, uint64_t silent_ns) MUST_CHECK;
/* If it ran out meanwhile, that is said. Any thread. */
void lease_expire(void);
/* The server leaves: nobody has to wait for the span. For the pool. */
struct err lease_release(struct lease *) MUST_CHECK;

#endif
