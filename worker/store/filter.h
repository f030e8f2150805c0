#ifndef MEMWALD_STORE_FILTER_H
#define MEMWALD_STORE_FILTER_H

/*
 * filter - which rows a reader asks for: parsed once, typed against the
 * store's columns, evaluated on columns (contract 3.3.4, 3.1.4, 10).
 *
 *	expr	or ;  or := and { OR and } ;  and := not { AND not }
 *	not	[NOT] ( "(" expr ")" | predicate )
 *	predicate
 *		operand ( = == != <> < <= > >= ) operand
 *		operand [NOT] IN "(" literal {"," literal} ")"
 *		operand [NOT] BETWEEN operand AND operand
 *		operand [NOT] LIKE text
 *		operand IS [NOT] ( NULL | TRUE | FALSE ), or a boolean operand
 *	operand	column | `any name` | "any name" | version(column) | literal
 *	literal	'text' ('' is a quote) | [+-] digits [. digits] [e [+-] digits]
 *		| TRUE | FALSE | timestamp 'RFC 3339, or without a zone: UTC'
 *
 * Keywords come in any case, column names do not. Internal columns are none.
 *
 * Meaning:	1. Three values: what compares with a null is unknown, and a
 *		   row is given only where the whole is true.
 *		2. Integers compare exactly with whatever number it is. A
 *		   literal beside a float column is first rounded to the
 *		   column's type, as a stored value was: so 0.1 finds 0.1.
 *		   NaN is equal to itself and above all numbers, -0 is 0.
 *		3. Text compares bytewise. In LIKE % is any text, _ one code
 *		   point; \ takes what follows as it is, at the end itself.
 *		4. version(c) is the integer that the text of c ends with, or
 *		   null: none, or beyond int64.
 *		5. Lists, vectors and bytes can only be asked whether they are
 *		   null.
 *
 * Bounds:	FILTER_STEPS_MAX, FILTER_NESTING_MAX; a part of a LIKE pattern
 *		that must be searched for and has a _ is at most
 *		FILTER_SEARCH_MAX long, else one row could take seconds.
 * Lifetime:	immutable; a filter and all in it lives in the arena that it
 *		was made in. Text that it was made of need not stay.
 * Locking:	none needed.
 * Errors:	BAD_INPUT with the position (in characters, from 1) and what
 *		was expected; the text is in the arena. NO_MEMORY.
 */

#include "common/arena.h"
#include "common/err.h"
#include "worker/arrow/batch.h"
#include "worker/store/kind.h"

#define FILTER_STEPS_MAX	4096u
#define FILTER_NESTING_MAX	64u
#define FILTER_SEARCH_MAX	64u

struct filter;

struct err filter_parse(const struct store_shape *, struct slice text,
    struct arena *, const struct filter **) MUST_CHECK;

/* Made by the program, which knows the types: column = text, column = bool. */
struct err filter_text(const struct store_shape *, uint32_t column,
    struct slice text, struct arena *, const struct filter **) MUST_CHECK;
struct err filter_bool(const struct store_shape *, uint32_t column, bool,
    struct arena *, const struct filter **) MUST_CHECK;
/* Both; either may be NULL, which is no condition. Of one shape. */
struct err filter_both(const struct filter *, const struct filter *,
    struct arena *, const struct filter **) MUST_CHECK;

/* Whether it looks at a column of its shape. */
bool filter_uses(const struct filter *, uint32_t column) MUST_CHECK;

/* A run of rows: columns are asked for when they are needed, each once. They
 * must have at least count values. */
struct filter_rows {
	uint64_t count;
	struct err (*column)(void *ctx, uint32_t column, struct array *);
	void *ctx;
};

#define FILTER_WORDS(rows)	(((rows) + 63) / 64)

/* Bit i of match (FILTER_WORDS of them, all written) is 1 where row i is to
 * be given; those behind the last row are 0. The arena is scratch. Bytes of
 * mapped files are read: for a marked read, if they are. */
struct err filter_eval(const struct filter *, const struct filter_rows *,
    struct arena *scratch, uint64_t *match) MUST_CHECK;
/* All rows of a batch that has the shape's schema. */
struct err filter_eval_batch(const struct filter *, const struct batch *,
    struct arena *scratch, uint64_t *match) MUST_CHECK;

#endif
