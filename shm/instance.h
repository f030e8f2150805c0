#ifndef MEMWALD_SHM_INSTANCE_H
#define MEMWALD_SHM_INSTANCE_H

/*
 * instance - who serves this data directory: our lease, and the leases of other
 * instances as we see them.
 *
 * The truth is a chain of small objects for each instance id (worker/maintain/
 * lease.h); this is the cache. Whether this server may write is one word, the
 * time until which its lease surely lasts: a worker compares it with the clock
 * before each append, so that appends end when the lease does, also if nobody
 * is left who could say so.
 *
 * Of another instance we know how long its newest version has not changed, as
 * seen from here, in looks of our own. It is gone when that is as long as the
 * span that its lease names. No clock of another machine is asked.
 *
 * Death:	one word decides; the next maintainer goes on with what it finds.
 *		Our holder's uuid is made with the segment, so the lease is the
 *		server's and not one maintainer's.
 * Lifetime:	made before the first fork. The place of an instance that was
 *		forgotten is another's later: a copy is of one of them, or none.
 * Locking:	atomics. The maintainer is the only writer. A text that is read
 *		while it changes may be of two moments: texts are for people,
 *		the id of an instance never changes.
 * Errors:	NO_MEMORY: more than SHM_INSTANCES_MAX instances.
 */

#include "common/base.h"
#include "common/err.h"
#include "common/slice.h"
#include "common/uuid.h"

#define SHM_INSTANCE_TEXT	128	/* of an id, address or reason, with NUL */
#define SHM_INSTANCES_MAX	256u

/* Set once, with the segment. */
const char *shm_instance_id(void);
const char *shm_instance_address(void);	/* where others reach us */
struct uuid shm_instance_holder(void);	/* of our lease: this server's run */

#define SHM_LEASE_STATES(X) \
	X(NONE,		"none")		/* not yet asked for */ \
	X(WATCHED,	"watched")	/* another's: does that one live? */ \
	X(HELD,		"held") \
	X(LOST,		"lost")		/* not renewed in time, or another's */ \
	X(REFUSED,	"refused")	/* at start: the server must end */ \
	X(RELEASED,	"released")	/* given up: the server leaves */

enum shm_lease_state {
#define X(state, text) SHM_LEASE_##state,
	SHM_LEASE_STATES(X)
#undef X
	SHM_LEASE_STATE_COUNT
};

const char *shm_lease_state_name(uint32_t);

struct shm_lease {			/* a copy */
	enum shm_lease_state state;
	uint64_t version;
	uint64_t left_ns;		/* how long it surely lasts */
	uint32_t terms;			/* how often it was got anew */
	uint32_t losses;
	char why[SHM_INSTANCE_TEXT];	/* unless HELD: who or what else */
};

/* Whether this server may write now. */
bool shm_lease_held(void);
/* How often it was got anew; a term that has once ended never goes on. */
uint32_t shm_lease_term(void);
bool shm_lease_term_lasts(uint32_t term);
/* A lease that ran out since is LOST, whoever has not yet said so. */
void shm_lease_get(struct shm_lease *);

/* Maintainer: until_ns of clock_boot_ns. Held anew is a new term; anything else
 * ends the right to write before it returns. */
void shm_lease_hold(uint64_t version, uint64_t until_ns);
void shm_lease_end(enum shm_lease_state, const char *why);

struct shm_instance {			/* another one; a copy */
	char id[SHM_INSTANCE_TEXT];
	char address[SHM_INSTANCE_TEXT];
	uint64_t version;		/* of its lease */
	uint64_t span_ns;		/* that its lease names */
	uint64_t silent_ns;		/* unchanged so long, as seen from here */
	bool released;			/* it said that it leaves */
};

/* Places; false: nobody is there. */
uint32_t shm_instance_count(void);
bool shm_instance_get(uint32_t index, struct shm_instance *) MUST_CHECK;
/* False: none of that id was seen. */
bool shm_instance_find(const char *id, struct shm_instance *) MUST_CHECK;
/* Neither released nor silent for its span. */
bool shm_instance_lives(const struct shm_instance *);

/* Maintainer: what a look found. before_ns and after_ns, of clock_boot_ns, are
 * times before and after it. Finds the instance, or adds it. */
struct shm_instance_look {
	struct slice id, address;
	uint64_t version;
	uint64_t span_ns;
	bool released;
	uint64_t before_ns, after_ns;
};

struct err shm_instance_seen(const struct shm_instance_look *) MUST_CHECK;
/* Maintainer: it is gone for good, and owns nothing. */
void shm_instance_forget(uint32_t index);

#endif
