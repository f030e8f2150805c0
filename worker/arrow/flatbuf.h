#ifndef MEMWALD_ARROW_FLATBUF_H
#define MEMWALD_ARROW_FLATBUF_H

/*
 * flatbuf - FlatBuffers, as much as Arrow's metadata need, without a schema
 * compiler.
 *
 *	root	u32: offset of the root table
 *	table	i32: table - vtable; then the fields, each aligned to its size
 *	vtable	u16 its bytes, u16 bytes of the table, per slot u16: offset of
 *		the field in the table, 0: absent
 *	vector	u32 count, elements; text also a NUL behind
 *	a field that is a table, vector or text: u32 offset from itself
 *
 * Positions are bytes from the start of the buffer; 0 is none, since the root
 * offset stands there.
 *
 * Reading: whatever is out of bounds sets bad and reads as absent, so a reader
 * takes all it wants and then looks at bad once. Nothing here loops on input.
 *
 * Writing goes front to back: a table first, then what it refers to, patched
 * into its slots. full is set when the buffer's cap is hit; then nothing more
 * is written and all positions are 0.
 *
 * Lifetime:	views of the given bytes.
 * Source:	FlatBuffers internals, "binary format".
 */

#include "common/buf.h"

/* ---- reading */

struct fb {
	struct slice bytes;
	bool bad;
};

struct fb_table {
	size_t at;			/* 0: absent */
	size_t vtable;
	uint16_t vtable_bytes;
	uint16_t bytes;
};

struct fb_vector {
	size_t at;			/* of element 0 */
	uint32_t count;
};

struct fb_table fb_root(struct fb *);
struct fb_table fb_table_at(struct fb *, size_t at);
/* A number of 1, 2, 4 or 8 bytes; otherwise if absent. Signed, but one byte. */
int64_t fb_int(struct fb *, const struct fb_table *, uint32_t slot,
    uint32_t width, int64_t otherwise);
struct fb_table fb_child(struct fb *, const struct fb_table *, uint32_t slot);
struct slice fb_text(struct fb *, const struct fb_table *, uint32_t slot);
struct fb_vector fb_vector(struct fb *, const struct fb_table *, uint32_t slot,
    uint32_t element_bytes);
/* An element of a vector of tables. */
struct fb_table fb_element(struct fb *, const struct fb_vector *, uint32_t i);
/* Of a vector's structs: at lies inside of the vector. */
int64_t fb_load(const struct fb *, size_t at, uint32_t width);

/* ---- writing */

struct fbw {
	struct buf *out;
	size_t base;			/* of the flatbuffer in out */
	bool full;
};

#define FBW_SLOTS_MAX 8

void fbw_begin(struct fbw *, struct buf *out);
/* widths of the slots (0: absent); at: where each field is. The position of
 * the table. */
size_t fbw_table(struct fbw *, const uint8_t *widths, uint32_t count,
    size_t *at);
size_t fbw_text(struct fbw *, struct slice);
/* Of zeroes; element 0 is 4 bytes behind the vector's position. */
size_t fbw_vector(struct fbw *, uint32_t count, uint32_t element_bytes,
    uint32_t align);
void fbw_put(struct fbw *, size_t at, int64_t value, uint32_t width);
void fbw_refer(struct fbw *, size_t at, size_t target);
/* Zeroes up to a multiple of align; how long it is then. */
size_t fbw_pad(struct fbw *, uint32_t align);

#endif
