#include "common/base.h"

#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/config.h"
#include "common/log.h"
#include "common/timer.h"
#include "shm/process.h"
#include "worker/leave.h"
#include "worker/process.h"

#define BEAT_NS		(500 * NS_PER_MS)	/* of true time */
#define DRAIN_LOOK_NS	(5 * NS_PER_MS)
#define POOL_QUEUE_MAX	1024

/* What requests give back is for the next ones: handing it to the kernel each
 * time costs page faults and, beside our threads, a flush on every CPU. */
#define HEAP_KEEP_BYTES	(16 << 20)
#define HEAP_MMAP_BYTES	(4 << 20)

static struct process_plan plan;
static struct loop *loop;
static struct pool *pool;
static struct timer beat_timer, drain_timer;
static struct op mail_op;
static bool draining, alone;

struct loop *
process_loop(void)
{
	return loop;
}

struct pool *
process_pool(void)
{
	return pool;
}

bool
process_leaves_alone(void)
{
	return alone;
}

void
process_fail(struct err e, const char *what)
{
	log_err(LOG_ERROR, e, "this process cannot run: %s", what);
	_exit(1);
}

static void
on_beat(struct timer *t)
{
	/* The master judges in true time, also where tests replace ours. */
	uint64_t speed = NS_PER_SEC / clock_real_ns(NS_PER_SEC);
	uint64_t now_ns = loop_now_ns(loop);

	shm_process_beat(plan.old(now_ns - MIN(now_ns,
	    PROCESS_OLD_NS * speed)));
	timer_set(loop_timers(loop), t, now_ns + BEAT_NS * speed);
}

static void
on_drain_look(struct timer *t)
{
	if (plan.idle())
		loop_stop(loop);
	else
		timer_set(loop_timers(loop), t, loop_now_ns(loop) + DRAIN_LOOK_NS);
}

/* Orphaned or not, the steps are the same; leave.c keeps the orphan's time. */
static void
on_leave(bool orphaned)
{
	if (draining)
		return;
	draining = true;
	log_info("draining orphaned=%s", orphaned ? "yes" : "no");
	shm_process_enter(SHM_PROCESS_DRAINING);
	plan.drain(orphaned);
	timer_set(loop_timers(loop), &drain_timer, loop_now_ns(loop));
}

static void
on_mail(struct op *op, int32_t res)
{
	struct shm_command m;

	(void)res;
	shm_mailbox_drain();
	while (shm_mailbox_receive(&m)) {
		switch (m.kind) {
		case SHM_MAIL_DRAIN:
			alone = m.args[0] != 0;
			on_leave(false);
			break;
		case SHM_MAIL_OPTION:
			config_live_set((uint32_t)m.args[0], m.args[1]);
			log_set_level((enum log_level)CONFIG_NOW(
			    plan.start->config, log_level));
			break;
		default:
			plan.mail(&m);
		}
	}
	loop_readable(loop, op, shm_mailbox_fd());
}

void
process_start(const struct process_plan *p)
{
	struct loop_settings settings = {
		.ring = p->start->config->loop != CONFIG_LOOP_EPOLL,
	};
	struct err e;

	plan = *p;
	mallopt(M_TRIM_THRESHOLD, HEAP_KEEP_BYTES);
	mallopt(M_MMAP_THRESHOLD, HEAP_MMAP_BYTES);
	shm_process_attach(p->start->slot);
	e = loop_create(&settings, &loop);
	if (err_is(e))
		process_fail(e, "no loop");
	e = pool_create(loop, p->pool_threads, POOL_QUEUE_MAX, &pool);
	if (err_is(e))
		process_fail(e, "no threads");
	loop_set_pool(loop, pool);
	shm_process_loop(loop_kind(loop) == LOOP_RING ? SHM_LOOP_RING :
	    SHM_LOOP_EPOLL);
	log_info("attached pid=%d loop=%s", (int)getpid(),
	    loop_kind_name(loop));
}

void
process_run(void)
{
	timer_init(&beat_timer, on_beat);
	timer_init(&drain_timer, on_drain_look);
	mail_op.done = on_mail;
	loop_readable(loop, &mail_op, shm_mailbox_fd());
	leave_watch(loop, plan.start->master_fd, on_leave);
	shm_process_enter(SHM_PROCESS_RUNNING);
	timer_set(loop_timers(loop), &beat_timer, loop_now_ns(loop));
	loop_run(loop);
	/* Nothing is left that anybody waits for; the kernel does the rest. */
	log_info("leaving");
	_exit(0);
}
