#include "common/base.h"

#include <poll.h>
#include <sys/socket.h>

#include "common/clock.h"
#include "common/timer.h"
#include "worker/door.h"

#define DOORS_MAX	 257		/* as many as there are slots, at most */
#define DOOR_WATCH_NS	 (200 * NS_PER_MS)
#define DOOR_LOOK_NS	 (1 * NS_PER_MS)
#define DOOR_LOOKS_MAX	 200		/* queues that never empty: cut them */
#define DOOR_LINGER_NS	 (200 * NS_PER_MS)

static struct loop *loop;
static struct http_server *http;
static int doors[DOORS_MAX];
static uint32_t count, looks;
static struct timer watch_timer, look_timer, linger_timer;
static bool drained;

static uint32_t
find(int fd)
{
	uint32_t i;

	for (i = 0; i < count && doors[i] != fd; i++)
		continue;
	return i;
}

void
door_open(int fd)
{
	if (find(fd) < count)
		return;
	MUST(count < DOORS_MAX);
	doors[count++] = fd;
	http_listen(http, fd);
}

void
door_shut(int fd)
{
	uint32_t i = find(fd);

	if (i == count)
		return;
	doors[i] = doors[--count];
	http_unlisten(http, fd);
}

static void
on_linger(struct timer *t)
{
	(void)t;
	drained = true;
	http_drain(http);
}

/* Whether connections wait there that nobody has accepted. */
static bool
has_queue(int fd)
{
	struct pollfd p = { fd, POLLIN, 0 };

	return poll(&p, 1, 0) > 0;
}

static void
on_watch(struct timer *t)
{
	uint32_t i;

	for (i = 0; i < count; i++) {
		if (has_queue(doors[i]))
			http_nudge(http, doors[i]);
	}
	timer_set(loop_timers(loop), t, loop_now_ns(loop) + DOOR_WATCH_NS);
}

static void
on_look(struct timer *t)
{
	uint64_t now_ns = loop_now_ns(loop);
	uint32_t i;

	looks++;
	for (i = count; i-- > 0; ) {
		int fd = doors[i];

		if (looks < DOOR_LOOKS_MAX && has_queue(fd))
			continue;
		/* Nothing between the look and this. */
		shutdown(fd, SHUT_RD);
		door_shut(fd);
	}
	if (count > 0)
		timer_set(loop_timers(loop), t, now_ns + DOOR_LOOK_NS);
	else
		timer_set(loop_timers(loop), &linger_timer, now_ns +
		    (http_connections(http) > 0 ? DOOR_LINGER_NS : 0));
}

void
door_init(struct loop *l, struct http_server *h)
{
	loop = l;
	http = h;
	timer_init(&watch_timer, on_watch);
	timer_init(&look_timer, on_look);
	timer_init(&linger_timer, on_linger);
	timer_set(loop_timers(loop), &watch_timer, loop_now_ns(loop) +
	    DOOR_WATCH_NS);
}

void
door_retire(void)
{
	http_announce(http);
	timer_set(loop_timers(loop), &look_timer, loop_now_ns(loop));
}

bool
door_retired(void)
{
	return drained && http_connections(http) == 0;
}
