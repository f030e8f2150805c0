#ifndef MEMWALD_MAINTAIN_OUTCOME_H
#define MEMWALD_MAINTAIN_OUTCOME_H

/*
 * outcome - what a command wants of a run of its store, and what the run came to
 * for it.
 *
 * Lifetime, locking: none; functions of their arguments and of the segment.
 */

#include "shm/mailbox.h"
#include "worker/maintain/tick.h"

/* enum tick_want, or-ed; 0: no command for a store. */
uint32_t outcome_want(const struct shm_command *);
struct err outcome_err(const struct tick_result *, const struct shm_command *);
/* The same, but who wanted a shard empty is told CONFLICT while it is not, or may
 * be written to by who had it before: its store may be pinned, or its ordinal
 * have moved on. */
struct err outcome_answer(struct shm_ref, const struct tick_result *,
    const struct shm_command *);
/* What the answer counts: generations, or a packed compaction. */
uint64_t outcome_count(const struct tick_result *, const struct shm_command *);

#endif
