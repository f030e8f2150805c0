#ifndef MEMWALD_MASTER_STATUS_H
#define MEMWALD_MASTER_STATUS_H

/*
 * status - what memwaldctl shows: the segment and the children, as they are.
 *
 * Everything is peeked at without a lock, so that a status can be had whatever
 * hangs; numbers beside each other may be of different instants. Clean means
 * that the list of problems is empty: every process lives and beats, nothing
 * is held by a slot that nobody lives in, no guard is past its deadline, no
 * store fails tick after tick, every own ordinal has its owner.
 *
 * Errors:	NO_MEMORY at the cap of the buffer; long lists of stores are
 *		cut before that, and how many were left off is said.
 */

#include "common/base.h"
#include "common/buf.h"
#include "common/err.h"

struct status_server {			/* the master's own facts */
	const char *instance_id;
	const char *host;
	uint32_t port;
	const char *state;
	uint64_t started_us;		/* wall clock */
};

#define STATUS_STORES_MAX 4096
#define STATUS_SHARDS_MAX 4096	/* of all of them */

/* How many problems there are. */
uint32_t status_problems(void);
struct err status_text(struct buf *, const struct status_server *) MUST_CHECK;
struct err status_json(struct buf *, const struct status_server *) MUST_CHECK;
struct err status_workers(struct buf *) MUST_CHECK;
struct err status_stores(struct buf *) MUST_CHECK;

#endif
