#include "common/base.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/version.h"
#include "master/call.h"
#include "ops/answer.h"
#include "ops/manual.h"

/*
 * memwaldctl - asks the master of a running server, and prints what it says.
 *
 * Finds the admin socket by --admin-socket (or --socket), else
 * MEMWALD_ADMIN_SOCKET, else admin.sock in the data directory (--data-dir,
 * MEMWALD_DATA_DIR, ./lance-data). Signals nobody and reads no pid file: who
 * answers on the socket is the server. The words after that go to the master
 * as they are, which alone judges them, unless one would not be one word there;
 * the protocol is that of master/admin.h.
 */

#define LINE_BYTES 1024

static int
refused(void)
{
	static const int statuses[] = {
#define ADMIN_EXIT(symbol, status, line, help) status,
#include "master/admin.def"
#undef ADMIN_EXIT
	};

	return statuses[ADMIN_EXIT_REFUSED];
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

static void
choose_path(const char *socket_path, const char *dir, char *path, size_t bytes)
{
	if (socket_path == NULL && dir == NULL)
		socket_path = getenv("MEMWALD_ADMIN_SOCKET");
	if (dir == NULL)
		dir = getenv("MEMWALD_DATA_DIR");
	if (dir == NULL || *dir == '\0')
		dir = "./lance-data";
	if (socket_path != NULL && *socket_path != '\0')
		snprintf(path, bytes, "%s", socket_path);
	else
		snprintf(path, bytes, "%s/admin.sock", dir);
}

/* The server takes words apart at what is between them: one that is empty, or
 * has such in it, would be no word, or several. */
static bool
is_word(const char *word)
{
	return *word != '\0' && strpbrk(word, " \t\r\n") == NULL;
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
		if (at >= bytes - 1 || !is_word(words[i]))
			return false;
	}
	line[at] = '\n';
	line[at + 1] = '\0';
	return true;
}

static bool
has_word(char **words, int count, const char *word)
{
	int i;

	for (i = 0; i < count; i++) {
		if (strcmp(words[i], word) == 0)
			return true;
	}
	return false;
}

static int
ask(const char *socket_path, char **words, int count)
{
	char line[LINE_BYTES];
	struct answer_plan plan = { socket_path, line,
	    has_word(words, count, "--json") };

	if (has_word(words, count, "--help")) {
		if (manual_help(stdout, words[0]))
			return 0;
		fprintf(stderr, "memwaldctl: no such command; see memwaldctl "
		    "--help\n");
		return refused();
	}
	if (!join(words, count, line, sizeof(line))) {
		fprintf(stderr, "memwaldctl: a word of the request is empty "
		    "or has white space in it, or it is too long\n");
		return refused();
	}
	return answer_ask(&plan);
}

int
main(int argc, char **argv)
{
	const char *socket_path = NULL, *dir = NULL, *v;
	static char path[8192];
	int a;

	for (a = 1; a < argc && strncmp(argv[a], "--", 2) == 0; a++) {
		if (strcmp(argv[a], "--help") == 0)
			return manual_help(stdout, NULL) ? 0 : refused();
		if (strcmp(argv[a], "--version") == 0) {
			printf("memwaldctl %s\n", MEMWALD_VERSION);
			return 0;
		}
		if (strcmp(argv[a], "--help-man") == 0) {
			manual_page(stdout);
			return 0;
		}
		if (strcmp(argv[a], "--completion") == 0) {
			manual_completion(stdout);
			return 0;
		}
		if ((v = value_of(argv, argc, &a, "--admin-socket")) != NULL ||
		    (v = value_of(argv, argc, &a, "--socket")) != NULL) {
			socket_path = v;
		} else if ((v = value_of(argv, argc, &a, "--data-dir")) !=
		    NULL) {
			dir = v;
		} else {
			fprintf(stderr, "memwaldctl: %s is no option before a "
			    "command, or lacks its value\n", argv[a]);
			return refused();
		}
	}
	if (a == argc) {
		fprintf(stderr, "memwaldctl: no command; see memwaldctl "
		    "--help\n");
		return refused();
	}
	choose_path(socket_path, dir, path, sizeof(path));
	return ask(path, argv + a, argc - a);
}
