#ifndef MEMWALD_MASTER_CANDIDATE_H
#define MEMWALD_MASTER_CANDIDATE_H

/*
 * candidate - the workers that may be given an ordinal, and how many they have.
 *
 * Ours are those that run. Of another instance, whose workers nobody lists,
 * those count that own something, and its first, which is always there; and
 * only while its lease lives. Whom an operator drains is none. The least loaded
 * is who owns the fewest ordinals; of several ours come first, since nobody has
 * to be told, then those that are found first.
 *
 * Lifetime:	found anew for each decision; memory of the caller.
 * Locking:	the ordinal table's mutex, for a moment.
 * Errors:	none. Beyond CANDIDATES_MAX other instances' are passed over.
 */

#include "common/base.h"
#include "shm/ordinal_table.h"

#define CANDIDATES_MAX	512u

struct candidate {
	char instance[SHM_INSTANCE_TEXT];
	char address[SHM_INSTANCE_TEXT];
	uint32_t worker;
	uint32_t load;			/* ordinals */
	bool ours;
};

struct candidates {
	uint32_t count;
	struct candidate all[CANDIDATES_MAX];
};

/* So many workers of ours run. */
void candidates_find(struct candidates *, uint32_t workers);
/* Of that instance, or (NULL) of all. NULL: there are none. */
struct candidate *candidates_least(struct candidates *, const char *instance);
/* NULL: it is none of them. */
struct candidate *candidates_get(struct candidates *, const char *instance,
    uint32_t worker);
/* It gets one more: that assignment. */
struct shm_assignment candidate_take(struct candidate *);

#endif
