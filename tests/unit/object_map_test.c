#include "object_test.h"

#include <pthread.h>

#include "worker/object/map.h"

struct cut {
	const struct object_map *map;
	uint64_t sum;
};

static struct err
sum_all(void *ctx)
{
	struct cut *c = ctx;
	size_t i;

	for (i = 0; i < c->map->len; i++)
		c->sum += c->map->ptr[i];
	return OK;
}

static struct err
sum_nested(void *ctx)
{
	struct err e = object_map_guarded(sum_all, ctx);

	if (e.kind != ERR_CORRUPT)
		return e;
	/* The outer mark holds again. */
	return sum_all(ctx);
}

static void *
sum_in_thread(void *ctx)
{
	struct cut c = { ctx, 0 };
	int i;

	for (i = 0; i < 100; i++) {
		if (object_map_guarded(sum_nested, &c).kind != ERR_CORRUPT)
			return ctx;
	}
	return NULL;
}

static void
test_cut_map(void **state)
{
	struct object_map m;
	struct cut c = { &m, 0 };
	pthread_t threads[4];
	void *failed;
	struct err e;
	pid_t pid;
	int status, i;

	(void)state;
	object_map_install();		/* cmocka has one of its own */
	write_big("m", NULL, 100000);
	e = object_map_open(dir, "m", &m);
	assert_int_equal(e.kind, ERR_OK);
	e = object_map_guarded(sum_all, &c);
	assert_int_equal(e.kind, ERR_OK);
	assert_int_equal(c.sum, 100000 * 'x');
	i = openat(object_dir_fd(dir), "m", O_WRONLY);
	assert_int_equal(ftruncate(i, 4096), 0);
	close(i);
	for (i = 0; i < 3; i++) {
		e = object_map_guarded(sum_all, &c);
		assert_int_equal(e.kind, ERR_CORRUPT);
	}
	for (i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, sum_in_thread,
		    &m), 0);
	for (i = 0; i < 4; i++) {
		assert_int_equal(pthread_join(threads[i], &failed), 0);
		assert_null(failed);
	}

	/* Outside of a marked read it kills. */
	pid = fork();
	if (pid == 0) {
		setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
		e = sum_all(&c);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
	object_map_close(&m);

	put("none", "");
	e = object_map_open(dir, "none", &m);
	assert_int_equal(e.kind, ERR_OK);
	assert_int_equal(m.len, 0);
	object_map_close(&m);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_cut_map),
	};

	return cmocka_run_group_tests(tests, root_set_up, root_tear_down);
}
