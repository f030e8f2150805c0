#include "common/base.h"

#include <stdlib.h>

#include "worker/lance/field.h"
#include "worker/lance/file.pb-c.h"
#include "worker/lance/file_meta.h"
#include "worker/lance/proto.h"

/*
 * Encodings are small nested messages, built from the inside out in a fixed
 * array: wrapping puts a tag and a length in front. All are shorter than 128
 * bytes, so each length is one byte.
 */

#define ENCODING_MAX	127u
#define ARRAY_URL	"/lance.encodings.ArrayEncoding"
#define COLUMN_URL	"/lance.encodings.ColumnEncoding"
#define DESCRIPTOR_MAX	(16u << 20)

#define TAG(number, wire) ((number) << 3 | (wire))
#define VARINT	0u
#define BYTES	2u

struct encoding {
	uint8_t bytes[ENCODING_MAX];
	uint32_t len;
};

static uint32_t
put_varint(uint8_t *to, uint64_t v)
{
	uint32_t n = 0;

	for (; v >= 0x80; v >>= 7)
		to[n++] = (uint8_t)(v | 0x80);
	to[n++] = (uint8_t)v;
	return n;
}

static void
add_bytes(struct encoding *e, const void *bytes, uint32_t len)
{
	MUST(len <= ENCODING_MAX - e->len);
	memcpy(e->bytes + e->len, bytes, len);
	e->len += len;
}

/* A number; proto3 leaves a 0 out. */
static void
add_number(struct encoding *e, uint32_t field, uint64_t v)
{
	uint8_t bytes[11];
	uint32_t n;

	if (v == 0)
		return;
	bytes[0] = (uint8_t)TAG(field, VARINT);
	n = 1 + put_varint(bytes + 1, v);
	add_bytes(e, bytes, n);
}

static void
add_message(struct encoding *e, uint32_t field, const struct encoding *inner)
{
	uint8_t head[2] = { (uint8_t)TAG(field, BYTES), (uint8_t)inner->len };

	add_bytes(e, head, sizeof(head));
	add_bytes(e, inner->bytes, inner->len);
}

static struct encoding
wrap(uint32_t field, struct encoding inner)
{
	struct encoding e = { .len = 0 };

	add_message(&e, field, &inner);
	return e;
}

/* The buffer is a message also when its index is 0. */
static struct encoding
flat(uint64_t bits, uint32_t buffer)
{
	struct encoding e = { .len = 0 }, index = { .len = 0 };

	add_number(&index, 1, buffer);
	add_number(&e, 1, bits);
	add_message(&e, 2, &index);
	return wrap(1, e);
}

static struct encoding
no_null(struct encoding values)
{
	return wrap(2, wrap(1, wrap(1, values)));
}

static struct encoding
some_null(struct encoding values)
{
	struct encoding e = { .len = 0 }, validity = flat(1, 0);

	add_message(&e, 1, &validity);
	add_message(&e, 2, &values);
	return wrap(2, wrap(2, e));
}

static struct encoding
all_null(void)
{
	struct encoding nothing = { .len = 0 };

	return wrap(2, wrap(3, nothing));
}

static struct encoding
fixed(const struct arrow_field *field, const struct file_page *page)
{
	uint32_t buffer = page->has_nulls ? 1 : 0;
	struct encoding list = { .len = 0 }, values, items;

	if (page->count == 0)
		return all_null();
	if (field->type == ARROW_FIXED_LIST) {
		items = no_null(flat(32, buffer));
		add_number(&list, 1, (uint32_t)field->dim);
		add_message(&list, 2, &items);
		values = wrap(3, list);
	} else if (field->type == ARROW_BOOL) {
		values = flat(1, buffer);
	} else {
		values = flat(8 * arrow_type_width((enum arrow_type)field->type),
		    buffer);
	}
	return page->has_nulls ? some_null(values) : no_null(values);
}

static struct encoding
strings(const struct file_page *page)
{
	struct encoding e = { .len = 0 }, ends = no_null(flat(64, 0));
	struct encoding bytes = flat(8, 1);

	add_message(&e, 1, &ends);
	add_message(&e, 2, &bytes);
	add_number(&e, 3, page->null_at);
	return wrap(6, e);
}

static struct encoding
list(const struct file_page *page)
{
	struct encoding e = { .len = 0 }, ends = no_null(flat(64, 0));

	add_message(&e, 1, &ends);
	add_number(&e, 2, page->null_at);
	add_number(&e, 3, page->item_count);
	return wrap(4, e);
}

static struct encoding
encoding_of(const struct arrow_field *field, const struct file_page *page)
{
	struct encoding nothing = { .len = 0 };

	switch (field->type) {
	case ARROW_LIST:
		return list(page);
	case ARROW_STRUCT:
		return wrap(5, nothing);
	case ARROW_UTF8:
	case ARROW_LARGE_UTF8:
	case ARROW_BINARY:
	case ARROW_LARGE_BINARY:
		return strings(page);
	default:
		return fixed(field, page);
	}
}

uint32_t
file_meta_columns(const struct arrow_field *field)
{
	uint32_t n = 1, i;

	for (i = 0; i < field->child_count; i++)
		n += file_meta_columns(&field->children[i]);
	return n;
}

static struct file_meta_column *
make_columns(const struct arrow_field *field, struct file_meta_column *column)
{
	uint32_t i;

	column->field = field;
	buf_init(&column->pages, FILE_META_MAX);
	column++;
	for (i = 0; i < field->child_count; i++)
		column = make_columns(&field->children[i], column);
	return column;
}

struct err
file_meta_init(struct file_meta *m, const struct arrow_schema *schema)
{
	struct file_meta_column *column;
	uint32_t i;

	m->schema = schema;
	m->column_count = 0;
	for (i = 0; i < schema->field_count; i++)
		m->column_count += file_meta_columns(&schema->fields[i]);
	m->columns = calloc(MAX(m->column_count, 1u), sizeof(*m->columns));
	if (m->columns == NULL)
		return FAIL(NO_MEMORY, "metadata of a data file");
	column = m->columns;
	for (i = 0; i < schema->field_count; i++)
		column = make_columns(&schema->fields[i], column);
	return OK;
}

void
file_meta_free(struct file_meta *m)
{
	uint32_t i;

	for (i = 0; m->columns != NULL && i < m->column_count; i++)
		buf_free(&m->columns[i].pages);
	free(m->columns);
	*m = (struct file_meta){ .columns = NULL };
}

static uint32_t
put_packed(uint8_t *to, uint32_t field, const uint64_t *v, uint32_t count)
{
	uint8_t packed[10 * FILE_PAGE_BUFFERS];
	uint32_t n = 0, i;

	if (count == 0)
		return 0;
	for (i = 0; i < count; i++)
		n += put_varint(packed + n, v[i]);
	to[0] = (uint8_t)TAG(field, BYTES);
	to[1] = (uint8_t)n;
	memcpy(to + 2, packed, n);
	return n + 2;
}

static struct err
add_page(struct file_meta *m, uint32_t column, const struct file_page *page)
{
	uint8_t message[2 * (2 + 10 * FILE_PAGE_BUFFERS) + 11 + ENCODING_MAX + 2];
	uint8_t head[11] = { TAG(2, BYTES) };
	struct encoding any = { .len = 0 }, url = { .len = 0 }, body;
	uint32_t n = 0, head_len;
	struct buf *pages;

	add_bytes(&url, ARRAY_URL, sizeof(ARRAY_URL) - 1);
	body = encoding_of(m->columns[column].field, page);
	add_message(&any, 1, &url);
	add_message(&any, 2, &body);
	body = wrap(4, wrap(2, wrap(1, any)));

	n += put_packed(message, 1, page->offsets, page->buffer_count);
	n += put_packed(message + n, 2, page->sizes, page->buffer_count);
	if (page->count > 0) {
		message[n++] = TAG(3, VARINT);
		n += put_varint(message + n, page->count);
	}
	memcpy(message + n, body.bytes, body.len);
	n += body.len;

	head_len = 1 + put_varint(head + 1, n);
	pages = &m->columns[column].pages;
	if (!buf_append(pages, head, head_len) || !buf_append(pages, message, n))
		return FAIL(NO_MEMORY, "metadata of a data file");
	return OK;
}

struct err
file_meta_add(struct file_meta *m, uint32_t column, const struct file_page *page)
{
	MUST(column < m->column_count);
	m->columns[column].count += page->count;
	if (m->columns[column].field->type == ARROW_STRUCT)
		return OK;
	return add_page(m, column, page);
}

/* A column without any page gets one: a struct's, or one of no values. */
static struct err
fill_column(struct file_meta *m, uint32_t column, uint64_t at)
{
	struct file_page page = { .count = m->columns[column].count };

	switch (m->columns[column].field->type) {
	case ARROW_LIST:
		page.null_at = 1;
		page.buffer_count = 1;
		break;
	case ARROW_UTF8:
	case ARROW_LARGE_UTF8:
	case ARROW_BINARY:
	case ARROW_LARGE_BINARY:
		page.buffer_count = 2;
		break;
	default:
		break;
	}
	page.offsets[0] = page.offsets[1] = at;
	return add_page(m, column, &page);
}

static struct err
write_descriptor(struct file_meta *m, struct object_writer *out,
    uint64_t row_count, uint64_t *size)
{
	Pb__FileDescriptor d = PB__FILE_DESCRIPTOR__INIT;
	Pb__FileSchema schema = PB__FILE_SCHEMA__INIT;
	struct arena arena;
	struct slice bytes;
	struct err e;

	arena_init(&arena, DESCRIPTOR_MAX);
	e = field_list_make(&arena, m->schema, &schema.fields, &schema.n_fields);
	if (!err_is(e) && m->schema->pair_count > 0)
		e = field_pairs_make(&arena, m->schema->pairs,
		    m->schema->pair_count, &schema.metadata);
	if (err_is(e))
		goto out;
	schema.n_metadata = m->schema->pair_count;
	d.schema = &schema;
	d.has_row_count = row_count > 0;
	d.row_count = row_count;
	e = proto_pack(&arena, &d.base, &bytes);
	if (!err_is(e))
		e = object_writer_write(out, bytes.ptr, bytes.len);
	if (!err_is(e))
		*size = bytes.len;
out:
	arena_free(&arena);
	return e;
}

/* Message by message; entry i of the table is {position, size}. */
static struct err
write_columns(struct file_meta *m, struct object_writer *out, uint64_t *table)
{
	/* What its data is like: plain values. */
	static const char head[] = "\x0a\x29\x12\x27\x0a\x25\x0a\x1f" COLUMN_URL
	    "\x12\x02\x0a";		/* and a 0, the string's own */
	struct err e = OK;
	uint32_t i;

	for (i = 0; !err_is(e) && i < m->column_count; i++) {
		table[2 * i] = object_writer_at(out);
		e = object_writer_write(out, head, sizeof(head));
		if (!err_is(e))
			e = object_writer_write(out, m->columns[i].pages.ptr,
			    m->columns[i].pages.len);
		table[2 * i + 1] = object_writer_at(out) - table[2 * i];
	}
	return e;
}

struct file_footer {
	uint64_t first_column, columns_at, globals_at;
	uint32_t global_count, column_count;
	uint16_t major, minor;
	char magic[4];
};

static_assert(sizeof(struct file_footer) == 40, "as it stands in the file");

static struct err
write_tables(struct file_meta *m, struct object_writer *out,
    const uint64_t *table, uint64_t descriptor_at, uint64_t descriptor_size)
{
	uint64_t global[2] = { descriptor_at, descriptor_size };
	struct file_footer f = { .global_count = 1, .minor = 3,
		.magic = { 'L', 'A', 'N', 'C' } };
	struct err e;

	f.column_count = m->column_count;
	f.columns_at = object_writer_at(out);
	f.first_column = m->column_count > 0 ? table[0] : f.columns_at;
	e = object_writer_write(out, table, 16ull * m->column_count);
	f.globals_at = object_writer_at(out);
	if (!err_is(e))
		e = object_writer_write(out, global, sizeof(global));
	if (!err_is(e))
		e = object_writer_write(out, &f, sizeof(f));
	return e;
}

struct err
file_meta_write(struct file_meta *m, struct object_writer *out,
    uint64_t row_count)
{
	uint64_t *table, at, size = 0;
	struct err e;
	uint32_t i;

	table = calloc(MAX(m->column_count, 1u), 16);
	if (table == NULL)
		return FAIL(NO_MEMORY, "metadata of a data file");
	e = object_writer_pad(out, 64);
	at = object_writer_at(out);
	for (i = 0; !err_is(e) && i < m->column_count; i++) {
		if (m->columns[i].pages.len == 0)
			e = fill_column(m, i, at);
	}
	if (!err_is(e))
		e = write_descriptor(m, out, row_count, &size);
	if (!err_is(e))
		e = write_columns(m, out, table);
	if (!err_is(e))
		e = write_tables(m, out, table, at, size);
	free(table);
	return e;
}
