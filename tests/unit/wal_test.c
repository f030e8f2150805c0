#include "store_dir.h"

static struct uuid shard;

static struct wal_start
start_at(uint64_t position)
{
	return (struct wal_start){ .position = position, .epoch = 3,
	    .size_bytes = WAL_ENTRY_MIN };
}

static struct err
entry_at(const struct wal_start *start, struct wal_writer *w)
{
	return wal_entry_start(dir, &shard, &shape_of()->schema, start, w);
}

static void
rows_of(struct buf *message, uint64_t sequence, const char *key)
{
	struct builder b;

	rows_begin(&b);
	add_row(&b, key, "x", 1);
	message_of(&b, sequence, message);
	builder_free(&b);
}

static struct wal_found_end
found_at(uint64_t position)
{
	struct wal_list list = wal_of(&shard, position - 1);
	struct wal_found_end f;

	assert_true(list.count > 0);
	see_ok(wal_find_end(dir, &shard, &list.spans[0], &f));
	return f;
}

static int
begin(void **state)
{
	int rc = fresh_store(state);

	shard = shm_ordinal_shard(0);
	return rc;
}

static void
an_empty_shard(void **state)
{
	struct wal_list list = wal_of(&shard, 0);

	(void)state;
	assert_int_equal(list.count, 0);
	assert_null(wal_list_last(&list));
	see_error(wal_exists(dir, &shard, 1), NOT_FOUND);
}

static void
entries_are_started(void **state)
{
	struct wal_start start = start_at(1);
	struct wal_found_end f;
	struct wal_writer w;
	struct wal_list list;
	struct buf first;
	struct stat st;

	(void)state;
	see_ok(entry_at(&start, &w));
	assert_int_equal(w.position, 1);
	assert_int_equal(w.end, w.head_bytes);
	assert_int_equal(w.head_bytes % 8, 0);
	assert_int_equal(w.size_bytes, WAL_ENTRY_MIN);
	see_ok(wal_exists(dir, &shard, 1));
	f = found_at(1);
	assert_int_equal(f.end, w.head_bytes);
	assert_false(f.any);
	assert_false(f.torn);
	assert_int_equal(f.sequence, 0);
	/* Its size stays: whoever reads it may. */
	assert_int_equal(fstat(w.fd, &st), 0);
	assert_int_equal(st.st_size, WAL_ENTRY_MIN);
	wal_writer_close(&w);
	wal_writer_close(&w);

	buf_init(&first, 1u << 20);
	rows_of(&first, 77, "k1");
	start = start_at(2);
	start.closes = (struct wal_end){ 1, f.end };
	start.first = buf_slice(&first);
	see_ok(entry_at(&start, &w));
	assert_int_equal(w.end, w.head_bytes + first.len);
	f = found_at(2);
	assert_int_equal(f.end, w.end);
	assert_int_equal(f.sequence, 77);
	assert_true(f.any);
	list = wal_of(&shard, 0);
	assert_int_equal(list.count, 2);
	assert_int_equal(list.spans[0].epoch, 3);
	assert_true(list.spans[0].ours);
	assert_true(list.spans[0].recorded);
	assert_int_equal(list.spans[0].end, w.head_bytes > 0 ?
	    start.closes.end : 0);
	assert_false(list.spans[1].recorded);
	assert_int_equal(list.spans[1].closes.position, 1);
	assert_ptr_equal(wal_list_last(&list), &list.spans[1]);
	/* Only what lies behind. */
	assert_int_equal(wal_of(&shard, 1).spans[0].position, 2);
	buf_free(&first);
	wal_writer_close(&w);
}

static void
a_large_commit_gets_a_large_entry(void **state)
{
	struct wal_start start = start_at(1);
	struct wal_writer w;
	struct buf first;
	struct builder b;
	struct stat st;
	static char text[100000];

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	buf_init(&first, 1u << 20);
	rows_begin(&b);
	add_row(&b, "k1", text, 1);
	message_of(&b, 5, &first);
	builder_free(&b);
	start.first = buf_slice(&first);
	see_ok(entry_at(&start, &w));
	assert_true(w.size_bytes >= w.end);
	assert_int_equal(w.size_bytes % 4096, 0);
	assert_int_equal(fstat(w.fd, &st), 0);
	assert_int_equal(st.st_size, w.size_bytes);
	assert_int_equal(found_at(1).end, w.end);
	buf_free(&first);
	wal_writer_close(&w);
}

static void
a_taken_position_is_fenced(void **state)
{
	struct wal_start start = start_at(1);
	struct wal_writer w, w2 = { .fd = -1 };
	uint32_t before;
	uint64_t position = 2;

	(void)state;
	see_ok(entry_at(&start, &w));
	before = descriptors();
	see_error(entry_at(&start, &w2), FENCED);
	assert_int_equal(w2.fd, -1);
	assert_int_equal(descriptors(), before);
	see_ok(wal_put_sentinel(dir, &shard, 4, &position));
	start.position = 2;
	see_error(entry_at(&start, &w2), FENCED);
	assert_int_equal(descriptors(), before);
	wal_writer_close(&w);
}

static uint32_t
temporary_files(void)
{
	char path[WAL_PATH_MAX + sizeof(root_path) + 64], command[1024];
	uint32_t n = 0;
	FILE *f;

	wal_path(&shard, 1, path);
	*strrchr(path, '/') = '\0';
	snprintf(command, sizeof(command), "ls -A %s/%s.rollout.lance/%s",
	    root_path, store_name, path);
	f = popen(command, "r");
	assert_non_null(f);
	while (fgets(path, sizeof(path), f) != NULL)
		n += strncmp(path, ".tmp-", 5) == 0;
	pclose(f);
	return n;
}

static void
prepared_entries_are_used_or_removed(void **state)
{
	struct wal_start start = start_at(1);
	struct object_entry prepared;
	char prefix[WAL_PATH_MAX];
	struct wal_writer w;
	uint32_t before = descriptors();

	(void)state;
	wal_path(&shard, 1, prefix);
	*strrchr(prefix, '/') = '\0';
	see_ok(object_entry_create(dir, prefix, 1u << 20, &prepared));
	start.prepared = &prepared;
	see_ok(entry_at(&start, &w));
	assert_int_equal(w.size_bytes, 1u << 20);
	assert_int_equal(w.fd, prepared.fd);
	wal_writer_close(&w);
	/* Too small for its head. */
	see_ok(object_entry_create(dir, prefix, 64, &prepared));
	start.position = 2;
	see_ok(entry_at(&start, &w));
	assert_int_equal(w.size_bytes, WAL_ENTRY_MIN);
	wal_writer_close(&w);
	/* Taken by another: it goes as well. */
	see_ok(object_entry_create(dir, prefix, 1u << 16, &prepared));
	see_error(entry_at(&start, &w), FENCED);
	assert_int_equal(temporary_files(), 0);
	assert_int_equal(descriptors(), before);
}

static void
a_full_disk_may_have_room_for_one_commit(void **state)
{
	struct wal_start start = start_at(1);
	struct wal_writer w;
	uint32_t before = descriptors();

	(void)state;
	start.size_bytes = 1u << 20;
	see_ok(fault_set("object_write=fail:28:1@3"));
	see_ok(entry_at(&start, &w));
	assert_true(w.size_bytes < WAL_ENTRY_MIN);
	wal_writer_close(&w);
	see_ok(fault_set("object_write=fail:28"));
	start.position = 2;
	see_error(entry_at(&start, &w), FULL);
	see_ok(fault_set("object_write=off"));
	assert_int_equal(temporary_files(), 0);
	assert_int_equal(descriptors(), before);
	see_error(wal_exists(dir, &shard, 2), NOT_FOUND);
}

/* The name is there, the directory was not synced: whose it is says it. */
static void
unknown_outcomes_are_read_back(void **state)
{
	struct wal_start start = start_at(1);
	struct wal_list list;
	struct wal_writer w;
	uint64_t position = 2;

	(void)state;
	see_ok(fault_set("object_link_sync=fail:5:1"));
	see_ok(entry_at(&start, &w));
	wal_writer_close(&w);
	see_ok(fault_set("object_link_sync=fail:5:1"));
	see_ok(wal_put_sentinel(dir, &shard, 7, &position));
	assert_int_equal(position, 2);
	/* The name is there, but its directory cannot be synced: nobody may
	 * rely on it. */
	see_ok(fault_set("object_link_sync=fail:5:2"));
	start.position = 3;
	assert_true(err_is(entry_at(&start, &w)));
	see_ok(fault_set("object_link_sync=fail:5:2"));
	position = 4;
	assert_true(err_is(wal_put_sentinel(dir, &shard, 7, &position)));
	list = wal_of(&shard, 0);
	assert_int_equal(list.count, 4);
	assert_true(list.spans[1].sentinel);
	assert_int_equal(list.spans[1].epoch, 7);
}

static void
sentinels_go_to_the_first_free_position(void **state)
{
	struct wal_start start = start_at(1);
	uint64_t position = 1;
	struct wal_writer w;
	struct wal_list list;

	(void)state;
	see_ok(entry_at(&start, &w));
	wal_writer_close(&w);
	start.position = 2;
	see_ok(entry_at(&start, &w));
	wal_writer_close(&w);
	see_ok(wal_put_sentinel(dir, &shard, 9, &position));
	assert_int_equal(position, 3);
	list = wal_of(&shard, 0);
	assert_int_equal(list.count, 3);
	assert_true(list.spans[2].sentinel);
	assert_int_equal(list.spans[2].epoch, 9);
	/* Not a data entry: that is the one before. */
	assert_int_equal(wal_list_last(&list)->position, 2);
}

/* Between the look and the put another took it. */
static int
put_it(void *arg)
{
	uint64_t position = 1;

	(void)arg;
	return err_is(wal_put_sentinel(dir, &shard, 9, &position)) ||
	    position != 2;
}

static void
a_sentinels_position_is_taken_meanwhile(void **state)
{
	struct wal_start start = start_at(1);
	struct wal_writer w;
	pid_t pid;

	(void)state;
	pid = test_fork_stopped(SHM_WORKER(0), put_it, NULL,
	    "object_link=stop:1");
	see_ok(entry_at(&start, &w));
	assert_int_equal(test_go_on(SHM_WORKER(0), pid), 0);
	assert_true(wal_of(&shard, 0).spans[1].sentinel);
	wal_writer_close(&w);
}

/* Ends pass sentinels: the next data entry records them. */
static void
ends_are_recorded_by_the_next_data_entry(void **state)
{
	struct owner a = owner_of(0), b = owner_of(0);
	struct wal_list list;
	uint64_t i;

	(void)state;
	see_ok(own_take(&a));
	own_announce(&a);
	see_ok(own_put(&a, "k1", "a"));
	i = a.entry.position + 1;
	see_ok(wal_put_sentinel(dir, &shard, 8, &i));
	list = wal_of(&shard, 0);
	assert_int_equal(list.count, 3);
	assert_false(list.spans[1].recorded);
	see_ok(own_take(&b));
	list = wal_of(&shard, 0);
	assert_int_equal(list.count, 5);
	assert_true(list.spans[1].recorded);
	assert_int_equal(list.spans[1].end, a.entry.end);
	own_end(&a);
	own_end(&b);
}

/* An entry that its successor does not close was put whole, unless the
 * successor's head is damaged: then its whole batches are its end. */
static void
ends_that_nobody_closes(void **state)
{
	struct wal_start start = start_at(1);
	struct wal_writer w, w2;
	struct wal_list list;
	struct buf first;
	int fd;

	(void)state;
	buf_init(&first, 1u << 20);
	rows_of(&first, 5, "k1");
	start.first = buf_slice(&first);
	see_ok(entry_at(&start, &w));
	start = start_at(2);
	see_ok(entry_at(&start, &w2));
	list = wal_of(&shard, 0);
	assert_true(list.spans[0].recorded);
	assert_int_equal(list.spans[0].end, WAL_ENTRY_MIN);
	fd = open_wal(&shard, 2);
	assert_int_equal(pwrite(fd, "XXXXXXXX", 8, 8), 8);
	close(fd);
	list = wal_of(&shard, 0);
	assert_int_equal(list.count, 2);
	assert_true(list.spans[1].damaged);
	assert_true(list.spans[0].recorded);
	assert_int_equal(list.spans[0].end, w.end);
	buf_free(&first);
	wal_writer_close(&w);
	wal_writer_close(&w2);
}

/* What readers follow to: a point can hold it, whatever a head says. */
static void
span_ends(void **state)
{
	struct wal_span s = { .position = 4, .head_bytes = 64 };
	struct wal_found_end f = { .end = 128, .any = true };

	(void)state;
	assert_int_equal(wal_span_end(&s, &f).position, 4);
	assert_int_equal(wal_span_end(&s, &f).end, 128);
	s.recorded = true;
	s.end = 204;
	assert_int_equal(wal_span_end(&s, &f).end, 200);
	s.end = UINT64_MAX;
	assert_int_equal(wal_span_end(&s, &f).end, SHM_END_MAX);
	s.end = 64;
	assert_int_equal(wal_span_end(&s, &f).position, 0);
	s.end = 0;
	assert_int_equal(wal_span_end(&s, &f).position, 0);
	s.end = 128;
	f.any = false;
	assert_int_equal(wal_span_end(&s, &f).position, 0);
}

static void
torn_and_damaged_ends(void **state)
{
	struct wal_start start = start_at(1);
	struct wal_found_end f;
	struct wal_writer w;
	struct buf message;
	uint64_t first;

	(void)state;
	buf_init(&message, 1u << 20);
	rows_of(&message, 5, "k1");
	start.first = buf_slice(&message);
	see_ok(entry_at(&start, &w));
	first = w.end;
	/* Half of a commit. */
	see_ok(object_write_sync(w.fd, message.ptr, message.len / 2, w.end));
	f = found_at(1);
	assert_int_equal(f.end, first);
	assert_true(f.torn);
	assert_int_equal(f.sequence, 5);
	/* A whole one behind it: the end is behind that. */
	message.len = 0;
	rows_of(&message, 6, "k2");
	see_ok(object_write_sync(w.fd, message.ptr, message.len,
	    first + message.len));
	f = found_at(1);
	assert_int_equal(f.end, first + 2 * message.len);
	assert_false(f.torn);
	assert_int_equal(f.sequence, 6);
	buf_free(&message);
	wal_writer_close(&w);
}

static void
many_entries(void **state)
{
	struct wal_list list;
	uint64_t i, position;

	(void)state;
	for (i = 1; i <= 40; i++) {
		position = i;
		see_ok(wal_put_sentinel(dir, &shard, i, &position));
		assert_int_equal(position, i);
	}
	list = wal_of(&shard, 0);
	assert_int_equal(list.count, 40);
	for (i = 0; i < 40; i++) {
		assert_int_equal(list.spans[i].position, i + 1);
		assert_int_equal(list.spans[i].epoch, i + 1);
	}
	assert_null(wal_list_last(&list));
	assert_int_equal(wal_of(&shard, 39).count, 1);
	assert_int_equal(wal_of(&shard, 40).count, 0);
}

#define wal_test(f) cmocka_unit_test_setup_teardown(f, begin, store_gone)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		wal_test(an_empty_shard),
		wal_test(entries_are_started),
		wal_test(a_large_commit_gets_a_large_entry),
		wal_test(a_taken_position_is_fenced),
		wal_test(prepared_entries_are_used_or_removed),
		wal_test(a_full_disk_may_have_room_for_one_commit),
		wal_test(unknown_outcomes_are_read_back),
		wal_test(sentinels_go_to_the_first_free_position),
		wal_test(a_sentinels_position_is_taken_meanwhile),
		wal_test(ends_are_recorded_by_the_next_data_entry),
		wal_test(ends_that_nobody_closes),
		wal_test(span_ends),
		wal_test(torn_and_damaged_ends),
		wal_test(many_entries),
	};

	return cmocka_run_group_tests(tests, store_group, store_group_end);
}
