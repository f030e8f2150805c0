#ifndef MEMWALD_MASTER_WORK_H
#define MEMWALD_MASTER_WORK_H

/*
 * work - stores that the maintainer seals or folds because an operator said so.
 *
 * A store that is named is opened by the maintainer first, of each kind that
 * has one of the name; with --all it is every resident store with anything
 * left, one after the other, a few at once. Who is busy is asked again. A fold is asked for again while it
 * leaves something and gets somewhere: one pass has a cap and a time limit.
 *
 * Death:	of the maintainer: those stores fail, the rest goes on. A fold is
 *		idempotent, so the command is simply given again.
 * Lifetime:	embedded in its call.
 */

#include "common/base.h"
#include "master/mail.h"
#include "shm/store_table.h"

#define WORK_AT_ONCE 8u

struct work_item {
	bool used;
	struct mail_question question;
	struct shm_ref ref;		/* incarnation 0: being opened */
	enum store_kind kind;
	char name[SHM_STORE_NAME_MAX + 1];
	uint64_t again_ns;		/* asked again then; 0: asked */
	uint32_t before;		/* generations and tails when it began */
	uint32_t left;			/* at the last look */
	uint64_t count;			/* generations made, or folded */
};

struct work {
	bool begun, written;
	bool listed;			/* no more stores to begin */
	uint32_t index;			/* next kind, or next slot */
	uint32_t total;			/* of --all: stores with anything left */
	uint32_t found, done, failed;	/* stores */
	struct work_item items[WORK_AT_ONCE];
};

struct call;
void work_end(struct call *);

#endif
