#include "common/base.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/clock.h"
#include "common/log.h"
#include "master/admin.h"
#include "master/call.h"
#include "master/command.h"

#define REQUEST_BYTES_MAX	1024
#define OUT_BYTES_MAX		(CALL_BODY_BYTES + 1024)
#define CLIENT_NS		(5 * NS_PER_SEC)
#define STEPS_A_TURN		4	/* of one client */
#define WAITING_MAX		12	/* leaves room for a status */
#define PROGRESS_NS		(200 * NS_PER_MS)	/* no more often */
#define SIGN_OF_LIFE_NS		(2 * NS_PER_SEC)	/* no less often */

struct client {
	int fd;				/* -1: free */
	uint64_t deadline_ns;
	char request[REQUEST_BYTES_MAX];
	size_t got;
	bool asked;			/* a call is under way */
	enum call_step step;
	struct call call;
	struct buf out;			/* framed, being sent */
	size_t sent;
	uint64_t told_ns;		/* of the last progress */
	uint64_t told_done, told_total;
};

static struct admin_plan plan;
static struct client clients[ADMIN_CLIENTS_MAX];
static int listener = -1;
static struct sockaddr_un address = { .sun_family = AF_UNIX };
static char text[400];

/* The socket file. */

static struct err
fail_path(enum err_kind kind, const char *path, const char *why)
{
	struct err e = { (uint16_t)kind, errno, text };

	snprintf(text, sizeof(text), "admin socket %s %s", path, why);
	if (kind != ERR_IO)
		e.os = 0;
	return e;
}

/* Removes a file that nobody listens on. EXISTS: somebody does. */
static struct err
clear_path(const char *path)
{
	struct stat st;
	struct err e = OK;
	int fd;

	if (lstat(path, &st) < 0)
		return errno == ENOENT ? OK : fail_path(ERR_IO, path,
		    "cannot be looked at");
	if (!S_ISSOCK(st.st_mode))
		return fail_path(ERR_BAD_INPUT, path, "is a file but no socket: "
		    "name another with --admin-socket");
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return fail_path(ERR_IO, path, "cannot be tried");
	/* A full queue is somebody, too. */
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 ||
	    errno == EAGAIN)
		e = fail_path(ERR_EXISTS, path, "is served by another instance "
		    "on this directory: name this one's own with --admin-socket");
	else if (unlink(path) < 0 && errno != ENOENT)
		e = fail_path(ERR_IO, path, "is stale and cannot be removed");
	close(fd);
	return e;
}

static struct err
bind_path(const char *path)
{
	mode_t mask;
	int n;

	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
	    0);
	if (listener < 0)
		return fail_path(ERR_IO, path, "cannot be made");
	mask = umask(0177);
	n = bind(listener, (struct sockaddr *)&address, sizeof(address));
	umask(mask);
	if (n < 0 || listen(listener, 16) < 0)
		return fail_path(ERR_IO, path, "cannot be bound");
	return OK;
}

/* Two starts on one folder must not both find the path free. */
static struct err
lock_folder(const char *path, int *fd)
{
	char folder[sizeof(address.sun_path)];
	char *slash;

	snprintf(folder, sizeof(folder), "%s", path);
	slash = strrchr(folder, '/');
	if (slash == NULL)
		snprintf(folder, sizeof(folder), ".");
	else
		slash[slash == folder] = '\0';
	*fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (*fd < 0 || flock(*fd, LOCK_EX) < 0)
		return fail_path(ERR_IO, path, "has no folder that can be opened");
	return OK;
}

static void
init(const struct admin_plan *p)
{
	uint32_t i;

	plan = *p;
	command_init(p);
	for (i = 0; i < ADMIN_CLIENTS_MAX; i++)
		clients[i].fd = -1;
}

struct err
admin_adopt(const struct admin_plan *p, int fd)
{
	struct sockaddr_un is = { .sun_family = AF_UNSPEC };
	socklen_t len = sizeof(is);

	init(p);
	if (getsockname(fd, (struct sockaddr *)&is, &len) < 0 ||
	    is.sun_family != AF_UNIX ||
	    strncmp(is.sun_path, p->path, sizeof(is.sun_path)) != 0)
		return FAIL(BAD_INPUT, "an upgrade keeps --admin-socket: restart "
		    "to change it");
	listener = fd;
	return OK;
}

int
admin_fd(void)
{
	return listener;
}

struct err
admin_open(const struct admin_plan *p)
{
	struct err e;
	int folder = -1;

	init(p);
	if (strlen(p->path) >= sizeof(address.sun_path))
		return fail_path(ERR_BAD_INPUT, p->path, "has a path of more than "
		    "107 bytes: name a shorter one with --admin-socket");
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", p->path);
	e = lock_folder(p->path, &folder);
	if (!err_is(e))
		e = clear_path(p->path);
	if (!err_is(e))
		e = bind_path(p->path);
	if (folder >= 0)
		close(folder);
	return e;
}

static void
drop(struct client *c)
{
	if (c->asked)
		call_end(&c->call);
	close(c->fd);
	c->fd = -1;
	buf_free(&c->out);
}

void
admin_forget(void)
{
	uint32_t i;

	for (i = 0; i < ADMIN_CLIENTS_MAX; i++) {
		if (clients[i].fd >= 0)
			close(clients[i].fd);
	}
	close(listener);
}

void
admin_close(bool keep_file)
{
	uint32_t i;

	for (i = 0; i < ADMIN_CLIENTS_MAX; i++) {
		if (clients[i].fd >= 0)
			drop(&clients[i]);
	}
	close(listener);
	listener = -1;
	if (!keep_file)
		unlink(plan.path);
}

/* Clients. */

static void
take_client(uint64_t now_ns)
{
	struct client *c = clients;
	int fd;

	while (c < clients + ADMIN_CLIENTS_MAX && c->fd >= 0)
		c++;
	if (c == clients + ADMIN_CLIENTS_MAX)
		return;
	fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd < 0)
		return;
	c->fd = fd;
	c->deadline_ns = now_ns + CLIENT_NS;
	c->got = c->sent = 0;
	c->asked = false;
	buf_init(&c->out, OUT_BYTES_MAX);
}

static void
begin_call(struct client *c, char *line, uint64_t now_ns)
{
	call_begin(&c->call, line, now_ns);
	c->asked = true;
	c->step = CALL_MORE;
	c->told_ns = now_ns;
	c->told_done = c->told_total = 0;
	/* Beyond its deadline the call ends, and then there is its last line
	 * to be sent. */
	c->deadline_ns = MAX(c->deadline_ns, c->call.deadline_ns + CLIENT_NS);
}

static void
receive(struct client *c, uint64_t now_ns)
{
	static char too_long[] = "";
	ssize_t n = recv(c->fd, c->request + c->got,
	    sizeof(c->request) - c->got, 0);
	char *end;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		drop(c);
		return;
	}
	c->got += (size_t)n;
	end = memchr(c->request, '\n', c->got);
	if (end != NULL) {
		*end = '\0';
		begin_call(c, c->request, now_ns);
	} else if (c->got == sizeof(c->request)) {
		begin_call(c, too_long, now_ns);
		call_refuse(&c->call, "the request line is too long");
	}
}

/* The last line of an answer. */
static bool
frame_last(struct client *c)
{
	static const char *const lines[] = {
#define ADMIN_EXIT(symbol, status, line, help) line,
#include "master/admin.def"
#undef ADMIN_EXIT
	};

	return buf_printf(&c->out, c->call.exit == ADMIN_EXIT_REFUSED ?
	    "%s %s\n" : "%s\n", lines[c->call.exit], c->call.text);
}

/* Progress that is news, or a sign of life. */
static bool
frame_progress(struct client *c, uint64_t now_ns)
{
	const struct call *call = &c->call;
	bool news = call->progress_known &&
	    (call->progress_done != c->told_done ||
	    call->progress_total != c->told_total);

	if (c->step != CALL_WAIT || now_ns - c->told_ns <
	    (news ? PROGRESS_NS : SIGN_OF_LIFE_NS))
		return true;
	c->told_ns = now_ns;
	c->told_done = call->progress_done;
	c->told_total = call->progress_total;
	return buf_printf(&c->out, "PROGRESS %llu %llu %s\n",
	    (unsigned long long)call->progress_done,
	    (unsigned long long)call->progress_total, call->progress_text);
}

static uint32_t
waiting_calls(void)
{
	uint32_t i, n = 0;

	for (i = 0; i < ADMIN_CLIENTS_MAX; i++)
		n += clients[i].fd >= 0 && clients[i].asked &&
		    clients[i].step == CALL_WAIT;
	return n;
}

/* A step, and what it wrote as it is sent. The buffer takes it: nothing else is
 * in it, and a body has its bound. */
static void
step_call(struct client *c, uint64_t now_ns)
{
	struct buf *body = &c->call.body;
	bool ok = true, waited = c->step == CALL_WAIT;

	c->out.len = c->sent = 0;
	c->step = call_step(&c->call, now_ns);
	if (c->step == CALL_WAIT && !waited && waiting_calls() > WAITING_MAX)
		c->step = call_refuse(&c->call, "too many commands are under "
		    "way, try again later");
	if (body->len > 0)
		ok = buf_printf(&c->out, "BODY %zu\n", body->len) &&
		    buf_append(&c->out, body->ptr, body->len);
	body->len = 0;
	ok = ok && frame_progress(c, now_ns);
	if (ok && c->step == CALL_DONE)
		ok = frame_last(c);
	if (!ok)
		drop(c);
}

/* False: the socket takes no more, or the client is gone. */
static bool
send_out(struct client *c)
{
	ssize_t n = send(c->fd, c->out.ptr + c->sent, c->out.len - c->sent,
	    MSG_NOSIGNAL);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n <= 0) {
		drop(c);
		return false;
	}
	c->sent += (size_t)n;
	return c->sent == c->out.len;
}

/* At once: most answers fit into the socket. Longer ones go on next turn. */
static void
go_on(struct client *c, uint64_t now_ns)
{
	uint32_t n;

	for (n = 0; n < STEPS_A_TURN; n++) {
		if (c->sent < c->out.len && !send_out(c))
			return;
		if (c->step == CALL_DONE) {
			drop(c);
			return;
		}
		if (n > 0 && c->step == CALL_WAIT)
			return;
		step_call(c, now_ns);
		if (c->fd < 0)
			return;
	}
}

/* As far as the socket takes it: nobody is waited for. */
static void
say_last(struct client *c, uint64_t now_ns, bool replaced)
{
	bool looked = false;

	while (c->fd >= 0 && (c->sent == c->out.len || send_out(c))) {
		if (c->step == CALL_DONE) {
			if (replaced)
				drop(c);
			else
				c->fd = -1;	/* the kernel's to close */
			return;
		}
		if (!replaced && (c->step == CALL_MORE || looked))
			return;
		if (c->step == CALL_WAIT && looked)
			call_refuse(&c->call, "another binary took over "
			    "meanwhile: ask it again");
		looked = c->step == CALL_WAIT;
		step_call(c, now_ns);
	}
}

void
admin_farewell(uint64_t now_ns, bool replaced)
{
	uint32_t i;

	for (i = 0; i < ADMIN_CLIENTS_MAX; i++) {
		struct client *c = &clients[i];

		/* His line may be there, and nobody has looked. */
		if (c->fd >= 0 && !c->asked && replaced)
			receive(c, now_ns);
		if (c->fd >= 0 && c->asked)
			say_last(c, now_ns, replaced);
	}
}

uint32_t
admin_polls(struct pollfd *polls, bool take_new)
{
	uint32_t i, n = 0;
	bool room = false;

	for (i = 0; i < ADMIN_CLIENTS_MAX; i++) {
		const struct client *c = &clients[i];
		/* One who waits is only watched for his end. */
		short events = !c->asked ? POLLIN :
		    c->sent < c->out.len || c->step == CALL_MORE ? POLLOUT : 0;

		if (c->fd < 0)
			room = true;
		else
			polls[n++] = (struct pollfd){ c->fd, events, 0 };
	}
	if (room && take_new)
		polls[n++] = (struct pollfd){ listener, POLLIN, 0 };
	return n;
}

static void
serve_one(const struct pollfd *p, uint64_t now_ns)
{
	uint32_t i;

	if (p->fd == listener) {
		take_client(now_ns);
		return;
	}
	for (i = 0; i < ADMIN_CLIENTS_MAX; i++) {
		if (clients[i].fd == p->fd)
			break;
	}
	if (i == ADMIN_CLIENTS_MAX)
		return;
	if (!clients[i].asked)
		receive(&clients[i], now_ns);
	else if ((p->revents & (POLLHUP | POLLERR)) != 0)
		drop(&clients[i]);
}

void
admin_serve(const struct pollfd *polls, uint32_t count, uint64_t now_ns)
{
	uint32_t i;

	for (i = 0; i < count; i++) {
		if (polls[i].revents != 0)
			serve_one(&polls[i], now_ns);
	}
	for (i = 0; i < ADMIN_CLIENTS_MAX; i++) {
		if (clients[i].fd >= 0 && clients[i].asked)
			go_on(&clients[i], now_ns);
	}
	for (i = 0; i < ADMIN_CLIENTS_MAX; i++) {
		if (clients[i].fd >= 0 && clients[i].deadline_ns <= now_ns)
			drop(&clients[i]);
	}
}

uint64_t
admin_next_ns(void)
{
	uint64_t next_ns = UINT64_MAX;
	uint32_t i;

	for (i = 0; i < ADMIN_CLIENTS_MAX; i++) {
		if (clients[i].fd >= 0)
			next_ns = MIN(next_ns, clients[i].deadline_ns);
	}
	return next_ns;
}
