#ifndef MEMWALD_API_FILTERS_H
#define MEMWALD_API_FILTERS_H

/*
 * filters - which rows a list or count is about: "filter=", an expression
 * (store/filter.h), and for rollouts "filters=", a JSON object of exact values
 * (contract 3.1.4). Both together: both.
 *
 * Errors:	BAD_INPUT: the expression; no object, a key that is none, a
 *		value of another type; filters of a kind that has none.
 */

#include "common/arena.h"
#include "common/err.h"
#include "worker/store/filter.h"

/* *out: NULL if the query has no condition. */
struct err filters_of_query(struct slice query, const struct kind *,
    const struct store_shape *, struct arena *, const struct filter **out)
    MUST_CHECK;

#endif
