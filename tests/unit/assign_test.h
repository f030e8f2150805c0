#ifndef MEMWALD_TESTS_UNIT_ASSIGN_TEST_H
#define MEMWALD_TESTS_UNIT_ASSIGN_TEST_H

/*
 * assign_test - the master, where it decides about ordinals: those that come
 * home, orphans, what is drained, and commands. The test is the master, and the
 * maintainer as well: it does the jobs as the chain would, at once, or answers
 * as told.
 */

#include "master_test.h"

#include "shm/mailbox.h"
#include "shm/server_state.h"
#include "master/call.h"
#include "master/command.h"
#include "master/drain.h"
#include "master/mail.h"
#include "master/member.h"
#include "master/orphan.h"

#define TURN_NS	(300 * NS_PER_MS)

static uint64_t delay_ns;		/* of a drain */
static uint64_t now_ns;
static uint32_t looks, assigns;
static void (*on_look)(void);
static void (*on_assign)(void);	/* what comes before ours */
static struct err answer;		/* to the jobs */
static bool torn;			/* one store cannot be read */
static uint32_t shards;			/* stores that have one to fence */
static void (*on_fold)(void);		/* of such a one, which is FENCED */
static char body[2000];			/* of the last command's answer */

static inline int
setup(void **state)
{
	static uint32_t terms;
	struct shm_config cfg = test_config();
	uint32_t i;

	(void)state;
	log_set_level(LOG_ERROR);
	alarm(60);
	test_segment(&cfg);
	/* A term that the modules, which stay, do not know yet. */
	for (i = 0, terms++; i < terms; i++) {
		shm_lease_end(SHM_LEASE_LOST, "told so");
		shm_lease_hold(1, UINT64_MAX);
	}
	pretend_all(2);
	if (now_ns == 0)
		now_ns = shm_lock_now_ns();
	on_look = on_assign = on_fold = NULL;
	torn = false;
	delay_ns = 2 * NS_PER_SEC;
	shards = 0;
	answer = OK;
	member_init(NS_PER_SEC, now_ns);
	orphan_init(&(struct orphan_plan){ NS_PER_SEC, false });
	drain_step(now_ns, NS_PER_SEC, 0);	/* no marks any more */
	return 0;
}

static inline void
assign(uint32_t index, const char *instance, uint32_t worker, uint32_t reason,
    uint32_t drained)
{
	assign_as(index, instance, (struct shm_news){
	    .is = { .state = SHM_ORDINAL_OWNED, .worker = worker },
	    .reason = reason, .drained = drained });
}

static inline uint32_t
give(const char *ordinal, const char *instance, uint32_t worker)
{
	uint32_t index;

	must(shm_ordinal_add(slice_of(ordinal), &index));
	assign(index, instance, worker, SHM_ORDINAL_BY_HOME, 0);
	return index;
}

static inline void
bring_wants(void)
{
	uint32_t i;

	for (i = 0; i < shm_ordinal_count(); i++) {
		struct shm_ordinal o;
		struct shm_want w;
		bool changed, stays;

		if (!shm_ordinal_wanted(i, &w))
			continue;
		must(shm_ordinal_get(i, &o));
		stays = memcmp(&w.to, &o.is, sizeof(w.to)) == 0;
		if (w.from_version == o.version)
			must(shm_ordinal_assign(i, &(struct shm_news){
			    .is = w.to, .version = ++version,
			    .reason = stays ? o.reason : w.reason,
			    .drained = (o.drained | w.drain) &
			    ~(uint32_t)w.undrain }, &changed));
		shm_ordinal_want_end(i, &w);
	}
	shm_ordinal_version_raise(version);
}

static inline void
do_fold(const struct shm_command *c)
{
	if (on_fold != NULL)
		on_fold();
	shm_mailbox_reply(c, on_fold != NULL ? FAIL(FENCED, "told so") : OK, 0);
}

/* Nothing of it is left, but there are so many stores to fence. */
static inline void
do_left(struct shm_command *c)
{
	bool found = c->args[2] != 0 && shards > 0;

	if (torn) {
		snprintf(c->text, sizeof(c->text), "torn");
		shm_mailbox_reply(c, FAIL(CORRUPT, "told so"), STORE_DATAGEN);
		return;
	}
	shards -= found;
	shm_mailbox_reply(c, answer, found ? SHM_LEFT_FOUND : STORE_KIND_COUNT);
}

static inline void
do_jobs(void)
{
	struct shm_command c;

	as(SHM_MAINTAINER);
	while (shm_mailbox_receive(&c)) {
		bool look = c.args[0] == SHM_JOB_LOOK;

		if (c.kind == SHM_MAIL_FOLD_SHARD) {
			do_fold(&c);
			continue;
		}
		if (c.args[0] == SHM_JOB_LEFT) {
			do_left(&c);
			continue;
		}
		looks += look;
		assigns += c.args[0] == SHM_JOB_ASSIGN;
		if (look && on_look != NULL)
			on_look();
		if (c.args[0] == SHM_JOB_ASSIGN && on_assign != NULL)
			on_assign();
		if (!look && !err_is(answer))
			bring_wants();
		shm_mailbox_reply(&c, answer, 0);
	}
	as(SHM_MASTER);
	mail_receive();
}

static inline void
turns(uint32_t n)
{
	for (; n > 0; n--) {
		now_ns += TURN_NS;
		do_jobs();
		assert_int_equal(member_step(now_ns), MEMBER_IN);
		orphan_step(now_ns);
		drain_step(now_ns, NS_PER_SEC, delay_ns);
	}
}

static inline void
come_home(void)
{
	uint32_t workers, i;

	for (i = 0; i < 10; i++) {
		now_ns += TURN_NS;
		do_jobs();
		member_step(now_ns);
	}
	assert_true(member_is_home(&workers));
	assert_int_equal(workers, 2);
	looks = assigns = 0;
}

static inline struct shm_ordinal
ordinal(uint32_t index)
{
	struct shm_ordinal o;

	must(shm_ordinal_get(index, &o));
	return o;
}

static inline void
owner_is(uint32_t index, const char *instance)
{
	assert_string_equal(ordinal(index).is.instance, instance);
}

static uint32_t near;			/* the ordinal of that instance */

static inline void
near_is_silent(uint64_t ms, bool released)
{
	near = give("near", "near", 0);
	come_home();
	see("near", 1, ms, released);
}

static inline void
near_is_back(void)
{
	see("near", 2, 0, false);
}

/* A command's decision: from a look to what became of it. */

static struct call call;

static inline bool
is_never(void)
{
	return false;
}

/* Turns until the command has ended, or so many. */
static inline enum admin_exit
command(const char *line, uint32_t most)
{
	static char words[200];
	enum call_step step = CALL_WAIT;

	command_init(&(struct admin_plan){ .draining = is_never });
	snprintf(words, sizeof(words), "%s", line);
	call_begin(&call, words, now_ns);
	for (; most > 0 && step != CALL_DONE; most--) {
		turns(1);
		step = call_step(&call, now_ns);
	}
	assert_int_equal(step, CALL_DONE);
	snprintf(body, sizeof(body), "%.*s", (int)call.body.len,
	    call.body.len > 0 ? call.body.ptr : "");
	call_end(&call);
	return call.exit;
}

/* The same, but nobody else decides anything meanwhile. */
static inline enum admin_exit
alone(const char *line)
{
	static char words[200];
	enum call_step step = CALL_WAIT;

	command_init(&(struct admin_plan){ .draining = is_never });
	looks = assigns = 0;
	snprintf(words, sizeof(words), "%s", line);
	call_begin(&call, words, now_ns);
	while (step != CALL_DONE) {
		now_ns += TURN_NS;
		do_jobs();
		step = call_step(&call, now_ns);
	}
	call_end(&call);
	return call.exit;
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, master_teardown)

#endif
