#ifndef MEMWALD_OBJECT_CHAIN_H
#define MEMWALD_OBJECT_CHAIN_H

/*
 * chain - one small thing as a row of versions, each put if absent.
 *
 *	PREFIX/DIGITS.json	20 decimal digits, the version, from 1
 *
 * A version is never changed. The newest one counts; it is found by listing,
 * never by probing or by a hint: collection leaves holes, and who slept for long
 * fills one with what it believes to be the next version. A folder holds a few
 * versions, so a listing costs as much as a look at a hint.
 *
 * chain_put is one step of compare and set. The caller has loaded the newest
 * version and puts the next one. After the put the folder is listed: a higher
 * version means that ours filled a hole, or that others went on from ours. Both
 * look alike: ours is removed, and the caller starts again from the newest,
 * where its change may stand already. Every put differs from every other one in
 * its bytes (callers write a fresh uuid into each): so after an ambiguous
 * outcome one's own is known from another's. What was not found then may still
 * come, so it is put again under the same name rather than taken for refused.
 *
 * Death:	between put and list: the version stands, or fills a hole below
 *		the newest, which nobody reads and collection removes.
 * Lifetime:	what is loaded lives in the caller's arena.
 * Locking:	none; blocks on I/O.
 * Errors:	CORRUPT: larger than CHAIN_BYTES_MAX. UNKNOWN: put, and not to be
 *		read back. Those of object.h.
 */

#include "worker/object/object.h"

#define CHAIN_BYTES_MAX	(4u << 20)
#define CHAIN_PREFIX_MAX 128
#define CHAIN_TRIES	64	/* of a caller's compare and set */

struct chain {
	struct object_dir *root;
	char prefix[CHAIN_PREFIX_MAX];
};

/* The newest version by listing; 0: there is none. */
struct err chain_newest(const struct chain *, uint64_t *version) MUST_CHECK;
/* The newest version and its bytes; 0 and none. */
struct err chain_load(const struct chain *, struct arena *, uint64_t *version,
    struct slice *bytes) MUST_CHECK;
/* *stands false: another's is there, or a newer one: load again. */
struct err chain_put(const struct chain *, uint64_t version, struct slice bytes,
    struct arena *, bool *stands) MUST_CHECK;
/* Removes all of it, unless there is a version after that one; the newest goes
 * last, so that no older one ever seems to be it. */
struct err chain_end(const struct chain *, uint64_t version) MUST_CHECK;
/* Removes what is more than keep versions older than version. */
struct err chain_collect(const struct chain *, uint64_t version, uint32_t keep)
    MUST_CHECK;

#endif
