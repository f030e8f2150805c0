#include "common/base.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/fault.h"
#include "common/log.h"
#include "master/takeover.h"
#include "master/upgrade.h"

/* What a new master is given; that it takes over is for e2e/c_upgrade.py. */

#define FDS 7			/* loaded, family, lock, admin, three to listen */

static int fds[FDS], other_end;

static int
setup(void **state)
{
	int ends[2];

	(void)state;
	/* Nobody keeps the writing end of the family's: it has ended. */
	if (pipe(ends) != 0)
		return 1;
	other_end = ends[0];
	fds[0] = ends[1];
	if (pipe(ends) != 0)
		return 1;
	fds[1] = ends[0];
	close(ends[1]);
	for (int i = 2; i < FDS; i++)
		fds[i] = open("/dev/null", O_RDONLY);
	return fds[FDS - 1] < 0;
}

static int
teardown(void **state)
{
	(void)state;
	for (int i = 0; i < FDS; i++)
		close(fds[i]);
	close(other_end);
	return 0;
}

/* The agreement with so many descriptors, and what stands behind it. */
static struct err
read_text(struct takeover *t, const char *begin, int count, const char *end)
{
	char text[SHM_WORKERS_LIMIT * 16];
	int n = snprintf(text, sizeof(text), "%s", begin);

	for (int i = 0; i < count; i++)
		n += snprintf(text + n, sizeof(text) - (size_t)n, " %d",
		    fds[i]);
	snprintf(text + n, sizeof(text) - (size_t)n, "%s", end);
	assert_int_equal(setenv(UPGRADE_ENV, text, 1), 0);
	return takeover_read(t);
}

static void
an_ordinary_start(void **state)
{
	struct takeover t;

	(void)state;
	assert_int_equal(unsetenv(UPGRADE_ENV), 0);
	assert_false(err_is(takeover_read(&t)));
	assert_int_equal(t.listen_count, 0);
	assert_int_equal(t.loaded_fd, -1);
}

static void
all_of_it_is_read(void **state)
{
	struct takeover t;
	char byte;

	(void)state;
	assert_false(err_is(read_text(&t, "1 2", FDS, "")));
	assert_null(getenv(UPGRADE_ENV));
	assert_int_equal(t.workers, 2);
	assert_int_equal(t.loaded_fd, fds[0]);
	assert_int_equal(t.family_fd, fds[1]);
	assert_int_equal(t.lock_fd, fds[2]);
	assert_int_equal(t.admin_fd, fds[3]);
	assert_int_equal(t.listen_count, 3);
	assert_memory_equal(t.listen_fds, fds + 4, 3 * sizeof(int));
	/* None of them is for our children. */
	for (int i = 0; i < FDS; i++)
		assert_int_equal(fcntl(fds[i], F_GETFD), FD_CLOEXEC);

	/* It says once that it is loaded, and sees that the family ended. */
	assert_false(err_is(fault_set("takeover_loaded=delay:1")));
	takeover_loaded(&t);
	takeover_loaded(&t);
	assert_int_equal(read(other_end, &byte, 1), 1);
	assert_int_equal(read(other_end, &byte, 1), 0);
	assert_int_equal(fault_hits(FAULT_takeover_loaded), 1);
	assert_true(takeover_is_due(&t));
	takeover_end(&t);
	takeover_end(&t);
	assert_int_equal(fcntl(fds[1], F_GETFD), -1);
}

static void
whatever_else_is_refused(void **state)
{
	/* begin, descriptors, end */
	static const struct {
		const char *begin;
		int count;
		const char *end;
	} texts[] = {
		{ "", 0, "" }, { "1", 0, "" }, { "x", 0, "" },
		{ "2 2", FDS, "" },		/* another version */
		{ "1 0", FDS, "" },		/* no workers */
		{ "1 -1", FDS, "" },
		{ "1 257", FDS, "" },
		{ "1 x", FDS, "" },
		{ "12", FDS, "" },
		{ "1 2", 3, "" },		/* one is missing */
		{ "1 2", 4, "" },		/* nothing to listen */
		{ "1 4", FDS, "" },		/* fewer than there are workers */
		{ "1 2", FDS, " " },
		{ "1 2", FDS, "x" },
		{ "1 2", FDS, " 1000000" },	/* not open */
		{ "1 2", FDS, " 99999999999999999999" },
		{ "1 2", FDS, " -1" },
		{ "1 2", FDS, " 0" },		/* a standard stream */
	};
	struct takeover t;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		struct err e = read_text(&t, texts[i].begin, texts[i].count,
		    texts[i].end);

		if (e.kind != ERR_BAD_INPUT)
			fail_msg("\"%s\" %d \"%s\" was taken", texts[i].begin,
			    texts[i].count, texts[i].end);
		assert_null(getenv(UPGRADE_ENV));
	}
}

static void
more_sockets_than_there_can_be(void **state)
{
	char many[SHM_WORKERS_LIMIT * 12];
	struct takeover t;
	size_t n = 0;

	(void)state;
	for (uint32_t i = 0; i < SHM_WORKERS_LIMIT - 3; i++)
		n += (size_t)snprintf(many + n, sizeof(many) - n, " %d",
		    fds[4]);
	assert_false(err_is(read_text(&t, "1 2", FDS, many)));
	assert_int_equal(t.listen_count, SHM_WORKERS_LIMIT);
	snprintf(many + n, sizeof(many) - n, " %d", fds[4]);
	assert_int_equal(read_text(&t, "1 2", FDS, many).kind, ERR_BAD_INPUT);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(an_ordinary_start),
		T(all_of_it_is_read),
		T(whatever_else_is_refused),
		T(more_sockets_than_there_can_be),
#undef T
	};

	log_set_level(LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
