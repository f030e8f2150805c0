#include "common/base.h"

#include <errno.h>
#include <linux/filter.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/timer.h"
#include "worker/door.h"

#define DOORS_MAX	 257		/* as many as there are slots, at most */
#define DOOR_WATCH_NS	 (200 * NS_PER_MS)
#define DOOR_LOOK_NS	 (1 * NS_PER_MS)
#define DOOR_LOOKS_MAX	 200		/* queues that never empty: cut them */
#define DOOR_SETTLE_NS	 (50 * NS_PER_MS) /* a handshake that had begun ends */
#define DOOR_LINGER_NS	 (200 * NS_PER_MS)
#define HAND_OVER_NS	 (200 * NS_PER_MS)
#define HAND_CUT_NS	 (2 * NS_PER_SEC)

static struct loop *loop;
static struct http_server *http;
static int doors[DOORS_MAX];
static uint32_t count, looks;
static uint64_t barred_ns, shut_ns;
static struct timer watch_timer, look_timer, linger_timer, hand_timer, cut_timer;
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
	memmove(&doors[i], &doors[i + 1], (--count - i) * sizeof(doors[0]));
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

/*
 * From now on the kernel drops the first packet of a connection at this socket;
 * its client repeats it after a second and is refused then. What has begun its
 * handshake goes on. Without this a connection that comes between the last look
 * at the queue and the end of listening is reset.
 */
static void
bar(int fd)
{
	struct sock_filter drop_first[] = {
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 13),	/* flags, RFC 9293 3.1 */
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, TH_SYN | TH_ACK),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, TH_SYN, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, 0),
		BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
	};
	struct sock_fprog program = { ARRAY_LEN(drop_first), drop_first };

	if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program,
	    sizeof(program)) != 0)
		log_warn("no filter at a listening socket, a connection that "
		    "comes while it closes may be reset os=\"%s\"", strerrordesc_np(errno));
}

static void
on_look(struct timer *t)
{
	uint64_t now_ns = loop_now_ns(loop);
	bool settled = now_ns - barred_ns >= DOOR_SETTLE_NS;
	uint32_t i;

	looks++;
	for (i = count; i-- > 0; ) {
		int fd = doors[i];

		if (looks < DOOR_LOOKS_MAX && (!settled || has_queue(fd)))
			continue;
		shutdown(fd, SHUT_RD);
		door_shut(fd);
	}
	if (count > 0)
		timer_set(loop_timers(loop), t, now_ns + DOOR_LOOK_NS);
	else
		timer_set(loop_timers(loop), &linger_timer, now_ns +
		    (http_connections(http) > 0 ? DOOR_LINGER_NS : 0));
}

static void
on_hand_over(struct timer *t)
{
	uint64_t now_ns = loop_now_ns(loop);

	if (http_listening(http) || (http_connections(http) > 0 &&
	    now_ns - shut_ns < HAND_OVER_NS)) {
		timer_set(loop_timers(loop), t, now_ns + DOOR_LOOK_NS);
		return;
	}
	http_close_idle(http);
	drained = true;
}

static void
on_cut(struct timer *t)
{
	(void)t;
	http_cut(http);
}

void
door_init(struct loop *l, struct http_server *h)
{
	loop = l;
	http = h;
	timer_init(&watch_timer, on_watch);
	timer_init(&look_timer, on_look);
	timer_init(&linger_timer, on_linger);
	timer_init(&hand_timer, on_hand_over);
	timer_init(&cut_timer, on_cut);
	timer_set(loop_timers(loop), &watch_timer, loop_now_ns(loop) +
	    DOOR_WATCH_NS);
}

void
door_retire(bool alone)
{
	uint32_t i;

	http_announce(http);
	/* Its own is the first that it opened. */
	while (alone && count > 1)
		door_shut(doors[count - 1]);
	for (i = 0; i < count; i++)
		bar(doors[i]);
	barred_ns = loop_now_ns(loop);
	timer_set(loop_timers(loop), &look_timer, loop_now_ns(loop));
}

void
door_hand_over(void)
{
	http_announce(http);
	while (count > 0)
		door_shut(doors[0]);
	shut_ns = loop_now_ns(loop);
	timer_set(loop_timers(loop), &hand_timer, shut_ns);
	timer_set(loop_timers(loop), &cut_timer, shut_ns + HAND_CUT_NS);
}

bool
door_retired(void)
{
	return drained && http_connections(http) == 0;
}
