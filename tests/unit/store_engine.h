#ifndef MEMWALD_TESTS_UNIT_STORE_ENGINE_H
#define MEMWALD_TESTS_UNIT_STORE_ENGINE_H

/*
 * store_engine - a worker's engine in the test's own process: its loop is
 * turned by hand until what a test waits for has come.
 */

#include "store_dir.h"

#include "common/clock.h"
#include "worker/store/append.h"
#include "worker/store/engine.h"
#include "worker/store/read_list.h"
#include "worker/store/tail_cache.h"

#define TURN_NS		(20 * NS_PER_MS)
#define PATIENCE_NS	(60 * NS_PER_SEC)	/* TSan on a busy machine */

static struct loop *loop;
static struct pool *pool;
static struct engine engine;
static struct arena texts;		/* of errors */

/* False once a wait that began then has been too long. */
static inline bool
turn(uint64_t began_ns)
{
	loop_turn(loop, TURN_NS);
	return clock_mono_ns() - began_ns < PATIENCE_NS;
}

static inline void
turn_until(const bool *done)
{
	uint64_t began = clock_mono_ns();

	while (!*done)
		assert_true(turn(began));
}

static inline void
engine_up(bool ring)
{
	struct loop_settings settings = { .ring = ring, .entries = 64,
	    .recv_buf_bytes = 4096, .recv_buf_count = 16 };

	see_ok(loop_create(&settings, &loop));
	see_ok(pool_create(loop, 2, 64, &pool));
	loop_set_pool(loop, pool);
	config.data_dir = root_path;
	arena_init(&texts, 64u << 10);
	see_ok(engine_init(&engine, &config, loop, pool, 0, 1));
	loop_set_before_wait(loop, engine_before_wait, &engine);
}

/* Its stores are forgotten. */
static inline void
engine_down(void)
{
	pool_destroy(pool);
	loop_turn(loop, 0);
	loop_destroy(loop);
	tail_cache_free(engine.tails);
	arena_free(&texts);
	object_dir_close(engine.root);
}

struct waiting {
	struct store_wait wait;
	bool done;
	struct err err;
};

static inline void
waited(struct store_wait *wait, struct err e)
{
	struct waiting *w = CONTAINER_OF(wait, struct waiting, wait);

	w->done = true;
	w->err = e;
}

static inline struct err
wait_for(struct waiting *w)
{
	turn_until(&w->done);
	return w->err;
}

/* In use until store_close. */
static inline struct err
open_it(const char *name, struct store **out)
{
	struct waiting w = { .wait.done = waited };
	struct err e;

	store_open(&engine, kind, name, &w.wait);
	e = wait_for(&w);
	*out = w.wait.store;
	return e;
}

static inline void
view(struct store *s)
{
	struct waiting w = { .wait.done = waited };

	list_init(&w.wait.link);
	read_view(s, &w.wait);
	see_ok(wait_for(&w));
}

struct request {
	struct append append;
	bool done;
	struct err err;
};

static inline void
appended(struct append *a, struct err e)
{
	struct request *r = CONTAINER_OF(a, struct request, append);

	assert_false(r->done);
	r->done = true;
	r->err = e;
}

static inline void
submit(struct store *s, struct request *r, const char *key, const char *text)
{
	struct builder *b;

	*r = (struct request){ .append.done = appended,
	    .append.row_count = 1 };
	see_ok(append_builder(s, &texts, &b));
	add_row(b, key, text, 1);
	append_submit(s, &r->append);
}

static inline struct err
await(struct request *r)
{
	turn_until(&r->done);
	return r->err;
}

#endif
