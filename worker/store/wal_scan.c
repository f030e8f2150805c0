#include "common/base.h"

#include "common/hash.h"
#include "worker/store/wal_digits.h"
#include "worker/store/wal_format.h"

/*
 * The walk over an entry. Where all is well it is one message after another.
 * Where something is not whole, what it is depends on what comes behind it
 * (wal_format.h, validity 3 to 5), so the next whole batch is looked for before
 * anything is said.
 */

#define SEARCH_HASHES	64	/* of the bytes given, in one search */

/* Offsets are the entry's, everywhere here. */
static struct slice
between(const struct wal_scan *s, uint64_t from, uint64_t to)
{
	return slice_make(s->bytes.ptr + (from - s->base), (size_t)(to - from));
}

/* Up to where there are bytes to look at. */
static uint64_t
limit_of(const struct wal_scan *s)
{
	return MIN(s->end, s->base + s->bytes.len);
}

static bool
all_zero(struct slice s)
{
	return s.len == 0 || (s.ptr[0] == 0 &&
	    memcmp(s.ptr, s.ptr + 1, s.len - 1) == 0);
}

/* ---- one batch */

bool
wal_hash_is(uint64_t hash, struct slice digits)
{
	static const char hex[] = "0123456789abcdef";
	int i;

	for (i = 0; i < WAL_HASH_DIGITS; i++) {
		if (digits.ptr[i] != hex[hash >> (60 - 4 * i) & 15])
			return false;
	}
	return true;
}

static bool
hash_is_right(struct slice message, struct slice digits)
{
	size_t at = (size_t)(digits.ptr - message.ptr);
	const struct slice parts[] = {
		slice_make(message.ptr, at),
		SLICE("0000000000000000"),
		slice_make(digits.ptr + digits.len,
		    message.len - at - digits.len),
	};

	return wal_hash_is(hash_parts(parts, ARRAY_LEN(parts)), digits);
}

bool
wal_look_fits(struct wal_look *l, bool ours)
{
	struct slice len, seq;
	uint64_t bytes;

	l->sequence = 0;
	l->digits = slice_make(NULL, 0);
	if (l->message.kind != IPC_BATCH)
		return false;
	if (!ours)
		return true;
	return l->message.bytes % 8 == 0 &&
	    ipc_message_find(&l->message, SLICE(WAL_LEN_KEY), &len) &&
	    ipc_message_find(&l->message, SLICE(WAL_SEQ_KEY), &seq) &&
	    ipc_message_find(&l->message, SLICE(WAL_HASH_KEY), &l->digits) &&
	    len.len == WAL_LEN_DIGITS && wal_decimal_parse(len, &bytes) &&
	    bytes == l->message.bytes && seq.len == WAL_SEQ_DIGITS &&
	    wal_decimal_parse(seq, &l->sequence) &&
	    l->digits.len == WAL_HASH_DIGITS;
}

struct look {			/* what stands at an offset */
	struct wal_look head;
	struct slice bytes;		/* the whole message */
};

/* Whether metadata of a batch can be read there that fit together. */
static bool
look_at(const struct wal_scan *s, uint64_t offset, struct look *l)
{
	struct slice rest = between(s, offset, limit_of(s));

	if (err_is(ipc_message_read(rest, &l->head.message)))
		return false;
	l->bytes = slice_make(rest.ptr, l->head.message.bytes);
	return wal_look_fits(&l->head, s->ours);
}

static bool
look_is_whole(const struct look *l)
{
	return l->head.digits.len == 0 ||
	    hash_is_right(l->bytes, l->head.digits);
}

/* ---- behind something bad */

/* Tries each multiple of 8 from an offset on; the limit if there is none. */
static uint64_t
search(const struct wal_scan *s, uint64_t offset)
{
	uint64_t limit = limit_of(s), hashed = 0;
	uint64_t hashed_max = SEARCH_HASHES * s->bytes.len;
	uint32_t prefix;
	struct look l;

	for (; offset + IPC_PREFIX_BYTES <= limit && hashed <= hashed_max;
	    offset += 8) {
		memcpy(&prefix, between(s, offset, limit).ptr, sizeof(prefix));
		if (prefix != UINT32_MAX || !look_at(s, offset, &l) ||
		    l.head.sequence < s->sequence)
			continue;
		if (look_is_whole(&l))
			return offset;
		hashed += l.bytes.len;
	}
	return limit;
}

/* Where the next whole batch is, or the limit. */
static uint64_t
find_next(const struct wal_scan *s, uint64_t offset)
{
	uint64_t limit = limit_of(s);
	struct look l;

	if (!s->ours)
		return limit;	/* nothing to tell a whole batch by */
	while (offset < limit && look_at(s, offset, &l)) {
		if (look_is_whole(&l))
			return offset;
		offset += l.bytes.len;
	}
	if (all_zero(between(s, offset, limit)))
		return limit;
	return search(s, offset + 8);
}

/* ---- the walk */

void
wal_scan_init(struct wal_scan *s, struct slice bytes, bool ours,
    uint64_t offset)
{
	MUST(offset % 8 == 0 || !ours);
	*s = (struct wal_scan){
		.bytes = bytes,
		.base = offset,
		.ours = ours,
		/* The engine puts its entries whole. */
		.end_recorded = !ours,
		.end = offset + bytes.len,
		.offset = offset,
		.whole_end = offset,
	};
}

void
wal_scan_set_end(struct wal_scan *s, uint64_t end)
{
	/* Out of another's file: it may say anything. */
	s->end = MAX(end, s->offset);
	s->end_recorded = true;
}

/* The end as a stream says it, and nothing behind it. Below an end that was
 * recorded for appended batches it would be damage. */
static bool
ends_here(const struct wal_scan *s)
{
	static const uint32_t marker[2] = { UINT32_MAX, 0 };
	uint64_t limit = limit_of(s), behind = s->offset + IPC_END_BYTES;

	if (!s->end_recorded && all_zero(between(s, s->offset, limit)))
		return true;
	if (behind > limit ||
	    memcmp(between(s, s->offset, limit).ptr, marker, IPC_END_BYTES) != 0)
		return false;
	return behind == s->end ||
	    ((!s->end_recorded || !s->ours) && all_zero(between(s, behind, limit)));
}

bool
wal_scan_take(struct wal_scan *s, struct wal_batch *b)
{
	struct look l;

	if (!look_at(s, s->offset, &l) || !look_is_whole(&l))
		return false;
	*b = (struct wal_batch){
		.offset = s->offset,
		.bytes = l.bytes.len,
		.sequence = l.head.sequence,
		.message = l.head.message,
	};
	s->offset += l.bytes.len;
	s->whole_end = s->offset;
	s->sequence = l.head.sequence;
	return true;
}

static enum wal_found
take_damage(struct wal_scan *s, struct wal_batch *b)
{
	uint64_t limit = limit_of(s);
	uint64_t next = find_next(s, s->offset);
	bool followed = next < limit;

	*b = (struct wal_batch){
		.offset = s->offset,
		.bytes = (followed ? next : s->end) - s->offset,
		.zero = all_zero(between(s, s->offset, next)),
	};
	s->offset += b->bytes;
	return followed || s->end_recorded ? WAL_CORRUPT : WAL_TORN;
}

enum wal_found
wal_scan_next(struct wal_scan *s, struct wal_batch *b)
{
	if (s->offset >= s->end)
		return WAL_END;
	/* Fewer bytes than the recorded end says. */
	if (s->offset >= limit_of(s))
		return take_damage(s, b);
	if (wal_scan_take(s, b))
		return WAL_BATCH;
	if (!ends_here(s))
		return take_damage(s, b);
	s->offset = s->end;
	return WAL_END;
}
