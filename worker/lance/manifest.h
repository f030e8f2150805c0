#ifndef MEMWALD_LANCE_MANIFEST_H
#define MEMWALD_LANCE_MANIFEST_H

/*
 * manifest - the bytes of a manifest file as a table; pure, no I/O. Used by
 * table.c, whose header tells the format and what is refused.
 *
 * Lifetime:	file must live as long as the table, best in its arena: names
 *		and raw sections point into it or into copies there.
 * Errors:	those of table.h; the text may lie in the table's arena.
 */

#include "worker/lance/table.h"

#define MEM_WAL_NAME	"__lance_mem_wal"	/* of its index entry */

/* The table comes cleared, with an arena. */
struct err manifest_read(struct table *, struct slice file) MUST_CHECK;

#endif
