#include "shm_test.h"
#include "shm_insert.h"

#include <pthread.h>

#include "shm/metric.h"
#include "shm/view.h"

static const struct shm_metric_endpoint endpoints[] = {
	{ "POST", "/api/v1/rollouts/{name}/records" },
	{ "GET", "unknown" },
};

static struct buf out;

static const char *
print(void)
{
	struct err e;

	buf_free(&out);
	buf_init(&out, 1 << 20);
	e = shm_metric_print(&out, endpoints, 2);
	if (err_is(e))
		fail_msg("%s", e.what);
	assert_true(buf_append(&out, "", 1));
	return out.ptr;
}

/* A whole line. */
static void
assert_line(const char *line)
{
	const char *at = print();
	size_t len = strlen(line);

	for (; (at = strstr(at, line)) != NULL; at++) {
		if ((at == out.ptr || at[-1] == '\n') && at[len] == '\n')
			return;
	}
	fail_msg("no line: %s", line);
}

static void
assert_no(const char *text)
{
	if (strstr(print(), text) != NULL)
		fail_msg("found: %s", text);
}

static void
counters_and_labels(void **state)
{
	(void)state;
	assert_line("rollout_records_appended_total 0");
	shm_metric_add(METRIC_rollout_records_appended_total, 0, 832);
	assert_line("rollout_records_appended_total 832");
	assert_line("# TYPE rollout_records_appended_total counter");
	shm_metric_add(METRIC_rollout_appends_total, METRIC_FLUSH_YES, 3);
	assert_line("rollout_appends_total{flush=\"false\"} 0");
	assert_line("rollout_appends_total{flush=\"true\"} 3");
	shm_metric_add(METRIC_rollout_wal_flush_total, SHM_LABEL2(KIND,
	    METRIC_SEAL_RESULT_TIMEOUT, STORE_GENERIC), 2);
	assert_line("rollout_wal_flush_total{result=\"timeout\","
	    "kind=\"generic\"} 2");
	/* The route's folds have no kind. */
	shm_metric_add(METRIC_rollout_wal_cleanup_total, SHM_LABEL2(
	    KIND_OR_ROUTE, METRIC_FOLD_RESULT_MERGED,
	    METRIC_KIND_OR_ROUTE_ROUTE), 1);
	assert_line("rollout_wal_cleanup_total{result=\"merged\"} 1");
	shm_metric_add(METRIC_rollout_wal_generations_reclaimed_total,
	    METRIC_KIND_OR_ROUTE_ROUTE, 4);
	assert_line("rollout_wal_generations_reclaimed_total 4");
	assert_int_equal(shm_metric_sum(
	    METRIC_rollout_wal_generations_reclaimed_total,
	    METRIC_KIND_OR_ROUTE_ROUTE), 4);
}

static void
endpoints_once_they_counted(void **state)
{
	(void)state;
	assert_no("http_requests_total{");
	shm_metric_add(METRIC_http_requests_total, SHM_LABEL2(STATUS, 0,
	    shm_metric_status(201)), 1);
	shm_metric_add(METRIC_http_requests_total, SHM_LABEL2(STATUS, 1,
	    shm_metric_status(299)), 1);
	assert_line("http_requests_total{method=\"POST\",path="
	    "\"/api/v1/rollouts/{name}/records\",status=\"201\"} 1");
	assert_line("http_requests_total{method=\"GET\",path=\"unknown\","
	    "status=\"other\"} 1");
	shm_metric_observe(METRIC_http_request_duration_seconds,
	    SHM_LABEL2(STATUS, 0, METRIC_STATUS_201), 20000000);
	assert_line("http_request_duration_seconds_bucket{method=\"POST\","
	    "path=\"/api/v1/rollouts/{name}/records\",status=\"201\","
	    "le=\"0.05\"} 1");
}

static void
histograms(void **state)
{
	enum shm_metric m = METRIC_rollout_add_duration_seconds;

	(void)state;
	shm_metric_observe(m, 0, 10000000);	/* bounds are inclusive */
	shm_metric_observe(m, 0, 10000001);
	shm_metric_observe(m, 0, 61000000000);
	assert_line("# TYPE rollout_add_duration_seconds histogram");
	assert_line("rollout_add_duration_seconds_bucket{le=\"0.01\"} 1");
	assert_line("rollout_add_duration_seconds_bucket{le=\"0.05\"} 2");
	assert_line("rollout_add_duration_seconds_bucket{le=\"60\"} 2");
	assert_line("rollout_add_duration_seconds_bucket{le=\"+Inf\"} 3");
	assert_line("rollout_add_duration_seconds_count 3");
	assert_non_null(strstr(print(), "\nrollout_add_duration_seconds_sum "
	    "61.020000001"));
	assert_int_equal(shm_metric_sum(m, 0), 3);
	shm_metric_observe(METRIC_rollout_blob_bytes, 0, 1024);
	shm_metric_observe(METRIC_rollout_blob_bytes, 0, 5000);
	assert_line("rollout_blob_bytes_bucket{le=\"1024\"} 1");
	assert_line("rollout_blob_bytes_bucket{le=\"16384\"} 2");
	assert_line("rollout_blob_bytes_bucket{le=\"1073741824\"} 2");
	assert_line("rollout_blob_bytes_sum 6024");
}

static int
count_and_wait(void *arg)
{
	(void)arg;
	shm_metric_add(METRIC_memwald_connections, 0, 5);
	shm_metric_sub(METRIC_memwald_connections, 0, 2);
	shm_metric_set(METRIC_memwald_source_cache_bytes, 0, 1000);
	shm_metric_add(METRIC_memwald_wal_commits_total, 0, 1);
	await_death();
	return 1;
}

static uint64_t
value_of(const char *name)
{
	const char *at = strstr(print(), name);

	assert_non_null(at);
	return strtoull(at + strlen(name), NULL, 10);
}

/* D.7: counters stay and go on, gauges return to the truth, nothing grows. */
static void
deaths_keep_counters_and_zero_gauges(void **state)
{
	uint64_t before = 0, restarts;
	size_t lines = 0;
	int round;

	(void)state;
	for (round = 1; round <= 200; round++) {
		reset_shared();
		test_fork(SHM_WORKER(1), count_and_wait, NULL);
		meet(&shared->ready, 1);
		if (round % 50 == 1) {
			assert_line("memwald_connections 3");
			assert_line("memwald_source_cache_bytes 1000");
		}
		test_kill(SHM_WORKER(1));
		test_reap(SHM_WORKER(1));
		assert_int_equal(shm_metric_sum(
		    METRIC_memwald_wal_commits_total, 0), round);
		if (round % 50 == 1) {
			assert_line("memwald_connections 0");
			assert_line("memwald_source_cache_bytes 0");
		}
		if (round == 1)
			lines = strlen(print());
	}
	restarts = value_of("memwald_process_restarts_total{role=\"worker\"} ");
	assert_true(restarts >= 199);
	/* The same lines, but for the number of digits. */
	before = strlen(print());
	assert_true(before < lines + 200);
}

static int
burn(void *arg)
{
	volatile uint64_t n = 0;
	uint64_t start_ns = shm_lock_now_ns();

	(void)arg;
	while (shm_lock_now_ns() - start_ns < 100000000)
		n++;
	await_death();
	return 1;
}

static double
cpu_seconds(void)
{
	const char *name = "\nprocess_cpu_seconds_total ";
	const char *at = strstr(print(), name);

	assert_non_null(at);
	return strtod(at + strlen(name), NULL);
}

static void
process_sums_never_fall(void **state)
{
	uint64_t threads;
	double seen, now;

	(void)state;
	reset_shared();
	test_fork(SHM_WORKER(0), burn, NULL);
	meet(&shared->ready, 1);
	seen = cpu_seconds();
	assert_true(seen >= 0.02);
	threads = value_of("\nprocess_threads ");
	assert_true(threads >= 2);
	assert_true(value_of("\nprocess_open_fds ") >= 6);
	assert_true(value_of("\nprocess_resident_memory_bytes ") > 100000);
	assert_true(value_of("\nprocess_start_time_seconds ") > 1600000000);
	test_kill(SHM_WORKER(0));
	now = cpu_seconds();
	assert_true(now >= seen);
	test_reap(SHM_WORKER(0));
	now = cpu_seconds();
	assert_true(now >= seen);
	assert_true(value_of("\nprocess_threads ") < threads);
}

/* Many: on few cores they must run long enough to meet. */
#define ADDS 2000000

static int
add_many(void *arg)
{
	int i;

	for (i = 0; i < ADDS; i++) {
		shm_metric_add(METRIC_memwald_wal_rotations_total, 0, 1);
		shm_metric_observe(METRIC_memwald_wal_commit_requests, 0, 3);
	}
	return arg != NULL;
}

static void *
add_in_thread(void *arg)
{
	(void)arg;
	add_many(NULL);
	return NULL;
}

static void
nothing_is_lost(void **state)
{
	pthread_t threads[2];
	pid_t pids[2];
	int i;

	(void)state;
	for (i = 0; i < 2; i++)
		pids[i] = test_fork(SHM_WORKER(i), add_many, NULL);
	for (i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL,
		    add_in_thread, NULL), 0);
	for (i = 0; i < 2; i++) {
		pthread_join(threads[i], NULL);
		assert_left_well(pids[i]);
		test_reap(SHM_WORKER(i));
	}
	assert_int_equal(shm_metric_sum(METRIC_memwald_wal_rotations_total, 0),
	    4 * ADDS);
	assert_line("memwald_wal_commit_requests_bucket{le=\"2\"} 0");
	assert_line("memwald_wal_commit_requests_bucket{le=\"4\"} 8000000");
	assert_line("memwald_wal_commit_requests_sum 24000000");
}

static void
tables_are_looked_at(void **state)
{
	struct shm_store_key key = { STORE_ROLLOUT, SLICE("math") };
	struct uuid u = uuid_random();
	struct shm_view_mark m = { 1, { .version = 1, .replay_after = 1,
	    .pending_bytes = 500, .pending_generations = 7 } };
	struct shm_ref ref;

	(void)state;
	assert_line("rollout_stores_resident 0");
	assert_false(err_is(insert_store(key, &u, &ref)));
	assert_false(err_is(shm_view_raise(ref, 1, &m, 1, NULL)));
	shm_shard_raise(shm_store_shard(ref, 1), (struct shm_point){ 2, 8 });
	shm_store_touch(ref);
	atomic_fetch_add(&shm_store_slot(ref)->reads_refused, 2);
	assert_true(shm_budget_take(SHM_BUDGET_REQUEST_BYTES, 77));
	assert_line("rollout_stores_resident 1");
	assert_line("memwald_stores_dirty 1");
	assert_line("memwald_stores_stale 0");
	assert_line("memwald_pending_generations{kind=\"rollout\"} 7");
	assert_line("memwald_pending_generations_max{kind=\"rollout\"} 7");
	assert_line("memwald_pending_bytes{kind=\"rollout\"} 500");
	assert_line("memwald_pending_bytes{kind=\"generic\"} 0");
	assert_line("memwald_tails{kind=\"rollout\"} 1");
	assert_line("rollout_reads_refused_pending_total{store="
	    "\"math.rollout.lance\"} 2");
	assert_line("memwald_budget_used{budget=\"request_bytes\"} 77");
	assert_line("memwald_budget_limit{budget=\"request_bytes\"} 1000");
	assert_line("memwald_processes{role=\"master\",loop=\"none\"} 1");
	shm_budget_give(SHM_BUDGET_REQUEST_BYTES, 77);
}

/* Every line is a comment or name{labels} number; each metric has its HELP
 * and TYPE once. */
static void
text_is_well_formed(void **state)
{
	char *line, *rest, *text = strdup(print());
	char type[200] = "";
	size_t len;

	(void)state;
	for (rest = text; (line = strsep(&rest, "\n")) != NULL;) {
		if (*line == '\0') {
			assert_null(rest);
			break;
		}
		if (strncmp(line, "# HELP ", 7) == 0)
			continue;
		if (strncmp(line, "# TYPE ", 7) == 0) {
			snprintf(type, sizeof(type), "%.*s",
			    (int)strcspn(line + 7, " "), line + 7);
			continue;
		}
		len = strlen(type);
		assert_true(strncmp(line, type, len) == 0);
		assert_true(strchr("{ _", line[len]) != NULL);
		assert_non_null(strrchr(line, ' '));
		assert_true(strspn(strrchr(line, ' ') + 1,
		    "0123456789.+-e") == strlen(strrchr(line, ' ') + 1));
	}
	free(text);
}

static void
full_buffer_is_an_error(void **state)
{
	struct buf small;

	(void)state;
	buf_init(&small, 5000);
	assert_int_equal(shm_metric_print(&small, endpoints, 2).kind,
	    ERR_NO_MEMORY);
	buf_free(&small);
	buf_free(&out);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counters_and_labels),
		cmocka_unit_test(endpoints_once_they_counted),
		cmocka_unit_test(histograms),
		cmocka_unit_test(deaths_keep_counters_and_zero_gauges),
		cmocka_unit_test(process_sums_never_fall),
		cmocka_unit_test(nothing_is_lost),
		cmocka_unit_test(tables_are_looked_at),
		cmocka_unit_test(text_is_well_formed),
		cmocka_unit_test(full_buffer_is_an_error),
	};

	return cmocka_run_group_tests(tests, segment_setup, segment_teardown);
}
