#include "common/base.h"

#include <stdlib.h>

#include "worker/arrow/bits.h"
#include "worker/arrow/column.h"
#include "worker/lance/file_meta.h"
#include "worker/lance/page_write.h"

/*
 * Every column of the file, in Lance's order, has a buffer of page messages
 * that grows while pages are written. A group of pages is a run of rows of some
 * batch: the gathered one, or the caller's own where it is large enough. Values
 * go from the batch to the object writer as they lie; what Lance stores
 * otherwise (offsets, bits that do not begin at a byte) passes through one
 * scratch buffer, a piece at a time.
 */

#define SCRATCH_BYTES	(64u << 10)
#define SCRATCH_ENDS	(SCRATCH_BYTES / 8)

struct page_writer {
	const struct arrow_schema *schema;
	struct object_writer *out;
	struct builder gathered;
	struct file_meta meta;
	uint64_t row_count;		/* of groups that are written */
	char *scratch;
};

/* What a run of values costs in the widest of its Lance columns, and in all. */
struct cost {
	uint64_t widest, total;
};

static struct err write_column(struct page_writer *, const struct array *,
    struct span run, uint32_t *column);

static uint64_t
value_bytes(const struct arrow_field *field)
{
	if (field->type == ARROW_FIXED_LIST)
		return 4ull * (uint32_t)field->dim;
	return arrow_type_width((enum arrow_type)field->type);
}

static struct span
item_run(const struct array *a, struct span run)
{
	uint64_t from = array_offset(a, run.first);

	return (struct span){ from, array_offset(a, run.first + run.count) - from };
}

static void
add_cost(const struct array *a, struct span run, struct cost *c)
{
	uint64_t bytes;
	uint32_t i;

	switch (a->field->type) {
	case ARROW_UTF8:
	case ARROW_LARGE_UTF8:
	case ARROW_BINARY:
	case ARROW_LARGE_BINARY:
		bytes = run.count * 8 + item_run(a, run).count;
		break;
	case ARROW_LIST:
		bytes = run.count * 8;
		add_cost(&a->children[0], item_run(a, run), c);
		break;
	case ARROW_STRUCT:
		bytes = 0;
		for (i = 0; i < a->field->child_count; i++)
			add_cost(&a->children[i], run, c);
		break;
	case ARROW_BOOL:
		bytes = run.count / 8;
		break;
	default:
		bytes = run.count * value_bytes(a->field);
	}
	c->widest = MAX(c->widest, bytes);
	c->total += bytes;
}

static bool
fits_group(const struct batch *b, struct span rows)
{
	struct cost c = { 0, 0 };
	uint32_t i;

	for (i = 0; i < b->schema->field_count; i++)
		add_cost(&b->columns[i], rows, &c);
	return c.widest <= PAGE_WRITE_BYTES && c.total <= PAGE_WRITE_GROUP_BYTES;
}

/* How many rows from the first on make one group: at least one, not all. */
static uint64_t
group_rows(const struct batch *b, struct span rows)
{
	uint64_t low = 1, high = rows.count, middle;

	while (high - low > 1) {
		middle = low + (high - low) / 2;
		if (fits_group(b, (struct span){ rows.first, middle }))
			low = middle;
		else
			high = middle;
	}
	return low;
}

static uint64_t
count_nulls(const struct array *a, struct span run)
{
	if (a->validity == NULL)
		return 0;
	return run.count - bits_count(a->validity, run.first, run.count);
}

static struct err
start_buffer(struct page_writer *w, struct file_page *page)
{
	struct err e = object_writer_pad(w->out, 64);

	MUST(page->buffer_count < FILE_PAGE_BUFFERS);
	page->offsets[page->buffer_count++] = object_writer_at(w->out);
	return e;
}

static void
end_buffer(struct page_writer *w, struct file_page *page)
{
	uint32_t i = page->buffer_count - 1;

	page->sizes[i] = object_writer_at(w->out) - page->offsets[i];
}

static struct err
write_buffer(struct page_writer *w, struct file_page *page, const void *ptr,
    uint64_t len)
{
	struct err e = start_buffer(w, page);

	if (!err_is(e) && len > 0)
		e = object_writer_write(w->out, ptr, len);
	end_buffer(w, page);
	return e;
}

static struct err
write_bits(struct page_writer *w, struct file_page *page, const uint8_t *bits,
    struct span run)
{
	struct err e = start_buffer(w, page);
	uint64_t at = 0, n;

	while (!err_is(e) && at < run.count) {
		n = MIN(run.count - at, 8ull * SCRATCH_BYTES);
		w->scratch[(n - 1) / 8] = 0;
		bits_copy((uint8_t *)w->scratch, 0, bits, run.first + at, n);
		e = object_writer_write(w->out, w->scratch, (n + 7) / 8);
		at += n;
	}
	end_buffer(w, page);
	return e;
}

/* The ends of strings or lists, relative to the first; a null's is moved up by
 * the adjustment. */
static struct err
write_ends(struct page_writer *w, struct file_page *page, const struct array *a,
    struct span run)
{
	uint64_t base = array_offset(a, run.first), *ends = (uint64_t *)w->scratch;
	struct err e = start_buffer(w, page);
	uint64_t i, n, at = run.first, last = run.first + run.count;

	while (!err_is(e) && at < last) {
		n = MIN(last - at, SCRATCH_ENDS);
		for (i = 0; i < n; i++) {
			ends[i] = array_offset(a, at + i + 1) - base;
			if (array_is_null(a, at + i))
				ends[i] += page->null_at;
		}
		e = object_writer_write(w->out, ends, n * 8);
		at += n;
	}
	end_buffer(w, page);
	return e;
}

static struct err
write_fixed(struct page_writer *w, const struct array *a, struct span run,
    struct file_page *page)
{
	uint64_t bytes = value_bytes(a->field);
	struct err e = OK;

	page->has_nulls = count_nulls(a, run) > 0;
	if (page->has_nulls)
		e = write_bits(w, page, a->validity, run);
	if (err_is(e))
		return e;
	if (a->field->type == ARROW_BOOL)
		return write_bits(w, page, a->values, run);
	return write_buffer(w, page, (const char *)a->values + run.first * bytes,
	    run.count * bytes);
}

static struct err
write_strings(struct page_writer *w, const struct array *a, struct span run,
    struct file_page *page)
{
	struct span bytes = item_run(a, run);
	struct err e;

	page->null_at = bytes.count + 1;
	e = write_ends(w, page, a, run);
	if (err_is(e))
		return e;
	if (a->far == NULL)
		return write_buffer(w, page,
		    (const char *)a->values + bytes.first, bytes.count);
	e = start_buffer(w, page);
	if (!err_is(e))
		e = object_writer_copy(w->out, a->far->fd,
		    a->far->offset + bytes.first, bytes.count);
	end_buffer(w, page);
	return e;
}

static struct err
write_list(struct page_writer *w, const struct array *a, struct span run,
    uint32_t *column)
{
	struct file_page page = { .count = run.count };
	struct span items = item_run(a, run);
	struct err e;

	page.item_count = items.count;
	page.null_at = items.count + 1;
	e = write_ends(w, &page, a, run);
	if (!err_is(e))
		e = file_meta_add(&w->meta, (*column)++, &page);
	if (err_is(e))
		return e;
	return write_column(w, &a->children[0], items, column);
}

static struct err
write_struct(struct page_writer *w, const struct array *a, struct span run,
    uint32_t *column)
{
	struct file_page page = { .count = run.count };
	struct err e;
	uint32_t i;

	if (count_nulls(a, run) > 0)
		return FAIL(UNSUPPORTED, "null struct in a data file of format 2.0");
	e = file_meta_add(&w->meta, (*column)++, &page);
	for (i = 0; !err_is(e) && i < a->field->child_count; i++)
		e = write_column(w, &a->children[i], run, column);
	return e;
}

/* One page of this column, and of those below it. Without values there is none:
 * file_meta_fill adds what a column must have at the end. */
static struct err
write_column(struct page_writer *w, const struct array *a, struct span run,
    uint32_t *column)
{
	struct file_page page = { .count = run.count };
	struct err e;

	if (run.count == 0) {
		*column += file_meta_columns(a->field);
		return OK;
	}
	switch (a->field->type) {
	case ARROW_LIST:
		return write_list(w, a, run, column);
	case ARROW_STRUCT:
		return write_struct(w, a, run, column);
	case ARROW_UTF8:
	case ARROW_LARGE_UTF8:
	case ARROW_BINARY:
	case ARROW_LARGE_BINARY:
		e = write_strings(w, a, run, &page);
		break;
	default:
		e = write_fixed(w, a, run, &page);
	}
	if (!err_is(e))
		e = file_meta_add(&w->meta, (*column)++, &page);
	return e;
}

static struct err
write_group(struct page_writer *w, const struct batch *b, struct span rows)
{
	uint32_t column = 0, i;
	struct err e = OK;

	for (i = 0; !err_is(e) && i < b->schema->field_count; i++)
		e = write_column(w, &b->columns[i], rows, &column);
	if (!err_is(e))
		w->row_count += rows.count;
	return e;
}

static struct err
write_gathered(struct page_writer *w)
{
	struct batch b = builder_batch(&w->gathered);
	struct err e;

	if (b.row_count == 0)
		return OK;
	e = write_group(w, &b, (struct span){ 0, b.row_count });
	builder_clear(&w->gathered, 2u * PAGE_WRITE_GROUP_BYTES);
	return e;
}

static struct err
gather(struct page_writer *w, const struct batch *b, struct span rows)
{
	uint32_t i;

	for (i = 0; i < b->schema->field_count; i++) {
		if (!column_copy_run(&w->gathered.columns[i], &b->columns[i],
		    rows.first, rows.count))
			return FAIL(NO_MEMORY, "gather rows of a data file");
	}
	builder_end_rows(&w->gathered, rows.count);
	return OK;
}

/* Are these rows, behind the gathered ones, still one group? Costs add up but
 * for what is widest, which is taken as the sum: pages end a little early. */
static bool
fits_behind(struct page_writer *w, const struct batch *b, struct span rows)
{
	struct batch before = builder_batch(&w->gathered);
	struct cost c = { 0, 0 }, more;
	uint32_t i;

	for (i = 0; i < b->schema->field_count; i++) {
		more = (struct cost){ 0, 0 };
		add_cost(&before.columns[i], (struct span){ 0, before.row_count },
		    &more);
		c.total += more.total;
		c.widest = more.widest;
		more = (struct cost){ 0, 0 };
		add_cost(&b->columns[i], rows, &more);
		c.total += more.total;
		if (c.widest + more.widest > PAGE_WRITE_BYTES)
			return false;
	}
	return c.total <= PAGE_WRITE_GROUP_BYTES;
}

/* How many of the rows still go behind the gathered ones; may be none. */
static uint64_t
rows_behind(struct page_writer *w, const struct batch *b, struct span rows)
{
	uint64_t low = 0, high = rows.count, middle;

	if (fits_behind(w, b, rows))
		return rows.count;
	while (high - low > 1) {
		middle = low + (high - low) / 2;
		if (fits_behind(w, b, (struct span){ rows.first, middle }))
			low = middle;
		else
			high = middle;
	}
	return low;
}

struct err
page_write_run(struct page_writer *w, const struct batch *b, struct span rows)
{
	bool far = batch_is_far(b);
	struct err e = OK;
	uint64_t n;

	MUST(b->schema->field_count == w->schema->field_count);
	MUST(rows.first <= b->row_count && rows.count <= b->row_count - rows.first);
	if (far) {
		e = write_gathered(w);
	} else if (w->gathered.row_count > 0) {
		n = rows_behind(w, b, rows);
		e = gather(w, b, (struct span){ rows.first, n });
		rows.first += n;
		rows.count -= n;
		if (!err_is(e) && rows.count > 0)
			e = write_gathered(w);
	}
	while (!err_is(e) && rows.count > 0) {
		n = rows.count;
		if (!fits_group(b, rows))
			n = group_rows(b, rows);
		else if (!far)
			return gather(w, b, rows);
		e = write_group(w, b, (struct span){ rows.first, n });
		rows.first += n;
		rows.count -= n;
	}
	return e;
}

struct err
page_write_batch(struct page_writer *w, const struct batch *b)
{
	return page_write_run(w, b, (struct span){ 0, b->row_count });
}

uint64_t
page_write_rows(const struct page_writer *w)
{
	return w->row_count + w->gathered.row_count;
}

struct err
page_write_open(struct object_dir *dir, const char *name,
    const struct arrow_schema *schema, struct object_pace *pace,
    struct page_writer **out)
{
	struct page_writer *w = calloc(1, sizeof(*w));
	struct err e;

	if (w == NULL)
		return FAIL(NO_MEMORY, "open a data file");
	w->schema = schema;
	w->scratch = malloc(SCRATCH_BYTES);
	e = w->scratch == NULL ? FAIL(NO_MEMORY, "open a data file") :
	    builder_init(&w->gathered, schema, 4u * PAGE_WRITE_BYTES);
	if (!err_is(e))
		e = file_meta_init(&w->meta, schema);
	if (!err_is(e))
		e = object_writer_open(dir, name, pace, &w->out);
	if (err_is(e)) {
		page_write_abort(w);
		return e;
	}
	*out = w;
	return OK;
}

static void
writer_free(struct page_writer *w)
{
	if (w->gathered.columns != NULL)
		builder_free(&w->gathered);
	file_meta_free(&w->meta);
	free(w->scratch);
	free(w);
}

void
page_write_abort(struct page_writer *w)
{
	if (w == NULL)
		return;
	if (w->out != NULL)
		object_writer_abort(w->out);
	writer_free(w);
}

struct err
page_write_finish(struct page_writer *w, struct page_written *out)
{
	struct page_written written;
	struct err e;

	e = write_gathered(w);
	if (!err_is(e))
		e = file_meta_write(&w->meta, w->out, w->row_count);
	if (err_is(e)) {
		page_write_abort(w);
		return e;
	}
	written.size_bytes = object_writer_at(w->out);
	written.row_count = w->row_count;
	e = object_writer_finish(w->out);
	w->out = NULL;
	writer_free(w);
	if (!err_is(e))
		*out = written;
	return e;
}

uint32_t
page_write_column_count(const struct arrow_schema *schema)
{
	uint32_t n = 0, i;

	for (i = 0; i < schema->field_count; i++)
		n += file_meta_columns(&schema->fields[i]);
	return n;
}

static int32_t *
list_ids(const struct arrow_field *field, int32_t *ids)
{
	uint32_t i;

	*ids++ = field->id;
	for (i = 0; i < field->child_count; i++)
		ids = list_ids(&field->children[i], ids);
	return ids;
}

void
page_write_field_ids(const struct arrow_schema *schema, int32_t *ids)
{
	uint32_t i;

	for (i = 0; i < schema->field_count; i++)
		ids = list_ids(&schema->fields[i], ids);
}

struct err
page_write_describe(const struct arrow_schema *schema, struct slice path,
    const struct page_written *written, struct arena *arena,
    struct table_file *file)
{
	uint32_t columns = page_write_column_count(schema), i;
	int32_t *ids = arena_calloc(arena, columns, sizeof(*ids));
	int32_t *numbers = arena_calloc(arena, columns, sizeof(*numbers));

	if (ids == NULL || numbers == NULL)
		return FAIL(NO_MEMORY, "describe a data file");
	page_write_field_ids(schema, ids);
	for (i = 0; i < columns; i++)
		numbers[i] = (int32_t)i;
	*file = (struct table_file){
		.path = path, .field_count = columns,
		.fields = ids, .columns = numbers,
		.size_bytes = written->size_bytes,
	};
	return OK;
}
