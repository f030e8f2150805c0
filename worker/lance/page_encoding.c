#include "common/base.h"

#include "worker/lance/file.pb-c.h"
#include "worker/lance/page_encoding.h"
#include "worker/lance/proto.h"
#include "worker/lance/proto_bytes.h"

/*
 * An encoding is a tree whose nodes are bytes to be unpacked one by one. The
 * shapes that exist are few and flat, so each is followed by straight code, and
 * nothing recurses on what the file says.
 */

#define BUFFERS_MAX	8u		/* of a page; no encoding has more than 3 */

struct page_source {
	struct arena *scratch;
	struct slice file;
	size_t buffer_count;
	const uint64_t *offsets, *sizes;
};

struct flat {
	uint64_t bits;
	uint32_t dim;			/* 0: no fixed list */
	const uint8_t *items_validity;	/* fixed list; NULL: none is null */
	const uint8_t *ptr;
	uint64_t len;
};

static struct err
unpack_encoding(struct page_source *s, ProtobufCBinaryData bytes, bool there,
    Pb__ArrayEncoding **out)
{
	void *message;
	struct err e;

	if (!there)
		return FAIL(CORRUPT, "page encoding with a part missing");
	e = proto_unpack(s->scratch, &pb__array_encoding__descriptor,
	    proto_slice(bytes), "page encoding", &message);
	if (!err_is(e))
		*out = message;
	return e;
}

/* A nullable that says "no null" is transparent. */
static struct err
strip_no_null(struct page_source *s, Pb__ArrayEncoding **enc)
{
	Pb__NoNull *no_nulls;

	if ((*enc)->nullable == NULL)
		return OK;
	no_nulls = (*enc)->nullable->no_nulls;
	if (no_nulls == NULL)
		return FAIL(UNSUPPORTED, "page encoding with nulls inside");
	return unpack_encoding(s, no_nulls->values, no_nulls->has_values, enc);
}

static struct err
find_buffer(struct page_source *s, const Pb__Buffer *b, struct flat *out)
{
	uint64_t index;

	if (b == NULL)
		return FAIL(CORRUPT, "page encoding without its buffer");
	if (b->has_place && b->place != 0)
		return FAIL(UNSUPPORTED, "page with a buffer of its column or file");
	index = b->has_index ? b->index : 0;
	if (index >= s->buffer_count)
		return FAIL(CORRUPT, "page encoding names a buffer that is not there");
	out->ptr = (const uint8_t *)s->file.ptr + s->offsets[index];
	out->len = s->sizes[index];
	return OK;
}

static struct err
read_flat(struct page_source *s, Pb__ArrayEncoding *enc, struct flat *out)
{
	struct err e = strip_no_null(s, &enc);

	if (err_is(e))
		return e;
	if (enc->flat == NULL)
		return FAIL(UNSUPPORTED, "page encoding that no 2.0 file has");
	if (enc->flat->has_compression)
		return FAIL(UNSUPPORTED, "compressed page");
	out->bits = enc->flat->has_bits_per_value ? enc->flat->bits_per_value : 0;
	out->dim = 0;
	out->items_validity = NULL;
	return find_buffer(s, enc->flat->buffer, out);
}

static struct err
check_room(const struct flat *f, uint64_t count)
{
	uint64_t bits;

	if (__builtin_mul_overflow(count, f->bits * MAX(f->dim, 1u), &bits) ||
	    bits / 8 + (bits % 8 != 0) > f->len)
		return FAIL(CORRUPT, "page with fewer values than it says");
	return OK;
}

/* The parts of a nullable with nulls. */
static struct err
read_some_nulls(struct page_source *s, Pb__SomeNull *some, uint64_t count,
    const uint8_t **validity, Pb__ArrayEncoding **values)
{
	struct flat bits = { .bits = 0 };
	Pb__ArrayEncoding *enc;
	struct err e;

	e = unpack_encoding(s, some->validity, some->has_validity, &enc);
	if (!err_is(e))
		e = read_flat(s, enc, &bits);
	if (err_is(e))
		return e;
	if (bits.bits != 1)
		return FAIL(CORRUPT, "page whose null map is no bit map");
	e = check_room(&bits, count);
	if (err_is(e))
		return e;
	*validity = bits.ptr;
	return unpack_encoding(s, some->values, some->has_values, values);
}

/* After another engine's compaction the items under null rows are null too. */
static struct err
read_items(struct page_source *s, Pb__FixedSizeList *list, uint64_t count,
    struct flat *out)
{
	uint32_t dim = list->has_dimension ? list->dimension : 0;
	const uint8_t *validity = NULL;
	Pb__ArrayEncoding *enc;
	uint64_t items;
	struct err e;

	if (dim == 0 || dim > INT32_MAX || __builtin_mul_overflow(count, dim, &items))
		return FAIL(CORRUPT, "fixed list without a length");
	if (list->has_has_validity && list->has_validity)
		return FAIL(UNSUPPORTED, "fixed list with a validity of its own");
	e = unpack_encoding(s, list->items, list->has_items, &enc);
	if (!err_is(e) && enc->nullable != NULL &&
	    enc->nullable->some_nulls != NULL)
		e = read_some_nulls(s, enc->nullable->some_nulls, items,
		    &validity, &enc);
	if (!err_is(e))
		e = read_flat(s, enc, out);
	out->dim = dim;
	out->items_validity = validity;
	return e;
}

/* Flat, or a fixed list of flat; for count values. */
static struct err
read_values(struct page_source *s, Pb__ArrayEncoding *enc, uint64_t count,
    struct flat *out)
{
	struct err e;

	e = strip_no_null(s, &enc);
	if (err_is(e))
		return e;
	e = enc->fixed_size_list != NULL ?
	    read_items(s, enc->fixed_size_list, count, out) :
	    read_flat(s, enc, out);
	if (err_is(e))
		return e;
	if (out->bits != 1 && out->bits != 8 && out->bits != 32 && out->bits != 64)
		return FAIL(UNSUPPORTED, "values of a width that no type of ours has");
	return check_room(out, count);
}

static struct err
read_bytes_part(struct page_source *s, ProtobufCBinaryData bytes, bool there,
    uint64_t bits, uint64_t count, struct flat *out)
{
	Pb__ArrayEncoding *enc;
	struct err e = unpack_encoding(s, bytes, there, &enc);

	if (!err_is(e))
		e = read_flat(s, enc, out);
	if (err_is(e))
		return e;
	if (out->bits != bits)
		return FAIL(UNSUPPORTED, "part of a page of an unknown width");
	if (count > out->len / MAX(bits / 8, 1u))
		return FAIL(CORRUPT, "page with fewer values than it says");
	return OK;
}

static struct err
read_nullable(struct page_source *s, Pb__Nullable *n, struct data_page *page)
{
	struct flat values = { .bits = 0 };
	Pb__ArrayEncoding *enc;
	struct err e;

	if (n->all_nulls != NULL) {
		page->form = PAGE_ALL_NULL;
		return OK;
	}
	if (n->no_nulls != NULL)
		e = unpack_encoding(s, n->no_nulls->values,
		    n->no_nulls->has_values, &enc);
	else if (n->some_nulls != NULL)
		e = read_some_nulls(s, n->some_nulls, page->count,
		    &page->validity, &enc);
	else
		e = FAIL(CORRUPT, "page encoding with a part missing");
	if (!err_is(e))
		e = read_values(s, enc, page->count, &values);
	if (err_is(e))
		return e;
	page->form = PAGE_FIXED;
	page->bits = (uint16_t)values.bits;
	page->dim = values.dim;
	page->values = values.ptr;
	page->items_validity = values.items_validity;
	return OK;
}

/* Strings, and the items of a dictionary. */
static struct err
read_binary(struct page_source *s, Pb__Binary *b, uint64_t count,
    struct data_page *page)
{
	struct flat offsets, bytes;
	struct err e;

	e = read_bytes_part(s, b->indices, b->has_indices, 64, count, &offsets);
	if (!err_is(e))
		e = read_bytes_part(s, b->bytes, b->has_bytes, 8, 0, &bytes);
	if (err_is(e))
		return e;
	page->null_at = b->has_null_adjustment ? b->null_adjustment : 0;
	if (count > 0 && page->null_at == 0)
		return FAIL(CORRUPT, "strings without a null adjustment");
	page->offsets = offsets.ptr;
	page->bytes = bytes.ptr;
	page->bytes_len = bytes.len;
	return OK;
}

static struct err
read_dictionary(struct page_source *s, Pb__Dictionary *d, struct data_page *page)
{
	struct flat indices;
	Pb__ArrayEncoding *enc;
	struct err e;

	e = read_bytes_part(s, d->indices, d->has_indices, 8, page->count, &indices);
	if (!err_is(e))
		e = unpack_encoding(s, d->items, d->has_items, &enc);
	if (err_is(e))
		return e;
	if (enc->binary == NULL)
		return FAIL(UNSUPPORTED, "dictionary of anything but strings");
	page->form = PAGE_DICTIONARY;
	page->values = indices.ptr;
	page->dictionary_count = d->has_num_items ? d->num_items : 0;
	return read_binary(s, enc->binary, page->dictionary_count, page);
}

static struct err
read_list(struct page_source *s, Pb__List *l, struct data_page *page)
{
	struct flat offsets;
	struct err e;

	e = read_bytes_part(s, l->offsets, l->has_offsets, 64, page->count, &offsets);
	if (err_is(e))
		return e;
	page->form = PAGE_LIST;
	page->offsets = offsets.ptr;
	page->null_at = l->has_null_offset_adjustment ? l->null_offset_adjustment : 0;
	page->item_count = l->has_num_items ? l->num_items : 0;
	if (page->count > 0 && page->null_at == 0)
		return FAIL(CORRUPT, "lists without a null adjustment");
	if (page->item_count >= DATA_FILE_VALUES_MAX)
		return FAIL(CORRUPT, "page with impossibly many items");
	return OK;
}

static struct err
read_encoding(struct page_source *s, Pb__Page *message, struct data_page *page)
{
	static const struct slice url = SLICE("/lance.encodings.ArrayEncoding");
	Pb__ArrayEncoding *enc;
	struct err e;
	Pb__Any *any = NULL;

	if (message->encoding != NULL && message->encoding->direct != NULL)
		any = message->encoding->direct->encoding;
	if (any == NULL)
		return FAIL(CORRUPT, "page without an encoding");
	if (!proto_is(any->type_url, url))
		return FAIL(UNSUPPORTED, "page encoding of another format than 2.0");
	e = unpack_encoding(s, any->value, any->has_value, &enc);
	if (err_is(e))
		return e;
	if (enc->nullable != NULL)
		return read_nullable(s, enc->nullable, page);
	if (enc->binary != NULL) {
		page->form = PAGE_BINARY;
		return read_binary(s, enc->binary, page->count, page);
	}
	if (enc->list != NULL)
		return read_list(s, enc->list, page);
	if (enc->dictionary != NULL)
		return read_dictionary(s, enc->dictionary, page);
	if (enc->struct_ == NULL)
		return FAIL(UNSUPPORTED, "page encoding that no 2.0 file has");
	page->form = PAGE_STRUCT;
	return OK;
}

struct err
page_encoding_read(struct arena *scratch, struct slice file, Pb__Page *message,
    struct data_page *page)
{
	struct page_source s = { .scratch = scratch, .file = file };
	size_t i;

	if (message->n_buffer_offsets != message->n_buffer_sizes ||
	    message->n_buffer_offsets > BUFFERS_MAX)
		return FAIL(CORRUPT, "page with impossible buffers");
	s.buffer_count = message->n_buffer_offsets;
	s.offsets = message->buffer_offsets;
	s.sizes = message->buffer_sizes;
	for (i = 0; i < s.buffer_count; i++) {
		if (s.offsets[i] > file.len ||
		    s.sizes[i] > file.len - s.offsets[i])
			return FAIL(CORRUPT, "page buffer outside of its file");
	}
	page->count = message->has_length ? message->length : 0;
	if (page->count >= DATA_FILE_VALUES_MAX)
		return FAIL(CORRUPT, "page with impossibly many values");
	return read_encoding(&s, message, page);
}
