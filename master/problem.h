#ifndef MEMWALD_MASTER_PROBLEM_H
#define MEMWALD_MASTER_PROBLEM_H

/*
 * problem - what is wrong with this server, by what the segment says.
 *
 * Clean means that the list is empty: every process lives and beats, nothing is
 * held by a slot that nobody lives in, no guard is past its deadline, no store
 * fails tick after tick or takes no appends, the lease is held, the newest
 * assignment can be read, every own ordinal has its owner, every shard an
 * ordinal, and some worker that lives, here or elsewhere, is not drained.
 *
 * Errors:	none; of more than PROBLEMS_MAX only the number is known.
 */

#include "common/base.h"

#define PROBLEMS_MAX 32

struct problems {
	uint32_t count;			/* also of those without a text */
	char text[PROBLEMS_MAX][256];
};

/* A step of the search, which begins with *index 0. True: that was all. */
bool problems_find(struct problems *, uint32_t *index) MUST_CHECK;

#endif
