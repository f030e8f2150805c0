#ifndef MEMWALD_ARROW_BATCH_H
#define MEMWALD_ARROW_BATCH_H

/*
 * batch - rows as columns, read only: views of bytes that somebody else owns.
 *
 * An array is one column of a run of rows in Arrow's layout. Its buffers may
 * lie in a mapped Lance file, in an IPC message that was read from a WAL entry,
 * or in an arena; who made the batch says how long they are good. Writers use
 * column.h, which ends as a batch as well, so that everything that consumes
 * rows (IPC, Lance pages, JSON, comparing) is written once, against this.
 *
 * Rules:	1. validity is NULL when no value is null, else bit i (LSB
 *		   first) is 1 where value i is there.
 *		2. offsets has length + 1 entries of arrow_offset_width bytes,
 *		   rising; the first need not be 0.
 *		3. values: fixed width: length values; BOOL: bits, LSB first;
 *		   FIXED_LIST: length * dim floats; strings: the bytes that
 *		   offsets point into; LIST and STRUCT: unused.
 *		4. children: LIST: one, its items, that offsets point into;
 *		   STRUCT: one a member, each of the same length.
 *		5. what stands under a null is any bytes, offsets of a null
 *		   are equal.
 *		6. far: the bytes of strings are not in memory but in a file,
 *		   and values is NULL. Only columns can be so, and only where
 *		   the batch was asked for like that (ipc_batch_read_far);
 *		   array_slice is not for them, array_length is.
 *		Whoever makes an array out of foreign bytes has checked all
 *		of these; readers rely on them.
 * Source:	Arrow columnar format 1.4.
 */

#include "common/arena.h"
#include "common/err.h"
#include "worker/arrow/schema.h"

struct array_far {
	int fd;				/* its owner's, who made the batch */
	uint64_t offset;		/* of values[0] in that file */
};

struct array {
	const struct arrow_field *field;
	uint64_t length;
	uint64_t null_count;
	const uint8_t *validity;
	const void *offsets;
	const void *values;
	const struct array *children;	/* field->child_count of them */
	const struct array_far *far;	/* NULL: values are in memory */
};

struct batch {
	const struct arrow_schema *schema;
	uint64_t row_count;
	const struct array *columns;	/* schema->field_count of them */
};

struct span {			/* items of a list value: a run of child rows */
	uint64_t first, count;
};

static inline bool
array_is_null(const struct array *a, uint64_t i)
{
	return a->validity != NULL && (a->validity[i / 8] >> (i % 8) & 1) == 0;
}

static inline uint64_t
array_offset(const struct array *a, uint64_t i)
{
	int32_t narrow;
	int64_t wide;

	if (arrow_offset_width((enum arrow_type)a->field->type) == 4) {
		memcpy(&narrow, (const char *)a->offsets + i * 4, 4);
		return (uint64_t)narrow;
	}
	memcpy(&wide, (const char *)a->offsets + i * 8, 8);
	return (uint64_t)wide;
}

/* Bytes of a string or binary. */
static inline uint64_t
array_length(const struct array *a, uint64_t i)
{
	return array_offset(a, i + 1) - array_offset(a, i);
}

/* Strings and binaries. */
static inline struct slice
array_slice(const struct array *a, uint64_t i)
{
	uint64_t from = array_offset(a, i);

	MUST(a->far == NULL);
	return slice_make((const char *)a->values + from,
	    array_offset(a, i + 1) - from);
}

/* LIST. */
static inline struct span
array_span(const struct array *a, uint64_t i)
{
	uint64_t from = array_offset(a, i);

	return (struct span){ from, array_offset(a, i + 1) - from };
}

static inline bool
array_bool(const struct array *a, uint64_t i)
{
	return ((const uint8_t *)a->values)[i / 8] >> (i % 8) & 1;
}

/* INT8, INT32, INT64, UINT32 and both timestamps. */
static inline int64_t
array_int(const struct array *a, uint64_t i)
{
	int32_t narrow;
	uint32_t unsign;
	int64_t wide;

	switch (a->field->type) {
	case ARROW_INT8:
		return ((const int8_t *)a->values)[i];
	case ARROW_INT32:
		memcpy(&narrow, (const char *)a->values + i * 4, 4);
		return narrow;
	case ARROW_UINT32:
		memcpy(&unsign, (const char *)a->values + i * 4, 4);
		return unsign;
	default:
		memcpy(&wide, (const char *)a->values + i * 8, 8);
		return wide;
	}
}

static inline uint64_t
array_uint64(const struct array *a, uint64_t i)
{
	uint64_t v;

	memcpy(&v, (const char *)a->values + i * 8, 8);
	return v;
}

/* FLOAT32 and the values of FIXED_LIST. */
static inline float
array_float(const struct array *a, uint64_t i)
{
	float v;

	memcpy(&v, (const char *)a->values + i * 4, 4);
	return v;
}

static inline double
array_double(const struct array *a, uint64_t i)
{
	double v;

	memcpy(&v, (const char *)a->values + i * 8, 8);
	return v;
}

/* Whether a column's values are in a file. */
bool batch_is_far(const struct batch *);
/* One row of a batch as a batch of its own, which looks at the same bytes. */
struct err batch_row(const struct batch *, uint64_t at, struct arena *,
    struct batch *out) MUST_CHECK;

#endif
