#ifndef MEMWALD_SHM_ORDINAL_TABLE_H
#define MEMWALD_SHM_ORDINAL_TABLE_H

/*
 * ordinal_table - who owns which ordinal: the cached assignment.
 *
 * An ordinal is the stable identity of one writer: `{instance_id}` for worker
 * slot 0, `{instance_id}#{k}` for slot k. It owns one shard in every store,
 * with the uuid that follows from its name; one that was adopted has the uuid
 * of a shard that was there before it. Entries 0 to workers_max - 1 are this
 * instance's own, in that order, each owned by its worker at the start; others
 * are added as they are met. Name and uuid of an entry never change, but for one
 * that is retired and bears no mark: where there is no place left, its place is
 * the next one's. Nobody writes or folds its shards, so nobody misses it; that it
 * explains them the chain still knows (worker/maintain/explain.h).
 *
 * The truth is the chain of assignments in the object store (worker/store/
 * assignment.h); a change here has that chain's version, and older versions
 * change nothing.
 *
 * An operator's drain is a mark of the ordinal at whose home nothing shall be:
 * that of the worker's slot, or of slot 0 for the whole instance. It is in the
 * chain with all else, so it outlives masters, and every master knows it: no
 * ordinal comes home, or goes, to where one is drained (master/drain.h).
 *
 * What the master decides it writes beside the entry, as a want: the assignment
 * that shall be, and the version of the one that it goes on from. The maintainer
 * brings wants into the chain, each only if that one still is the newest of its
 * ordinal. So of two instances that decide at the same time one is too late.
 *
 * Death:	a change is noted before it is made; the next taker of the
 *		mutex undoes a half one, and ends half a change of place. A half
 *		added entry is not there, a half written want neither.
 * Lifetime:	made before the first fork; entries are never removed. Who keeps
 *		an index of another's ordinal for long compares its shard again.
 * Locking:	mutex of rank 1. Names and uuids without it.
 * Errors:	NO_MEMORY: the table is full of ordinals that are not retired.
 *		NOT_FOUND: no such ordinal.
 */

#include "common/base.h"
#include "common/err.h"
#include "common/slice.h"
#include "common/uuid.h"
#include "shm/instance.h"

#define SHM_ORDINAL_STATES(X) \
	X(OWNED,	"owned") \
	X(ORPHANED,	"orphaned")	/* readable; nobody writes */ \
	X(MOVING,	"moving")	/* its owner-to-be claims its shards */ \
	X(RETIRED,	"retired")	/* folded empty, given up */

enum shm_ordinal_state {
#define X(state, text) SHM_ORDINAL_##state,
	SHM_ORDINAL_STATES(X)
#undef X
	SHM_ORDINAL_STATE_COUNT
};

const char *shm_ordinal_state_name(uint32_t);

/* Why an ordinal is where it is. What nobody has ordered, its home takes back
 * (master/member.h). */
#define SHM_ORDINAL_REASONS(X) \
	X(UNKNOWN,	"")		/* not told */ \
	X(HOME,		"home")		/* its home started, or has no worker */ \
	X(ORPHAN,	"orphan")	/* its owner was gone */ \
	X(DRAIN,	"drain")	/* its owner is drained */ \
	X(COMMAND,	"command")	/* an operator's word */ \
	X(RETIRE,	"retire")	/* given up, since nobody wrote it */

enum shm_ordinal_reason {
#define X(reason, text) SHM_ORDINAL_BY_##reason,
	SHM_ORDINAL_REASONS(X)
#undef X
	SHM_ORDINAL_REASON_COUNT
};

const char *shm_ordinal_reason_name(uint32_t);

#define SHM_ORDINAL_NAME_MAX 279
#define SHM_ORDINAL_PASTS 4u		/* assignments before, that are kept */

struct shm_assignment {
	enum shm_ordinal_state state;
	uint32_t worker;		/* slot k of that instance */
	char instance[SHM_INSTANCE_TEXT];	/* "": nobody's */
	char address[SHM_INSTANCE_TEXT];	/* of that instance */
};

/* Bits, of the ordinal whose home that is. */
#define SHM_DRAINED_WORKER	1u
#define SHM_DRAINED_INSTANCE	2u	/* slot 0's alone */
#define SHM_DRAINED_ALL		(SHM_DRAINED_WORKER | SHM_DRAINED_INSTANCE)

struct shm_past {			/* an assignment that was */
	enum shm_ordinal_state state;
	uint32_t worker;
	uint64_t version;		/* 0: there was none */
	uint64_t at_ms;			/* wall clock of who made it */
	char instance[SHM_INSTANCE_TEXT];
	uint32_t reason;		/* enum shm_ordinal_reason */
};

struct shm_ordinal {			/* a copy */
	char name[SHM_ORDINAL_NAME_MAX + 1];
	struct uuid shard;
	struct shm_assignment is;
	uint64_t version;		/* of the chain; 0: the default */
	uint64_t at_ms;			/* when it became that */
	uint32_t reason;		/* enum shm_ordinal_reason */
	struct shm_past was[SHM_ORDINAL_PASTS];	/* before it, newest first */
	uint32_t drained;		/* SHM_DRAINED bits */
	uint16_t owner;			/* process slot, SHM_NOBODY: not here */
	bool wanted;			/* there is a want for it */
};

struct shm_want {
	struct shm_assignment to;
	uint64_t from_version;		/* of what the decision was made on */
	uint16_t drain, undrain;	/* SHM_DRAINED bits; others stay */
	uint32_t reason;		/* enum shm_ordinal_reason */
};

static_assert(sizeof(struct shm_want) == 280, "no holes: compared as bytes");

uint32_t shm_ordinal_count(void);
/* No place is left that was never used: what is retired has to make room. */
bool shm_ordinal_full(void);
struct err shm_ordinal_get(uint32_t index, struct shm_ordinal *) MUST_CHECK;
struct err shm_ordinal_find(const struct uuid *shard, uint32_t *index)
    MUST_CHECK;
/* Finds it, or adds it ORPHANED, with the shard of its name or with another
 * one that it has adopted. EXISTS: another ordinal has that shard. */
struct err shm_ordinal_add(struct slice name, uint32_t *index) MUST_CHECK;
struct err shm_ordinal_adopt(struct slice name, const struct uuid *shard,
    uint32_t *index) MUST_CHECK;

/* What the chain says of one. */
struct shm_news {
	struct shm_assignment is;
	uint64_t version;
	uint64_t at_ms;
	uint32_t drained;
	uint32_t reason;
	struct shm_past was[SHM_ORDINAL_PASTS];
};

/* Changes all of it unless this version or a newer one is known: then *changed
 * is false. */
struct err shm_ordinal_assign(uint32_t index, const struct shm_news *,
    bool *changed) MUST_CHECK;

/* The version of the chain up to which entries are known; it never falls. */
uint64_t shm_ordinal_version(void);
void shm_ordinal_version_raise(uint64_t);
/* The newest version, if the last look found that it cannot be read; 0: none. */
uint64_t shm_ordinal_unread(void);
void shm_ordinal_unread_set(uint64_t version);

/* Master: one want an ordinal; the next one replaces it. */
struct err shm_ordinal_want(uint32_t index, const struct shm_want *) MUST_CHECK;
/* False: there is none. */
bool shm_ordinal_wanted(uint32_t index, struct shm_want *);
/* Maintainer: it is done or came too late, unless it is another by now. */
void shm_ordinal_want_end(uint32_t index, const struct shm_want *);

/* The same for an ordinal that is in no version yet, of a shard that is adopted:
 * it gets an entry when it is in one. One at a time, the next replaces it. */
struct shm_newcomer {
	char name[SHM_ORDINAL_NAME_MAX + 1];
	struct uuid shard;
	struct shm_want want;
};

static_assert(sizeof(struct shm_newcomer) == 576, "no holes, as above");

void shm_ordinal_want_new(const struct shm_newcomer *);
bool shm_ordinal_wanted_new(struct shm_newcomer *);
void shm_ordinal_want_new_end(const struct shm_newcomer *);

/* Without the lock, and so maybe a moment late: which process of this server
 * owns it (SHM_NOBODY: none does); whether its shards are aged here: it has an
 * owner here, or it is this instance's own and no other one's. */
uint16_t shm_ordinal_owner(uint32_t index);
bool shm_ordinal_here(uint32_t index);
bool shm_ordinal_aged(uint32_t index);
/* How often it changed its owner, as this server saw it. A claim is of one such
 * stay, and ends with it (shard_state.h). */
uint32_t shm_ordinal_moves(uint32_t index);
/* It has an owner here that is not its home: who writes no rows to its shards. */
bool shm_ordinal_guest(uint32_t index);
/* Without the lock: constant, as long as it is not retired. index <
 * shm_ordinal_count(). */
struct uuid shm_ordinal_shard(uint32_t index);
struct slice shm_ordinal_name(uint32_t index);

#endif
