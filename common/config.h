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
 *		it and never change it. Texts live as long as the process,
 *		or until the next call.
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

enum config_wal { CONFIG_WAL_APPEND, CONFIG_WAL_PUT };
enum config_loop { CONFIG_LOOP_AUTO, CONFIG_LOOP_RING, CONFIG_LOOP_EPOLL };

enum config_ask {
	CONFIG_RUN,
	CONFIG_HELP,		/* --help */
	CONFIG_HELP_MAN,	/* --help-man: the manual page, roff */
	CONFIG_VERSION		/* --version */
};

/* *ask says what the command line wants; only with CONFIG_RUN is the struct
 * complete. env: as environ. The error's text is static until the next call. */
struct err config_read(int argc, char *const *argv, char *const *env,
    struct config *, enum config_ask *ask) MUST_CHECK;

struct err config_help(struct buf *) MUST_CHECK;
struct err config_man(struct buf *) MUST_CHECK;

/* The rows, for whoever prints or checks them. */
struct config_row {
	const char *name, *flag, *env, *unit, *help;
};
const struct config_row *config_rows(size_t *count);

#endif
