#include "common/base.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/hash.h"
#include "worker/store/wal_format.h"

/*
 * Any bytes as a WAL entry: with and without a recorded end, and once more
 * with the hashes made right, since no fuzzer guesses those. A walk must end,
 * go forward only, and cover every byte up to its end once.
 */

#define ARENA_BYTES	(16u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

static void
walk(struct slice entry, bool ours, uint64_t from, uint64_t recorded,
    const struct arrow_schema *schema)
{
	struct arena arena;
	struct wal_scan s;
	struct wal_batch b;
	struct batch rows;
	enum wal_found found;
	uint64_t at = from;

	arena_init(&arena, ARENA_BYTES);
	wal_scan_init(&s, slice_make(entry.ptr + from, entry.len - from), ours,
	    from);
	if (recorded != 0)
		wal_scan_set_end(&s, recorded);
	while ((found = wal_scan_next(&s, &b)) != WAL_END) {
		MUST(b.offset == at && b.bytes > 0);
		MUST(found != WAL_TORN || recorded == 0);
		at += b.bytes;
		MUST(found != WAL_BATCH || s.whole_end == at);
		if (found == WAL_BATCH && schema != NULL)
			(void)!err_is(ipc_batch_read(&b.message, schema,
			    &arena, &rows));
		arena_reset(&arena);
	}
	MUST(wal_scan_next(&s, &b) == WAL_END);
	MUST(at <= MAX(s.end, from));
	arena_free(&arena);
}

static void
all_walks(struct slice entry)
{
	struct arena arena;
	struct wal_head h;
	struct wal_head again;
	struct buf out;

	arena_init(&arena, ARENA_BYTES);
	if (err_is(wal_head_read(entry, &arena, &h))) {
		walk(entry, true, 0, 0, NULL);
		goto out;
	}
	if (h.bytes % 8 == 0) {
		walk(entry, true, h.bytes, 0, &h.schema);
		walk(entry, true, h.bytes, entry.len / 2, &h.schema);
		walk(entry, true, h.bytes, entry.len + 8, &h.schema);
	}
	walk(entry, false, h.bytes, 0, &h.schema);

	/* A head that was read can be written, and says the same. */
	buf_init(&out, ARENA_BYTES);
	h.sentinel = false;
	if (!err_is(wal_head_write(&out, &h)) &&
	    !err_is(wal_head_read(buf_slice(&out), &arena, &again))) {
		MUST(again.epoch == h.epoch);
		MUST(again.closes.end == h.closes.end);
		MUST(again.whole_bytes == h.whole_bytes);
		MUST(arrow_schema_same(&again.schema, &h.schema));
	}
	buf_free(&out);
out:
	arena_free(&arena);
}

/* Right lengths and hashes into whatever has places for them. */
static void
make_right(char *bytes, size_t size)
{
	struct ipc_message m;
	struct slice len, digits;
	char text[24];
	size_t at = 0;

	while (!err_is(ipc_message_read(slice_make(bytes + at, size - at), &m)) &&
	    m.kind != IPC_END) {
		if (ipc_message_find(&m, SLICE("memwald:len"), &len) &&
		    ipc_message_find(&m, SLICE("memwald:xxh3"), &digits) &&
		    len.len == 12 && digits.len == 16) {
			snprintf(text, sizeof(text), "%012zu", m.bytes);
			memcpy(bytes + (len.ptr - bytes), text, 12);
			memset(bytes + (digits.ptr - bytes), '0', 16);
			snprintf(text, sizeof(text), "%016llx",
			    (unsigned long long)hash_bytes(bytes + at, m.bytes));
			memcpy(bytes + (digits.ptr - bytes), text, 16);
		}
		at += m.bytes;
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *copy = malloc(MAX(size, 1u));

	MUST(copy != NULL);
	all_walks(slice_make(data, size));
	memcpy(copy, data, size);
	make_right(copy, size);
	all_walks(slice_make(copy, size));
	free(copy);
	return 0;
}
