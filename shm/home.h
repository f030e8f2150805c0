#ifndef MEMWALD_SHM_HOME_H
#define MEMWALD_SHM_HOME_H

/*
 * home - whose an ordinal is by its name, whoever owns it now.
 *
 *	INSTANCE	worker slot 0 of that instance
 *	INSTANCE#K	worker slot K, from 1; an instance's id has no '#'
 *
 * An ordinal that somebody else owns has moved: its owner does not write to its
 * shards, so what lies in them is folded by order of the master (master/
 * fanout.h). So has one that bears a shard of another name, whoever owns it: it
 * was adopted.
 *
 * Lifetime, locking: none; functions of a copy.
 * Errors:	none: a name of another form has the home of an instance that
 *		nobody bears.
 */

#include "shm/ordinal_table.h"

struct shm_home {
	char instance[SHM_INSTANCE_TEXT];	/* "": too long for one */
	uint32_t worker;
};

struct shm_home shm_home_of(const struct shm_ordinal *);
/* This server's, whether or not that worker runs. */
bool shm_home_is_ours(const struct shm_home *);
/* Owned, in the chain, by somebody else than its name says. */
bool shm_home_left(const struct shm_ordinal *);

/* Who sees to it that what lies in its shards is folded, as seen from here. */
enum shm_errand {
	SHM_ERRAND_NONE,		/* nobody, or another server */
	SHM_ERRAND_HERE,		/* we do, a worker of ours owns it */
	SHM_ERRAND_THERE		/* we do: it was ours and has gone to an
					 * instance that lives */
};

enum shm_errand shm_home_errand(const struct shm_ordinal *);

#endif
