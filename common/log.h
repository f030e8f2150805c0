#ifndef MEMWALD_COMMON_LOG_H
#define MEMWALD_COMMON_LOG_H

/*
 * log - one line an event, one write a line, to standard error:
 *
 *	2026-11-29T17:40:01.123Z INFO worker/2 store loaded store=math slot=4
 *
 * ERROR: an operator must act, and the line says how. WARN: we coped. INFO:
 * life cycle and the progress of long work. DEBUG: states. The message says
 * what happened and what we do now; key=value pairs follow it in the format
 * string (quote free text with "%s" yourself). Never called under a lock;
 * never a row's content.
 *
 * Locking:	any thread; a line is one write(2).
 */

#include "common/base.h"
#include "common/err.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* Once a process: "master", "worker/2", "maintainer". Kept, not copied. */
void log_init(const char *process_name);
void log_set_level(enum log_level);
bool log_level_parse(const char *, enum log_level *) MUST_CHECK;
bool log_wants(enum log_level);

void log_line(enum log_level, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* The same with error=KIND reason="..." os="..." behind it. */
void log_err(enum log_level, struct err, const char *fmt, ...)
    PRINTF_LIKE(3, 4);

#define log_error(...)	log_line(LOG_ERROR, __VA_ARGS__)
#define log_warn(...)	log_line(LOG_WARN, __VA_ARGS__)
#define log_info(...)	log_line(LOG_INFO, __VA_ARGS__)
#define log_debug(...) \
	do { \
		if (log_wants(LOG_DEBUG)) \
			log_line(LOG_DEBUG, __VA_ARGS__); \
	} while (0)

#endif
