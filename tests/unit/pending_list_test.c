#include "store_moved.h"

#include "worker/lance/shard_manifest.h"
#include "worker/maintain/left.h"
#include "worker/maintain/pending_list.h"

/* What lies in shards whose ordinal has moved, as the master asks for it: a step
 * after the other through the registry. Ordinal 0 is this worker's own; "far" is
 * of another instance and was given to it. */

static int
begin(void **state)
{
	if (fresh_store(state) != 0)
		return -1;
	add_far(shm_instance_id());
	return 0;
}

static int
end(void **state)
{
	assert_true(pending_list_idle());
	return store_gone(state);
}

/* It is started once a process. */
static int
begin_all(void **state)
{
	if (store_group(state) != 0)
		return -1;
	engine_up(false);
	pending_list_start(pool, root);
	return 0;
}

static int
end_all(void **state)
{
	engine_down();
	return store_group_end(state);
}

static struct shm_command
question(const struct shm_command *place)
{
	struct shm_command c = *place;

	c.kind = SHM_MAIL_JOB;
	c.args[0] = SHM_JOB_PENDING;
	c.token = shm_mailbox_token();
	c.from = shm_life_self();
	return c;
}

static struct shm_command
answer(void)
{
	uint64_t began = clock_mono_ns();
	struct shm_command reply;

	while (!shm_mailbox_receive(&reply))
		assert_true(turn(began));
	return reply;
}

/* From the start to the end: how often this test's shard is named. */
static uint32_t
walk(uint32_t *steps)
{
	struct shm_command place = { .kind = SHM_MAIL_JOB }, c;
	uint32_t named = 0;

	for (*steps = 0;; ++*steps) {
		c = question(&place);
		assert_true(pending_list_command(&c));
		place = answer();
		assert_int_equal(place.err, ERR_OK);
		if (place.args[0] == SHM_PENDING_END)
			return named;
		if (place.args[0] == SHM_PENDING_MORE)
			continue;
		assert_int_equal(place.args[0], SHM_PENDING_ONE);
		named += strcmp(place.text, store_name) == 0 &&
		    place.args[2] == far;
		place.args[2]++;
	}
}

static uint32_t
named(void)
{
	uint32_t steps;

	return walk(&steps);
}

static void
what_is_left_is_named(void **state)
{
	struct owner o;

	(void)state;
	assert_int_equal(named(), 0);
	o = claim_elsewhere();
	assert_int_equal(named(), 0);		/* a claim leaves no rows */
	see_ok(own_put(&o, "k1", "a"));
	assert_int_equal(named(), 1);
	assert_int_equal(named(), 1);		/* a question changes nothing */
	/* It is nobody's errand here: another's, or at home. */
	assign(far, "far", 0);
	assert_int_equal(named(), 0);
	assign(far, shm_instance_id(), 0);
	assert_int_equal(named(), 1);
	own_end(&o);
}

static void
other_jobs_are_not_ours(void **state)
{
	struct shm_command c = question(&(struct shm_command){ .kind = 0 });

	(void)state;
	c.args[0] = SHM_JOB_LOOK;
	assert_false(pending_list_command(&c));
	c.kind = SHM_MAIL_SEAL;
	assert_false(pending_list_command(&c));
}

static void
one_question_at_a_time(void **state)
{
	struct shm_command first = question(&(struct shm_command){ .kind = 0 });
	struct shm_command second = question(&first), reply;

	(void)state;
	assert_true(pending_list_command(&first));
	assert_true(pending_list_command(&second));
	reply = answer();
	assert_int_equal(reply.token, second.token);
	assert_int_equal(reply.err, ERR_BUSY);
	assert_false(pending_list_idle());
	reply = answer();
	assert_int_equal(reply.token, first.token);
	assert_int_equal(reply.err, ERR_OK);
}

/* A question looks at a few stores; the last of them all is met as well. */
static void
many_stores_are_many_steps(void **state)
{
	struct owner o = claim_elsewhere();
	uint32_t i, steps;
	char name[32];

	(void)state;
	see_ok(own_put(&o, "k1", "a"));
	for (i = 0; i < 40; i++) {
		snprintf(name, sizeof(name), "a%02u", i);
		see_ok(store_create(root, kind, kind->shape, name));
	}
	assert_int_equal(walk(&steps), 1);
	assert_true(steps >= 2);
	own_end(&o);
}

static void
spoil_manifest(const struct uuid *shard)
{
	char folder[REGISTRY_DIRECTORY_MAX], name[SHARD_NAME_MAX];
	char path[sizeof(root_path) + sizeof(folder) + sizeof(name)];
	uint64_t newest;
	int fd;

	see_ok(shard_manifest_newest(dir, shard, &newest));
	registry_directory(kind, store_name, folder);
	shard_manifest_name(shard, newest, name);
	snprintf(path, sizeof(path), "%s/%s/%s", root_path, folder, name);
	fd = open(path, O_WRONLY | O_TRUNC);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "\xff\xff\xff", 3), 3);
	close(fd);
}

/* Who asks what is left is told where that cannot be known. Last: that store
 * stays. */
static void
what_cannot_be_read_is_named(void **state)
{
	struct left_at at = { .kind = 0 };
	struct owner o = claim_elsewhere();
	struct err e = OK;
	bool found;

	(void)state;
	spoil_manifest(&o.shard);
	while (!err_is(e) && at.kind < STORE_KIND_COUNT)
		e = left_look(root, &o.shard, LEFT_ROWS, &at, &found);
	assert_int_equal(e.kind, ERR_CORRUPT);
	assert_int_equal(at.kind, kind->id);
	assert_string_equal(at.name, store_name);
	own_end(&o);
}

#define T(f) cmocka_unit_test_setup_teardown(f, begin, end)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(what_is_left_is_named),
		T(other_jobs_are_not_ours),
		T(one_question_at_a_time),
		T(many_stores_are_many_steps),
		T(what_cannot_be_read_is_named),
	};

	return cmocka_run_group_tests(tests, begin_all, end_all);
}
