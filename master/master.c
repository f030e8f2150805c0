#include "common/base.h"

#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/config.h"
#include "common/log.h"
#include "shm/mutex.h"
#include "shm/process.h"
#include "shm/server_state.h"
#include "master/cover.h"
#include "master/drain.h"
#include "master/lock.h"
#include "master/mail.h"
#include "master/master.h"
#include "master/member.h"
#include "master/notify.h"
#include "master/orphan.h"
#include "master/reload.h"
#include "master/signal.h"
#include "master/socket.h"
#include "master/tell.h"
#include "master/upgrade.h"

#define JOIN_SPAN_NS	 (10 * NS_PER_SEC) /* in which workers take mail */
#define JOIN_LOOK_NS	 (50 * NS_PER_MS)
#define HAND_OVER_NS	 (1 * NS_PER_SEC) /* in which replies end connections */
#define HAND_LOOK_NS	 (50 * NS_PER_MS)
#define HAND_WORKERS_NS	 (10 * NS_PER_SEC) /* who waits for peers has cut them */
#define HAND_MAINTAIN_NS (2 * NS_PER_SEC) /* its folds end at their next step */

static const char *const state_names[] = {
#define X(state, text) text,
	MASTER_STATES(X)
#undef X
};

static struct master_plan plan;
static enum master_state state;
static uint64_t kill_at_ns;		/* deadline of the drain */
static uint64_t delay_until_ns;		/* end of the delay before it */
static uint64_t patient_until_ns;	/* of a hand-over, for what is old */
static uint64_t joined_by_ns;		/* whether or not all workers run */
static uint64_t handing_mono_ns;	/* clock_mono_ns of its begin */
static uint32_t stops_asked;
static int exit_status;
static bool told_ready;
static bool keep_admin_file;		/* another master goes on with it */

static void
enter(enum master_state next)
{
	log_info("state \"%s\" -> \"%s\"", state_names[state],
	    state_names[next]);
	state = next;
	plan.server.state = state_names[next];
}

static void
ask_to_stop(void)
{
	stops_asked++;
}

static bool
is_draining(void)
{
	return stops_asked > 0 || state > MASTER_RUN;
}

/* Too late for new admin clients: the other one answers them. */
static bool
is_handing_over(void)
{
	return state == MASTER_HAND_WORKERS || state == MASTER_HAND_MAINTAINER;
}

static bool
is_stopped(void)
{
	return state == MASTER_DONE;
}

static void
kill_stuck(uint16_t slot)
{
	child_kill(slot, "it held a lock of the segment for too long");
}

/* --- an upgrade: the old master's part --- */

static void
begin_hand_over(uint64_t now_ns)
{
	delay_until_ns = now_ns + HAND_OVER_NS;
	patient_until_ns = now_ns + MAX(plan.drain_ns, HAND_OVER_NS);
	handing_mono_ns = clock_mono_ns();
	shm_server_set(SHM_SERVER_HANDING_OVER);
	socket_defer(plan.listen_fds, plan.listen_count, true);
	enter(MASTER_HAND_OVER);
}

/* What is old would hold up the queues: it is waited for while all goes on. */
static bool
waits_for_old(uint64_t now_ns)
{
	uint32_t busy = child_busy(handing_mono_ns);

	if (now_ns < delay_until_ns)
		return true;
	if (busy == 0)
		return false;
	if (now_ns >= patient_until_ns) {
		log_warn("requests or folds that take long are cut off by the "
		    "upgrade count=%u", busy);
		return false;
	}
	delay_until_ns = now_ns + HAND_LOOK_NS;
	return true;
}

static void
shut_doors(uint64_t now_ns)
{
	kill_at_ns = now_ns + HAND_WORKERS_NS;
	child_no_more();
	child_stop(SHM_ROLE_WORKER);
	enter(MASTER_HAND_WORKERS);
}

/* The new one is gone, or we are to stop: serve as before. */
static void
take_back(void)
{
	shm_server_clear(SHM_SERVER_HANDING_OVER);
	socket_defer(plan.listen_fds, plan.listen_count, false);
	child_more();
	enter(MASTER_RUN);
}

/* A fold that is under way is not waited for: the other server folds anew. */
static void
stop_maintainer(uint64_t now_ns)
{
	child_stop(SHM_ROLE_MAINTAINER);
	kill_at_ns = MIN(kill_at_ns, now_ns + HAND_MAINTAIN_NS);
	enter(MASTER_HAND_MAINTAINER);
}

static void
leave_to_the_new(void)
{
	char text[40];

	snprintf(text, sizeof(text), "MAINPID=%d", (int)upgrade_pid());
	notify_send(text);
	log_info("handed over to pid=%d", (int)upgrade_pid());
	keep_admin_file = true;
	enter(MASTER_DONE);
}

static void
step_hand_over(uint64_t now_ns)
{
	if (stops_asked > 0)
		upgrade_cancel();
	if (upgrade_look(now_ns) == UPGRADE_NONE) {
		take_back();
	} else if (state == MASTER_HAND_OVER) {
		if (waits_for_old(now_ns))
			cover_look(now_ns);
		else
			shut_doors(now_ns);
	} else if (state == MASTER_HAND_WORKERS) {
		if (child_alive(SHM_ROLE_WORKER) == 0)
			stop_maintainer(now_ns);
	} else if (child_alive(SHM_ROLE_MAINTAINER) == 0) {
		leave_to_the_new();
	}
}

/* --- the new master's --- */

static void
take_over(uint64_t now_ns)
{
	struct err e = lock_sign(plan.server.instance_id, plan.lock_fd);

	if (err_is(e))
		log_err(LOG_WARN, e, "holding the lock all the same");
	takeover_end(plan.takeover);
	keep_admin_file = false;
	socket_defer(plan.listen_fds, plan.listen_count, false);
	/* The server goes on, and so does its readiness. */
	shm_server_clear(SHM_SERVER_STARTING);
	member_init(plan.orphan_grace_ns, now_ns);
	child_let_maintainer();
	child_refill(now_ns);
	enter(MASTER_JOIN);
}

/* --- stopping --- */

/* Balancers are to look away while there still is somebody who answers. */
static void
begin_delay(uint64_t now_ns)
{
	upgrade_cancel();
	notify_send("STOPPING=1");
	delay_until_ns = now_ns + plan.drain_delay_ns;
	shm_server_set(SHM_SERVER_DRAINING);
	enter(MASTER_DRAIN_DELAY);
}

static void
revive_socket(uint32_t worker)
{
	struct err e = socket_revive(plan.listen_fds[worker]);

	if (err_is(e))
		log_err(LOG_ERROR, e, "a worker has no socket, it serves "
		    "nobody: another listens on the port? worker=%u", worker);
}

static void
forsake_socket(uint32_t worker)
{
	socket_end(plan.listen_fds[worker]);
}

static void
reloaded(void)
{
	plan.drain_ns = CONFIG_NOW(plan.children.start.config, drain_secs) *
	    NS_PER_SEC;
	plan.drain_delay_ns = CONFIG_NOW(plan.children.start.config,
	    drain_delay_secs) * NS_PER_SEC;
}

static void
resize(uint32_t workers, uint64_t now_ns)
{
	/* It counts on as many as there were. */
	upgrade_cancel();
	child_resize(workers, now_ns, plan.drain_ns);
	tell_all();
}

static void
begin_drain(uint64_t now_ns)
{
	shm_server_set(SHM_SERVER_DRAINING);
	kill_at_ns = now_ns + plan.drain_ns;
	child_no_more();
	child_stop(SHM_ROLE_WORKER);
	/* Ours only; the workers first take what waits in theirs. */
	socket_close_all(plan.listen_fds, plan.listen_count);
	shm_process_enter(SHM_PROCESS_DRAINING);
	enter(MASTER_DRAIN_WORKERS);
}

static void
refuse(uint64_t now_ns)
{
	exit_status = 1;
	begin_drain(now_ns);
}

static void
join(uint64_t now_ns)
{
	switch (member_step(now_ns)) {
	case MEMBER_JOINING:
		break;
	case MEMBER_IN:
		/* A worker that is drained is not even started. */
		drain_step(now_ns, plan.drain_ns, plan.drain_delay_ns);
		child_let_workers();
		joined_by_ns = now_ns + JOIN_SPAN_NS;
		enter(MASTER_RUN);
		child_refill(now_ns);
		break;
	case MEMBER_REFUSED:
		refuse(now_ns);
		break;
	}
}

/* From now on there is somebody who closes what shards hold. */
static void
end_joining(uint64_t now_ns)
{
	uint32_t workers;

	if (shm_server_is(SHM_SERVER_JOINING) && member_is_home(&workers) &&
	    (child_workers_beaten() || now_ns >= joined_by_ns))
		shm_server_clear(SHM_SERVER_JOINING);
}

/* What a server does that runs, and is to go on. */
static void
care(uint64_t now_ns)
{
	end_joining(now_ns);
	cover_look(now_ns);
	drain_step(now_ns, plan.drain_ns, plan.drain_delay_ns);
	orphan_step(now_ns);
	fanout_step(now_ns);
}

/* What is left at the deadline is killed. */
static bool
is_leaving(void)
{
	return state == MASTER_DRAIN_WORKERS ||
	    state == MASTER_DRAIN_MAINTAINER ||
	    state == MASTER_HAND_WORKERS || state == MASTER_HAND_MAINTAINER;
}

/* One step of the state, after children and signals were looked after. */
static void
step(uint64_t now_ns)
{
	switch (state) {
	case MASTER_JOIN:
		if (stops_asked > 0)
			begin_drain(now_ns);
		else
			join(now_ns);
		break;
	case MASTER_RUN:
		if (member_step(now_ns) == MEMBER_REFUSED)
			refuse(now_ns);
		else if (stops_asked > 0)
			begin_delay(now_ns);
		else if (upgrade_look(now_ns) == UPGRADE_LOADED)
			begin_hand_over(now_ns);
		else
			care(now_ns);
		break;
	case MASTER_WAIT:
		if (stops_asked > 0)
			begin_drain(now_ns);
		else if (takeover_is_due(plan.takeover))
			take_over(now_ns);
		else if (child_workers_beaten())
			takeover_loaded(plan.takeover);
		break;
	case MASTER_HAND_OVER:
	case MASTER_HAND_WORKERS:
	case MASTER_HAND_MAINTAINER:
		step_hand_over(now_ns);
		break;
	case MASTER_DRAIN_DELAY:
		member_step(now_ns);
		if (stops_asked > 1 || now_ns >= delay_until_ns)
			begin_drain(now_ns);
		else
			cover_look(now_ns);
		break;
	case MASTER_DRAIN_WORKERS:
		if (child_alive(SHM_ROLE_WORKER) == 0) {
			child_stop(SHM_ROLE_MAINTAINER);
			enter(MASTER_DRAIN_MAINTAINER);
		}
		break;
	case MASTER_DRAIN_MAINTAINER:
		if (child_alive(SHM_ROLE_MAINTAINER) == 0)
			enter(MASTER_DONE);
		break;
	default:
		MUST(state == MASTER_DONE);
	}
	if (is_leaving() && now_ns >= kill_at_ns)
		child_kill_all();
	if (!told_ready && state == MASTER_RUN && shm_server_not_ready() == NULL) {
		notify_send("READY=1");
		told_ready = true;
	}
}

static int
poll_ms(uint64_t now_ns)
{
	uint64_t next_ns = MIN(child_next_ns(now_ns), admin_next_ns());

	if (state <= MASTER_DRAIN_DELAY)
		next_ns = MIN(next_ns, member_next_ns(now_ns));
	if (state == MASTER_RUN)
		next_ns = MIN(next_ns, MIN(orphan_next_ns(now_ns),
		    MIN(drain_next_ns(now_ns), fanout_next_ns(now_ns))));
	if (state == MASTER_RUN && shm_server_is(SHM_SERVER_JOINING))
		next_ns = MIN(next_ns, now_ns + JOIN_LOOK_NS);
	if (state == MASTER_DRAIN_DELAY || state == MASTER_HAND_OVER)
		next_ns = MIN(next_ns, delay_until_ns);
	if (is_leaving())
		next_ns = MIN(next_ns, kill_at_ns > now_ns ? kill_at_ns :
		    now_ns + 10 * NS_PER_MS);
	if (next_ns <= now_ns)
		return 0;
	/* Up, or the last part of a millisecond would be spun away. */
	return (int)((next_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS);
}

static void
ask_to_upgrade(uint64_t now_ns)
{
	uint32_t serving, leaving;

	child_progress(&serving, &leaving);
	if (leaving > 0)
		log_warn("no upgrade while workers leave, try again");
	else if (child_any_shut())
		log_warn("no upgrade while workers start, try again");
	else if (state == MASTER_RUN || state == MASTER_HAND_OVER)
		upgrade_begin(child_wanted(), now_ns);
	else
		log_warn("no upgrade now: %s", state_names[state]);
}

#define OWN_POLLS (3 + UPGRADE_POLLS)

static void
turn(void)
{
	struct pollfd polls[OWN_POLLS + ADMIN_POLLS_MAX] = {
		{ plan.signal_fd, POLLIN, 0 }, mail_poll(),
		{ state == MASTER_WAIT ? plan.takeover->family_fd : -1, POLLIN,
		    0 } };
	struct signal_seen seen = { .stop = false };
	uint32_t count = OWN_POLLS;
	uint64_t now_ns;

	upgrade_polls(polls + OWN_POLLS - UPGRADE_POLLS);
	if (state != MASTER_WAIT)
		count += admin_polls(polls + OWN_POLLS, !is_handing_over());

	poll(polls, count, poll_ms(shm_lock_now_ns()));
	now_ns = shm_lock_now_ns();
	signal_read(&seen);
	if (seen.stop)
		ask_to_stop();
	if (seen.reload)
		reload_by_signal();
	if (seen.upgrade)
		ask_to_upgrade(now_ns);
	child_reap(now_ns);
	child_refill(now_ns);
	child_watch(now_ns);
	tell_look();
	mail_receive();
	if (state != MASTER_WAIT)
		admin_serve(polls + OWN_POLLS, count - OWN_POLLS, now_ns);
	step(now_ns);
}

/* In a child. */
static void
forget(void)
{
	admin_forget();
	upgrade_forget();
	if (plan.takeover != NULL)
		takeover_end(plan.takeover);
}

static void
prepare(void)
{
	plan.children.forget = forget;
	plan.children.start.hold = plan.takeover != NULL;
	upgrade_init(&(struct upgrade_plan){
		.program = plan.program,
		.argv = plan.argv,
		.listen_fds = plan.listen_fds,
		.listen_count = plan.listen_count,
		.lock_fd = plan.lock_fd,
		.family_fd = plan.family_fd,
	});
	shm_mutex_on_stuck(kill_stuck);
	child_init(&plan.children);
	member_init(plan.orphan_grace_ns, shm_lock_now_ns());
	orphan_init(&(struct orphan_plan){ plan.orphan_grace_ns,
	    plan.orphans_manual });
	fanout_init(&plan.fanout);
	shm_process_enter(SHM_PROCESS_RUNNING);
}

int
master_run(const struct master_plan *p)
{
	struct admin_plan admin;
	struct err e;

	plan = *p;
	plan.children.revive = revive_socket;
	plan.children.forsake = forsake_socket;
	if (plan.takeover != NULL)
		state = MASTER_WAIT;
	keep_admin_file = plan.takeover != NULL;
	plan.server.state = state_names[state];
	admin = (struct admin_plan){ p->admin_path, &plan.server, ask_to_stop,
	    is_draining, is_stopped, reloaded,
	    resize };
	e = plan.takeover != NULL ?
	    admin_adopt(&admin, plan.takeover->admin_fd) : admin_open(&admin);
	if (err_is(e)) {
		log_err(LOG_ERROR, e, "cannot run");
		return 1;
	}
	prepare();
	child_refill(shm_lock_now_ns());
	while (state != MASTER_DONE) {
		turn();
		if ((state == MASTER_RUN || state == MASTER_WAIT) &&
		    child_hopeless()) {
			log_error("cannot run: no worker gets through its start, "
			    "the reason is in the lines above");
			exit_status = 1;
			begin_drain(shm_lock_now_ns());
		}
	}
	admin_farewell(shm_lock_now_ns(), keep_admin_file);
	admin_close(keep_admin_file);
	return exit_status;
}
