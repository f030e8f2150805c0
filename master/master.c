#include "common/base.h"

#include <poll.h>

#include "common/clock.h"
#include "common/config.h"
#include "common/log.h"
#include "shm/mutex.h"
#include "shm/process.h"
#include "shm/server_state.h"
#include "master/cover.h"
#include "master/mail.h"
#include "master/master.h"
#include "master/member.h"
#include "master/reload.h"
#include "master/signal.h"
#include "master/socket.h"
#include "master/tell.h"

static const char *const state_names[] = {
#define X(state, text) text,
	MASTER_STATES(X)
#undef X
};

static struct master_plan plan;
static enum master_state state;
static uint64_t kill_at_ns;		/* deadline of the drain */
static uint64_t delay_until_ns;		/* end of the delay before it */
static uint32_t stops_asked;
static int exit_status;

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

/* Balancers are to look away while there still is somebody who answers. */
static void
begin_delay(uint64_t now_ns)
{
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
		child_let_workers();
		enter(MASTER_RUN);
		child_refill(now_ns);
		break;
	case MEMBER_REFUSED:
		refuse(now_ns);
		break;
	}
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
		else
			cover_look(now_ns);
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
	if ((state == MASTER_DRAIN_WORKERS ||
	    state == MASTER_DRAIN_MAINTAINER) && now_ns >= kill_at_ns)
		child_kill_all();
}

static int
poll_ms(uint64_t now_ns)
{
	uint64_t next_ns = MIN(child_next_ns(now_ns), admin_next_ns());

	if (state <= MASTER_DRAIN_DELAY)
		next_ns = MIN(next_ns, member_next_ns(now_ns));
	if (state == MASTER_DRAIN_DELAY)
		next_ns = MIN(next_ns, delay_until_ns);
	if (next_ns <= now_ns)
		return 0;
	/* Up, or the last part of a millisecond would be spun away. */
	return (int)((next_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS);
}

static void
turn(void)
{
	struct pollfd polls[2 + ADMIN_POLLS_MAX] = {
		{ plan.signal_fd, POLLIN, 0 }, mail_poll() };
	uint32_t count = 2 + admin_polls(polls + 2);
	struct signal_seen seen = { false, false, false };
	uint64_t now_ns;

	poll(polls, count, poll_ms(shm_lock_now_ns()));
	now_ns = shm_lock_now_ns();
	signal_read(&seen);
	if (seen.stop)
		ask_to_stop();
	if (seen.reload)
		reload_by_signal();
	child_reap(now_ns);
	child_refill(now_ns);
	child_watch(now_ns);
	tell_look();
	mail_receive();
	admin_serve(polls + 2, count - 2, now_ns);
	step(now_ns);
}

int
master_run(const struct master_plan *p)
{
	struct admin_plan admin;
	struct err e;

	plan = *p;
	plan.children.revive = revive_socket;
	plan.children.forsake = forsake_socket;
	plan.server.state = state_names[state];
	admin = (struct admin_plan){ p->admin_path, &plan.server, ask_to_stop,
	    is_draining, is_stopped, reloaded,
	    resize };
	e = admin_open(&admin);
	if (err_is(e)) {
		log_err(LOG_ERROR, e, "cannot run");
		return 1;
	}
	shm_mutex_on_stuck(kill_stuck);
	child_init(&plan.children);
	member_init(p->orphan_grace_ns, shm_lock_now_ns());
	shm_process_enter(SHM_PROCESS_RUNNING);
	child_refill(shm_lock_now_ns());
	while (state != MASTER_DONE) {
		turn();
		if (state == MASTER_RUN && child_hopeless()) {
			log_error("cannot run: no worker gets through its start, "
			    "the reason is in the lines above");
			exit_status = 1;
			begin_drain(shm_lock_now_ns());
		}
	}
	admin_farewell(shm_lock_now_ns());
	admin_close();
	return exit_status;
}
