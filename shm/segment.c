#include "common/base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/fault.h"
#include "shm/instance.h"
#include "shm/limit.h"
#include "shm/part.h"
#include "shm/process.h"
#include "shm/segment.h"

#define MAGIC		0x6765736477616d65ull	/* says nothing, is nobody else's */
#define LAYOUT_VERSION	1u
#define PAGE		4096u

/* What the processes themselves need beside the segment, at the very least. */
#define HEADROOM_BYTES	(32ull << 20)

enum part {
#define X(part) PART_##part,
	SHM_PARTS(X)
#undef X
	PART_COUNT
};

struct shm_stamp {
	uint64_t magic;
	uint32_t layout_version;
	uint32_t workers_max;
	uint32_t slots;
	uint32_t shard_records;
	uint32_t ordinals;
	uint32_t padding;
	uint64_t total_bytes;
	uint64_t part_bytes[PART_COUNT];
};

static const struct {
	uint64_t (*bytes)(const struct shm_config *);
	void (*carve)(void *, const struct shm_config *);
} parts[] = {
#define X(part) { shm_##part##_bytes, shm_##part##_carve },
	SHM_PARTS(X)
#undef X
};

static struct shm_stamp *stamp;

/* The fault table has no module in shm/: only tests use it. */

uint64_t
shm_fault_bytes(const struct shm_config *cfg)
{
	(void)cfg;
	return FAULT_COUNT * sizeof(struct fault_state);
}

void
shm_fault_carve(void *at, const struct shm_config *cfg)
{
	(void)cfg;
#ifdef MEMWALD_FAULTS
	fault_attach(at);
#else
	(void)at;
#endif
}

static void
fill_stamp(struct shm_stamp *s, const struct shm_config *cfg)
{
	int i;

	memset(s, 0, sizeof(*s));
	s->magic = MAGIC;
	s->layout_version = LAYOUT_VERSION;
	s->workers_max = cfg->workers_max;
	s->slots = cfg->slots;
	s->shard_records = cfg->shard_records;
	s->ordinals = cfg->ordinals;
	s->total_bytes = ROUND_UP(sizeof(*s), PAGE);
	for (i = 0; i < PART_COUNT; i++) {
		s->part_bytes[i] = ROUND_UP(parts[i].bytes(cfg), PAGE);
		s->total_bytes += s->part_bytes[i];
	}
}

static struct err
check_config(const struct shm_config *cfg)
{
	if (cfg->workers == 0 || cfg->workers > cfg->workers_max)
		return FAIL(BAD_INPUT, "workers are at least 1 and at most "
		    "workers-max");
	if (cfg->workers_max > SHM_WORKERS_LIMIT)
		return FAIL(BAD_INPUT, "workers-max is at most 256");
	if (cfg->slots == 0 || cfg->slots > 1u << 24)
		return FAIL(BAD_INPUT, "resident stores are at least 1 and at "
		    "most 16777216");
	if (cfg->shard_records > 1u << 24)
		return FAIL(BAD_INPUT, "shard records are at most 16777216");
	if (cfg->ordinals < cfg->workers_max || cfg->ordinals > 1u << 20)
		return FAIL(BAD_INPUT, "ordinals are at least workers-max and "
		    "at most 1048576");
	if (cfg->instance_id.len == 0 || cfg->instance_id.len >= SHM_INSTANCE_TEXT ||
	    cfg->address.len >= SHM_INSTANCE_TEXT)
		return FAIL(BAD_INPUT, "an instance id has 1 to 127 bytes, as an "
		    "address has at most");
	return OK;
}

uint64_t
shm_segment_size(const struct shm_config *cfg)
{
	struct shm_stamp s;

	fill_stamp(&s, cfg);
	return s.total_bytes;
}

/* Names the size, and what may be made smaller; lives as long as we do. */
static struct err
refuse(struct err e, uint64_t bytes, uint64_t limit)
{
	static char text[256];
	int n = snprintf(text, sizeof(text), "the shared memory segment takes "
	    "%llu bytes (%llu MiB)", (unsigned long long)bytes,
	    (unsigned long long)(bytes >> 20));

	MUST(n > 0 && (size_t)n < sizeof(text));
	if (limit != 0)
		snprintf(text + n, sizeof(text) - (size_t)n, ", which with %llu"
		    " MiB for the processes passes the memory limit of %llu "
		    "bytes: lower the store cache capacity or workers-max",
		    HEADROOM_BYTES >> 20, (unsigned long long)limit);
	else
		snprintf(text + n, sizeof(text) - (size_t)n,
		    ", which the system does not give");
	e.what = text;
	return e;
}

/* The whole of it is backed before anybody touches it: what is missing is an
 * error here, and not a SIGBUS later. The descriptor is closed: the mapping is
 * what fork hands on. */
static struct err
map_backed(uint64_t bytes, void **at)
{
	int fd = memfd_create("memwald", MFD_CLOEXEC);
	struct err e = OK;
	int rc;

	if (fd < 0)
		return FAIL_OS(NO_MEMORY, "create the segment");
	rc = posix_fallocate(fd, 0, (off_t)bytes);
	if (rc != 0) {
		errno = rc;
		e = FAIL_OS(NO_MEMORY, "allocate the segment");
		e.kind = ERR_NO_MEMORY;		/* also where it is ENOSPC */
		goto out;
	}
	*at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_POPULATE, fd, 0);
	if (*at == MAP_FAILED)
		e = FAIL_OS(NO_MEMORY, "map the segment");
out:
	close(fd);
	return e;
}

struct err
shm_segment_create(const struct shm_config *cfg)
{
	struct err e = check_config(cfg);
	uint64_t bytes, limit;
	void *mapped = NULL;
	char *at;
	int i;

	if (err_is(e))
		return e;
	MUST(stamp == NULL);
	bytes = shm_segment_size(cfg);
	limit = cfg->memory_limit;
	if (limit == 0)
		limit = shm_memory_limit();
	if (bytes + HEADROOM_BYTES > limit)
		return refuse(FAIL(NO_MEMORY, ""), bytes, limit);
	e = map_backed(bytes, &mapped);
	if (err_is(e))
		return refuse(e, bytes, 0);
	stamp = mapped;
	fill_stamp(stamp, cfg);
	at = (char *)mapped + ROUND_UP(sizeof(*stamp), PAGE);
	for (i = 0; i < PART_COUNT; i++) {
		parts[i].carve(at, cfg);
		at += stamp->part_bytes[i];
	}
	MUST(at == (char *)mapped + bytes);
	return OK;
}

void
shm_segment_destroy(void)
{
	uint16_t slot;

	MUST(stamp != NULL);
	for (slot = 0; slot < shm_process_count(); slot++)
		close(shm_process_get(slot)->eventfd);
	shm_process_detach();
#ifdef MEMWALD_FAULTS
	fault_detach();
#endif
	MUST(munmap(stamp, stamp->total_bytes) == 0);
	stamp = NULL;
}

void
shm_segment_check(void)
{
	struct shm_config cfg;
	struct shm_stamp want;

	MUST(stamp != NULL);
	cfg = (struct shm_config){
		.workers_max = stamp->workers_max,
		.slots = stamp->slots,
		.shard_records = stamp->shard_records,
		.ordinals = stamp->ordinals,
	};
	fill_stamp(&want, &cfg);
	MUST(memcmp(&want, stamp, sizeof(want)) == 0);
}

uint64_t
shm_segment_bytes(void)
{
	MUST(stamp != NULL);
	return stamp->total_bytes;
}
