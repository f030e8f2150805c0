#include "store_moved.h"

#include "worker/maintain/collect.h"

/* Shards of ordinals that a worker owns beside its own, through its engine: this
 * process is worker 0 and owns ordinal 0; 1 is another slot's, "far" another
 * instance's. */

static struct store *store;

static int
begin(void **state)
{
	if (fresh_store(state) != 0)
		return -1;
	engine_up(false);
	see_ok(open_it(store_name, &store));
	add_far("far");
	assign(1, shm_instance_id(), 1);
	return 0;
}

static int
end(void **state)
{
	uint64_t began = clock_mono_ns();

	while (!engine_idle(&engine) || store->uses > 1)
		assert_true(turn(began));
	store_forget(store);
	store_close(store);
	engine_down();
	return store_gone(state);
}

static struct err
ask(uint32_t mail, uint32_t ordinal)
{
	struct shm_command c = { .kind = mail, .store = store->ref,
	    .shard = shm_ordinal_shard(ordinal),
	    .token = shm_mailbox_token(), .from = shm_life_self() }, reply;
	uint64_t began = clock_mono_ns();

	assert_true(engine_command(&engine, &c));
	while (!shm_mailbox_receive(&reply))
		assert_true(turn(began));
	assert_int_equal(reply.kind, SHM_MAIL_REPLY);
	return (struct err){ (uint16_t)reply.err, 0, "reply" };
}

static uint32_t
number_of(uint32_t ordinal)
{
	struct uuid shard = shm_ordinal_shard(ordinal);

	return shm_store_shard_find(ref, &shard);
}

static struct shm_claim
claim_of(uint32_t ordinal)
{
	return shm_shard_claimed(shm_store_shard(ref, number_of(ordinal)));
}

/* Once, under the store's guard, with no grace. */
static void
collect_now(void)
{
	uint64_t token = shm_store_guard_try(ref, UINT64_MAX), again_ns;

	assert_true(token != 0);
	see_ok(collect_store(&aged, &again_ns));
	shm_store_guard_release(ref, token);
}

static bool
add_generation(const struct object_info *info, void *count)
{
	*(uint32_t *)count += memmem(info->name.ptr, info->name.len, "_gen_",
	    5) != NULL;
	return true;
}

static uint32_t
generations_of(const struct uuid *shard)
{
	char path[512];
	uint32_t count = 0;

	shard_directory_name(shard, path);
	see_ok(object_list_names(dir, path, add_generation, &count));
	return count;
}

/* The tail of another instance's shard: fenced, recorded, sealed, folded. */
static void
moved_in(void **state)
{
	struct owner o = claim_elsewhere();
	uint64_t epoch;

	(void)state;
	see_ok(own_put(&o, "k1", "a"));
	see_ok(own_put(&o, "k2", "b"));
	see_error(ask(SHM_MAIL_ROTATE, far), FENCED);	/* nobody's yet */
	assign(far, shm_instance_id(), 0);
	see_ok(ask(SHM_MAIL_ROTATE, far));
	assert_true(claim_of(far).live && claim_of(far).own);
	/* Who was only asleep acknowledges nothing more. */
	see_error(own_put(&o, "k3", "lost"), FENCED);
	epoch = claim_of(far).epoch;
	see_ok(ask(SHM_MAIL_ROTATE, far));
	assert_int_equal(claim_of(far).epoch, epoch);	/* once is enough */
	assert_int_equal(seal_now(number_of(far)).generations, 1);
	assert_int_equal(seal_now(number_of(far)).generations, 0);
	fold_now(number_of(far));
	assert_int_equal(shm_shard_marks(shm_store_shard(ref,
	    number_of(far))).pending_generations, 0);
	see_store("k1=a k2=b");
	own_end(&o);
	/* Nobody else would take away what is left of it. */
	assert_int_equal(generations_of(&o.shard), 1);
	config.grace_secs = 0;
	collect_now();
	collect_now();
	assert_int_equal(generations_of(&o.shard), 0);
	see_store("k1=a k2=b");
}

/* Who claims after the guest did, whatever he was told: what he acknowledges is
 * sealed and folded too. */
static void
overtaken(void **state)
{
	struct owner o = claim_elsewhere(), late;
	uint64_t epoch;

	(void)state;
	see_ok(own_put(&o, "k1", "a"));
	assign(far, shm_instance_id(), 0);
	see_ok(ask(SHM_MAIL_ROTATE, far));
	own_end(&o);
	epoch = claim_of(far).epoch;
	assert_true(claim_of(far).newest);
	late = claim_elsewhere();
	see_ok(own_put(&late, "k2", "b"));
	see_ok(reload_others(dir, kind, ref));
	assert_true(claim_of(far).live && !claim_of(far).newest);
	see_ok(ask(SHM_MAIL_ROTATE, far));
	assert_true(claim_of(far).epoch > epoch + 1 && claim_of(far).newest);
	see_error(own_put(&late, "k3", "lost"), FENCED);
	own_end(&late);
	assert_int_equal(seal_now(number_of(far)).generations, 1);
	fold_now(number_of(far));
	see_store("k1=a k2=b");
}

/* An ordinal of this instance whose worker is gone; then it comes home. */
static void
orphan_and_home(void **state)
{
	struct owner o = own_claim(1), home;
	uint64_t epoch;

	(void)state;
	see_ok(own_put(&o, "k1", "a"));
	own_end(&o);
	assign(1, shm_instance_id(), 0);
	/* The claim was of the stay before. */
	assert_false(claim_of(1).live);
	see_ok(ask(SHM_MAIL_ROTATE, 1));
	epoch = claim_of(1).epoch;
	assert_true(claim_of(1).live);
	assert_int_equal(seal_now(1).generations, 1);
	assign(1, shm_instance_id(), 1);
	assert_false(claim_of(1).live);
	see_error(ask(SHM_MAIL_ROTATE, 1), FENCED);
	home = own_claim(1);
	assert_true(claim_of(1).epoch > epoch);
	see_ok(own_put(&home, "k1", "b"));
	see_store("k1=b");
	own_end(&home);
}

/* It moves away while it is being claimed. */
static void
moves_on(void **state)
{
	struct owner o = own_claim(1);
	struct shm_command c = { .kind = SHM_MAIL_ROTATE, .store = store->ref,
	    .shard = o.shard, .token = shm_mailbox_token(),
	    .from = shm_life_self() }, reply;
	uint64_t began = clock_mono_ns();

	(void)state;
	see_ok(own_put(&o, "k1", "a"));
	own_end(&o);
	assign(1, shm_instance_id(), 0);
	assert_true(engine_command(&engine, &c));
	assert_false(engine_idle(&engine));
	/* The job may look before or after: the claim is no live one anyway. */
	assign(1, "far", 0);
	while (!shm_mailbox_receive(&reply))
		assert_true(turn(began));
	assert_false(claim_of(1).live);
	see_store("k1=a");
}

static void
nothing_to_claim(void **state)
{
	(void)state;
	assign(far, shm_instance_id(), 0);
	see_ok(ask(SHM_MAIL_ROTATE, far));
	assert_false(claim_of(far).live);
	see_store("");
}

static struct err
append(const char *key, const char *text)
{
	struct request r;

	submit(store, &r, key, text);
	return await(&r);
}

/* The worker's own ordinal goes: it closes its entry and claims no more; what it
 * acknowledged and what the new owner writes is read here. */
static void
released(void **state)
{
	struct owner o;

	(void)state;
	see_ok(append("k1", "a"));
	see_ok(ask(SHM_MAIL_RELEASE, 0));
	see_ok(append("k2", "b"));	/* nothing has moved */
	assign(0, "far", 0);
	assert_false(claim_of(0).live);
	see_ok(ask(SHM_MAIL_RELEASE, 0));
	assert_int_equal(claim_of(0).slot, SHM_NOBODY);
	assert_int_equal(shm_shard_closed(shm_store_shard(ref, 0)).end,
	    shm_shard_commit(shm_store_shard(ref, 0)).end);
	see_error(append("k3", "lost"), FENCED);
	/* Read in the segment of another instance. */
	o = owner_of(0);
	o.state = &elsewhere;
	see_ok(own_take(&o));
	see_ok(own_put(&o, "k4", "d"));
	see_ok(reload_tails(dir, kind, ref));
	see_store("k1=a k2=b k4=d");
	own_end(&o);
	/* Without the mail the next commit finds out by itself. */
	assign(0, shm_instance_id(), 0);
	see_ok(append("k5", "e"));
	assign(0, "far", 0);
	see_error(append("k6", "lost"), FENCED);
	assign(0, shm_instance_id(), 0);
	see_ok(append("k7", "g"));
	see_store("k1=a k2=b k4=d k5=e k7=g");
}

/* It is home again and not claimed yet: who had it may be late, so nobody
 * believes that a shard of ours moves through us alone. */
static void
came_home(void **state)
{
	struct owner o = owner_of(0);

	(void)state;
	see_ok(append("k1", "a"));
	assign(0, "far", 0);
	assign(0, shm_instance_id(), 0);
	assert_true(reload_is_others(ref, 0));
	o.state = &elsewhere;
	see_ok(own_take(&o));
	see_ok(reload_others(dir, kind, ref));
	assert_int_equal(shm_shard_marks(shm_store_shard(ref, 0)).epoch,
	    o.claim.manifest.epoch);
	own_end(&o);
	see_ok(append("k2", "b"));
	assert_false(reload_is_others(ref, 0));
	see_store("k1=a k2=b");
}

#define guest_case(f) cmocka_unit_test_setup_teardown(f, begin, end)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		guest_case(moved_in),
		guest_case(overtaken),
		guest_case(orphan_and_home),
		guest_case(moves_on),
		guest_case(nothing_to_claim),
		guest_case(released),
		guest_case(came_home),
	};

	return cmocka_run_group_tests(tests, store_group, store_group_end);
}
