#ifndef MEMWALD_MASTER_DECIDE_H
#define MEMWALD_MASTER_DECIDE_H

/*
 * decide - a command's decision about ordinals, from the newest assignment to
 * the next one.
 *
 * First others' decisions are looked for, then the command is asked to decide
 * (DECIDE_NOW): it writes wants and calls decide_bring, or is done. When they
 * were brought it is asked again (DECIDE_BROUGHT), and finds in the segment
 * whether it got its way; if not, it decides anew, or gives up.
 *
 * Death:	the maintainer's: asked again, until the call's deadline.
 * Lifetime:	embedded in its call; decide_end takes back wants of which it
 *		is not known what became, so that no later job brings them. One
 *		that is under way has a copy of it: of a call that is late, or
 *		whose client has gone, it may still come to stand, and nobody
 *		looks whether that left anybody undrained but problem.h.
 * Errors:	REFUSED: the call was refused, with a reason.
 */

#include "common/base.h"
#include "common/buf.h"
#include "shm/ordinal_table.h"
#include "master/assign.h"

struct call;

enum decide_step { DECIDE_WAIT, DECIDE_NOW, DECIDE_BROUGHT, DECIDE_REFUSED };

struct decide {
	uint32_t stage;
	struct assign assign;
	uint64_t again_ns;		/* no order before that */
	bool has_want;
	uint32_t index;			/* of the ordinal that it is about */
	struct shm_want want;
	struct buf placed;		/* all wants, each with its index */
	struct shm_ordinal before;	/* when it was decided */
	bool has_newcomer;
	struct shm_newcomer newcomer;
};

enum decide_step decide_step(struct call *);
/* Anew, from the first look on: a call that has waited for something else. */
void decide_look(struct call *);
/* Wants that; decide_bring when all are there. */
void decide_place(struct call *, uint32_t index, const struct shm_want *);
void decide_bring(struct call *);
/* The same for one ordinal: wants that, on what it is. */
void decide_want(struct call *, uint32_t index, const struct shm_ordinal *,
    const struct shm_want *);
/* For one that is in no version yet. */
void decide_want_new(struct call *, const struct shm_newcomer *);
void decide_end(struct call *);

/* The ordinal of that name, as it is; false: refused. */
bool decide_find(struct call *, const char *name, uint32_t *index,
    struct shm_ordinal *);
/* "INSTANCE", "INSTANCE#K"; "nobody". */
#define DECIDE_TEXT 160
const char *decide_owner(const struct shm_assignment *, char text[DECIDE_TEXT]);

#endif
