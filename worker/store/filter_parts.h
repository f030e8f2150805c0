#ifndef MEMWALD_STORE_FILTER_PARTS_H
#define MEMWALD_STORE_FILTER_PARTS_H

/*
 * filter_parts - a filter between its files: filter_lex.c cuts the text into
 * tokens, filter_parse.c makes steps of them, filter_program.c keeps the steps,
 * filter_check.c types operands, filter_value.c orders values, filter_like.c
 * matches patterns, filter_eval.c runs the steps.
 *
 * A filter is a program in postfix order. Each predicate pushes a column of
 * truth values (a bit for true and one for false a row, neither: unknown), AND
 * and OR join the two on top. Before the right side of an AND stands a SKIP
 * step: where the left side is false in all rows the right one is not looked
 * at, and its columns are not read. Where no NOT is around it, it is enough that
 * it is true in none: whether false or unknown makes no difference. So neither parsing nor running recurses
 * over what a client has sent.
 */

#include "worker/store/filter.h"

enum filter_type {		/* what an operand is in comparisons */
	FILTER_INT,
	FILTER_FLOAT,
	FILTER_DOUBLE,
	FILTER_NUMBER,		/* a literal */
	FILTER_TEXT,
	FILTER_BOOL,
	FILTER_TIME,
	FILTER_OTHER,		/* nothing but null can be asked */
};

enum filter_from { FILTER_COLUMN, FILTER_VERSION, FILTER_LITERAL };

struct filter_operand {
	uint8_t from;			/* enum filter_from */
	uint8_t type;			/* enum filter_type */
	uint16_t column;
	uint32_t at;			/* in the text, for errors */
	/* Of a literal: */
	struct slice text;
	int64_t whole;			/* BOOL, TIME; NUMBER: rounded down */
	double real;			/* NUMBER: the nearest */
	bool fraction;			/* NUMBER: above whole */
	int8_t beyond;			/* NUMBER: below -1, above 1 int64 */
};

/* Orders as a set, so that <= is one step and not two. */
enum filter_order { FILTER_LESS = 1, FILTER_SAME = 2, FILTER_MORE = 4 };

struct filter_pattern;

enum filter_op {
	FILTER_OP_COMPARE,	/* a orders b */
	FILTER_OP_IN,		/* a list */
	FILTER_OP_LIKE,		/* a pattern */
	FILTER_OP_NULL,		/* a */
	FILTER_OP_TRUTH,	/* a, a boolean */
	FILTER_OP_IS_TRUE,	/* of the top: unknown is false */
	FILTER_OP_NOT,		/* the top */
	FILTER_OP_AND,		/* the two on top */
	FILTER_OP_OR,
	FILTER_OP_SKIP_NO,	/* if the top is false everywhere */
	FILTER_OP_SKIP_UNLESS,	/* if the top is true nowhere */
	FILTER_OP_SKIP_YES,	/* if the top is true everywhere */
};

struct filter_step {
	uint8_t op;			/* enum filter_op */
	uint8_t orders;			/* set of enum filter_order */
	uint32_t count;			/* IN: of the list; SKIP: where to */
	const struct filter_operand *a, *b;	/* IN: b is a sorted list */
	const struct filter_pattern *pattern;
};

struct filter {
	const struct store_shape *shape;
	uint32_t depth;			/* of the stack when it runs */
	uint32_t step_count;
	const struct filter_step *steps;
	const bool *uses;		/* a column of the shape each */
};

/* ---- filter_program.c */

struct filter_program {		/* a filter that is being made */
	struct arena *arena;
	const struct store_shape *shape;
	bool *uses;
	uint32_t count, room;
	struct filter_step *steps;
	uint32_t height, depth;		/* of the stack at run time */
};

struct err filter_program_start(struct filter_program *,
    const struct store_shape *, struct arena *) MUST_CHECK;
struct err filter_program_add(struct filter_program *,
    const struct filter_step *) MUST_CHECK;
struct err filter_program_end(struct filter_program *, const struct filter **)
    MUST_CHECK;

/* ---- filter_lex.c */

enum filter_token {
	FILTER_END, FILTER_WORD, FILTER_QUOTED, FILTER_STRING, FILTER_DIGITS,
	FILTER_OPEN, FILTER_CLOSE, FILTER_COMMA, FILTER_COMPARE,
};

struct filter_lex {
	struct slice text;		/* of the filter */
	struct arena *arena;
	size_t next;			/* behind the token */
	/* The token: */
	uint8_t token;			/* enum filter_token */
	uint8_t orders;			/* COMPARE */
	size_t at;			/* where it begins */
	struct slice value;		/* without quotes */
};

struct err filter_lex_next(struct filter_lex *) MUST_CHECK;
/* BAD_INPUT: "filter, position N: ", and what it says. */
struct err filter_lex_fail(const struct filter_lex *, size_t at,
    const char *fmt, ...) PRINTF_LIKE(3, 4) MUST_CHECK;
/* BAD_INPUT: expected that, found the token. */
struct err filter_lex_expected(const struct filter_lex *, const char *)
    MUST_CHECK;
/* Whether the token is this keyword, in any case. */
bool filter_lex_is(const struct filter_lex *, const char *word) MUST_CHECK;

/* ---- filter_check.c */

/* Literals of the token (a number: its digits). */
struct err filter_check_number(const struct filter_lex *,
    struct filter_operand *) MUST_CHECK;
struct err filter_check_time(const struct filter_lex *,
    struct filter_operand *) MUST_CHECK;
/* The column of this name. */
struct err filter_check_column(const struct filter_lex *,
    const struct store_shape *, struct filter_operand *) MUST_CHECK;
uint8_t filter_check_type(enum arrow_type);
/* Whether the two can be compared; rounds a literal to the other's type. */
struct err filter_check_pair(const struct filter_lex *,
    const struct store_shape *, struct filter_operand *,
    struct filter_operand *) MUST_CHECK;
/* BAD_INPUT unless it is of that type. */
struct err filter_check_is(const struct filter_lex *,
    const struct store_shape *, const struct filter_operand *,
    enum filter_type, const char *what) MUST_CHECK;

/* ---- filter_value.c */

struct filter_value {
	uint8_t type;			/* enum filter_type */
	int64_t whole;			/* INT, BOOL, TIME */
	double real;			/* FLOAT, DOUBLE */
	struct slice text;		/* TEXT */
};

/* <0, 0, >0 of two that may be compared; literals are operands. */
int filter_value_int(int64_t, const struct filter_operand *literal);
int filter_value_double(double, double);
int filter_value_pair(const struct filter_value *, const struct filter_value *);
int filter_value_literal(const struct filter_value *,
    const struct filter_operand *literal);
int filter_value_literals(const struct filter_operand *,
    const struct filter_operand *);
/* The integer that text ends with; false: none. */
bool filter_value_version(struct slice, int64_t *) MUST_CHECK;

/* ---- filter_like.c */

/* *why: what is wrong with the pattern, if it is. NO_MEMORY. */
struct err filter_like_make(struct slice pattern, struct arena *,
    const struct filter_pattern **, const char **why) MUST_CHECK;
bool filter_like_match(const struct filter_pattern *, struct slice) MUST_CHECK;

#endif
