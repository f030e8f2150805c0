#include "common/base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/config.h"
#include "common/slice.h"

/*
 * First every source is asked for the text of every option, the strongest
 * first; then each text, wherever it came from, is converted by one function.
 * So a value is checked alike in all sources, and a weaker source's bad value
 * that a stronger one replaces is not looked at.
 */

#define FILE_BYTES_MAX (1u << 20)

enum type { TYPE_u32, TYPE_u64, TYPE_text };

static struct {			/* of the last config_read */
	int argc;
	char *const *argv, *const *env;
	struct config *config;
	char *text;			/* of its file */
} last;

static const struct option {
	struct config_row row;
	enum type type;
	size_t offset;
	uint64_t def, min, max;		/* text: length */
	const char *def_text;
	bool live;
} options[] = {
#define ROW(type, name, flag, env, def, min, max, unit, help, live) \
	{ { #name, flag, env, unit, help }, TYPE_##type, \
	    offsetof(struct config, name), def, min, max, NULL, live },
#define OPTION_NUMBER(...) ROW(__VA_ARGS__, false)
#define OPTION_LIVE(...) ROW(__VA_ARGS__, true)
#define OPTION_TEXT(name, flag, env, def, min, max, unit, help) \
	{ { #name, flag, env, unit, help }, TYPE_text, \
	    offsetof(struct config, name), 0, min, max, def, false },
#include "common/config.def"
#undef ROW
#undef OPTION_NUMBER
#undef OPTION_TEXT
};

#define OPTION_COUNT ARRAY_LEN(options)

#define OPTION_NUMBER(type, name, flag, env, def, min, max, unit, help) \
	static_assert((min) <= (def) && (def) <= (max), \
	    #name ": its default is out of bounds");
#define OPTION_TEXT(name, flag, env, def, min, max, unit, help) \
	static_assert(sizeof(def) - 1 <= (max), #name ": default too long");
#include "common/config.def"
#undef OPTION_NUMBER
#undef OPTION_TEXT

struct given {			/* where an option got its text from */
	const char *text;	/* NULL: nowhere yet */
	char source[300];	/* "--port", "MEMWALD_PORT", "a.conf:3" */
};

static char error_text[600];

static struct err PRINTF_LIKE(1, 2)
refuse(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(error_text, sizeof(error_text), fmt, ap);
	va_end(ap);
	return FAIL(BAD_INPUT, error_text);
}

const struct config_row *
config_rows(size_t *count)
{
	static struct config_row rows[OPTION_COUNT];
	size_t i;

	for (i = 0; i < OPTION_COUNT; i++)
		rows[i] = options[i].row;
	*count = OPTION_COUNT;
	return rows;
}

static bool
is_choice(const struct option *o)
{
	return strchr(o->row.unit, '|') != NULL;
}

/* The n-th word of "a|b|c"; empty behind the last. */
static struct slice
choice_word(const char *words, uint64_t n)
{
	const char *end;

	for (; n > 0; n--) {
		words = strchr(words, '|');
		if (words == NULL)
			return slice_make("", 0);
		words++;
	}
	end = strchrnul(words, '|');
	return slice_make(words, (size_t)(end - words));
}

static struct err
to_choice(const struct option *o, const struct given *g, uint64_t *value)
{
	uint64_t n;

	for (n = o->min; n <= o->max; n++) {
		if (slice_eq(choice_word(o->row.unit, n), slice_of(g->text))) {
			*value = n;
			return OK;
		}
	}
	return refuse("%s: '%s' is none of %s", g->source, g->text, o->row.unit);
}

static struct err
to_number(const struct option *o, const struct given *g, uint64_t *value)
{
	size_t digits = strspn(g->text, "0123456789");
	uint64_t v;

	if (digits == 0 || g->text[digits] != '\0')
		return refuse("%s: '%s' is not a whole number", g->source, g->text);
	errno = 0;
	v = strtoull(g->text, NULL, 10);
	if (errno == ERANGE || v > o->max)
		return refuse("%s: %s is above the maximum of %llu", g->source,
		    g->text, (unsigned long long)o->max);
	if (v < o->min)
		return refuse("%s: %s is below the minimum of %llu", g->source,
		    g->text, (unsigned long long)o->min);
	*value = v;
	return OK;
}

static struct err
to_text(const struct option *o, const struct given *g)
{
	size_t len = strlen(g->text);

	if (len < o->min)
		return refuse("%s: must not be empty", g->source);
	if (len > o->max)
		return refuse("%s: longer than %llu bytes", g->source,
		    (unsigned long long)o->max);
	return OK;
}

static struct err
convert(const struct option *o, const struct given *g, struct config *c)
{
	void *field = (char *)c + o->offset;
	uint64_t value = o->def;
	struct err e = OK;

	if (o->type == TYPE_text) {
		*(const char **)field = g->text != NULL ? g->text : o->def_text;
		return g->text != NULL ? to_text(o, g) : OK;
	}
	if (g->text != NULL)
		e = is_choice(o) ? to_choice(o, g, &value) :
		    to_number(o, g, &value);
	if (err_is(e))
		return e;
	if (o->type == TYPE_u32)
		*(uint32_t *)field = (uint32_t)value;
	else
		*(uint64_t *)field = value;
	return OK;
}

static size_t
find_flag(struct slice name)
{
	size_t i;

	for (i = 0; i < OPTION_COUNT; i++) {
		if (slice_eq(name, slice_of(options[i].row.flag)))
			break;
	}
	return i;
}

static void
give(struct given *g, const char *text, const char *source)
{
	g->text = text;
	snprintf(g->source, sizeof(g->source), "%s", source);
}

static struct err
read_flags(int argc, char *const *argv, struct given *given,
    enum config_ask *ask)
{
	int a;

	for (a = 1; a < argc; a++) {
		const char *arg = argv[a], *value;
		struct slice name;
		char source[64];
		size_t i;

		if (strcmp(arg, "--help") == 0)
			*ask = CONFIG_HELP;
		else if (strcmp(arg, "--help-man") == 0)
			*ask = CONFIG_HELP_MAN;
		else if (strcmp(arg, "--version") == 0)
			*ask = CONFIG_VERSION;
		if (*ask != CONFIG_RUN)
			return OK;
		if (strncmp(arg, "--", 2) != 0)
			return refuse("'%s': an option begins with --; see --help", arg);
		value = strchr(arg, '=');
		name = slice_make(arg + 2, value != NULL ?
		    (size_t)(value - arg) - 2 : strlen(arg) - 2);
		i = find_flag(name);
		if (i == OPTION_COUNT)
			return refuse("'%s' is no option; see --help", arg);
		snprintf(source, sizeof(source), "--%s", options[i].row.flag);
		if (given[i].text != NULL)
			return refuse("%s: given twice", source);
		if (value != NULL)
			value++;
		else if (++a < argc)
			value = argv[a];
		else
			return refuse("%s: needs a value", source);
		give(&given[i], value, source);
	}
	return OK;
}

static void
read_env(char *const *env, struct given *given)
{
	size_t i;

	for (; *env != NULL; env++) {
		const char *eq = strchr(*env, '=');

		if (eq == NULL || eq[1] == '\0')
			continue;
		for (i = 0; i < OPTION_COUNT; i++) {
			if (given[i].text == NULL &&
			    slice_eq(slice_make(*env, (size_t)(eq - *env)),
			    slice_of(options[i].row.env)))
				give(&given[i], eq + 1, options[i].row.env);
		}
	}
}

/* The whole file with a NUL behind it. */
static struct err
load_file(const char *path, char **text)
{
	struct err e = OK;
	struct stat st;
	ssize_t n = 0;
	int fd;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return refuse("--config %s: %s", path, strerrordesc_np(errno));
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
	    st.st_size > (off_t)FILE_BYTES_MAX) {
		e = refuse("--config %s: not a file of at most 1 MiB", path);
		goto out;
	}
	*text = calloc(1, (size_t)st.st_size + 1);
	MUST(*text != NULL);
	n = read(fd, *text, (size_t)st.st_size);
	if (n < 0 || memchr(*text, '\0', (size_t)n) != NULL)
		e = refuse("--config %s: cannot be read as text", path);
out:
	close(fd);
	return e;
}

static char *
trim(char *s)
{
	size_t n;

	s += strspn(s, " \t\r");
	for (n = strlen(s); n > 0 && strchr(" \t\r", s[n - 1]) != NULL; n--)
		s[n - 1] = '\0';
	return s;
}

/* What is given points into *kept, which is the caller's to free. */
static struct err
read_file(const char *path, struct given *given, char **kept)
{
	bool seen[OPTION_COUNT] = { false };
	char *text = NULL, *line, *value;
	struct err e = load_file(path, &text);
	int number = 0;
	char source[sizeof(given->source)];
	size_t i;

	if (err_is(e))
		return e;
	*kept = text;
	while ((line = strsep(&text, "\n")) != NULL) {
		number++;
		line = trim(line);
		if (*line == '\0' || *line == '#')
			continue;
		value = strchr(line, '=');
		if (value == NULL)
			return refuse("%s:%d: no '=' in '%s'", path, number, line);
		*value = '\0';
		line = trim(line);
		i = find_flag(slice_of(line));
		if (i == OPTION_COUNT || strcmp(line, "config") == 0)
			return refuse("%s:%d: '%s' is no option", path, number, line);
		if (seen[i])
			return refuse("%s:%d: '%s' comes twice", path, number, line);
		seen[i] = true;
		snprintf(source, sizeof(source), "%.200s:%d: %s", path, number,
		    line);
		if (given[i].text == NULL)
			give(&given[i], trim(value + 1), source);
	}
	return OK;
}

/* *text is the caller's to free, also after an error. */
static struct err
read_all(struct config *c, enum config_ask *ask, char **text)
{
	static struct given given[OPTION_COUNT];
	size_t i = find_flag(SLICE("config"));
	struct err e;

	memset(given, 0, sizeof(given));
	*text = NULL;
	*ask = CONFIG_RUN;
	e = read_flags(last.argc, last.argv, given, ask);
	if (err_is(e) || *ask != CONFIG_RUN)
		return e;
	read_env(last.env, given);
	if (given[i].text != NULL) {
		e = read_file(given[i].text, given, text);
		if (err_is(e))
			return e;
	}
	for (i = 0; i < OPTION_COUNT; i++) {
		e = convert(&options[i], &given[i], c);
		if (err_is(e))
			return e;
	}
	return OK;
}

struct err
config_read(int argc, char *const *argv, char *const *env, struct config *c,
    enum config_ask *ask)
{
	free(last.text);
	last.argc = argc;
	last.argv = argv;
	last.env = env;
	last.config = c;
	return read_all(c, ask, &last.text);
}

/* "3000", "auto", "1073741824": as one would type it. */
static void
value_text(const struct option *o, uint64_t value, const char *text, char *out,
    size_t bytes)
{
	struct slice word;

	if (o->type == TYPE_text) {
		snprintf(out, bytes, "%s", text);
	} else if (is_choice(o)) {
		word = choice_word(o->row.unit, value);
		snprintf(out, bytes, "%.*s", (int)word.len, word.ptr);
	} else {
		snprintf(out, bytes, "%llu", (unsigned long long)value);
	}
}

static void
default_text(const struct option *o, char *out, size_t bytes)
{
	value_text(o, o->def, o->def_text, out, bytes);
}

static uint64_t
number_of(const struct option *o, const struct config *c)
{
	const void *field = (const char *)c + o->offset;

	if (o->type == TYPE_text)
		return 0;
	return o->type == TYPE_u32 ?
	    __atomic_load_n((const uint32_t *)field, __ATOMIC_RELAXED) :
	    __atomic_load_n((const uint64_t *)field, __ATOMIC_RELAXED);
}

static const char *
text_of(const struct option *o, const struct config *c)
{
	const void *field = (const char *)c + o->offset;

	return o->type == TYPE_text ? *(const char *const *)field : "";
}

static bool
is_same(const struct option *o, const struct config *a, const struct config *b)
{
	return o->type == TYPE_text ?
	    strcmp(text_of(o, a), text_of(o, b)) == 0 :
	    number_of(o, a) == number_of(o, b);
}

uint32_t
config_count(void)
{
	return OPTION_COUNT;
}

uint32_t
config_find(const char *flag)
{
	size_t i = find_flag(slice_of(flag));

	MUST(i < OPTION_COUNT);
	return (uint32_t)i;
}

bool
config_live_get(uint32_t option, uint64_t *value)
{
	MUST(option < OPTION_COUNT);
	if (!options[option].live)
		return false;
	*value = number_of(&options[option], last.config);
	return true;
}

void
config_live_set(uint32_t option, uint64_t value)
{
	const struct option *o = &options[option];
	void *field = (char *)last.config + o->offset;

	MUST(option < OPTION_COUNT && o->live);
	MUST(value >= o->min && value <= o->max);
	if (o->type == TYPE_u32)
		__atomic_store_n((uint32_t *)field, (uint32_t)value,
		    __ATOMIC_RELAXED);
	else
		__atomic_store_n((uint64_t *)field, value, __ATOMIC_RELAXED);
}

struct err
config_reread(void (*changed)(void *arg, const struct config_change *),
    void *arg)
{
	static struct config fresh;
	struct config_change change;
	enum config_ask ask;
	uint32_t i;
	char *text;
	struct err e = read_all(&fresh, &ask, &text);

	MUST(ask == CONFIG_RUN);
	for (i = 0; !err_is(e) && i < OPTION_COUNT; i++) {
		const struct option *o = &options[i];

		if (is_same(o, last.config, &fresh))
			continue;
		change.flag = o->row.flag;
		change.live = o->live;
		value_text(o, number_of(o, last.config),
		    text_of(o, last.config), change.from, sizeof(change.from));
		value_text(o, number_of(o, &fresh), text_of(o, &fresh),
		    change.to, sizeof(change.to));
		if (o->live)
			config_live_set(i, number_of(o, &fresh));
		changed(arg, &change);
	}
	free(text);
	return e;
}

static void
bounds_text(const struct option *o, char *out, size_t bytes)
{
	*out = '\0';
	if (o->type != TYPE_text && !is_choice(o))
		snprintf(out, bytes, ", %llu to %llu", (unsigned long long)o->min,
		    (unsigned long long)o->max);
}

/* What stands behind the flag: the unit where that is a word, or N. */
static const char *
value_name(const struct option *o)
{
	return o->type == TYPE_text || is_choice(o) ? o->row.unit : "N";
}

/* A number's unit, in the text. */
static const char *
unit_text(const struct option *o)
{
	return o->type == TYPE_text || is_choice(o) ? "" : o->row.unit;
}

struct err
config_help(struct buf *b)
{
	char def[64], bounds[64];
	bool ok;
	size_t i;

	ok = buf_printf(b, "usage: memwald [--option VALUE]...\n\n"
	    "Serves rollouts over HTTP; stores are Lance tables. A flag wins over the\n"
	    "environment variable [in brackets], that over the --config file.\n\n");
	for (i = 0; ok && i < OPTION_COUNT; i++) {
		const struct option *o = &options[i];

		default_text(o, def, sizeof(def));
		bounds_text(o, bounds, sizeof(bounds));
		ok = buf_printf(b, "  --%s %s  [%s]\n      %s (default: %s%s%s%s)"
		    "%s\n",
		    o->row.flag, value_name(o), o->row.env, o->row.help,
		    *def != '\0' ? def : "none", *unit_text(o) != '\0' ? " " : "",
		    unit_text(o), bounds, o->live ? "; reloadable" : "");
	}
	ok = ok && buf_printf(b, "  --help, --help-man, --version\n"
	    "      print this, the manual page, the version; and exit\n");
	return ok ? OK : FAIL(NO_MEMORY, "help text");
}

/* Text in roff: a hyphen would become a dash. */
static bool
roff(struct buf *b, const char *s)
{
	bool ok = true;

	for (; ok && *s != '\0'; s++) {
		if (*s == '-' || *s == '\\')
			ok = buf_append(b, "\\", 1);
		ok = ok && buf_append(b, s, 1);
	}
	return ok;
}

struct err
config_man(struct buf *b)
{
	char def[64], bounds[64];
	bool ok;
	size_t i;

	ok = buf_printf(b, ".\\\" Written by memwald --help-man: do not edit.\n"
	    ".TH MEMWALD 8\n.SH NAME\nmemwald \\- store server for rollouts\n"
	    ".SH SYNOPSIS\n.B memwald\n[\\fB\\-\\-option\\fR \\fIvalue\\fR]...\n"
	    ".SH DESCRIPTION\nServes rollouts over HTTP and keeps them as Lance "
	    "tables. A flag wins over\nthe environment variable, that over the "
	    "file named by \\-\\-config, that over\nthe default. The file has "
	    "lines of the form \\fIname = value\\fR, the name being\nthe flag "
	    "without its dashes; lines that begin with # are comments.\n"
	    ".SH OPTIONS\n");
	for (i = 0; ok && i < OPTION_COUNT; i++) {
		const struct option *o = &options[i];

		default_text(o, def, sizeof(def));
		bounds_text(o, bounds, sizeof(bounds));
		ok = buf_printf(b, ".TP\n.B ") && roff(b, "--") &&
		    roff(b, o->row.flag) && buf_printf(b, " \\fI") &&
		    roff(b, value_name(o)) && buf_printf(b, "\\fR\n") &&
		    roff(b, o->row.help) && buf_printf(b, ".\nEnvironment: %s. "
		    "Default: ", o->row.env) &&
		    roff(b, *def != '\0' ? def : "none") &&
		    buf_printf(b, "%s%s%s.%s\n", *unit_text(o) != '\0' ? " " : "",
		    unit_text(o), bounds, o->live ? " Reloadable." : "");
	}
	ok = ok && buf_printf(b, ".SH EXIT STATUS\n0 after an orderly stop, 1 "
	    "when it cannot run (options, port, lock, memory).\n"
	    ".SH SIGNALS\nSIGTERM and SIGINT: answer what is in flight, seal "
	    "what is not, stop. A second one ends \\-\\-drain\\-delay\\-secs.\n"
	    "SIGHUP: read the configuration file again, and change the options "
	    "that are reloadable.\n"
	    ".PP\nSIGUSR2: start the program's file anew with the same sockets, and "
	    "leave once that server is loaded; requests are answered, but bodies and "
	    "readers that take two seconds more than the others are cut off. If it "
	    "does not get so far, this one goes on.\n"
	    ".SH SEE ALSO\nmemwaldctl(8)\n");
	return ok ? OK : FAIL(NO_MEMORY, "manual page");
}
