#include "common/base.h"

#include "worker/arrow/bits.h"
#include "worker/lance/page_read.h"

/*
 * A run is cut into pieces, one a page. With one piece the values stay in the
 * file; with more they are copied behind each other. Both are the same walk
 * over the pieces, and differ only in where values end up.
 *
 * Reading recurses over the field's tree, which is ours and at most
 * ARROW_DEPTH_MAX deep, never over anything that the file says.
 */

/* What stands where nothing is: values under nulls, the one offset of an empty
 * array. Runs that need more take cleared bytes from the arena. */
static const uint8_t zeroes[4096];

static const struct err no_memory = { ERR_NO_MEMORY, 0,
	"rows of a data file do not fit their arena" };

struct source {
	const struct data_file *file;
	struct arena *arena;
};

struct piece {
	const struct data_page *page;
	uint64_t first, count;		/* in the page */
};

struct walk {
	const struct data_column *column;
	uint32_t next_page;
	uint64_t at, left;		/* of the run */
};

static struct err read_field(struct source *, const struct arrow_field *,
    struct span run, uint32_t depth, struct array *);

static const void *
get_zeroes(struct arena *arena, uint64_t count, uint64_t bytes)
{
	uint64_t total;

	if (__builtin_mul_overflow(count, bytes, &total))
		return NULL;
	if (total <= sizeof(zeroes))
		return zeroes;
	return arena_calloc(arena, count, bytes);
}

static uint64_t
value_bytes(const struct arrow_field *field)
{
	if (field->type == ARROW_FIXED_LIST)
		return 4ull * (uint32_t)field->dim;
	return arrow_type_width((enum arrow_type)field->type);
}

/* The last page that begins at or before the row: pages of no values come
 * before one that begins at the same. */
static void
walk_start(struct walk *w, const struct data_column *column, struct span run)
{
	uint32_t low = 0, high = column->page_count, middle;

	while (high - low > 1) {
		middle = low + (high - low) / 2;
		if (column->pages[middle].first <= run.first)
			low = middle;
		else
			high = middle;
	}
	*w = (struct walk){ column, low, run.first, run.count };
}

static bool
walk_next(struct walk *w, struct piece *out)
{
	const struct data_page *page;

	while (w->left > 0) {
		MUST(w->next_page < w->column->page_count);
		page = &w->column->pages[w->next_page++];
		if (page->count == 0)
			continue;
		MUST(w->at >= page->first && w->at < page->first + page->count);
		out->page = page;
		out->first = w->at - page->first;
		out->count = MIN(w->left, page->count - out->first);
		w->at += out->count;
		w->left -= out->count;
		return true;
	}
	return false;
}

static bool
is_one_piece(const struct data_column *column, struct span run)
{
	struct walk w;
	struct piece piece;

	walk_start(&w, column, run);
	return walk_next(&w, &piece) && piece.count == run.count;
}

/* A map of count bits, all 1; made at the first null. */
static uint8_t *
new_validity(struct arena *arena, uint64_t count)
{
	uint8_t *bits = arena_alloc(arena, (count + 7) / 8);

	if (bits != NULL)
		memset(bits, 0xff, (count + 7) / 8);
	return bits;
}

static void
clear_bit(uint8_t *bits, uint64_t i)
{
	bits[i / 8] &= (uint8_t)~(1u << (i % 8));
}

/* count bits from first on, in place if they begin at a whole byte. */
static const uint8_t *
bits_at(struct arena *arena, const uint8_t *bits, uint64_t first, uint64_t count)
{
	uint8_t *out;

	if (first % 8 == 0)
		return bits + first / 8;
	out = arena_calloc(arena, 1, (count + 7) / 8);
	if (out != NULL)
		bits_copy(out, 0, bits, first, count);
	return out;
}

/* Our fixed lists have no null items; under a null row anything may be. */
static struct err
check_items(const struct piece *p)
{
	const struct data_page *page = p->page;
	uint64_t i;

	for (i = p->first; i < p->first + p->count; i++) {
		if (page->validity != NULL &&
		    (page->validity[i / 8] >> (i % 8) & 1) == 0)
			continue;
		if (bits_count(page->items_validity, i * page->dim, page->dim) !=
		    page->dim)
			return FAIL(UNSUPPORTED, "a null in a fixed list");
	}
	return OK;
}

static struct err
check_fixed(const struct arrow_field *field, const struct piece *p)
{
	const struct data_page *page = p->page;
	uint64_t bits = 32, dim = 0;

	if (page->form == PAGE_ALL_NULL)
		return OK;
	if (field->type == ARROW_FIXED_LIST)
		dim = (uint32_t)field->dim;
	else if (field->type == ARROW_BOOL)
		bits = 1;
	else
		bits = 8 * value_bytes(field);
	if (page->form != PAGE_FIXED || page->bits != bits || page->dim != dim)
		return FAIL(CORRUPT, "page does not fit the type of its field");
	return page->items_validity == NULL ? OK : check_items(p);
}

/* The piece that is the whole run: nothing is copied that need not be. */
static struct err
read_fixed_piece(struct source *s, const struct arrow_field *field,
    const struct piece *p, struct array *out)
{
	const struct data_page *page = p->page;
	struct err e = check_fixed(field, p);

	if (err_is(e))
		return e;
	if (page->form == PAGE_ALL_NULL)
		return page_read_nulls(field, p->count, s->arena, out);
	if (page->validity != NULL)
		out->null_count = p->count -
		    bits_count(page->validity, p->first, p->count);
	if (out->null_count > 0) {
		out->validity = bits_at(s->arena, page->validity, p->first, p->count);
		if (out->validity == NULL)
			return no_memory;
	}
	if (field->type == ARROW_BOOL)
		out->values = bits_at(s->arena, page->values, p->first, p->count);
	else
		out->values = page->values + p->first * value_bytes(field);
	return out->values == NULL ? no_memory : OK;
}

/* Nulls of a piece go to bit at of a map that is made when it is needed. */
static bool
copy_validity(struct source *s, const struct piece *p, uint64_t at,
    uint64_t total, uint8_t **validity, uint64_t *null_count)
{
	const struct data_page *page = p->page;
	uint64_t nulls = p->count, i;

	if (page->form == PAGE_FIXED)
		nulls = page->validity == NULL ? 0 : p->count -
		    bits_count(page->validity, p->first, p->count);
	if (nulls == 0)
		return true;
	if (*validity == NULL && (*validity = new_validity(s->arena, total)) == NULL)
		return false;
	*null_count += nulls;
	if (page->form == PAGE_FIXED) {
		bits_copy(*validity, at, page->validity, p->first, p->count);
		return true;
	}
	for (i = 0; i < p->count; i++)
		clear_bit(*validity, at + i);
	return true;
}

static struct err
read_fixed_pieces(struct source *s, const struct arrow_field *field,
    struct walk *w, struct array *out)
{
	uint64_t bytes = value_bytes(field), total = w->left, at = 0;
	uint8_t *values, *validity = NULL;
	struct piece p;
	struct err e;

	values = field->type == ARROW_BOOL ?
	    arena_calloc(s->arena, 1, (total + 7) / 8) :
	    arena_calloc(s->arena, total, bytes);
	if (values == NULL)
		return no_memory;
	while (walk_next(w, &p)) {
		e = check_fixed(field, &p);
		if (err_is(e))
			return e;
		if (!copy_validity(s, &p, at, total, &validity, &out->null_count))
			return no_memory;
		if (p.page->form == PAGE_FIXED && field->type == ARROW_BOOL)
			bits_copy(values, at, p.page->values, p.first, p.count);
		else if (p.page->form == PAGE_FIXED)
			memcpy(values + at * bytes,
			    p.page->values + p.first * bytes, p.count * bytes);
		at += p.count;
	}
	out->validity = validity;
	out->values = values;
	return OK;
}

static struct err
read_fixed(struct source *s, const struct arrow_field *field,
    const struct data_column *column, struct span run, struct array *out)
{
	struct walk w;
	struct piece p;

	walk_start(&w, column, run);
	if (!is_one_piece(column, run))
		return read_fixed_pieces(s, field, &w, out);
	MUST(walk_next(&w, &p));
	return read_fixed_piece(s, field, &p, out);
}

/* Offsets that are being made; width 4 or 8. */
struct offsets {
	struct source *source;
	const struct arrow_field *field;
	struct array *array;
	uint8_t *validity;
	void *ptr;
	uint32_t width;
	uint64_t count, at;		/* of the run; values so far */
	uint64_t total;			/* bytes or items so far */
};

static bool
offsets_start(struct offsets *o, struct source *s,
    const struct arrow_field *field, uint64_t count, struct array *out)
{
	*o = (struct offsets){ .source = s, .field = field, .array = out };
	o->width = arrow_offset_width((enum arrow_type)field->type);
	o->count = count;
	o->ptr = arena_alloc(s->arena, (count + 1) * o->width);
	out->offsets = o->ptr;
	if (o->ptr != NULL)
		memset(o->ptr, 0, o->width);
	return o->ptr != NULL;
}

static bool
offsets_null(struct offsets *o)
{
	if (o->validity == NULL) {
		o->validity = new_validity(o->source->arena, o->count);
		if (o->validity == NULL)
			return false;
		o->array->validity = o->validity;
	}
	clear_bit(o->validity, o->at);
	o->array->null_count++;
	return true;
}

/* Ends value at, which has length more bytes or items. */
static struct err
offsets_end(struct offsets *o, uint64_t length)
{
	int32_t narrow;

	o->total += length;
	o->at++;
	if (o->width == 8) {
		memcpy((char *)o->ptr + o->at * 8, &o->total, 8);
		return OK;
	}
	if (o->total > INT32_MAX)
		return FAIL(TOO_LARGE, "2 GiB or more in a run of rows");
	narrow = (int32_t)o->total;
	memcpy((char *)o->ptr + o->at * 4, &narrow, 4);
	return OK;
}

static uint64_t
load_end(const uint8_t *ends, uint64_t i)
{
	uint64_t v;

	memcpy(&v, ends + 8 * i, 8);
	return v;
}

/* End of a value, nulls told by their adjustment. */
static uint64_t
end_of(const struct data_page *page, uint64_t i, bool *is_null)
{
	uint64_t end = load_end(page->offsets, i);

	*is_null = end >= page->null_at;
	return *is_null ? end - page->null_at : end;
}

/* Where value i of a page begins; it may be the count. */
static uint64_t
start_of(const struct data_page *page, uint64_t i)
{
	bool is_null;

	return i == 0 ? 0 : end_of(page, i - 1, &is_null);
}

/* The ends of a piece, strings or lists; limit: bytes or items of the page. */
static struct err
read_ends(struct offsets *o, const struct piece *p, uint64_t limit)
{
	uint64_t before = start_of(p->page, p->first), end, i;
	struct err e;
	bool is_null;

	if (before > limit)
		return FAIL(CORRUPT, "a value begins behind its page");
	for (i = p->first; i < p->first + p->count; i++) {
		end = end_of(p->page, i, &is_null);
		if (end < before || end > limit || (is_null && end != before))
			return FAIL(CORRUPT, "a value ends outside of its page");
		if (is_null && !offsets_null(o))
			return no_memory;
		e = offsets_end(o, end - before);
		if (err_is(e))
			return e;
		before = end;
	}
	return OK;
}

static struct err
null_ends(struct offsets *o, uint64_t count)
{
	struct err e;

	for (; count > 0; count--) {
		if (!offsets_null(o))
			return no_memory;
		e = offsets_end(o, 0);
		if (err_is(e))
			return e;
	}
	return OK;
}

/* The item that row i of a dictionary page stands for; null: ptr is NULL. */
static struct err
dictionary_item(const struct data_page *page, uint64_t i, struct slice *out)
{
	uint8_t index = page->values[i];
	uint64_t from, to;
	bool is_null;

	*out = slice_make(NULL, 0);
	if (index == 0)
		return OK;
	if (index > page->dictionary_count)
		return FAIL(CORRUPT, "value outside of its dictionary");
	from = start_of(page, index - 1u);
	to = end_of(page, index - 1u, &is_null);
	if (from > to || to > page->bytes_len)
		return FAIL(CORRUPT, "a value ends outside of its page");
	if (!is_null)
		*out = slice_make(page->bytes + from, to - from);
	return OK;
}

static struct err
dictionary_ends(struct offsets *o, const struct piece *p)
{
	struct slice item;
	struct err e;
	uint64_t i;

	for (i = p->first; i < p->first + p->count; i++) {
		e = dictionary_item(p->page, i, &item);
		if (err_is(e))
			return e;
		if (item.ptr == NULL && !offsets_null(o))
			return no_memory;
		e = offsets_end(o, item.len);
		if (err_is(e))
			return e;
	}
	return OK;
}

static struct err
string_ends(struct offsets *o, const struct piece *p)
{
	switch (p->page->form) {
	case PAGE_BINARY:
		return read_ends(o, p, p->page->bytes_len);
	case PAGE_DICTIONARY:
		return dictionary_ends(o, p);
	case PAGE_ALL_NULL:
		return null_ends(o, p->count);
	default:
		return FAIL(CORRUPT, "page does not fit the type of its field");
	}
}

/* Bytes of a piece whose ends were checked. */
static struct err
copy_strings(const struct piece *p, char *to, uint64_t *len)
{
	const struct data_page *page = p->page;
	struct slice item;
	struct err e;
	uint64_t i, from;

	*len = 0;
	if (page->form == PAGE_BINARY) {
		from = start_of(page, p->first);
		*len = start_of(page, p->first + p->count) - from;
		memcpy(to, page->bytes + from, *len);
	}
	if (page->form != PAGE_DICTIONARY)
		return OK;
	for (i = p->first; i < p->first + p->count; i++) {
		e = dictionary_item(page, i, &item);
		if (err_is(e))
			return e;
		if (item.len > 0)
			memcpy(to + *len, item.ptr, item.len);
		*len += item.len;
	}
	return OK;
}

static struct err
gather_strings(struct source *s, const struct data_column *column,
    struct span run, uint64_t total, struct array *out)
{
	char *values = arena_alloc(s->arena, total);
	struct piece p;
	struct walk w;
	struct err e;
	uint64_t len, at = 0;

	if (values == NULL)
		return no_memory;
	walk_start(&w, column, run);
	while (walk_next(&w, &p)) {
		e = copy_strings(&p, values + at, &len);
		if (err_is(e))
			return e;
		at += len;
		MUST(at <= total);
	}
	out->values = values;
	return OK;
}

static struct err
read_strings(struct source *s, const struct arrow_field *field,
    const struct data_column *column, struct span run, struct array *out)
{
	struct offsets o;
	struct piece p;
	struct slice item;
	struct walk w;
	struct err e;

	if (!offsets_start(&o, s, field, run.count, out))
		return no_memory;
	walk_start(&w, column, run);
	while (walk_next(&w, &p)) {
		e = string_ends(&o, &p);
		if (err_is(e))
			return e;
	}
	out->values = zeroes;
	if (o.total == 0)
		return OK;
	if (p.count == run.count && p.page->form == PAGE_BINARY) {
		out->values = p.page->bytes + start_of(p.page, p.first);
		return OK;
	}
	if (run.count == 1 && p.page->form == PAGE_DICTIONARY) {
		e = dictionary_item(p.page, p.first, &item);
		out->values = item.ptr;
		return e;
	}
	return gather_strings(s, column, run, o.total, out);
}

/* Offsets of a run of lists, and the items that they span. */
static struct err
list_ends(struct offsets *o, struct walk *w, struct span *items)
{
	uint64_t first = 0;
	struct piece p;
	struct err e;

	while (walk_next(w, &p)) {
		if (p.page->form == PAGE_ALL_NULL) {
			e = null_ends(o, p.count);
			if (err_is(e))
				return e;
			continue;
		}
		if (p.page->form != PAGE_LIST)
			return FAIL(CORRUPT, "page does not fit the type of its field");
		first = p.page->item_first + start_of(p.page, p.first);
		if (o->total == 0)
			items->first = first;
		else if (first != items->first + o->total)
			return FAIL(CORRUPT, "items that no list has between two pages");
		e = read_ends(o, &p, p.page->item_count);
		if (err_is(e))
			return e;
	}
	items->count = o->total;
	return OK;
}

static struct err
read_list(struct source *s, const struct arrow_field *field,
    const struct data_column *column, struct span run, uint32_t depth,
    struct array *out)
{
	struct span items = { 0, 0 };
	struct array *child;
	struct offsets o;
	struct walk w;
	struct err e;

	child = arena_alloc(s->arena, sizeof(*child));
	if (child == NULL || !offsets_start(&o, s, field, run.count, out))
		return no_memory;
	walk_start(&w, column, run);
	e = list_ends(&o, &w, &items);
	if (err_is(e))
		return e;
	out->values = zeroes;
	out->children = child;
	return read_field(s, &field->children[0], items, depth + 1, child);
}

static struct err
read_struct(struct source *s, const struct arrow_field *field,
    const struct data_column *column, struct span run, uint32_t depth,
    struct array *out)
{
	struct array *children;
	struct piece p;
	struct walk w;
	struct err e;
	uint32_t i;

	walk_start(&w, column, run);
	while (walk_next(&w, &p)) {
		if (p.page->form != PAGE_STRUCT)
			return FAIL(CORRUPT, "page does not fit the type of its field");
	}
	children = arena_calloc(s->arena, field->child_count, sizeof(*children));
	if (children == NULL)
		return no_memory;
	for (i = 0; i < field->child_count; i++) {
		e = read_field(s, &field->children[i], run, depth + 1, &children[i]);
		if (err_is(e))
			return e;
	}
	out->values = zeroes;
	out->children = children;
	return OK;
}

static struct err
read_field(struct source *s, const struct arrow_field *field, struct span run,
    uint32_t depth, struct array *out)
{
	const struct data_column *column = data_file_column(s->file, field->id);

	MUST(depth < ARROW_DEPTH_MAX);
	if (column == NULL || run.count == 0)
		return page_read_nulls(field, run.count, s->arena, out);
	if (run.first > column->count || run.count > column->count - run.first)
		return FAIL(CORRUPT, "column with fewer values than are asked for");
	if (column->all_null)
		return page_read_nulls(field, run.count, s->arena, out);

	*out = (struct array){ .field = field, .length = run.count };
	switch (field->type) {
	case ARROW_LIST:
		return read_list(s, field, column, run, depth, out);
	case ARROW_STRUCT:
		return read_struct(s, field, column, run, depth, out);
	case ARROW_UTF8:
	case ARROW_LARGE_UTF8:
	case ARROW_BINARY:
	case ARROW_LARGE_BINARY:
		return read_strings(s, field, column, run, out);
	default:
		return read_fixed(s, field, column, run, out);
	}
}

struct err
page_read_run(const struct data_file *file, const struct arrow_field *field,
    struct span run, struct arena *arena, struct array *out)
{
	struct source s = { file, arena };

	return read_field(&s, field, run, 0, out);
}

/* Two rounds: pages first, so that all of them are on their way before what
 * they point to is asked for. Long columns are left to the reader. */
void
page_read_prefetch(const struct data_file *file, uint64_t row)
{
	const struct data_column *c, *end = file->columns + file->column_count;
	const struct data_page *page;

	for (c = file->columns; c < end; c++) {
		if (c->all_null || c->page_count != 1)
			continue;
		__builtin_prefetch(c->pages);
		__builtin_prefetch((const char *)c->pages + 64);
	}
	for (c = file->columns; c < end; c++) {
		if (c->all_null || c->page_count != 1)
			continue;
		page = c->pages;
		if (page->offsets != NULL && row < page->count)
			__builtin_prefetch(page->offsets + 8 * row);
		if (page->form == PAGE_FIXED && row < page->count)
			__builtin_prefetch(page->values + row * page->bits / 8);
	}
}

struct err
page_read_nulls(const struct arrow_field *field, uint64_t count,
    struct arena *arena, struct array *out)
{
	uint32_t width = arrow_offset_width((enum arrow_type)field->type), i;
	struct array *children = NULL;
	struct err e;

	if (field->child_count > 0) {
		children = arena_calloc(arena, field->child_count, sizeof(*children));
		if (children == NULL)
			return no_memory;
	}
	for (i = 0; i < field->child_count; i++) {
		e = page_read_nulls(&field->children[i],
		    field->type == ARROW_STRUCT ? count : 0, arena, &children[i]);
		if (err_is(e))
			return e;
	}
	*out = (struct array){ .field = field, .length = count,
		.null_count = count, .children = children };
	out->validity = count == 0 ? NULL : get_zeroes(arena, (count + 7) / 8, 1);
	out->offsets = width == 0 ? NULL : get_zeroes(arena, count + 1, width);
	out->values = get_zeroes(arena, count, MAX(value_bytes(field), 1u));
	if ((count > 0 && out->validity == NULL) || out->values == NULL ||
	    (width > 0 && out->offsets == NULL))
		return no_memory;
	return OK;
}
