#ifndef MEMWALD_COMMON_MERGE_TARGET_H
#define MEMWALD_COMMON_MERGE_TARGET_H

/*
 * merge_target - lists of stores whose merges a coordinator has, or gives back
 * (contract 2.7 and 7).
 *
 *	list	= [ target *( "," target ) ]
 *	target	= NAME | "generic:" NAME	; of a rollout store, or a generic one
 *	NAME	= letters, digits, "-", "_", "."
 *
 * A coordinator is in etcd, which this server does not use: it owns no target.
 *
 * Lifetime, locking: none; functions of a text.
 * Errors:	BAD_INPUT with one line that names the option.
 */

#include "common/base.h"
#include "common/err.h"
#include "common/slice.h"

/* What --merge-owned-targets and --merge-drain-targets say. */
struct err merge_target_check(const char *owned, const char *drain) MUST_CHECK;
/* The next target of a list, which moves behind it; false: there is none. */
bool merge_target_next(const char **list, struct slice *target);
bool merge_target_has(const char *list, const char *kind, const char *name);

#endif
