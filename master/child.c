#include "common/base.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "shm/mailbox.h"
#include "shm/mutex.h"
#include "shm/ordinal_table.h"
#include "shm/process.h"
#include "shm/reap.h"
#include "shm/server_state.h"
#include "worker/maintainer.h"
#include "worker/worker.h"
#include "master/child.h"
#include "master/signal.h"

#define CHILDREN_MAX (SHM_WORKERS_LIMIT + 1)

#define BEAT_LIMIT_NS		(5 * NS_PER_SEC)
#define FIRST_BEAT_LIMIT_NS	(20 * NS_PER_SEC)
#define WATCH_NS		(250 * NS_PER_MS)

#define SLOW_DELAY_NS		(100 * NS_PER_MS)	/* no heartbeat yet */
#define SLOW_DELAY_MAX_NS	(10 * NS_PER_SEC)
#define FAST_DELAY_NS		(10 * NS_PER_MS)	/* short life */
#define FAST_DELAY_MAX_NS	(320 * NS_PER_MS)
#define SHORT_LIFE_NS		(1 * NS_PER_SEC)
#define HOPELESS_FAILURES	5
#define HOME_PATIENCE_NS	(5 * NS_PER_SEC)
#define HOME_LOOK_NS		(10 * NS_PER_MS)

static struct child_plan plan;
static struct child children[CHILDREN_MAX];
static uint32_t count;			/* 1 + wanted, and those still leaving */
static uint32_t wanted;			/* workers */
static uint32_t resizes;
static uint64_t leave_span_ns;
static uint32_t killed_late;
static bool no_more, workers_let, worker_beaten, maintainer_held;
static uint64_t watched_ns, lenient_until_ns;
static pid_t master_pid;

static void
init_slot(uint32_t i)
{
	children[i] = (struct child){
		.slot = (uint16_t)(i == 0 ? SHM_MAINTAINER : SHM_WORKER(i - 1)),
		.empty_ns = shm_lock_now_ns(),
	};
}

void
child_init(const struct child_plan *p)
{
	uint32_t i;

	MUST(p->workers >= 1 && p->workers < CHILDREN_MAX);
	plan = *p;
	if (plan.beat_limit_ns == 0)
		plan.beat_limit_ns = BEAT_LIMIT_NS;
	if (plan.first_beat_limit_ns == 0)
		plan.first_beat_limit_ns = FIRST_BEAT_LIMIT_NS;
	maintainer_held = workers_let = p->start.hold;
	wanted = p->workers;
	count = 1 + wanted;
	for (i = 0; i < count; i++)
		init_slot(i);
	master_pid = getpid();
}

uint32_t
child_count(void)
{
	return count;
}

struct child *
child_at(uint32_t index)
{
	MUST(index < count);
	return &children[index];
}

struct child *
child_of_slot(uint16_t slot)
{
	uint32_t i;

	for (i = 0; i < count; i++) {
		if (children[i].slot == slot)
			return &children[i];
	}
	return NULL;
}

static const char *
name_of(uint16_t slot, char *name, size_t bytes)
{
	if (slot == SHM_MAINTAINER)
		snprintf(name, bytes, "maintainer");
	else
		snprintf(name, bytes, "worker/%u", slot - SHM_WORKER(0));
	return name;
}

/* Doubles from first up to max. */
static uint64_t
doubled(uint64_t first, uint64_t max, uint32_t failures)
{
	return failures > 20 ? max : MIN(first << (failures - 1), max);
}

uint64_t
child_delay_ns(bool beaten, uint64_t lived_ns, uint32_t *failures)
{
	if (beaten && lived_ns >= SHORT_LIFE_NS) {
		*failures = 0;
		return 0;
	}
	++*failures;
	return beaten ?
	    doubled(FAST_DELAY_NS, FAST_DELAY_MAX_NS, *failures) :
	    doubled(SLOW_DELAY_NS, SLOW_DELAY_MAX_NS, *failures);
}

NORETURN static void
become(uint16_t slot)
{
	static char name[32];

	/* A group of its own: see the header, Death. */
	setpgid(0, 0);
	signal_child();
	MUST(prctl(PR_SET_PDEATHSIG, SIGTERM) == 0);
	if (getppid() != master_pid)
		_exit(0);	/* it died before we asked to be told */
	close(plan.master_write_fd);
	plan.forget();
	log_init(name_of(slot, name, sizeof(name)));
	prctl(PR_SET_NAME, slot == SHM_MAINTAINER ? "memwald-maint" :
	    "memwald-worker");
	plan.start.slot = slot;
	if (slot == SHM_MAINTAINER)
		maintainer_main(&plan.start);
	worker_main(&plan.start);
}

/* Somebody looks after what comes there, from now on. */
static void
open_socket(struct child *c)
{
	if (plan.revive != NULL)
		plan.revive(c->slot - SHM_WORKER(0));
	c->shut = false;
}

static void
start(struct child *c, uint64_t now_ns)
{
	char name[32];
	pid_t pid;

	plan.start.workers = wanted;
	if (c->shut)
		c->empty_ns = now_ns;
	if (c->slot != SHM_MAINTAINER)
		open_socket(c);
	c->home_by_ns = 0;
	shm_process_refill(c->slot);
	pid = fork();
	if (pid == 0)
		become(c->slot);
	if (pid < 0) {
		shm_process_clear(c->slot);
		c->due_ns = now_ns + child_delay_ns(false, 0, &c->failures);
		log_error("fork failed, trying again, check the limit of "
		    "processes and memory child=%s delay_ms=%llu os=\"%s\"",
		    name_of(c->slot, name, sizeof(name)), (unsigned long long)
		    ((c->due_ns - now_ns) / NS_PER_MS), strerrordesc_np(errno));
		return;
	}
	shm_process_forked(c->slot, pid);
	c->pid = pid;
	c->beaten = c->stopping = c->killed = false;
	c->forked_ns = now_ns;
	log_info("started %s pid=%d", name_of(c->slot, name, sizeof(name)),
	    (int)pid);
}

/* Of workers that were forked with theirs shut. */
static void
open_doors(void)
{
	uint32_t i;

	for (i = 1; i < count && plan.start.hold; i++) {
		struct shm_command m = { .kind = SHM_MAIL_ACCEPT_FOR,
			.args = { children[i].slot } };

		if (children[i].pid != 0 &&
		    err_is(shm_mailbox_send(children[i].slot, &m)))
			child_kill(children[i].slot, "cannot be told to accept");
	}
	plan.start.hold = false;
}

void
child_let_maintainer(void)
{
	maintainer_held = false;
}

void
child_let_workers(void)
{
	uint32_t i;

	workers_let = true;
	open_doors();
	for (i = 1; i < count; i++)
		children[i].empty_ns = shm_lock_now_ns();
}

/* The maintainer comes first. */
static uint32_t
count_let(void)
{
	return no_more ? 0 : workers_let ? count : 1;
}

/* Another owns its ordinal, or is about to, or nobody knows yet that it does. Of
 * an instance that is drained none comes home. */
static bool
awaits_home(const struct child *c, uint64_t now_ns)
{
	struct shm_ordinal o;

	return now_ns < c->home_by_ns && !shm_server_is(SHM_SERVER_DRAINED) &&
	    !err_is(shm_ordinal_get(c->slot - SHM_WORKER(0), &o)) &&
	    (o.version == 0 || o.owner != c->slot || o.wanted);
}

void
child_refill(uint64_t now_ns)
{
	uint32_t i;

	for (i = maintainer_held ? 1 : 0; i < count_let(); i++) {
		struct child *c = &children[i];

		if (c->pid == 0 && !c->left && c->due_ns <= now_ns &&
		    !awaits_home(c, now_ns))
			start(c, now_ns);
	}
}

/* "exit 1", "signal 6 (Aborted): the panic text". */
static void
describe(struct child *c, int status)
{
	const char *panic_text = shm_process_get(c->slot)->panic_text;
	size_t n = sizeof(c->last_death);

	if (WIFEXITED(status))
		snprintf(c->last_death, n, "exit %d", WEXITSTATUS(status));
	else if (c->killed)
		snprintf(c->last_death, n, "killed by the master");
	else
		snprintf(c->last_death, n, "signal %d (%s)%s%.100s",
		    WTERMSIG(status), sigdescr_np(WTERMSIG(status)),
		    *panic_text != '\0' ? ": " : "", panic_text);
}

/* In order, or it gets nowhere: what waits in its queue is lost then. */
static void
give_up_slot(struct child *c)
{
	c->left = true;
	if (c->parked) {
		/* It has barred that, which is another's care from here on. */
		open_socket(c);
		return;
	}
	c->shut = true;
	if (plan.forsake != NULL)
		plan.forsake(c->slot - SHM_WORKER(0));
}

static void
bury(struct child *c, int status, uint64_t now_ns)
{
	bool orderly = WIFEXITED(status) && WEXITSTATUS(status) == 0;
	struct shm_reaped reaped;
	uint64_t delay_ns;
	char name[32];

	describe(c, status);
	delay_ns = child_delay_ns(c->beaten, now_ns - c->forked_ns,
	    &c->failures);
	if (orderly && (no_more || c->stopping))
		log_info("%s left pid=%d",
		    name_of(c->slot, name, sizeof(name)), (int)c->pid);
	else {
		if (!no_more)
			shm_process_died(c->slot);
		log_warn("%s died, %s pid=%d death=\"%s\" delay_ms=%llu",
		    name_of(c->slot, name, sizeof(name)), no_more ?
		    "we are stopping anyway" : "starting another", (int)c->pid,
		    c->last_death, (unsigned long long)(delay_ns / NS_PER_MS));
	}
	if (orderly)
		c->last_death[0] = '\0';

	shm_process_get(c->slot)->state = SHM_PROCESS_DEAD;
	shm_reap(c->slot, &reaped);
	if (!orderly)	/* else it was done with all of it */
		shm_reap_log(c->slot, &reaped);
	shm_process_clear(c->slot);
	c->pid = 0;
	if (c->leaving && (orderly || c->failures >= HOPELESS_FAILURES))
		give_up_slot(c);
	c->empty_ns = now_ns;
	c->due_ns = now_ns + delay_ns;
}

void
child_reap(uint64_t now_ns)
{
	int status;
	pid_t pid;
	uint32_t i;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		for (i = 0; i < count; i++) {
			if (children[i].pid == pid)
				bury(&children[i], status, now_ns);
		}
	}
}

void
child_kill(uint16_t slot, const char *why)
{
	struct child *c = child_of_slot(slot);
	char name[32];

	if (c == NULL || c->pid == 0 || c->killed)
		return;
	log_error("killing %s, it will be replaced pid=%d why=\"%s\"",
	    name_of(slot, name, sizeof(name)), (int)c->pid, why);
	c->killed = true;
	kill(c->pid, SIGKILL);
}

/* Told once it has a mailbox that is not full. By mail, not by a signal, which
 * would have it end the listening of sockets that it only looks after. False:
 * its time is up. */
static bool
leave(struct child *c, uint64_t now_ns)
{
	struct shm_command m = { .kind = SHM_MAIL_DRAIN, .args = { 1 } };

	if (c->stopping)
		return now_ns < c->leave_by_ns;
	if (!err_is(shm_mailbox_send(c->slot, &m))) {
		c->stopping = true;
		c->leave_by_ns = now_ns + leave_span_ns;
	}
	return true;
}

static void
watch_one(struct child *c, uint64_t now_ns)
{
	const struct shm_process *p = shm_process_get(c->slot);
	uint64_t beat_ns = atomic_load_explicit(&p->heartbeat_ns,
	    memory_order_relaxed);
	uint64_t mono_ns = clock_mono_ns();

	if (!c->beaten && beat_ns != 0) {
		c->beaten = true;
		if (c->slot != SHM_MAINTAINER)
			worker_beaten = true;
	}
	if (c->leaving && !leave(c, now_ns))
		child_kill(c->slot, "did not leave by the deadline");
	if (now_ns < lenient_until_ns)
		return;
	if (!c->beaten) {
		if (now_ns - c->forked_ns > plan.first_beat_limit_ns)
			child_kill(c->slot, "no first heartbeat");
	} else if (mono_ns > beat_ns &&
	    clock_real_ns(mono_ns - beat_ns) > plan.beat_limit_ns) {
		child_kill(c->slot, "its loop stands still");
	}
}

void
child_watch(uint64_t now_ns)
{
	uint32_t i;

	/* We were stopped ourselves, and maybe all were: ask again later. */
	if (watched_ns != 0 && now_ns - watched_ns > plan.beat_limit_ns / 2)
		lenient_until_ns = now_ns + plan.beat_limit_ns;
	watched_ns = now_ns;
	for (i = 0; i < count; i++) {
		if (children[i].pid != 0)
			watch_one(&children[i], now_ns);
	}
	while (count > 1 + wanted && children[count - 1].pid == 0 &&
	    children[count - 1].left)
		count--;
}

/* Where nobody lives somebody must look at the queue, if there is one; also of a
 * slot that was parked, and is another's care no more. */
static void
leave_empty(struct child *c, uint64_t now_ns)
{
	c->due_ns = MIN(c->due_ns, now_ns);
	c->home_by_ns = 0;
	if (!c->parked)
		c->left = c->shut;
}

/* The slot of one that comes. */
static void
init_new(uint32_t i, uint64_t now_ns)
{
	init_slot(i);
	children[i].shut = true;
	children[i].home_by_ns = now_ns + HOME_PATIENCE_NS;
}

void
child_resize(uint32_t workers, uint64_t now_ns, uint64_t span_ns)
{
	uint32_t i;

	MUST(workers >= 1 && workers <= shm_workers_max());
	log_info("workers change from=%u to=%u", wanted, workers);
	wanted = workers;
	resizes++;
	leave_span_ns = span_ns;
	for (; count < 1 + workers; count++)
		init_new(count, now_ns);
	for (i = 1; i < count; i++) {
		struct child *c = &children[i];

		if (i > workers)	/* a drain's mark alone is left of it */
			c->parked = false;
		if (c->left && i <= workers && !c->parked)
			init_new(i, now_ns);
		c->leaving = i > workers || c->parked;
		if (c->leaving && c->pid == 0)
			leave_empty(c, now_ns);
	}
}

void
child_park(uint32_t worker, bool parked, uint64_t now_ns, uint64_t span_ns)
{
	struct child *c = &children[1 + worker];

	if (worker >= wanted || c->parked == parked)
		return;
	log_info(parked ? "worker leaves, its slot stays empty worker=%u" :
	    "worker comes back worker=%u", worker);
	/* Like that of any other that is parked, for whoever covers it. */
	if (parked && c->shut)
		open_socket(c);
	c->parked = c->leaving = parked;
	c->left = parked && c->pid == 0;
	c->due_ns = MIN(c->due_ns, now_ns);
	c->home_by_ns = parked ? 0 : now_ns + HOME_PATIENCE_NS;
	leave_span_ns = span_ns;
}

bool
child_awaits(const struct child *c)
{
	return c->pid == 0 && c->home_by_ns != 0;
}

bool
child_any_shut(void)
{
	uint32_t i;

	for (i = 1; i < 1 + wanted; i++) {
		if (children[i].shut)
			return true;
	}
	return false;
}

bool
child_is_parked(uint32_t worker)
{
	return worker < wanted && children[1 + worker].parked &&
	    children[1 + worker].left;
}

uint32_t
child_wanted(void)
{
	return wanted;
}

uint32_t
child_resizes(void)
{
	return resizes;
}

void
child_progress(uint32_t *serving, uint32_t *leaving)
{
	uint32_t i;

	*serving = 0;
	*leaving = 0;
	for (i = 1; i < count; i++) {
		const struct child *c = &children[i];

		if (i > wanted || (c->parked && !c->left))
			*leaving += !c->left;
		else if (c->parked)
			*serving += 1;
		else
			*serving += c->pid != 0 && c->beaten && !c->stopping;
	}
}

uint64_t
child_next_ns(uint64_t now_ns)
{
	uint64_t next_ns = now_ns + WATCH_NS;
	uint32_t i;

	for (i = maintainer_held ? 1 : 0; i < count_let(); i++) {
		const struct child *c = &children[i];

		if (c->left)
			continue;
		if (c->pid == 0 && awaits_home(c, now_ns))
			next_ns = MIN(next_ns, now_ns + HOME_LOOK_NS);
		else if (c->pid == 0)
			next_ns = MIN(next_ns, MAX(c->due_ns, now_ns));
		else if (!c->beaten)
			next_ns = MIN(next_ns, now_ns + 10 * NS_PER_MS);
	}
	return next_ns;
}

void
child_no_more(void)
{
	no_more = true;
}

void
child_more(void)
{
	no_more = false;
}

bool
child_workers_beaten(void)
{
	uint32_t i;

	for (i = 1; i < count; i++) {
		if (!children[i].parked && (children[i].pid == 0 ||
		    !children[i].beaten))
			return false;
	}
	return true;
}

void
child_stop(uint32_t role)
{
	uint32_t i;

	for (i = 0; i < count; i++) {
		struct child *c = &children[i];

		if (c->pid != 0 && !c->stopping &&
		    (uint32_t)shm_role_of(c->slot) == role) {
			c->stopping = true;
			kill(c->pid, SIGTERM);
		}
	}
}

void
child_kill_all(void)
{
	uint32_t i;

	for (i = 0; i < count; i++) {
		killed_late += children[i].pid != 0 && !children[i].killed;
		child_kill(children[i].slot, "did not leave by the deadline");
	}
}

uint32_t
child_killed_late(void)
{
	return killed_late;
}

uint32_t
child_alive(uint32_t role)
{
	uint32_t i, n = 0;

	for (i = 0; i < count; i++) {
		if (children[i].pid != 0 &&
		    (uint32_t)shm_role_of(children[i].slot) == role)
			n++;
	}
	return n;
}

uint32_t
child_busy(uint64_t since_mono_ns)
{
	uint32_t i, n = 0;

	for (i = 0; i < count; i++) {
		const struct shm_process *p =
		    shm_process_get(children[i].slot);

		if (children[i].pid == 0)
			continue;
		if (atomic_load_explicit(&p->heartbeat_ns,
		    memory_order_acquire) < since_mono_ns)
			n++;
		else
			n += atomic_load_explicit(&p->busy,
			    memory_order_relaxed);
	}
	return n;
}

bool
child_hopeless(void)
{
	uint32_t i;

	if (worker_beaten)
		return false;
	for (i = 1; i < count; i++) {
		if (!children[i].parked &&
		    children[i].failures < HOPELESS_FAILURES)
			return false;
	}
	return true;
}
