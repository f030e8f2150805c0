#ifndef MEMWALD_STORE_KIND_FIELD_H
#define MEMWALD_STORE_KIND_FIELD_H

/*
 * kind_field - how the kinds' tables of fields are written down. Ids are
 * written out rather than counted, since a table on disk refers to them for
 * ever; kind_test.c checks that they run depth first.
 *
 * Lifetime:	static.
 */

#include "worker/store/kind.h"

#define NAMED(text)	.name = { (text), sizeof(text) - 1 }

/* One leaf; one list with its item, ids n and n + 1. */
#define LEAF(n, name_, type_, null_) \
	{ NAMED(name_), .type = ARROW_##type_, .nullable = (null_), .id = (n) }
#define LIST(n, name_, items_) \
	{ NAMED(name_), .type = ARROW_LIST, .nullable = true, .id = (n), \
	  .child_count = 1, .children = (items_) }

/* Of the key column: its mark and its position. */
#define KIND_KEY_PAIRS	2u

extern const struct arrow_pair kind_key_pairs[KIND_KEY_PAIRS];

#endif
