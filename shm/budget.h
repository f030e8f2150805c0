#ifndef MEMWALD_SHM_BUDGET_H
#define MEMWALD_SHM_BUDGET_H

/*
 * budget - bytes and slots that all processes of the host share.
 *
 * Each budget is an array of shares, one a process, and a limit; what is in
 * use is the sum of the shares. There is no total beside them: between adding
 * to a total and to a share a process could die, and the total would be wrong
 * for ever. To take, a process adds to its own share, then sums; beyond the
 * limit it takes the amount back. Two that take at once may thus both be
 * refused where one would have fitted, but never is more in use than allowed.
 *
 * Death:	the master sets the dead one's share to zero.
 * Locking:	none; any thread of any process.
 * Errors:	false is an answer (503); giving back more than was taken is a
 *		bug.
 */

#include "common/base.h"

#define SHM_BUDGETS(X) \
	X(REQUEST_BYTES,  "request_bytes")	/* bodies in flight */ \
	X(FOLD_MEMORY,	  "fold_memory")	/* all folds together */ \
	X(FOLD_SLOTS,	  "fold_slots")		/* folds at once */ \
	X(BLOB_BYTES,	  "blob_bytes")		/* blobs in flight */

enum shm_budget {
#define X(budget, text) SHM_BUDGET_##budget,
	SHM_BUDGETS(X)
#undef X
	SHM_BUDGET_COUNT
};

const char *shm_budget_name(enum shm_budget);

bool shm_budget_take(enum shm_budget, uint64_t amount) MUST_CHECK;
/* Also if it does not fit, but nothing else is in use: one oversized request
 * can always run alone. */
bool shm_budget_take_alone(enum shm_budget, uint64_t amount) MUST_CHECK;
void shm_budget_give(enum shm_budget, uint64_t amount);

uint64_t shm_budget_limit(enum shm_budget);	/* 0: no limit */
uint64_t shm_budget_used(enum shm_budget);
uint64_t shm_budget_share(enum shm_budget, uint16_t slot);

/* Master only: what the dead slot had, given back. */
uint64_t shm_budget_reap(enum shm_budget, uint16_t dead_slot);

#endif
