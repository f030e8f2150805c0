#ifndef MEMWALD_COMMON_CONFIG_H
#define MEMWALD_COMMON_CONFIG_H

/*
 * config - the option table, config.def, as a struct.
 *
 * A flag (`--port 3000` or `--port=3000`) wins over the environment, the
 * environment over the file that --config names, the file over the default. An
 * empty environment variable counts as unset. Nothing else reads the
 * environment or the arguments.
 *
 *	file	= *( line LF )
 *	line	= blank | "#" text | name "=" value
 *
 * name is a flag without its dashes; blanks around name and value are dropped;
 * a name comes once.
 *
 * Lifetime:	read once by the master before the first fork; children inherit
 *		it. It never changes but for the rows that are OPTION_LIVE: the
 *		master reads all sources again and tells the children. Texts
 *		live as long as the process, or until the next config_read.
 * Locking:	live options are atomics with one writer, the thread that calls
 *		config_live_set.
 * Errors:	BAD_INPUT with one line that names option, source and bound.
 */

#include "common/base.h"
#include "common/err.h"

struct buf;

typedef uint32_t config_u32;
typedef uint64_t config_u64;

struct config {
#define OPTION_NUMBER(type, name, flag, env, def, min, max, unit, help) \
	config_##type name;
#define OPTION_TEXT(name, flag, env, def, min, max, unit, help) \
	const char *name;
#include "common/config.def"
#undef OPTION_NUMBER
#undef OPTION_TEXT
};

/* An OPTION_LIVE: it may change between two looks, in any thread. */
#define CONFIG_NOW(c, field) __atomic_load_n(&(c)->field, __ATOMIC_RELAXED)

enum config_wal { CONFIG_WAL_APPEND, CONFIG_WAL_PUT };
enum config_loop { CONFIG_LOOP_AUTO, CONFIG_LOOP_RING, CONFIG_LOOP_EPOLL };

enum config_ask {
	CONFIG_RUN,
	CONFIG_HELP,		/* --help */
	CONFIG_HELP_MAN,	/* --help-man: the manual page, roff */
	CONFIG_VERSION		/* --version */
};

/* Arguments and environment are kept for config_reread. *ask says what the command line wants; only with CONFIG_RUN is the struct
 * complete. env: as environ. The error's text is static until the next call. */
struct err config_read(int argc, char *const *argv, char *const *env,
    struct config *, enum config_ask *ask) MUST_CHECK;

/*
 * The sources once more, as the last config_read had them; only the file can
 * have changed. Nothing changes on an error. Else every option that is not what
 * its struct says is told to changed, and those that are live are set.
 */
struct config_change {
	const char *flag;
	bool live;			/* false: it needs a start */
	char from[64], to[64];		/* long texts are cut */
};
struct err config_reread(void (*changed)(void *arg,
    const struct config_change *), void *arg) MUST_CHECK;

/* Live options by their number in the table, in the struct of the last
 * config_read: for those who pass them on. Get: false, it is not live. */
uint32_t config_count(void);
bool config_live_get(uint32_t option, uint64_t *value) MUST_CHECK;
void config_live_set(uint32_t option, uint64_t value);
/* By its flag, which must be there. */
uint32_t config_find(const char *flag);

struct err config_help(struct buf *) MUST_CHECK;
struct err config_man(struct buf *) MUST_CHECK;

/* The rows, for whoever prints or checks them. */
struct config_row {
	const char *name, *flag, *env, *unit, *help;
};
const struct config_row *config_rows(size_t *count);

#endif
