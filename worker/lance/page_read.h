#ifndef MEMWALD_LANCE_PAGE_READ_H
#define MEMWALD_LANCE_PAGE_READ_H

/*
 * page_read - runs of rows of an open data file as Arrow arrays.
 *
 * Values stay where they are in the mapping if the run lies in one page: fixed
 * width values and string bytes always, bits if the run begins at a whole byte.
 * Offsets are made anew (Lance has ends and no first 0), dictionaries are
 * resolved, and what crosses a page is put together in the arena. So one row
 * costs some tens of ns a column, and a long run little more than its offsets.
 *
 * What comes out keeps the rules of batch.h: offsets are checked here, value by
 * value of the run, since the file may hold anything. That text is UTF-8 is
 * not checked.
 *
 * Lifetime:	the array is good as long as the file is open and the arena is
 *		not reset.
 * Locking:	none needed; the file is immutable.
 * Mapping:	reading and using what was read are for a marked read
 *		(object/map.h), which is the caller's: values are still in the
 *		file when these functions have returned.
 * Errors:	CORRUPT: offsets that fall or leave their page, a page of a
 *		form that the field's type cannot have, a child shorter than
 *		its parent says. NO_MEMORY: the arena's cap; take a shorter run.
 *		TOO_LARGE: 2 GiB or more of a string or list with 32 bit
 *		offsets; take a shorter run.
 */

#include "worker/arrow/batch.h"
#include "worker/lance/data_file.h"

/* Rows [run.first, run.first + run.count) of a column. The field may be of
 * any depth; its ids and those below it say which columns are read. A field
 * that the file does not have is null in every row. */
struct err page_read_run(const struct data_file *, const struct arrow_field *,
    struct span run, struct arena *, struct array *) MUST_CHECK;
/* Fetches into the caches what reading one row of all columns begins with. A
 * row of many small files is else one miss after the other. */
void page_read_prefetch(const struct data_file *, uint64_t row);
/* count nulls. */
struct err page_read_nulls(const struct arrow_field *, uint64_t count,
    struct arena *, struct array *) MUST_CHECK;

#endif
