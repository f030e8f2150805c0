#ifndef MEMWALD_API_QUERY_H
#define MEMWALD_API_QUERY_H

/*
 * query - parameters of a request: "limit=10&offset=20".
 *
 * The raw query is split at '&' and '='; names and values are then decoded
 * once, '+' being a blank. A name that is asked for and given twice is
 * refused, and so is U+0000 in a value, as "%00" and inside the JSON of a
 * parameter: keys have none, and a condition on a text that has one can leave
 * it to LIKE's "_".
 *
 * Errors:	BAD_INPUT, naming the parameter.
 */

#include "common/arena.h"
#include "common/err.h"
#include "common/slice.h"

/* *found = false if the query has no such name. */
struct err query_text(struct slice query, const char *name, struct arena *,
    struct slice *value, bool *found) MUST_CHECK;
/* Leaves *value as it is if there is no such name. Digits only. */
struct err query_uint64(struct slice query, const char *name, struct arena *,
    uint64_t *value) MUST_CHECK;
/* Exactly true or false; leaves *value as it is if there is no such name. */
struct err query_bool(struct slice query, const char *name, struct arena *,
    bool *value) MUST_CHECK;
/* ?consistency=strong, of reads (contract 10). */
struct err query_strong(struct slice query, struct arena *, bool *strong)
    MUST_CHECK;
/* ?version=N, of reads (contract 2.4.5). Leaves *version if there is none. */
struct err query_version(struct slice query, struct arena *, bool *found,
    uint64_t *version) MUST_CHECK;
/* UNSUPPORTED, naming the parameter, for those of the contract that this
 * version does not serve there: who asks for some rows must not get all of
 * them. */
enum query_of {
	QUERY_READ,
	QUERY_APPEND
};
struct err query_served(struct slice query, enum query_of, struct arena *)
    MUST_CHECK;
/* The rule of contract 2.4.1 for ?flush: a raw part that is "flush",
 * "flush=true" (any case) or "flush=1"; all else is no. */
bool query_flush(struct slice query);

#endif
