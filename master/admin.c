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
#include "common/fault.h"
#include "common/log.h"
#include "shm/mailbox.h"
#include "shm/mutex.h"
#include "shm/process.h"
#include "master/admin.h"

#define REQUEST_BYTES_MAX	1024
#define ANSWER_BYTES_MAX	(4u << 20)
#define CLIENT_NS		(5 * NS_PER_SEC)
#define WORDS_MAX		16

struct client {
	int fd;				/* -1: free */
	uint64_t deadline_ns;
	char request[REQUEST_BYTES_MAX];
	size_t got;
	bool answered;
	struct buf answer;
	size_t sent;
};

static const char *const commands[] = {
#define ADMIN(symbol, name, args, help) name,
#include "master/admin.def"
#undef ADMIN
};

static struct admin_plan plan;
static struct client clients[ADMIN_CLIENTS_MAX];
static int listener = -1;
static struct sockaddr_un address = { .sun_family = AF_UNIX };
static char text[400];

/* Answers: OK, UNHEALTHY or ERROR, then the body. */

static void
put(struct buf *out, const char *line)
{
	/* The first line always fits: the buffer is empty. */
	MUST(buf_append(out, line, strlen(line)));
}

static void
refuse(struct buf *out, const char *why)
{
	out->len = 0;
	put(out, "ERROR ");
	put(out, why);
	put(out, "\n");
}

static void
finish(struct buf *out, struct err e)
{
	if (err_is(e))
		refuse(out, e.what);
}

static void
do_status(struct buf *out, char **words, uint32_t count)
{
	bool json = false, check = false;
	uint32_t i;

	for (i = 1; i < count; i++) {
		if (strcmp(words[i], "--json") == 0)
			json = true;
		else if (strcmp(words[i], "--check") == 0)
			check = true;
		else {
			refuse(out, "status: --json and --check only");
			return;
		}
	}
	put(out, check && status_problems() > 0 ? "UNHEALTHY\n" : "OK\n");
	finish(out, json ? status_json(out, plan.server) :
	    status_text(out, plan.server));
}

static void
do_log_level(struct buf *out, char **words, uint32_t count)
{
	struct shm_command m = { .kind = SHM_MAIL_LOG_LEVEL };
	enum log_level level;
	uint16_t slot;

	if (count != 2 || !log_level_parse(words[1], &level)) {
		refuse(out, "log-level: error, warn, info or debug");
		return;
	}
	log_info("log level changed level=%s", words[1]);
	log_set_level(level);
	m.args[0] = level;
	put(out, "OK\n");
	for (slot = SHM_MAINTAINER; slot < shm_process_count(); slot++) {
		/* Who is not there starts with the master's level. */
		if (atomic_load(&shm_process_get(slot)->pid) != 0 &&
		    err_is(shm_mailbox_send(slot, &m)))
			put(out, "a process is too busy to be told, try again\n");
	}
}

static void
do_shutdown(struct buf *out)
{
	plan.shutdown();
	put(out, "OK\ndraining\n");
}

#ifdef MEMWALD_FAULTS
static void
do_fault(struct buf *out, char **words, uint32_t count)
{
	struct err e = OK;
	uint32_t i;

	put(out, "OK\n");
	for (i = 1; i < count && !err_is(e); i++)
		e = fault_set(words[i]);
	for (i = 0; i < FAULT_COUNT && !err_is(e); i++) {
		if (!buf_printf(out, "%s=%u\n", fault_name(i), fault_hits(i)))
			e = FAIL(NO_MEMORY, "list fault points");
	}
	finish(out, e);
}
#endif

static uint32_t
find_command(const char *word)
{
	uint32_t i;

	for (i = 0; i < ADMIN_COMMAND_COUNT; i++) {
		if (strcmp(commands[i], word) == 0)
			break;
	}
	return i;
}

void
admin_answer(char *line, struct buf *out)
{
	char *words[WORDS_MAX], *word;
	uint32_t count = 0;

	while (count < WORDS_MAX && (word = strsep(&line, " \t\r")) != NULL) {
		if (*word != '\0')
			words[count++] = word;
	}
	switch (count == 0 ? ADMIN_COMMAND_COUNT : find_command(words[0])) {
	case ADMIN_STATUS:
		do_status(out, words, count);
		break;
	case ADMIN_WORKERS:
		put(out, "OK\n");
		finish(out, status_workers(out));
		break;
	case ADMIN_STORES:
		put(out, "OK\n");
		finish(out, status_stores(out));
		break;
	case ADMIN_LOG_LEVEL:
		do_log_level(out, words, count);
		break;
	case ADMIN_SHUTDOWN:
		do_shutdown(out);
		break;
#ifdef MEMWALD_FAULTS
	case ADMIN_FAULT:
		do_fault(out, words, count);
		break;
#endif
	default:
		refuse(out, "no such command; see memwaldctl --help");
	}
}

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

struct err
admin_open(const struct admin_plan *p)
{
	struct err e;
	uint32_t i;
	int folder = -1;

	plan = *p;
	for (i = 0; i < ADMIN_CLIENTS_MAX; i++)
		clients[i].fd = -1;
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
	close(c->fd);
	c->fd = -1;
	buf_free(&c->answer);
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
admin_close(void)
{
	uint32_t i;

	for (i = 0; i < ADMIN_CLIENTS_MAX; i++) {
		if (clients[i].fd >= 0)
			drop(&clients[i]);
	}
	close(listener);
	listener = -1;
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
	c->answered = false;
	buf_init(&c->answer, ANSWER_BYTES_MAX);
}

static void
receive(struct client *c)
{
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
		admin_answer(c->request, &c->answer);
		c->answered = true;
	} else if (c->got == sizeof(c->request)) {
		refuse(&c->answer, "the request line is too long");
		c->answered = true;
	}
}

static void
send_answer(struct client *c)
{
	ssize_t n = send(c->fd, c->answer.ptr + c->sent,
	    c->answer.len - c->sent, MSG_NOSIGNAL);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0)
		c->sent += (size_t)n;
	if (n <= 0 || c->sent == c->answer.len)
		drop(c);
}

uint32_t
admin_polls(struct pollfd *polls)
{
	uint32_t i, n = 0;
	bool room = false;

	for (i = 0; i < ADMIN_CLIENTS_MAX; i++) {
		if (clients[i].fd < 0)
			room = true;
		else
			polls[n++] = (struct pollfd){ clients[i].fd,
			    clients[i].answered ? POLLOUT : POLLIN, 0 };
	}
	if (room)
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
	if (i < ADMIN_CLIENTS_MAX && !clients[i].answered)
		receive(&clients[i]);
	/* At once: most answers fit into the socket. */
	if (i < ADMIN_CLIENTS_MAX && clients[i].fd >= 0 && clients[i].answered)
		send_answer(&clients[i]);
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
