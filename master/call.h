#ifndef MEMWALD_MASTER_CALL_H
#define MEMWALD_MASTER_CALL_H

/*
 * call - one command of the admin socket under way, from its request line to
 * its last line.
 *
 * A call is stepped by the master's loop: what would be long is written in
 * pieces, the next one once the client has taken the last, and who waits for
 * other processes is stepped again at the next turn. So ten thousand stores
 * cost the loop no pause and no memory.
 *
 * Lifetime:	embedded in its client (admin.c): call_begin, steps until
 *		CALL_DONE, call_end, whatever came of it.
 * Locking:	none, the master has one thread.
 * Errors:	of the request, and of what was asked for: the last line says
 *		it. A body that has begun may end with an error.
 */

#include "common/base.h"
#include "master/cursor.h"
#include "master/decide.h"
#include "master/fence.h"
#include "master/left_walk.h"
#include "master/problem.h"
#include "master/report.h"
#include "master/work.h"

enum admin_option {
#define ADMIN_OPTION(symbol, name, value, help) ADMIN_OPTION_##symbol,
#include "master/admin.def"
#undef ADMIN_OPTION
	ADMIN_OPTION_COUNT
};

enum admin_exit {
#define ADMIN_EXIT(symbol, status, line, help) ADMIN_EXIT_##symbol,
#include "master/admin.def"
#undef ADMIN_EXIT
	ADMIN_EXIT_COUNT
};

enum call_step {
	CALL_MORE,		/* step again when the body is sent */
	CALL_WAIT,		/* step again at the next turn */
	CALL_DONE		/* exit says how it ended */
};

#define CALL_OPERANDS_MAX 12
#define CALL_PIECE_BYTES  (32u << 10)	/* enough of a body for one step */
#define CALL_BODY_BYTES	  (256u << 10)	/* more than any step writes */
#define CALL_TEXT_BYTES	  400

struct call {
	uint32_t command;		/* enum admin_command */
	uint64_t now_ns;		/* shm_lock_now_ns of this step */
	uint64_t deadline_ns;		/* then comes the last step: call_late */

	/* The request. */
	bool given[ADMIN_OPTION_COUNT];
	const char *values[ADMIN_OPTION_COUNT];
	const char *operands[CALL_OPERANDS_MAX];
	uint32_t operand_count;

	/* The answer: what this step wrote; the last line. */
	struct buf body;
	struct report report;
	enum admin_exit exit;
	char text[CALL_TEXT_BYTES];	/* of an error */

	/* What the command keeps between its steps. */
	uint32_t section;
	struct cursor cursor;
	struct problems problems;
	struct work work;
	bool told;			/* done, but for what is waited for */
	uint32_t children;		/* of a shutdown, when it began */
	uint32_t workers, workers_before;	/* of a resize; 0: not begun */
	uint32_t worker;		/* of a drain, */
	const char *instance;		/* and whose */
	struct decide decide;
	struct left_walk left;
	struct fence fence;

	/* How far it is; sent when it changed, or was not sent for long. */
	bool progress_known;
	uint64_t progress_done, progress_total;
	char progress_text[100];
};

/* Takes the request line, without its LF; pointers into it are kept. */
void call_begin(struct call *, char *line, uint64_t now_ns);
/* Not again after CALL_DONE. */
enum call_step call_step(struct call *, uint64_t now_ns);
void call_end(struct call *);

/* For commands: ends the call with a reason. */
enum call_step call_refuse(struct call *, const char *fmt, ...)
    PRINTF_LIKE(2, 3);
/* For commands that decide about ordinals (decide.h): their next step, which
 * decides, or looks what became of what was decided. */
enum call_step call_decide(struct call *,
    enum call_step (*decide)(struct call *),
    enum call_step (*look)(struct call *));
/* For commands: this is the last step, the call ends LATE after it. */
bool call_late(const struct call *);
/* For commands that take long: how far they are, in each step. */
void call_progress(struct call *, uint64_t done, uint64_t total,
    const char *fmt, ...) PRINTF_LIKE(4, 5);

#endif
