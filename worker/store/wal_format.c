#include "common/base.h"

#include <stdio.h>

#include "common/hash.h"
#include "worker/store/wal_digits.h"
#include "worker/store/wal_format.h"

/*
 * What the Lance engine must understand is in the schema's metadata, what is
 * ours is in the messages' (lance-format.md 7.3: the engine refuses a shard
 * whose schema metadata hold more than it knows).
 */

#define EPOCH_KEY	"writer_epoch"
#define SENTINEL_KEY	"fence_sentinel"
#define ENTRY_KEY	"memwald:entry"
#define CLOSES_KEY	"memwald:closes"
#define WHOLE_KEY	"memwald:whole"
#define WHOLE_DIGITS	20

#define NAME_SUFFIX	".arrow"
#define NAME_DIGITS	64

#define PAIRS_BYTES_MAX	(1u << 20)

/* ---- names */

void
wal_name(uint64_t position, char name[WAL_NAME_LEN + 1])
{
	int i;

	static_assert(NAME_DIGITS + sizeof(NAME_SUFFIX) == WAL_NAME_LEN + 1,
	    "digits, suffix, NUL");
	for (i = 0; i < NAME_DIGITS; i++)
		name[i] = (char)('0' + (position >> i & 1));
	memcpy(name + NAME_DIGITS, NAME_SUFFIX, sizeof(NAME_SUFFIX));
}

bool
wal_name_parse(struct slice name, uint64_t *position)
{
	uint64_t found = 0;
	int i;

	if (name.len != WAL_NAME_LEN || memcmp(name.ptr + NAME_DIGITS,
	    NAME_SUFFIX, WAL_NAME_LEN - NAME_DIGITS) != 0)
		return false;
	for (i = 0; i < NAME_DIGITS; i++) {
		if (name.ptr[i] != '0' && name.ptr[i] != '1')
			return false;
		found |= (uint64_t)(name.ptr[i] - '0') << i;
	}
	*position = found;
	return true;
}

/* ---- numbers of fixed width */

static void
put_decimal(char *to, uint32_t digits, uint64_t value)
{
	while (digits > 0) {
		to[--digits] = (char)('0' + value % 10);
		value /= 10;
	}
	MUST(value == 0);
}

static void
put_hex(char *to, uint64_t value)
{
	int i;

	for (i = WAL_HASH_DIGITS - 1; i >= 0; i--, value >>= 4)
		to[i] = "0123456789abcdef"[value & 15];
}

bool
wal_decimal_parse(struct slice text, uint64_t *value)
{
	uint64_t v = 0;
	size_t i;

	if (text.len == 0 || text.len > WAL_SEQ_DIGITS)
		return false;
	for (i = 0; i < text.len; i++) {
		if (text.ptr[i] < '0' || text.ptr[i] > '9' ||
		    __builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(text.ptr[i] - '0'), &v))
			return false;
	}
	*value = v;
	return true;
}

/* ---- writing heads */

/* The schema's own pairs, but for those of an entry that it was read from,
 * and one or two of ours. */
static bool
collect_pairs(struct buf *out, const struct arrow_schema *s,
    const struct arrow_pair *own, size_t own_count)
{
	uint32_t i;

	for (i = 0; i < s->pair_count; i++) {
		if (slice_eq(s->pairs[i].key, SLICE(EPOCH_KEY)) ||
		    slice_eq(s->pairs[i].key, SLICE(SENTINEL_KEY)))
			continue;
		if (!buf_append(out, &s->pairs[i], sizeof(s->pairs[i])))
			return false;
	}
	return buf_append(out, own, own_count * sizeof(*own));
}

static struct err
write_head(struct buf *out, const struct wal_head *h)
{
	char epoch[24], entry[UUID_TEXT_LEN + 1], closes[48];
	char whole[WHOLE_DIGITS];
	const struct arrow_pair own[] = {
		{ SLICE(EPOCH_KEY), slice_make(epoch, (size_t)snprintf(epoch,
		    sizeof(epoch), "%llu", (unsigned long long)h->epoch)) },
		{ SLICE(SENTINEL_KEY), SLICE("true") },
	};
	const struct arrow_pair of_entry = { SLICE(ENTRY_KEY),
	    slice_make(entry, UUID_TEXT_LEN) };
	const struct arrow_pair of_closes = { SLICE(CLOSES_KEY),
	    slice_make(closes, (size_t)snprintf(closes, sizeof(closes),
	    "%llu:%llu", (unsigned long long)h->closes.position,
	    (unsigned long long)h->closes.end)) };
	const struct arrow_pair of_whole = { SLICE(WHOLE_KEY),
	    slice_make(whole, WHOLE_DIGITS) };
	struct arrow_pair message[3] = { of_entry };
	size_t count = 1;
	struct arrow_schema s = h->schema;
	struct buf pairs;
	struct err e;

	uuid_to_text(&h->entry, entry);
	put_decimal(whole, WHOLE_DIGITS, h->whole_bytes);
	if (h->closes.position != 0)
		message[count++] = of_closes;
	if (h->whole_bytes != 0)
		message[count++] = of_whole;
	buf_init(&pairs, PAIRS_BYTES_MAX);
	e = FAIL(NO_MEMORY, "wal head");
	if (!collect_pairs(&pairs, &h->schema, own, h->sentinel ? 2 : 1))
		goto out;
	s.pairs = (const struct arrow_pair *)(const void *)pairs.ptr;
	s.pair_count = (uint32_t)(pairs.len / sizeof(struct arrow_pair));
	e = ipc_schema_write(out, &s, message, count);
out:
	buf_free(&pairs);
	return e;
}

struct err
wal_head_write(struct buf *out, const struct wal_head *h)
{
	MUST(!h->sentinel);
	return write_head(out, h);
}

bool
wal_end_write(struct buf *out)
{
	return ipc_end_write(out);
}

struct err
wal_sentinel_write(struct buf *out, uint64_t epoch, const struct uuid *entry)
{
	struct wal_head h = { .epoch = epoch, .sentinel = true,
	    .entry = *entry };
	struct err e = write_head(out, &h);

	if (!err_is(e) && !wal_end_write(out))
		e = FAIL(NO_MEMORY, "wal sentinel");
	return e;
}

/* ---- writing batches */

struct err
wal_layout_init(struct wal_layout *l, const struct arrow_schema *s,
    struct arena *arena)
{
	static const char zeroes[] = "00000000000000000000";
	const struct arrow_pair pairs[WAL_PAIR_COUNT] = {
		[WAL_LEN] = { SLICE(WAL_LEN_KEY), { zeroes, WAL_LEN_DIGITS } },
		[WAL_SEQ] = { SLICE(WAL_SEQ_KEY), { zeroes, WAL_SEQ_DIGITS } },
		[WAL_HASH] = { SLICE(WAL_HASH_KEY), { zeroes, WAL_HASH_DIGITS } },
	};

	return ipc_layout_init(&l->ipc, s, pairs, WAL_PAIR_COUNT, arena);
}

size_t
wal_batch_size(const struct wal_layout *l, const struct batch *b,
    uint64_t first, uint64_t count)
{
	return ipc_batch_size(&l->ipc, b, first, count);
}

void
wal_batch_write(const struct wal_layout *l, const struct batch *b,
    uint64_t first, uint64_t count, uint64_t sequence, char *to)
{
	size_t bytes = ipc_batch_write(&l->ipc, b, first, count, to);

	put_decimal(to + l->ipc.values_at[WAL_LEN], WAL_LEN_DIGITS, bytes);
	put_decimal(to + l->ipc.values_at[WAL_SEQ], WAL_SEQ_DIGITS, sequence);
	/* The layout left zeroes where the hash goes, and it counts as those. */
	put_hex(to + l->ipc.values_at[WAL_HASH], hash_bytes(to, bytes));
}

struct err
wal_batch_parts(const struct wal_layout *l, const struct batch *b,
    uint64_t sequence, struct arena *arena, struct ipc_parts *out)
{
	char *head = arena_alloc(arena, l->ipc.head.len);
	struct ipc_parts p = { .parts = arena_calloc(arena,
	    ipc_parts_max(&l->ipc), sizeof(*p.parts)) };

	if (head == NULL || p.parts == NULL)
		return FAIL(NO_MEMORY, "parts of a wal batch");
	ipc_batch_parts(&l->ipc, b, head, &p);
	put_decimal(head + l->ipc.values_at[WAL_LEN], WAL_LEN_DIGITS, p.bytes);
	put_decimal(head + l->ipc.values_at[WAL_SEQ], WAL_SEQ_DIGITS, sequence);
	put_hex(head + l->ipc.values_at[WAL_HASH], hash_parts(p.parts, p.count));
	*out = p;
	return OK;
}

/* ---- reading heads */

static bool
find_pair(const struct arrow_schema *s, struct slice key, struct slice *value)
{
	uint32_t i;

	for (i = 0; i < s->pair_count; i++) {
		if (slice_eq(s->pairs[i].key, key)) {
			*value = s->pairs[i].value;
			return true;
		}
	}
	return false;
}

static bool
parse_end(struct slice text, struct wal_end *end)
{
	const char *colon = text.len == 0 ? NULL :
	    memchr(text.ptr, ':', text.len);
	struct wal_end found;
	size_t before;

	if (colon == NULL)
		return false;
	before = (size_t)(colon - text.ptr);
	if (!wal_decimal_parse(slice_make(text.ptr, before), &found.position) ||
	    !wal_decimal_parse(slice_make(colon + 1, text.len - before - 1),
	    &found.end) || found.position == 0)
		return false;
	*end = found;
	return true;
}

struct err
wal_head_read(struct slice bytes, struct arena *arena, struct wal_head *out)
{
	struct wal_head h = { .sentinel = false };
	struct ipc_message m;
	struct slice text;
	struct err e;

	e = ipc_message_read(bytes, &m);
	if (err_is(e))
		return e;
	if (m.kind != IPC_SCHEMA || m.body.len != 0)
		return FAIL(CORRUPT, "wal entry without a head");
	e = ipc_schema_read(&m, arena, &h.schema);
	if (err_is(e))
		return e;
	if (!find_pair(&h.schema, SLICE(EPOCH_KEY), &text) ||
	    !wal_decimal_parse(text, &h.epoch))
		return FAIL(CORRUPT, "wal entry without an epoch");
	h.sentinel = find_pair(&h.schema, SLICE(SENTINEL_KEY), &text) &&
	    slice_eq(text, SLICE("true"));
	h.ours = ipc_message_find(&m, SLICE(ENTRY_KEY), &text);
	if (h.ours && !uuid_from_text(text, &h.entry))
		return FAIL(CORRUPT, "wal entry with a bad uuid");
	if (ipc_message_find(&m, SLICE(CLOSES_KEY), &text) &&
	    !parse_end(text, &h.closes))
		return FAIL(CORRUPT, "wal entry that closes no position");
	h.bytes = m.bytes;
	if (ipc_message_find(&m, SLICE(WHOLE_KEY), &text) &&
	    (!wal_decimal_parse(text, &h.whole_bytes) ||
	    h.whole_bytes % 8 != 0 ||
	    h.whole_bytes < h.bytes + IPC_END_BYTES))
		return FAIL(CORRUPT, "wal entry of an impossible size");
	*out = h;
	return OK;
}
