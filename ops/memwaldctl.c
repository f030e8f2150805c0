#include "common/base.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

/*
 * memwaldctl - asks the master of a running server, and prints what it says.
 *
 * Finds the admin socket by --admin-socket (or --socket), else
 * MEMWALD_ADMIN_SOCKET, else admin.sock in the data directory (--data-dir,
 * MEMWALD_DATA_DIR, ./lance-data). Signals nobody and reads no pid file: who
 * answers on the socket is the server. The protocol is that of
 * master/admin.h; the commands are the table that the master has.
 */

#define ANSWER_SECS 10
#define LINE_BYTES 1024

enum exit_status {
	DONE = 0,
	REFUSED = 1,		/* usage, or the server said no */
	UNREACHABLE = 2,
	UNHEALTHY = 3		/* status --check */
};

static const struct {
	const char *name, *args, *help;
} commands[] = {
#define ADMIN(symbol, name, args, help) { name, args, help },
#include "master/admin.def"
#undef ADMIN
};

static int
usage(FILE *to)
{
	size_t i;

	fprintf(to, "usage: memwaldctl [--admin-socket PATH | --data-dir DIR] "
	    "COMMAND [ARGUMENT]...\n\n");
	for (i = 0; i < ARRAY_LEN(commands); i++)
		fprintf(to, "  %s %s\n      %s\n", commands[i].name,
		    commands[i].args, commands[i].help);
	fprintf(to, "\nThe socket is --admin-socket, else MEMWALD_ADMIN_SOCKET, "
	    "else admin.sock in\n--data-dir, MEMWALD_DATA_DIR or ./lance-data.\n"
	    "Exit status: 0 done, 1 usage or refused, 2 nobody answers, 3 not "
	    "clean (status --check).\n");
	return to == stdout ? DONE : REFUSED;
}

/* The value of --name or --name=, moving *a; NULL: another argument. */
static const char *
value_of(char **argv, int argc, int *a, const char *name)
{
	size_t len = strlen(name);

	if (strncmp(argv[*a], name, len) != 0)
		return NULL;
	if (argv[*a][len] == '=')
		return argv[*a] + len + 1;
	if (argv[*a][len] != '\0' || *a + 1 >= argc)
		return NULL;
	return argv[++*a];
}

static bool
choose_path(const char *socket_path, const char *dir, char *path, size_t bytes)
{
	int n;

	if (socket_path == NULL && dir == NULL)
		socket_path = getenv("MEMWALD_ADMIN_SOCKET");
	if (dir == NULL)
		dir = getenv("MEMWALD_DATA_DIR");
	if (dir == NULL || *dir == '\0')
		dir = "./lance-data";
	if (socket_path != NULL && *socket_path != '\0')
		n = snprintf(path, bytes, "%s", socket_path);
	else
		n = snprintf(path, bytes, "%s/admin.sock", dir);
	return (size_t)n < bytes;
}

static int
connect_to(const struct sockaddr_un *address)
{
	struct timeval limit = { ANSWER_SECS, 0 };
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

/* Prints the body of the answer; its first line decides. */
static int
print_answer(FILE *from)
{
	char line[LINE_BYTES], piece[65536];
	int status;
	size_t n;

	if (fgets(line, sizeof(line), from) == NULL) {
		fprintf(stderr, "memwaldctl: no answer within %d s\n",
		    ANSWER_SECS);
		return UNREACHABLE;
	}
	if (strncmp(line, "ERROR ", 6) == 0) {
		fprintf(stderr, "memwaldctl: %s", line + 6);
		return REFUSED;
	}
	status = strcmp(line, "UNHEALTHY\n") == 0 ? UNHEALTHY : DONE;
	while ((n = fread(piece, 1, sizeof(piece), from)) > 0)
		fwrite(piece, 1, n, stdout);
	if (ferror(from)) {
		fprintf(stderr, "memwaldctl: the answer was cut off\n");
		return UNREACHABLE;
	}
	return status;
}

static int
ask(const struct sockaddr_un *address, const char *line)
{
	size_t len = strlen(line);
	FILE *answer;
	int fd, status;

	fd = connect_to(address);
	if (fd < 0) {
		fprintf(stderr, "memwaldctl: no server answers on %s: %s\n",
		    address->sun_path, strerrordesc_np(errno));
		return UNREACHABLE;
	}
	answer = fdopen(fd, "r");
	if (answer == NULL || send(fd, line, len, MSG_NOSIGNAL) != (ssize_t)len) {
		fprintf(stderr, "memwaldctl: cannot ask on %s\n",
		    address->sun_path);
		return UNREACHABLE;
	}
	status = print_answer(answer);
	fclose(answer);
	return status;
}

/* The request line of what is left of the arguments. */
static bool
join(char **words, int count, char *line, size_t bytes)
{
	size_t at = 0;
	int i;

	for (i = 0; i < count; i++) {
		int n = snprintf(line + at, bytes - at, "%s%s", i > 0 ? " " : "",
		    words[i]);

		at += (size_t)n;
		if (at >= bytes - 1 || strchr(words[i], '\n') != NULL)
			return false;
	}
	line[at] = '\n';
	line[at + 1] = '\0';
	return true;
}

int
main(int argc, char **argv)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const char *socket_path = NULL, *dir = NULL, *v;
	char line[LINE_BYTES];
	int a;

	for (a = 1; a < argc && strncmp(argv[a], "--", 2) == 0; a++) {
		if (strcmp(argv[a], "--help") == 0)
			return usage(stdout);
		if ((v = value_of(argv, argc, &a, "--admin-socket")) != NULL ||
		    (v = value_of(argv, argc, &a, "--socket")) != NULL)
			socket_path = v;
		else if ((v = value_of(argv, argc, &a, "--data-dir")) != NULL)
			dir = v;
		else
			return usage(stderr);
	}
	if (a == argc)
		return usage(stderr);
	if (!choose_path(socket_path, dir, address.sun_path,
	    sizeof(address.sun_path))) {
		fprintf(stderr, "memwaldctl: the socket's path is too long\n");
		return REFUSED;
	}
	if (!join(argv + a, argc - a, line, sizeof(line))) {
		fprintf(stderr, "memwaldctl: the request is too long\n");
		return REFUSED;
	}
	return ask(&address, line);
}
