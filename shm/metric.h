#ifndef MEMWALD_SHM_METRIC_H
#define MEMWALD_SHM_METRIC_H

/*
 * metric - counters, gauges and histograms of the whole server.
 *
 * Each process slot has one page in the segment; a scrape, answered by any
 * process, is the sum of all pages. A page belongs to the slot and not to its
 * process: counters of a dead process stay and its replacement goes on with
 * them, so sums never go down and nothing grows with restarts. Gauges are
 * contributions of live processes: the master's walk sets them to zero.
 *
 * metric.def is the list. Labels are small enumerations, below; the paths of
 * requests are the caller's, by number.
 *
 * Death:	see above. A histogram that died between bucket and sum is off
 *		by one sample's value for ever, which nobody can see.
 * Lifetime:	made before the first fork.
 * Locking:	none. Relaxed atomic adds: threads of one process share its
 *		page, processes share nothing. Before shm_process_attach, or
 *		without a segment, an update does nothing.
 * Errors:	printing: NO_MEMORY at the cap of the buffer.
 */

#include "common/base.h"
#include "common/buf.h"
#include "common/err.h"
#include "shm/guard.h"
#include "shm/order.h"
#include "shm/store_table.h"

/* Labels: name, and the values in order. A value with an empty text is printed
 * without the label. */
#define METRIC_FLUSH(X)		X(NO, "false") X(YES, "true")
#define METRIC_OUTCOME(X)	X(SEALED, "sealed") X(NOOP, "noop") \
				X(FENCED, "fenced")
#define METRIC_SEAL_RESULT(X)	X(OK, "ok") X(FAILED, "failed") \
				X(TIMEOUT, "timeout")
#define METRIC_FOLD_RESULT(X)	X(MERGED, "merged") X(NOOP, "noop") \
				X(FAILED, "failed") X(TIMEOUT, "timeout")
#define METRIC_FOLD_PHASE(X)	X(SEAL, "seal") X(READ, "read") \
				X(DELETE_KEYS, "delete_keys") \
				X(APPEND, "append") X(DRAIN, "drain") \
				X(DELETE, "delete")
#define METRIC_COLLECTED(X)	X(GENERATION, "generation") X(WAL, "wal") \
				X(SHARD_MANIFEST, "shard_manifest") \
				X(VERSION, "version") X(DATA, "data") \
				X(DELETION, "deletion") X(INDEX, "index") \
				X(TRANSACTION, "transaction") \
				X(TEMPORARY, "temporary") X(STORE, "store")
/* Of the master: fanout.h. */
#define METRIC_FANOUT_END(X)	X(FOLDED, "folded") X(GONE, "gone") \
				X(FAILED, "failed") X(GIVEN_UP, "given_up")
#define METRIC_FANOUT_STATE(X)	X(WAITING, "waiting") X(RUNNING, "running") \
				X(GIVEN_UP, "given_up")
#define METRIC_SUCCESS(X)	X(SUCCESS, "success") X(FAILED, "failed")
#define METRIC_DEMAND(X)	X(WRITTEN, "written") \
				X(UNCHANGED, "unchanged") X(FAILED, "failed")
/* Of the maintainer: runs.h. */
#define METRIC_LANE(X)		X(SEAL, "seal") X(GUARDED, "guarded")
/* As enum store_kind; ROUTE is the contract's "kind absent". */
#define METRIC_KIND(X)		STORE_KINDS(X)
#define METRIC_KIND_OR_ROUTE(X)	STORE_KINDS(X) X(ROUTE, "")
#define METRIC_TICK_PHASE(X)	TICK_PHASES(X)	/* as enum tick_phase */
#define METRIC_STATUS(X) \
	X(200, "200") X(201, "201") X(202, "202") X(204, "204") X(206, "206") \
	X(304, "304") X(400, "400") X(401, "401") X(403, "403") X(404, "404") \
	X(405, "405") X(408, "408") X(409, "409") X(413, "413") X(415, "415") \
	X(416, "416") X(417, "417") X(422, "422") X(431, "431") X(500, "500") \
	X(501, "501") X(503, "503") X(505, "505") X(507, "507") \
	X(OTHER, "other")

#define METRIC_LABELS(X) /* dimension, label name */ \
	X(FLUSH, "flush") X(OUTCOME, "outcome") X(SEAL_RESULT, "result") \
	X(FOLD_RESULT, "result") X(FOLD_PHASE, "phase") \
	X(COLLECTED, "what") \
	X(FANOUT_END, "result") X(FANOUT_STATE, "state") \
	X(SUCCESS, "result") X(DEMAND, "result") X(KIND, "kind") \
	X(LANE, "lane") X(KIND_OR_ROUTE, "kind") \
	X(TICK_PHASE, "phase") X(STATUS, "status")

/* METRIC_FLUSH_YES, METRIC_FLUSH_COUNT and so on. */
enum metric_flush {
#define X(v, text) METRIC_FLUSH_##v,
	METRIC_FLUSH(X)
#undef X
	METRIC_FLUSH_COUNT
};
enum metric_outcome {
#define X(v, text) METRIC_OUTCOME_##v,
	METRIC_OUTCOME(X)
#undef X
	METRIC_OUTCOME_COUNT
};
enum metric_seal_result {
#define X(v, text) METRIC_SEAL_RESULT_##v,
	METRIC_SEAL_RESULT(X)
#undef X
	METRIC_SEAL_RESULT_COUNT
};
enum metric_fold_result {
#define X(v, text) METRIC_FOLD_RESULT_##v,
	METRIC_FOLD_RESULT(X)
#undef X
	METRIC_FOLD_RESULT_COUNT
};
enum metric_fold_phase {
#define X(v, text) METRIC_FOLD_PHASE_##v,
	METRIC_FOLD_PHASE(X)
#undef X
	METRIC_FOLD_PHASE_COUNT
};
enum metric_collected {
#define X(v, text) METRIC_COLLECTED_##v,
	METRIC_COLLECTED(X)
#undef X
	METRIC_COLLECTED_COUNT
};
enum metric_fanout_end {
#define X(v, text) METRIC_FANOUT_END_##v,
	METRIC_FANOUT_END(X)
#undef X
	METRIC_FANOUT_END_COUNT
};
enum metric_fanout_state {
#define X(v, text) METRIC_FANOUT_STATE_##v,
	METRIC_FANOUT_STATE(X)
#undef X
	METRIC_FANOUT_STATE_COUNT
};
enum metric_success {
#define X(v, text) METRIC_SUCCESS_##v,
	METRIC_SUCCESS(X)
#undef X
	METRIC_SUCCESS_COUNT
};
enum metric_demand {
#define X(v, text) METRIC_DEMAND_##v,
	METRIC_DEMAND(X)
#undef X
	METRIC_DEMAND_COUNT
};
enum metric_lane {
#define X(v, text) METRIC_LANE_##v,
	METRIC_LANE(X)
#undef X
	METRIC_LANE_COUNT
};
enum metric_kind {
#define X(v, text) METRIC_KIND_##v,
	METRIC_KIND(X)
#undef X
	METRIC_KIND_COUNT
};
enum metric_kind_or_route {
#define X(v, text) METRIC_KIND_OR_ROUTE_##v,
	METRIC_KIND_OR_ROUTE(X)
#undef X
	METRIC_KIND_OR_ROUTE_COUNT
};
enum metric_tick_phase {
#define X(v, text) METRIC_TICK_PHASE_##v,
	METRIC_TICK_PHASE(X)
#undef X
	METRIC_TICK_PHASE_COUNT
};
enum metric_status {
#define X(v, text) METRIC_STATUS_##v,
	METRIC_STATUS(X)
#undef X
	METRIC_STATUS_COUNT
};

enum {
	METRIC_NONE_COUNT = 1,
	METRIC_LOCK_COUNT = SHM_LOCK_COUNT,
	METRIC_ENDPOINT_COUNT = 64	/* method and path, the caller's */
};

enum shm_metric {
#define METRIC(name, type, label_a, label_b, buckets, help) METRIC_##name,
#include "shm/metric.def"
#undef METRIC
	METRIC_COUNT
};

/* The label of a metric with one is its value (0 with none); with two it is
 * SHM_LABEL2(second label's dimension, first value, second value):
 *
 *	shm_metric_add(METRIC_rollout_wal_flush_total, SHM_LABEL2(KIND,
 *	    METRIC_SEAL_RESULT_OK, METRIC_KIND_ROLLOUT), 1);
 */
#define SHM_LABEL2(dim_b, a, b) \
	((uint32_t)(a) * METRIC_##dim_b##_COUNT + (uint32_t)(b))

void shm_metric_add(enum shm_metric, uint32_t label, uint64_t n);
/* Gauges: this process's contribution. */
void shm_metric_sub(enum shm_metric, uint32_t label, uint64_t n);
void shm_metric_set(enum shm_metric, uint32_t label, uint64_t value);
/* Histograms; nanoseconds where the name ends in _seconds. */
void shm_metric_observe(enum shm_metric, uint32_t label, uint64_t value);

/* The index of a status in its dimension. */
enum metric_status shm_metric_status(int status);

/* The names of the first label of http_requests_total, by number. */
struct shm_metric_endpoint {
	const char *method;
	const char *path;		/* a route's template, or "unknown" */
};

/* Prometheus text 0.0.4 of the whole server: pages, tables, /proc. */
struct err shm_metric_print(struct buf *, const struct shm_metric_endpoint *,
    uint32_t endpoint_count) MUST_CHECK;

/* The sum over all pages, for status and tests. Histograms: the samples. */
uint64_t shm_metric_sum(enum shm_metric, uint32_t label);

/* Master only: gauges of the dead slot to zero. */
void shm_metric_reap(uint16_t dead_slot);

#endif
