#ifndef MEMWALD_MAINTAIN_COMPACT_H
#define MEMWALD_MAINTAIN_COMPACT_H

/*
 * compact - small fragments of the base table become a large one, and rows that
 * deletion vectors mask go.
 *
 * By itself it is size-tiered: the smallest fragments are put together once
 * there are COMPACT_FRAGMENTS of them and the new one is at least
 * COMPACT_GROWTH times as large as any. So each row is rewritten a logarithm of
 * times, and a table of any age has a few fragments a tier. Fragments of which a
 * fifth is deleted are rewritten as well. Who asks for it has everything smaller
 * than the target put together.
 *
 * Prepare: the live rows of the chosen fragments are written, in key order, as
 * one new fragment. Values are copied as they are, all columns of the table:
 * also those that another engine added, and also rows that lost to a newer one
 * of their key, since they count for other engines. Memory is some MiB, the
 * keys, and four bytes a row to know where it went.
 *
 * Commit: one version has the new fragment instead of the old ones, and a
 * segment of the key's BTREE instead of what the old ones had. When another
 * commit took the version it is looked at: what was deleted meanwhile of an old
 * fragment is masked in the new one by its own deletion vector; an old fragment
 * that somebody rewrote, or that is gone, is masked as a whole, and so is one
 * that has got a column, which stays. So no deletion is undone, and no row comes
 * twice. If more than half of the new fragment would be masked, it is given up.
 *
 * A fragment that an index of another engine covers (of any other column) is
 * left to that engine, which rewrites it together with the index. Old files are
 * left to collection: reads that hold them go on.
 *
 * Death:	before the commit: files that no version names.
 * Locking:	the store's guard, the caller's; no lock across I/O. Folds and
 *		compactions of other instances, and other engines, may commit
 *		at any time.
 * Errors:	as they come; nothing visible has changed but for the passes
 *		that are in the result. CONFLICT: the work was given up.
 */

#include "worker/maintain/maintain.h"

#define COMPACT_FRAGMENTS	8u
#define COMPACT_GROWTH		4u
#define COMPACT_ROWS		(1u << 20)	/* of a new fragment, at most */
#define COMPACT_BYTES		(1ull << 30)

struct compact_wish {
	uint64_t target_rows;		/* of a new fragment, at most */
	uint64_t asked_ns;		/* when, by clock_mono_ns */
	bool all;			/* asked for: not by tiers */
	bool masked;			/* fragments with masked rows as well */
};

struct compact_result {
	uint32_t passes;		/* versions made */
	uint32_t fragments_removed, fragments_added;
	uint32_t files_removed, files_added;	/* of data and deletions */
};

/* What a tick does by itself. */
extern const struct compact_wish compact_by_itself;

/* Passes until nothing is left to do. The result also counts on an error. */
struct err compact_store(struct aged_store *, const struct compact_wish *,
    struct compact_result *) MUST_CHECK;

/* The counts in one word, as a reply by mailbox has them; what does not fit is
 * told as the largest that does. */
uint64_t compact_pack(const struct compact_result *);
struct compact_result compact_unpack(uint64_t);

#endif
