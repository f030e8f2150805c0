#ifndef MEMWALD_SHM_METRIC_TABLE_H
#define MEMWALD_SHM_METRIC_TABLE_H

/*
 * metric_table - the rows of metric.def as data, for metric.c, which counts,
 * and metric_print.c, which prints. Nobody else includes this.
 *
 * Locking:	constant.
 */

#include "common/base.h"
#include "shm/metric.h"

enum metric_type {
	METRIC_TYPE_COUNTER,
	METRIC_TYPE_GAUGE,
	METRIC_TYPE_HISTOGRAM
};

enum metric_label_id {
	LABEL_NONE, LABEL_ENDPOINT, LABEL_FLUSH, LABEL_OUTCOME,
	LABEL_SEAL_RESULT, LABEL_FOLD_RESULT, LABEL_FOLD_PHASE,
	LABEL_COLLECTED, LABEL_FANOUT_END, LABEL_FANOUT_STATE,
	LABEL_SUCCESS, LABEL_DEMAND, LABEL_KIND,
	LABEL_LANE, LABEL_KIND_OR_ROUTE, LABEL_TICK_PHASE, LABEL_STATUS,
	LABEL_LOCK, LABEL_COUNT
};

enum metric_buckets_id {
	BUCKETS_NONE, BUCKETS_REQUEST, BUCKETS_JOB, BUCKETS_BLOB,
	BUCKETS_GENERATIONS, BUCKETS_GROUP, BUCKETS_SYNC, BUCKETS_LOCK,
	BUCKETS_COUNT
};

#define METRIC_BOUNDS_MAX 12
#define METRIC_WORDS_MAX (METRIC_BOUNDS_MAX + 2)

struct metric_buckets {
	uint32_t count;
	uint64_t bounds[METRIC_BOUNDS_MAX];
};

struct metric_label {
	const char *name;		/* NULL: none, or the caller's */
	const char *const *values;
	uint32_t count;
};

#define LABEL_VALUES(name, values) { name, values, ARRAY_LEN(values) }

struct metric_row {
	const char *name;
	enum metric_type type;
	enum metric_label_id label_a, label_b;
	enum metric_buckets_id buckets;
	const char *help;
};

extern const struct metric_buckets metric_buckets[];
extern const struct metric_label metric_labels[];
extern const struct metric_row metric_rows[];

uint32_t metric_words(enum shm_metric);		/* a series */
uint32_t metric_series(enum shm_metric);	/* combinations of labels */
/* Sums of all pages; room for metric_words. */
void metric_sum(enum shm_metric, uint32_t label, uint64_t *sums);

/* What is not on the pages: tables of the segment, and /proc. */
bool metric_print_tables(struct buf *) MUST_CHECK;
bool metric_print_processes(struct buf *) MUST_CHECK;

#endif
