#ifndef MEMWALD_API_ROW_EVENT_H
#define MEMWALD_API_ROW_EVENT_H

/*
 * row_event - what rows of datagen stores have beyond columns (contract 2.5.1):
 * their value, an object whose kind says which column it is for, and rules
 * across the columns of a row and across the rows of a request.
 *
 * The members of a value come in any order, so that the text of "value" is
 * kept as value_json until the object ends and its kind is known; then it goes
 * to the column of that kind.
 *
 * Errors:	BAD_INPUT, naming row and field, as in row_read.h. NO_MEMORY.
 */

#include "common/buf.h"
#include "worker/api/row_machine.h"

/* The value object of the row at hand ends. */
ptrdiff_t row_event_end_value(struct row_read *);
/* All columns of the row at hand are there. */
ptrdiff_t row_event_end(struct row_read *);

/* The rules across the rows of one request; errors in the arena. */
struct err row_event_check(struct arena *, const struct batch *, struct span rows,
    bool checkpoint) MUST_CHECK;

/* "value":{...}, of a row that has one: without the bytes of a blob. False: the
 * buffer is full. */
bool row_event_write_value(struct buf *, const struct batch *, uint64_t row)
    MUST_CHECK;

#endif
