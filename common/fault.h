#ifndef MEMWALD_COMMON_FAULT_H
#define MEMWALD_COMMON_FAULT_H

/*
 * fault - named places where tests have us stop, fail, wait or die.
 *
 * fault.def lists them. A build with -DMEMWALD_FAULTS asks a table at each;
 * any other build compiles them away. The table starts from the environment,
 *
 *	MEMWALD_FAULTS="fold_prepare=delay:3000 wal_sync=fail:28:2"
 *
 * and may live in the segment (fault_attach), so that one command changes it
 * for all processes at run time (memwaldctl fault). Actions:
 *
 *	delay:MS[:COUNT]	sleep that long (of the true clock)
 *	hold[:COUNT]		wait until the point is told something else
 *	fail:ERRNO[:COUNT]	FAULT() answers the error of that errno
 *	answer:KIND[:COUNT]	FAULT() answers an error of that kind (err.h)
 *	drop[:COUNT]		answer:UNKNOWN, and a stub has done the work
 *	late[:COUNT]		answer:UNKNOWN, and a stub does it later
 *				(worker/object/stub.h)
 *	die[:COUNT]		SIGKILL to itself
 *	stop[:COUNT]		SIGSTOP to itself
 *	off
 *
 * COUNT 0 or none: every time; n: the next n times, then off. Prefix @K to
 * COUNT skips the first K passes (die:1@3 dies at the fourth).
 */

#include "common/base.h"
#include "common/err.h"

enum fault_point {
#define FAULT_POINT(name, help) FAULT_##name,
#include "common/fault.def"
#undef FAULT_POINT
	FAULT_COUNT
};

struct fault_state {		/* one point; any process reads and counts */
	_Atomic uint32_t action;
	_Atomic uint32_t arg;
	_Atomic int32_t left;	/* -1: no limit */
	_Atomic int32_t skip;
	_Atomic uint32_t hits;	/* actions taken: a test that armed it asks */
	_Atomic uint32_t sets;	/* how often it was told something */
};

#ifdef MEMWALD_FAULTS

/* table has FAULT_COUNT entries; what was set before is copied into it. */
void fault_attach(struct fault_state *table);
/* Back to a table of this process alone, before that memory goes away. */
void fault_detach(void);
/* "fold_prepare=delay:3000": BAD_INPUT names what is wrong. */
struct err fault_set(const char *spec) MUST_CHECK;
/* All of a string of them, separated by blanks. */
struct err fault_set_all(const char *specs) MUST_CHECK;
struct err fault_hit(enum fault_point) MUST_CHECK;

enum fault_action { FAULT_OFF, FAULT_DELAY, FAULT_HOLD, FAULT_FAIL,
	FAULT_ANSWER, FAULT_DROP, FAULT_LATE, FAULT_DIE, FAULT_STOP };

/* The same, for who must know which action it was that answers this. */
enum fault_action fault_take(enum fault_point, struct err *);
const char *fault_name(enum fault_point);
/* How often it did what it was told to, since the table was made. */
uint32_t fault_hits(enum fault_point);

#define FAULT(name)	fault_hit(FAULT_##name)

#else

#define FAULT(name)	OK

#endif

/* Where nothing can fail: delay, stop and die only. */
#define FAULT_HERE(name) \
	do { \
		struct err fault_err_ = FAULT(name); \
		(void)fault_err_; \
	} while (0)

#endif
