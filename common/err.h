#ifndef MEMWALD_COMMON_ERR_H
#define MEMWALD_COMMON_ERR_H

/*
 * err - what the world did to us, as a value that must be looked at.
 *
 * A function that can fail returns struct err, is MUST_CHECK and writes its
 * results only on success. An error travels up unchanged and is logged once,
 * where it stops. Three outcomes of a put: done, not done, UNKNOWN; unknown is
 * never treated as failed.
 *
 * Lifetime:	what is a literal, or text in the arena of the request or job.
 */

#include "common/base.h"

/* kind, the contract's status, its code, what a client is told */
#define ERR_KINDS(X) \
	X(OK,		200, "",		 "ok") \
	X(BAD_INPUT,	400, "INVALID_REQUEST",  "malformed request") \
	X(UNAUTHORIZED,	401, "UNAUTHORIZED",	 "credentials wanted") \
	X(FORBIDDEN,	403, "FORBIDDEN",	 "not allowed") \
	X(NOT_FOUND,	404, "NOT_FOUND",	 "not found") \
	X(METHOD,	405, "INVALID_REQUEST",  "method not allowed") \
	X(SLOW_PEER,	408, "TIMEOUT",		 "request body idle timeout") \
	X(EXISTS,	409, "ALREADY_EXISTS",   "already exists") \
	X(COMPACTING,	409, "COMPACTION_IN_PROGRESS", \
	    "Compaction already in progress") \
	X(TOO_LARGE,	413, "PAYLOAD_TOO_LARGE", "request body too large") \
	X(MEDIA_TYPE,	415, "INVALID_REQUEST",  "unsupported media type") \
	X(EXPECTATION,	417, "INVALID_REQUEST",  "expectation not supported") \
	X(SHAPE,	422, "INVALID_REQUEST",  "a field is missing or mistyped") \
	X(HEAD_TOO_LARGE, 431, "INVALID_REQUEST", "request head too large") \
	X(INTERNAL,	500, "INTERNAL",	 "internal error") \
	X(CORRUPT,	500, "INTERNAL",	 "stored data failed its check") \
	X(UNSUPPORTED,	501, "INVALID_REQUEST",  "not supported") \
	X(BUSY,		503, "OVERLOADED",	 "busy, try again") \
	X(BACKLOG,	503, "OVERLOADED",	 "too many pending WAL generations") \
	X(UNAVAILABLE,	503, "UNAVAILABLE",	 "not available now") \
	X(FENCED,	503, "UNAVAILABLE",	 "another writer owns this shard") \
	X(UNKNOWN,	503, "UNAVAILABLE",	 "outcome unknown, read back first") \
	X(CONFLICT,	503, "UNAVAILABLE",	 "lost a race, try again") \
	X(TIMED_OUT,	503, "UNAVAILABLE",	 "deadline passed") \
	X(NO_MEMORY,	503, "UNAVAILABLE",	 "memory budget exhausted") \
	X(IO,		503, "UNAVAILABLE",	 "storage failed") \
	X(HTTP_VERSION, 505, "INVALID_REQUEST",  "HTTP version not supported") \
	X(FULL,		507, "STORAGE_FULL",	 "no space left")

enum err_kind {
#define X(kind, status, code, text) ERR_##kind,
	ERR_KINDS(X)
#undef X
	ERR_KIND_COUNT
};

struct err {			/* 16 bytes, returned in two registers */
	uint16_t	kind;	/* enum err_kind; ERR_OK is zero */
	int32_t		os;	/* errno of the failing call, or 0 */
	const char     *what;	/* "sync wal entry" */
};

static_assert(sizeof(struct err) == 16, "two registers");

#define OK			((struct err){ ERR_OK, 0, "" })
#define FAIL(kind_, what_)	((struct err){ ERR_##kind_, 0, (what_) })

/* errno decides between the kinds that a client can act upon: no space and
 * quota are FULL, no descriptors BUSY, a name that is not there NOT_FOUND, one
 * that is EXISTS; all else is the kind that the caller names. */
#define FAIL_OS(kind_, what_)	err_from_os(ERR_##kind_, (what_))

struct err err_from_os(enum err_kind otherwise, const char *what);

static inline bool
err_is(struct err e)
{
	return e.kind != ERR_OK;
}

int err_status(struct err);		/* HTTP status */
uint32_t err_retry_secs(struct err);	/* Retry-After; 0: none */
const char *err_code(struct err);	/* error.code of the envelope */
const char *err_text(struct err);	/* what a client is told */
const char *err_name(struct err);	/* "IO": for log and metrics */

#endif
