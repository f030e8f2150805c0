#ifndef MEMWALD_MASTER_LEFT_WALK_H
#define MEMWALD_MASTER_LEFT_WALK_H

/*
 * left_walk - asks the maintainer, store after store, what is not folded in the
 * shards of an ordinal, or where there is one (worker/maintain/left.h).
 *
 * Death:	the maintainer's: asked again where it was, until the call's
 *		deadline; so is what cannot be read now.
 * Lifetime:	embedded in its call, all zero at first; left_walk_drop.
 * Locking:	none, the master has one thread.
 * Errors:	none: who waits has a deadline, and can say what it was that
 *		could not be read.
 */

#include "common/base.h"
#include "master/mail.h"
#include "shm/store_table.h"

struct left_walk {
	bool any;			/* every store with such a shard */
	bool asked;
	struct mail_question question;
	uint64_t until_ns, again_ns;
	uint32_t kind;			/* where it is, */
	char name[SHM_STORE_NAME_MAX + 1];	/* in that store of it */
	uint32_t found;			/* stores */
	struct err err;			/* of the last look, and where: */
	uint32_t err_kind;
	char err_name[SHM_STORE_NAME_MAX + 1];	/* "": in no store */
};

enum left_step { LEFT_WAIT, LEFT_FOUND, LEFT_END };

/* FOUND: something is left in the store where it is; any: the shard is there. */
enum left_step left_walk_step(struct left_walk *, const struct uuid *shard,
    uint64_t now_ns);
/* Why it does not get on: "" if the last look was answered. */
#define LEFT_TROUBLE 400
const char *left_walk_trouble(const struct left_walk *,
    char text[LEFT_TROUBLE]);
void left_walk_drop(struct left_walk *);

#endif
