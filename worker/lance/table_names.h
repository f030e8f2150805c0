#ifndef MEMWALD_LANCE_TABLE_NAMES_H
#define MEMWALD_LANCE_TABLE_NAMES_H

/*
 * table_names - all that one version of a table names, for whoever decides
 * what may be deleted: data files, deletion files, index segments (each a
 * directory), the transaction that made it. Not its own manifest.
 *
 * Names are relative to the table's directory, as in table.h.
 *
 * Lifetime:	a name is good during its call.
 * Errors:	CORRUPT: a name longer than OBJECT_NAME_MAX. What the call back
 *		answers, which ends it.
 */

#include "worker/lance/table.h"

typedef struct err table_name_fn(const char *name, void *ctx);

struct err table_names(const struct table *, table_name_fn *, void *ctx)
    MUST_CHECK;

#endif
