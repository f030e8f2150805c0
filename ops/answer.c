#include "common/base.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "master/call.h"
#include "ops/answer.h"

/* The master says something more often than that, whatever it does. */
#define SILENCE_SECS	10
#define LINE_BYTES	1024
#define BAR_COLUMNS	30

static const struct { const char *line; int status; } ends[] = {
#define ADMIN_EXIT(symbol, status, line, help) { line, status },
#include "master/admin.def"
#undef ADMIN_EXIT
};

static bool bar_drawn;

static int
connect_to(const struct sockaddr_un *address)
{
	struct timeval limit = { SILENCE_SECS, 0 };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (connect(fd, (const struct sockaddr *)address,
	    sizeof(*address)) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

static void
end_bar(void)
{
	if (bar_drawn)
		fputc('\n', stderr);
	bar_drawn = false;
}

/* One line that is drawn over; it must not be wider than the terminal. */
static void
draw_bar(uint64_t done, uint64_t total, const char *text)
{
	struct winsize size = { .ws_col = 0 };
	int width = 80, filled = BAR_COLUMNS, i;
	char line[LINE_BYTES], bar[BAR_COLUMNS + 1];

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
		width = size.ws_col;
	if (total > 0)
		filled = (int)(BAR_COLUMNS * MIN(done, total) / total);
	for (i = 0; i < BAR_COLUMNS; i++)
		bar[i] = i < filled ? '#' : '.';
	bar[BAR_COLUMNS] = '\0';
	snprintf(line, sizeof(line), "[%s] %llu/%llu %s", bar,
	    (unsigned long long)done, (unsigned long long)total, text);
	fprintf(stderr, "\r\033[K%.*s", MAX(width - 1, 1), line);
	fflush(stderr);
	bar_drawn = true;
}

/* "PROGRESS done total text" */
static void
show_progress(const char *line)
{
	static char last[LINE_BYTES];
	unsigned long long done, total;
	int at = 0;

	if (sscanf(line, "PROGRESS %llu %llu %n", &done, &total, &at) != 2 ||
	    at == 0)
		return;
	if (isatty(STDERR_FILENO))
		draw_bar(done, total, line + at);
	else if (strcmp(last, line) != 0)
		fprintf(stderr, "%llu of %llu %s\n", done, total, line + at);
	snprintf(last, sizeof(last), "%s", line);
}

static bool
copy_body(FILE *from, unsigned long long left)
{
	char piece[65536];
	size_t n;

	for (; left > 0; left -= n) {
		n = fread(piece, 1, MIN(left, sizeof(piece)), from);
		if (n == 0 || fwrite(piece, 1, n, stdout) != n)
			return false;
	}
	return fflush(stdout) == 0;
}

static int
cut_off(FILE *from)
{
	bool silent = errno == EAGAIN || errno == EWOULDBLOCK;

	fprintf(stderr, ferror(from) && silent ?
	    "memwaldctl: nothing was heard for %d s\n" :
	    "memwaldctl: the answer was cut off\n", SILENCE_SECS);
	return ends[ADMIN_EXIT_UNREACHABLE].status;
}

/* The last line says how it ended. */
static int
take_end(const char *line, FILE *from)
{
	size_t i;

	/* After a shutdown the server's end is the connection's. */
	while (getc(from) != EOF)
		continue;

	if (strncmp(line, "ERROR ", 6) == 0) {
		fprintf(stderr, "memwaldctl: %s\n", line + 6);
		return ends[ADMIN_EXIT_REFUSED].status;
	}
	for (i = 0; i < ARRAY_LEN(ends); i++) {
		if (*ends[i].line != '\0' && strcmp(ends[i].line, line) == 0)
			break;
	}
	if (i == ARRAY_LEN(ends)) {
		fprintf(stderr, "memwaldctl: the server is of another "
		    "version, it says: %s\n", line);
		return ends[ADMIN_EXIT_REFUSED].status;
	}
	if (i == ADMIN_EXIT_LATE)
		fprintf(stderr, "memwaldctl: not done in time; what has begun "
		    "goes on, and a decision that is being written may still "
		    "come to stand: see ordinals, and status\n");
	return ends[i].status;
}

static int
take_answer(FILE *from, bool json)
{
	char line[LINE_BYTES];
	unsigned long long length;

	while (fgets(line, sizeof(line), from) != NULL) {
		line[strcspn(line, "\n")] = '\0';
		if (strncmp(line, "PROGRESS ", 9) == 0) {
			if (!json)
				show_progress(line);
			continue;
		}
		end_bar();
		if (sscanf(line, "BODY %llu", &length) != 1)
			return take_end(line, from);
		if (!copy_body(from, length))
			break;
	}
	end_bar();
	return cut_off(from);
}

int
answer_ask(const struct answer_plan *plan)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	size_t len = strlen(plan->line);
	FILE *from;
	int fd, status;

	if (strlen(plan->socket_path) >= sizeof(address.sun_path)) {
		fprintf(stderr, "memwaldctl: the socket's path is longer than "
		    "%zu bytes\n", sizeof(address.sun_path) - 1);
		return ends[ADMIN_EXIT_REFUSED].status;
	}
	snprintf(address.sun_path, sizeof(address.sun_path), "%s",
	    plan->socket_path);
	fd = connect_to(&address);
	if (fd < 0) {
		fprintf(stderr, "memwaldctl: no server answers on %s: %s\n",
		    address.sun_path, strerrordesc_np(errno));
		return ends[ADMIN_EXIT_UNREACHABLE].status;
	}
	from = fdopen(fd, "r");
	if (from == NULL ||
	    send(fd, plan->line, len, MSG_NOSIGNAL) != (ssize_t)len) {
		fprintf(stderr, "memwaldctl: cannot ask on %s\n",
		    address.sun_path);
		return ends[ADMIN_EXIT_UNREACHABLE].status;
	}
	status = take_answer(from, plan->json);
	fclose(from);
	return status;
}
