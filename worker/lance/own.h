#ifndef MEMWALD_LANCE_OWN_H
#define MEMWALD_LANCE_OWN_H

/*
 * own - names by which an instance knows again the files that it made.
 *
 * What a commit writes before its version is there, and dies, stays behind: no
 * version names it. An instance may delete what it left itself, and nothing
 * else, since another's or another engine's may be of a commit under way. So
 * the random part of each such name begins with the instance's tag, 8 hex
 * digits:
 *
 *	data/TAG-UUID.lance
 *	_transactions/VERSION-UUID.txn		UUID begins with TAG
 *	_indices/UUID/				the same
 *	_deletions/FRAGMENT-VERSION-ID.bin	ID / 2^32 is TAG
 *
 * Lifetime:	set once in a process that commits, before it does. Without a
 *		tag names are random and nobody's.
 * Errors:	none.
 */

#include "common/uuid.h"

void own_set(uint32_t tag);
/* Random, but for the tag. */
struct uuid own_uuid(void);
uint64_t own_id(void);
/* Whether a name below the table's directory, as above, is this instance's. */
bool own_is(const char *name);

#endif
