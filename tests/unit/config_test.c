#include "common/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/buf.h"
#include "common/config.h"

/* A config's texts live as long as its process, which here reads many. */
const char *__lsan_default_suppressions(void);

const char *
__lsan_default_suppressions(void)
{
	return "leak:load_file";
}

static struct config c;
static enum config_ask ask;

/* Arguments up to NULL. */
static struct err
read_args(char *const *env, const char *arg, ...)
{
	static char *const no_env[] = { NULL };
	static char *argv[16] = { (char *)(uintptr_t)"memwald" };
	int argc = 1;
	va_list ap;

	va_start(ap, arg);
	for (; arg != NULL; arg = va_arg(ap, const char *))
		argv[argc++] = (char *)(uintptr_t)arg;
	va_end(ap);
	return config_read(argc, argv, env != NULL ? env : no_env, &c, &ask);
}

static void
assert_refused(struct err e, const char *part)
{
	assert_int_equal(e.kind, ERR_BAD_INPUT);
	if (strstr(e.what, part) == NULL)
		fail_msg("\"%s\" lacks \"%s\"", e.what, part);
}

static void
defaults_are_the_contract(void **state)
{
	(void)state;
	assert_false(err_is(read_args(NULL, NULL)));
	assert_string_equal(c.data_dir, "./lance-data");
	assert_string_equal(c.host, "127.0.0.1");
	assert_int_equal(c.port, 3000);
	assert_int_equal(c.rollout_flush_interval_secs, 30);
	assert_int_equal(c.rollout_cleanup_interval_secs, 600);
	assert_int_equal(c.rollout_merge_after_generations, 8);
	assert_int_equal(c.rollout_merge_max_bytes, 1073741824);
	assert_int_equal(c.rollout_merge_memory_bytes, 3221225472);
	assert_int_equal(c.rollout_wal_pending_max_generations, 4096);
	assert_int_equal(c.request_body_idle_timeout_secs, 120);
	assert_int_equal(c.loop, CONFIG_LOOP_AUTO);
	assert_int_equal(c.worker_header, 0);
}

static void
both_flag_forms(void **state)
{
	(void)state;
	assert_false(err_is(read_args(NULL, "--port", "1", "--host=::1",
	    "--loop=epoll", "--worker-header", "on", NULL)));
	assert_int_equal(c.port, 1);
	assert_string_equal(c.host, "::1");
	assert_int_equal(c.loop, CONFIG_LOOP_EPOLL);
	assert_int_equal(c.worker_header, 1);
	assert_false(err_is(read_args(NULL, "--instance-id=", NULL)));
	assert_string_equal(c.instance_id, "");
}

static void
flag_over_environment_over_file(void **state)
{
	char path[] = "/tmp/config_test.XXXXXX";
	char *const env[] = { (char *)(uintptr_t)"MEMWALD_PORT=2",
	    (char *)(uintptr_t)"MEMWALD_HOST=h2",
	    (char *)(uintptr_t)"INSTANCE_ID=", NULL };
	int fd = mkstemp(path);

	(void)state;
	dprintf(fd, "# a comment\n\n  port = 3\nhost=h3\r\n"
	    "instance-id =  three \nlog-level = debug");
	assert_false(err_is(read_args(env, "--port=1", "--config", path, NULL)));
	assert_int_equal(c.port, 1);
	assert_string_equal(c.host, "h2");
	assert_string_equal(c.instance_id, "three");
	assert_int_equal(c.log_level, 3);
	unlink(path);
	close(fd);
}

static void
file_errors_name_the_line(void **state)
{
	static const struct {
		const char *text, *want;
	} cases[] = {
		{ "port 3\n", ":1: no '='" },
		{ "\nprot = 3\n", ":2: 'prot' is no option" },
		{ "port = 3\nport = 4\n", ":2: 'port' comes twice" },
		{ "#\n#\nport = x\n", ":3: port: 'x' is not a whole number" },
		{ "config = other\n", ":1: 'config' is no option" },
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(cases); i++) {
		char path[] = "/tmp/config_test.XXXXXX";
		int fd = mkstemp(path);

		dprintf(fd, "%s", cases[i].text);
		assert_refused(read_args(NULL, "--config", path, NULL),
		    cases[i].want);
		unlink(path);
		close(fd);
	}
	assert_refused(read_args(NULL, "--config", "/nonexistent/x", NULL),
	    "No such file");
	assert_refused(read_args(NULL, "--config", "/tmp", NULL), "not a file");
}

static void
bad_arguments_are_named(void **state)
{
	char *const env[] = { (char *)(uintptr_t)"MEMWALD_PORT=70000", NULL };

	(void)state;
	assert_refused(read_args(NULL, "--prot=1", NULL), "'--prot=1' is no");
	assert_refused(read_args(NULL, "port", NULL), "'port': an option");
	assert_refused(read_args(NULL, "--port", NULL), "needs a value");
	assert_refused(read_args(NULL, "--port=1", "--port=2", NULL), "twice");
	assert_refused(read_args(NULL, "--port=", NULL), "not a whole number");
	assert_refused(read_args(NULL, "--port=-1", NULL), "not a whole number");
	assert_refused(read_args(NULL, "--port=1x", NULL), "not a whole number");
	assert_refused(read_args(NULL, "--port=65536", NULL), "maximum of 65535");
	assert_refused(read_args(NULL, "--rollout-merge-max-bytes",
	    "18446744073709551616", NULL), "maximum");
	assert_refused(read_args(NULL, "--drain-secs=0", NULL), "minimum of 1");
	assert_refused(read_args(NULL, "--loop=uring", NULL),
	    "none of auto|ring|epoll");
	assert_refused(read_args(NULL, "--data-dir=", NULL), "empty");
	assert_refused(read_args(env, NULL), "MEMWALD_PORT: 70000 is above");
	/* A stronger source hides a weaker one's mistake. */
	assert_false(err_is(read_args(env, "--port=1", NULL)));
}

static void
asks_stop_the_reading(void **state)
{
	(void)state;
	assert_false(err_is(read_args(NULL, "--help", "--nonsense", NULL)));
	assert_int_equal(ask, CONFIG_HELP);
	assert_false(err_is(read_args(NULL, "--help-man", NULL)));
	assert_int_equal(ask, CONFIG_HELP_MAN);
	assert_false(err_is(read_args(NULL, "--version", NULL)));
	assert_int_equal(ask, CONFIG_VERSION);
}

static char *
slurp(FILE *f)
{
	char *text = calloc(1, 4u << 20);
	size_t n;

	assert_non_null(f);
	assert_non_null(text);
	n = fread(text, 1, (4u << 20) - 1, f);
	assert_true(n < (4u << 20) - 1);
	return text;
}

/* Help and the manual page that is checked in have every row. */
static char seen[1000];

static void
note(void *arg, const struct config_change *change)
{
	size_t at = strlen(seen);

	(void)arg;
	snprintf(seen + at, sizeof(seen) - at, "%s %s>%s %d;", change->flag,
	    change->from, change->to, change->live);
}

static void
rewrite(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	*seen = '\0';
}

/* Live options change, others are named, flags win still; a mistake changes
 * nothing. */
static void
a_reload_changes_live_options(void **state)
{
	char path[] = "/tmp/config_test.XXXXXX";
	int fd = mkstemp(path);
	uint64_t value;

	(void)state;
	close(fd);
	rewrite(path, "log-level = info\nport = 1\n");
	assert_false(err_is(read_args(NULL, "--drain-secs=7", "--config", path,
	    NULL)));
	assert_false(err_is(config_reread(note, NULL)));
	assert_string_equal(seen, "");
	rewrite(path, "log-level = debug\nport = 2\nhost = ::1\n"
	    "drain-secs = 9\nbacklog-max-bytes = 1\n");
	assert_false(err_is(config_reread(note, NULL)));
	assert_string_equal(seen, "host 127.0.0.1>::1 0;port 1>2 0;"
	    "log-level info>debug 1;backlog-max-bytes 17179869184>1 1;");
	assert_int_equal(c.port, 1);
	assert_string_equal(c.host, "127.0.0.1");
	assert_int_equal(c.log_level, 3);
	assert_int_equal(c.drain_secs, 7);
	assert_int_equal(CONFIG_NOW(&c, backlog_max_bytes), 1);
	rewrite(path, "log-level = warn\nport = many\n");
	assert_refused(config_reread(note, NULL), "'many' is not");
	assert_string_equal(seen, "");
	assert_int_equal(c.log_level, 3);
	unlink(path);
	assert_refused(config_reread(note, NULL), path);
	/* One by one, as children are told. */
	config_live_set(config_find("log-level"), 0);
	assert_true(config_live_get(config_find("log-level"), &value));
	assert_int_equal(value, 0);
	assert_false(config_live_get(config_find("port"), &value));
}

static void
every_row_is_documented(void **state)
{
	size_t count, i;
	const struct config_row *rows = config_rows(&count);
	FILE *f = fopen("ops/memwald.8", "r");
	char *page = slurp(f), flag[80];
	struct buf help, man;

	(void)state;
	fclose(f);
	buf_init(&help, 1u << 20);
	buf_init(&man, 1u << 20);
	assert_false(err_is(config_help(&help)));
	assert_false(err_is(config_man(&man)));
	assert_true(buf_append(&help, "", 1) && buf_append(&man, "", 1));
	assert_string_equal(page, man.ptr);	/* else: make man */
	for (i = 0; i < count; i++) {
		snprintf(flag, sizeof(flag), "--%s ", rows[i].flag);
		assert_non_null(strstr(help.ptr, flag));
		assert_non_null(strstr(man.ptr, rows[i].env));
		assert_true(strlen(rows[i].help) > 10);
	}
	buf_free(&help);
	buf_free(&man);
	free(page);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_are_the_contract),
		cmocka_unit_test(both_flag_forms),
		cmocka_unit_test(flag_over_environment_over_file),
		cmocka_unit_test(file_errors_name_the_line),
		cmocka_unit_test(bad_arguments_are_named),
		cmocka_unit_test(asks_stop_the_reading),
		cmocka_unit_test(a_reload_changes_live_options),
		cmocka_unit_test(every_row_is_documented),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
