#ifndef MEMWALD_COMMON_NUMBER_H
#define MEMWALD_COMMON_NUMBER_H

/*
 * number - numbers from and to text, without locale and without rounding.
 *
 * Floats are read to the nearest value and printed as the shortest text that
 * reads back as the same value. The conversions are those of libstdc++ behind
 * one C++ file; in front of them stands a path for short decimals, which is
 * what log-probabilities are, since it halves the cost of a row.
 *
 * The texts are JSON numbers: the caller has checked the grammar, so there is
 * no sign "+", no blank, no hex and no "nan".
 *
 * Locking:	none needed; no state.
 * Errors:	overflow is an answer. What is too small for a denormal is zero.
 */

#include "common/base.h"
#include "common/slice.h"

/* Of any number here: "-1.7976931348623157e+308", "-9223372036854775808". */
#define NUMBER_TEXT_MAX 32

#ifdef __cplusplus
extern "C" {
#endif

enum number_outcome {
	NUMBER_OK,
	NUMBER_OVERFLOW,	/* beyond the type */
	NUMBER_NOT,		/* no number, or (integers) a fraction or exponent */
};

enum number_outcome number_float(struct slice, float *) MUST_CHECK;
enum number_outcome number_double(struct slice, double *) MUST_CHECK;
/* "-0" is 0; "1.0" and "1e3" are NUMBER_NOT: no integer (contract 1.1). */
enum number_outcome number_int64(struct slice, int64_t *) MUST_CHECK;
enum number_outcome number_uint64(struct slice, uint64_t *) MUST_CHECK;

/* Write at most NUMBER_TEXT_MAX bytes, no NUL, and answer how many. The value
 * must be finite: JSON has no other. */
size_t number_print_float(char *, float);
size_t number_print_double(char *, double);
size_t number_print_int64(char *, int64_t);
size_t number_print_uint64(char *, uint64_t);

#ifdef __cplusplus
}
#endif

#endif
