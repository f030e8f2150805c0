#include "common/base.h"

#include <stdlib.h>

#include "shm/metric_table.h"
#include "shm/part.h"
#include "shm/process.h"

/*
 * A page is an array of words, the series of all metrics one after the other.
 * A counter or gauge takes one word a label, a histogram one a bucket (the
 * last is +Inf), then the sum of the values.
 */

static char *pages;
static size_t page_bytes;
static uint32_t first_word[METRIC_COUNT + 1];

#define BOUNDS(...) \
	{ ARRAY_LEN(((uint64_t[]){ __VA_ARGS__ })), { __VA_ARGS__ } }
#define MS	1000000ull
#define SEC	1000000000ull
#define US	1000ull
#define KIB	1024ull

const struct metric_buckets metric_buckets[] = {
	[BUCKETS_NONE] = { 0, { 0 } },
	[BUCKETS_REQUEST] = BOUNDS(10 * MS, 50 * MS, 100 * MS, 250 * MS,
	    500 * MS, 1 * SEC, 2500 * MS, 10 * SEC, 60 * SEC),
	[BUCKETS_JOB] = BOUNDS(500 * MS, 2 * SEC, 10 * SEC, 30 * SEC,
	    120 * SEC, 600 * SEC, 1800 * SEC),
	[BUCKETS_BLOB] = BOUNDS(KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB,
	    1024 * KIB, 4096 * KIB, 16384 * KIB, 65536 * KIB, 262144 * KIB,
	    1048576 * KIB),
	[BUCKETS_GENERATIONS] = BOUNDS(1, 4, 16, 64, 256, 1024, 4096, 16384),
	[BUCKETS_GROUP] = BOUNDS(1, 2, 4, 8, 16, 32, 64, 128, 256),
	[BUCKETS_SYNC] = BOUNDS(50 * US, 100 * US, 200 * US, 500 * US, 1 * MS,
	    2 * MS, 5 * MS, 20 * MS, 100 * MS, 1 * SEC, 10 * SEC),
	[BUCKETS_LOCK] = BOUNDS(1 * US, 5 * US, 20 * US, 100 * US, 1 * MS,
	    10 * MS, 100 * MS, 1 * SEC),
};

#define X(v, text) text,
static const char *const flush_values[] = { METRIC_FLUSH(X) };
static const char *const outcome_values[] = { METRIC_OUTCOME(X) };
static const char *const seal_result_values[] = { METRIC_SEAL_RESULT(X) };
static const char *const fold_result_values[] = { METRIC_FOLD_RESULT(X) };
static const char *const fold_phase_values[] = { METRIC_FOLD_PHASE(X) };
static const char *const collected_values[] = { METRIC_COLLECTED(X) };
static const char *const fanout_end_values[] = { METRIC_FANOUT_END(X) };
static const char *const fanout_state_values[] = { METRIC_FANOUT_STATE(X) };
static const char *const success_values[] = { METRIC_SUCCESS(X) };
static const char *const demand_values[] = { METRIC_DEMAND(X) };
static const char *const lane_values[] = { METRIC_LANE(X) };
static const char *const kind_values[] = { METRIC_KIND(X) };
static const char *const kind_or_route_values[] = { METRIC_KIND_OR_ROUTE(X) };
static const char *const tick_phase_values[] = { METRIC_TICK_PHASE(X) };
static const char *const status_values[] = { METRIC_STATUS(X) };
#undef X

static const char *const lock_values[] = {
#define LOCK(name, rank, kind, repair, protects, taken_by, death) #name,
#include "shm/lock.def"
#undef LOCK
};

const struct metric_label metric_labels[] = {
	[LABEL_NONE] = { NULL, NULL, 1 },
	[LABEL_ENDPOINT] = { NULL, NULL, METRIC_ENDPOINT_COUNT },
	[LABEL_FLUSH] = LABEL_VALUES("flush", flush_values),
	[LABEL_OUTCOME] = LABEL_VALUES("outcome", outcome_values),
	[LABEL_SEAL_RESULT] = LABEL_VALUES("result", seal_result_values),
	[LABEL_FOLD_RESULT] = LABEL_VALUES("result", fold_result_values),
	[LABEL_FOLD_PHASE] = LABEL_VALUES("phase", fold_phase_values),
	[LABEL_COLLECTED] = LABEL_VALUES("what", collected_values),
	[LABEL_FANOUT_END] = LABEL_VALUES("result", fanout_end_values),
	[LABEL_FANOUT_STATE] = LABEL_VALUES("state", fanout_state_values),
	[LABEL_SUCCESS] = LABEL_VALUES("result", success_values),
	[LABEL_DEMAND] = LABEL_VALUES("result", demand_values),
	[LABEL_LANE] = LABEL_VALUES("lane", lane_values),
	[LABEL_KIND] = LABEL_VALUES("kind", kind_values),
	[LABEL_KIND_OR_ROUTE] = LABEL_VALUES("kind", kind_or_route_values),
	[LABEL_TICK_PHASE] = LABEL_VALUES("phase", tick_phase_values),
	[LABEL_STATUS] = LABEL_VALUES("status", status_values),
	[LABEL_LOCK] = LABEL_VALUES("lock", lock_values),
};

const struct metric_row metric_rows[] = {
#define METRIC(name, type, label_a, label_b, buckets, help) \
	{ #name, METRIC_TYPE_##type, LABEL_##label_a, LABEL_##label_b, \
	    BUCKETS_##buckets, help },
#include "shm/metric.def"
#undef METRIC
};

static_assert(ARRAY_LEN(metric_labels) == LABEL_COUNT, "a row a label");
static_assert(ARRAY_LEN(metric_buckets) == BUCKETS_COUNT, "a row a set");

uint32_t
metric_words(enum shm_metric m)
{
	const struct metric_row *row = &metric_rows[m];

	if (row->type != METRIC_TYPE_HISTOGRAM)
		return 1;
	return metric_buckets[row->buckets].count + 2;
}

uint32_t
metric_series(enum shm_metric m)
{
	return metric_labels[metric_rows[m].label_a].count *
	    metric_labels[metric_rows[m].label_b].count;
}

static void
lay_out(void)
{
	uint32_t word = 0;
	int m;

	for (m = 0; m < METRIC_COUNT; m++) {
		first_word[m] = word;
		word += metric_series(m) * metric_words(m);
	}
	first_word[METRIC_COUNT] = word;
	page_bytes = ROUND_UP(word * sizeof(uint64_t), CACHELINE);
}

uint64_t
shm_metric_bytes(const struct shm_config *cfg)
{
	lay_out();
	return (2 + (uint64_t)cfg->workers_max) * page_bytes;
}

void
shm_metric_carve(void *at, const struct shm_config *cfg)
{
	(void)cfg;
	lay_out();
	pages = at;
}

static _Atomic uint64_t *
words_of(uint16_t slot, enum shm_metric m, uint32_t label)
{
	_Atomic uint64_t *page = (void *)(pages + slot * page_bytes);

	MUST(m < METRIC_COUNT);
	MUST(label < metric_series(m));
	return page + first_word[m] + label * metric_words(m);
}

static void
add(_Atomic uint64_t *word, uint64_t n)
{
	atomic_fetch_add_explicit(word, n, memory_order_relaxed);
}

void
shm_metric_add(enum shm_metric m, uint32_t label, uint64_t n)
{
	MUST(metric_rows[m].type != METRIC_TYPE_HISTOGRAM);
	if (shm_attached())
		add(words_of(shm_self(), m, label), n);
}

void
shm_metric_sub(enum shm_metric m, uint32_t label, uint64_t n)
{
	MUST(metric_rows[m].type == METRIC_TYPE_GAUGE);
	if (shm_attached())
		add(words_of(shm_self(), m, label), -n);
}

void
shm_metric_set(enum shm_metric m, uint32_t label, uint64_t value)
{
	MUST(metric_rows[m].type == METRIC_TYPE_GAUGE);
	if (shm_attached())
		atomic_store_explicit(words_of(shm_self(), m, label), value,
		    memory_order_relaxed);
}

void
shm_metric_observe(enum shm_metric m, uint32_t label, uint64_t value)
{
	const struct metric_buckets *b = &metric_buckets[metric_rows[m].buckets];
	_Atomic uint64_t *words;
	uint32_t i = 0;

	MUST(metric_rows[m].type == METRIC_TYPE_HISTOGRAM);
	if (!shm_attached())
		return;
	words = words_of(shm_self(), m, label);
	while (i < b->count && value > b->bounds[i])
		i++;
	add(&words[i], 1);
	add(&words[b->count + 1], value);
}

enum metric_status
shm_metric_status(int status)
{
	int i;

	for (i = 0; i < METRIC_STATUS_OTHER; i++) {
		if (atoi(status_values[i]) == status)
			return (enum metric_status)i;
	}
	return METRIC_STATUS_OTHER;
}

void
metric_sum(enum shm_metric m, uint32_t label, uint64_t *sums)
{
	uint32_t i, n = metric_words(m);
	uint16_t slot;

	memset(sums, 0, n * sizeof(*sums));
	for (slot = 0; slot < shm_process_count(); slot++) {
		_Atomic uint64_t *words = words_of(slot, m, label);

		for (i = 0; i < n; i++)
			sums[i] += atomic_load_explicit(&words[i],
			    memory_order_relaxed);
	}
}

uint64_t
shm_metric_sum(enum shm_metric m, uint32_t label)
{
	uint64_t sums[METRIC_WORDS_MAX], total = 0;
	uint32_t i, n = metric_words(m);

	metric_sum(m, label, sums);
	if (n == 1)
		return sums[0];
	for (i = 0; i < n - 1; i++)
		total += sums[i];
	return total;
}

void
shm_metric_reap(uint16_t dead_slot)
{
	uint32_t label;
	int m;

	for (m = 0; m < METRIC_COUNT; m++) {
		if (metric_rows[m].type != METRIC_TYPE_GAUGE)
			continue;
		for (label = 0; label < metric_series(m); label++)
			atomic_store_explicit(words_of(dead_slot, m, label), 0,
			    memory_order_relaxed);
	}
}
