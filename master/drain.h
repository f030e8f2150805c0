#ifndef MEMWALD_MASTER_DRAIN_H
#define MEMWALD_MASTER_DRAIN_H

/*
 * drain - a worker, or this whole instance, that an operator has taken out: what
 * it owns goes to others, and nothing comes back until that is undone.
 *
 * A drain is a mark in the chain of assignments (shm/ordinal_table.h), so it
 * outlives masters and machines, and all instances see it. Everything else
 * follows from the mark, here, at any time and after any start:
 *
 *	worker		It leaves as in a resize, its slot stays empty, its socket
 *			is served by others. When it has left, so that no request
 *			fails, each ordinal that it owns goes to the least loaded
 *			worker that is not drained, of ours before others'.
 *	instance	It is not ready, and replies end their connections, so that
 *			balancers look elsewhere; reads go on. After
 *			--drain-delay-secs its ordinals go to other instances, and
 *			appends get 503. While there is no other instance, they
 *			stay and are written.
 *
 * Where every worker that is to run is drained by itself none leaves, since nobody
 * would answer: it is as if the instance were, but for a moment in which one of
 * two that were drained at once may take its mark back. A drain that would leave
 * none is refused, and so is a resize; a start with fewer workers cannot be.
 *
 * Each move is a decision like any other: one that is too late is made anew. The
 * marks are read by the master of the instance itself; of one that does not live
 * whoever sets the mark decides (drain_command.c).
 *
 * Death:	the next master reads the marks, and goes on.
 * Lifetime:	one a master.
 * Locking:	the ordinal table's mutex, for a moment.
 * Errors:	none: what fails is tried again, with back-off, and logged once.
 */

#include "common/base.h"
#include "shm/ordinal_table.h"

/* Looks at the marks, parks workers, orders what follows. While the server runs;
 * span_ns: a worker's to leave; delay_ns: that of an instance, before it moves. */
void drain_step(uint64_t now_ns, uint64_t span_ns, uint64_t delay_ns);
/* When to call again, at the latest. */
uint64_t drain_next_ns(uint64_t now_ns);

/* Marks that keep ordinals from that worker, of any instance: SHM_DRAINED bits,
 * 0: none. As the segment knows them. */
uint32_t drain_marks(const char *instance, uint32_t worker);
/* Each of our workers, were there so many, is drained by itself. */
bool drain_has_all(uint32_t workers);
/* The ordinal whose home that is; NOT_FOUND: it is not known. */
struct err drain_find_home(const char *instance, uint32_t worker,
    uint32_t *index) MUST_CHECK;
/* How many ordinals that worker owns, or all of that instance. */
#define DRAIN_ALL UINT32_MAX
uint32_t drain_left(const char *instance, uint32_t worker);

#endif
