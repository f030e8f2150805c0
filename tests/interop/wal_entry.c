#include "common/base.h"

#include <stdio.h>
#include <stdlib.h>

#define SEE(cond)	MUST(cond)
#include "tests/unit/arrow_rows.h"
#include "worker/store/wal_format.h"

/*
 * wal_entry write ENTRY STREAM FILE	writes what apache-arrow has to read: a
 *		live WAL entry (head, 3 batches of 5 rows, zeroes), the rows
 *		0 to 14 as one put whole, and as a file
 * wal_entry read STREAM FILE	reads what apache-arrow wrote: 2 batches of 10
 *		rows each, the rows 0 to 19 of arrow_rows.h
 *
 * Dies where something is not as it should be.
 */

#define BYTES_MAX	(1u << 20)
#define ENTRY_BYTES	(64u << 10)
#define BATCHES	3
#define ROWS	5

static void
save(const char *path, const struct buf *b)
{
	FILE *f = fopen(path, "w");

	MUST(f != NULL);
	MUST(fwrite(b->ptr, 1, b->len, f) == b->len);
	MUST(fclose(f) == 0);
}

static struct slice
load(const char *path)
{
	char *bytes = malloc(BYTES_MAX);
	FILE *f = fopen(path, "r");
	size_t n;

	MUST(f != NULL && bytes != NULL);
	n = fread(bytes, 1, BYTES_MAX, f);
	MUST(n < BYTES_MAX && fclose(f) == 0);
	return slice_make(bytes, n);
}

static void
write_entry(struct buf *out, const struct batch *b, uint64_t whole_bytes,
    struct arena *arena)
{
	struct wal_head head = { .epoch = 3, .entry = uuid_random(),
	    .closes = { 7, 4096 }, .whole_bytes = whole_bytes,
	    .schema = *b->schema };
	struct wal_layout layout;
	uint64_t i;
	size_t n;

	MUST(!err_is(wal_head_write(out, &head)));
	MUST(!err_is(wal_layout_init(&layout, b->schema, arena)));
	for (i = 0; i < BATCHES; i++) {
		n = wal_batch_size(&layout, b, i * ROWS, ROWS);
		MUST(buf_reserve(out, n));
		wal_batch_write(&layout, b, i * ROWS, ROWS, 1000 + i,
		    out->ptr + out->len);
		out->len += n;
	}
}

static void
write_all(char **paths, struct arena *arena)
{
	struct builder b;
	struct batch batch;
	struct buf out;
	uint64_t whole;

	buf_init(&out, BYTES_MAX);
	make(&b, BATCHES * ROWS);
	batch = builder_batch(&b);
	write_entry(&out, &batch, 0, arena);
	MUST(buf_append_zero(&out, ENTRY_BYTES - out.len));
	save(paths[0], &out);
	out.len = 0;
	write_entry(&out, &batch, 1, arena);	/* as long as with its size */
	whole = out.len + IPC_END_BYTES;
	out.len = 0;
	write_entry(&out, &batch, whole, arena);
	MUST(wal_end_write(&out) && out.len == whole);
	save(paths[1], &out);
	out.len = 0;
	MUST(!err_is(ipc_file_write(&out, &batch)));
	save(paths[2], &out);
	buf_free(&out);
	builder_free(&b);
}

static void
see_rows(const struct batch *b, uint64_t first)
{
	uint64_t i;
	uint32_t k;

	for (i = 0; i < b->row_count; i++)
		see_row(b, i, first + i);
	for (k = 0; k < b->schema->field_count; k++)
		see_counts(&b->columns[k]);
}

static void
read_stream(struct slice bytes, struct arena *arena)
{
	struct arrow_schema found;
	struct ipc_message m;
	struct batch b;
	uint64_t rows = 0;

	MUST(!err_is(ipc_message_read(bytes, &m)) && m.kind == IPC_SCHEMA);
	MUST(!err_is(ipc_schema_read(&m, arena, &found)));
	MUST(arrow_schema_same(&found, &schema));
	for (;;) {
		bytes = slice_make(bytes.ptr + m.bytes, bytes.len - m.bytes);
		MUST(!err_is(ipc_message_read(bytes, &m)));
		if (m.kind == IPC_END)
			break;
		MUST(!err_is(ipc_batch_read(&m, &found, arena, &b)));
		see_rows(&b, rows);
		rows += b.row_count;
	}
	MUST(rows == 20);
}

static void
read_file(struct slice bytes, struct arena *arena)
{
	struct ipc_file f;
	struct batch b;
	uint32_t i;

	MUST(!err_is(ipc_file_open(bytes, arena, &f)));
	MUST(arrow_schema_same(&f.schema, &schema));
	MUST(f.batch_count == 2);
	for (i = 0; i < f.batch_count; i++) {
		MUST(!err_is(ipc_file_batch(&f, i, arena, &b)));
		MUST(b.row_count == 10);
		see_rows(&b, i * 10);
	}
}

int
main(int argc, char **argv)
{
	struct arena arena;

	arena_init(&arena, 16u << 20);
	if (argc == 5 && strcmp(argv[1], "write") == 0) {
		write_all(argv + 2, &arena);
	} else if (argc == 4 && strcmp(argv[1], "read") == 0) {
		read_stream(load(argv[2]), &arena);
		read_file(load(argv[3]), &arena);
	} else {
		fprintf(stderr, "usage: wal_entry write|read PATHS\n");
		return 1;
	}
	arena_free(&arena);
	return 0;
}
