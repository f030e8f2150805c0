#include "common/base.h"

#include "worker/arrow/flatbuf.h"

/* ---- reading */

static const struct fb_table absent;

static bool
inside(const struct fb *fb, size_t at, size_t bytes)
{
	return at <= fb->bytes.len && bytes <= fb->bytes.len - at;
}

int64_t
fb_load(const struct fb *fb, size_t at, uint32_t width)
{
	const char *p = fb->bytes.ptr + at;
	int16_t v16;
	int32_t v32;
	int64_t v64;

	MUST(inside(fb, at, width));
	switch (width) {
	case 1:
		return (uint8_t)*p;
	case 2:
		memcpy(&v16, p, 2);
		return v16;
	case 4:
		memcpy(&v32, p, 4);
		return v32;
	default:
		MUST(width == 8);
		memcpy(&v64, p, 8);
		return v64;
	}
}

struct fb_table
fb_table_at(struct fb *fb, size_t at)
{
	struct fb_table t = { .at = at };
	int64_t vtable;

	if (fb->bad || at == 0 || !inside(fb, at, 4))
		goto bad;
	vtable = (int64_t)at - fb_load(fb, at, 4);
	if (vtable < 0 || !inside(fb, (size_t)vtable, 4))
		goto bad;
	t.vtable = (size_t)vtable;
	t.vtable_bytes = (uint16_t)fb_load(fb, t.vtable, 2);
	t.bytes = (uint16_t)fb_load(fb, t.vtable + 2, 2);
	if (t.vtable_bytes < 4 || !inside(fb, t.vtable, t.vtable_bytes) ||
	    t.bytes < 4 || !inside(fb, at, t.bytes))
		goto bad;
	return t;
bad:
	fb->bad = true;
	return absent;
}

struct fb_table
fb_root(struct fb *fb)
{
	if (!inside(fb, 0, 4)) {
		fb->bad = true;
		return absent;
	}
	return fb_table_at(fb, (uint32_t)fb_load(fb, 0, 4));
}

/* Position of a field, or 0. */
static size_t
field_at(struct fb *fb, const struct fb_table *t, uint32_t slot, uint32_t width)
{
	uint16_t offset;

	if (fb->bad || t->at == 0 || 4 + 2 * slot + 2 > t->vtable_bytes)
		return 0;
	offset = (uint16_t)fb_load(fb, t->vtable + 4 + 2 * slot, 2);
	if (offset == 0)
		return 0;
	if (offset < 4 || (uint32_t)offset + width > t->bytes) {
		fb->bad = true;
		return 0;
	}
	return t->at + offset;
}

int64_t
fb_int(struct fb *fb, const struct fb_table *t, uint32_t slot, uint32_t width,
    int64_t otherwise)
{
	size_t at = field_at(fb, t, slot, width);

	return at == 0 ? otherwise : fb_load(fb, at, width);
}

/* Where a field of offset type leads to, or 0. */
static size_t
target_of(struct fb *fb, size_t at)
{
	return at == 0 ? 0 : at + (uint32_t)fb_load(fb, at, 4);
}

struct fb_table
fb_child(struct fb *fb, const struct fb_table *t, uint32_t slot)
{
	size_t at = target_of(fb, field_at(fb, t, slot, 4));

	return at == 0 ? absent : fb_table_at(fb, at);
}

struct fb_vector
fb_vector(struct fb *fb, const struct fb_table *t, uint32_t slot,
    uint32_t element_bytes)
{
	size_t at = target_of(fb, field_at(fb, t, slot, 4));
	struct fb_vector v = { 0, 0 };

	if (at == 0)
		return v;
	if (!inside(fb, at, 4)) {
		fb->bad = true;
		return v;
	}
	v.count = (uint32_t)fb_load(fb, at, 4);
	v.at = at + 4;
	if (!inside(fb, v.at, (size_t)v.count * element_bytes)) {
		fb->bad = true;
		return (struct fb_vector){ 0, 0 };
	}
	return v;
}

struct slice
fb_text(struct fb *fb, const struct fb_table *t, uint32_t slot)
{
	struct fb_vector v = fb_vector(fb, t, slot, 1);

	return slice_make(fb->bytes.ptr + v.at, v.count);
}

struct fb_table
fb_element(struct fb *fb, const struct fb_vector *v, uint32_t i)
{
	MUST(i < v->count);
	return fb_table_at(fb, target_of(fb, v->at + (size_t)i * 4));
}

/* ---- writing */

static size_t
length_of(const struct fbw *w)
{
	return w->out->len - w->base;
}

static void
grow(struct fbw *w, size_t bytes)
{
	if (!w->full && !buf_append_zero(w->out, bytes))
		w->full = true;
}

void
fbw_begin(struct fbw *w, struct buf *out)
{
	*w = (struct fbw){ .out = out, .base = out->len };
	grow(w, 4);
}

size_t
fbw_pad(struct fbw *w, uint32_t align)
{
	grow(w, ROUND_UP(length_of(w), align) - length_of(w));
	return length_of(w);
}

void
fbw_put(struct fbw *w, size_t at, int64_t value, uint32_t width)
{
	if (w->full)
		return;
	MUST(at + width <= length_of(w));
	/* Little endian: the low bytes come first. */
	memcpy(w->out->ptr + w->base + at, &value, width);
}

void
fbw_refer(struct fbw *w, size_t at, size_t target)
{
	MUST(w->full || target > at);
	fbw_put(w, at, (int64_t)(target - at), 4);
}

size_t
fbw_table(struct fbw *w, const uint8_t *widths, uint32_t count, size_t *at)
{
	uint32_t i, align = 4, bytes = 4, vtable_bytes = 4 + 2 * count;
	uint16_t offsets[FBW_SLOTS_MAX] = { 0 };
	size_t table, vtable;

	MUST(count <= FBW_SLOTS_MAX);
	for (i = 0; i < count; i++) {
		if (widths[i] == 0)
			continue;
		bytes = (uint32_t)ROUND_UP(bytes, widths[i]);
		offsets[i] = (uint16_t)bytes;
		bytes += widths[i];
		align = MAX(align, (uint32_t)widths[i]);
	}
	table = ROUND_UP(length_of(w) + vtable_bytes, align);
	vtable = table - vtable_bytes;
	grow(w, table + bytes - length_of(w));
	fbw_put(w, vtable, vtable_bytes, 2);
	fbw_put(w, vtable + 2, bytes, 2);
	for (i = 0; i < count; i++) {
		fbw_put(w, vtable + 4 + 2 * i, offsets[i], 2);
		at[i] = w->full || widths[i] == 0 ? 0 : table + offsets[i];
	}
	fbw_put(w, table, vtable_bytes, 4);
	return w->full ? 0 : table;
}

size_t
fbw_vector(struct fbw *w, uint32_t count, uint32_t element_bytes,
    uint32_t align)
{
	size_t first = ROUND_UP(length_of(w) + 4, MAX(align, 4u));

	grow(w, first + (size_t)count * element_bytes - length_of(w));
	fbw_put(w, first - 4, count, 4);
	return w->full ? 0 : first - 4;
}

size_t
fbw_text(struct fbw *w, struct slice s)
{
	size_t at = fbw_vector(w, (uint32_t)s.len, 1, 4);

	grow(w, 1);		/* the NUL */
	if (!w->full && s.len > 0)
		memcpy(w->out->ptr + w->base + at + 4, s.ptr, s.len);
	return at;
}
