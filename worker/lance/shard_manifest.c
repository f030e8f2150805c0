#include "common/base.h"

#include <stdio.h>

#include "common/fault.h"
#include "common/log.h"
#include "worker/lance/proto.h"
#include "worker/lance/proto_bytes.h"
#include "worker/lance/shard.pb-c.h"
#include "worker/lance/shard_manifest.h"

#define DIGITS		64
#define MANIFEST_SUFFIX	".binpb"
#define WAL_SUFFIX	".arrow"
#define SPEC_ID		1

static const struct uuid no_uuid;

/* names */

/* Bit 0 comes first. */
static void
number_to_digits(uint64_t n, char digits[DIGITS + 1])
{
	int i;

	for (i = 0; i < DIGITS; i++)
		digits[i] = (char)('0' + (n >> i & 1));
	digits[DIGITS] = '\0';
}

bool
shard_number_parse(struct slice name, struct slice suffix, uint64_t *out)
{
	uint64_t n = 0;
	int i;

	if (name.len != DIGITS + suffix.len ||
	    memcmp(name.ptr + DIGITS, suffix.ptr, suffix.len) != 0)
		return false;
	for (i = 0; i < DIGITS; i++) {
		if (name.ptr[i] != '0' && name.ptr[i] != '1')
			return false;
		n |= (uint64_t)(name.ptr[i] == '1') << i;
	}
	*out = n;
	return true;
}

static void
make_name(const struct uuid *shard, const char *folder, uint64_t number,
    const char *suffix, char *name)
{
	char text[UUID_TEXT_LEN + 1], digits[DIGITS + 1];
	int n;

	uuid_to_text(shard, text);
	number_to_digits(number, digits);
	n = snprintf(name, SHARD_NAME_MAX, "_mem_wal/%s/%s/%s%s", text, folder,
	    digits, suffix);
	MUST(n < SHARD_NAME_MAX);
}

void
shard_manifest_name(const struct uuid *shard, uint64_t version, char *name)
{
	make_name(shard, "manifest", version, MANIFEST_SUFFIX, name);
}

void
shard_wal_name(const struct uuid *shard, uint64_t position, char *name)
{
	make_name(shard, "wal", position, WAL_SUFFIX, name);
}

void
shard_directory_name(const struct uuid *shard, char *name)
{
	char text[UUID_TEXT_LEN + 1];

	uuid_to_text(shard, text);
	snprintf(name, SHARD_NAME_MAX, "_mem_wal/%s", text);
}

/* reading */

static struct err
read_generations(const Pb__ShardManifest *p, struct arena *a,
    struct shard_manifest *m)
{
	struct shard_generation *g;
	size_t i;

	if (p->n_generations > SHARD_GENERATIONS_MAX)
		return FAIL(CORRUPT, "shard manifest with too many generations");
	g = arena_calloc(a, p->n_generations, sizeof(*g));
	if (g == NULL)
		return FAIL(NO_MEMORY, "shard manifest");
	for (i = 0; i < p->n_generations; i++) {
		g[i].number = p->generations[i]->generation;
		g[i].directory = proto_slice(p->generations[i]->directory);
		if (g[i].number == 0 || g[i].directory.len == 0)
			return FAIL(CORRUPT, "generation without number or name");
		if (i > 0 && g[i].number <= g[i - 1].number)
			return FAIL(CORRUPT, "generations out of order");
	}
	m->generations = g;
	m->generation_count = (uint32_t)p->n_generations;
	return OK;
}

struct err
shard_manifest_parse(struct slice bytes, struct arena *a,
    struct shard_manifest *out)
{
	struct shard_manifest m = { 0 };
	Pb__ShardManifest *p;
	struct err e;
	void *message;

	e = proto_unpack(a, &pb__shard_manifest__descriptor, bytes,
	    "shard manifest", &message);
	if (err_is(e))
		return e;
	p = message;
	if (p->shard == NULL || p->shard->uuid.len != sizeof(m.shard.bytes))
		return FAIL(CORRUPT, "shard manifest of no shard");
	if (p->has_writer && p->writer.len != sizeof(m.writer.bytes))
		return FAIL(CORRUPT, "shard manifest with a bad writer");
	m.version = p->version;
	m.epoch = p->epoch;
	m.replay_after = p->replay_after;
	m.last_seen = p->last_seen;
	m.current_generation = p->current_generation;
	m.status = p->status;
	memcpy(m.shard.bytes, p->shard->uuid.data, sizeof(m.shard.bytes));
	if (p->has_writer)
		memcpy(m.writer.bytes, p->writer.data, sizeof(m.writer.bytes));
	m.carried = p;
	e = read_generations(p, a, &m);
	if (!err_is(e))
		*out = m;
	return e;
}

struct err
shard_manifest_load_version(struct object_dir *table, const struct uuid *shard,
    uint64_t version, struct arena *a, struct shard_manifest *out)
{
	struct shard_manifest m;
	char name[SHARD_NAME_MAX];
	struct slice bytes;
	struct err e;

	shard_manifest_name(shard, version, name);
	e = object_get(table, name, SHARD_MANIFEST_BYTES_MAX, a, &bytes);
	if (!err_is(e))
		e = shard_manifest_parse(bytes, a, &m);
	if (err_is(e))
		return e;
	if (m.version != version || !uuid_eq(&m.shard, shard))
		return FAIL(CORRUPT, "shard manifest of another version or shard");
	*out = m;
	return OK;
}

static bool
take_newest(const struct object_info *info, void *ctx)
{
	uint64_t *newest = ctx, version;

	if (shard_number_parse(info->name, SLICE(MANIFEST_SUFFIX), &version) &&
	    version > *newest)
		*newest = version;
	return true;
}

struct err
shard_manifest_newest(struct object_dir *table, const struct uuid *shard,
    uint64_t *version)
{
	char name[SHARD_NAME_MAX + 16];
	uint64_t newest = 0;
	struct err e;

	shard_directory_name(shard, name);
	strcat(name, "/manifest");
	e = object_list_names(table, name, take_newest, &newest);
	if (err_is(e))
		return e;
	if (newest == 0)
		return FAIL(NOT_FOUND, "shard has no manifest");
	*version = newest;
	return OK;
}

struct err
shard_manifest_load(struct object_dir *table, const struct uuid *shard,
    struct arena *a, struct shard_manifest *out)
{
	uint64_t version, before = 0;
	struct err e;

	/* Collected, or taken back by who had filled a hole with it, between
	 * the listing and the read: then another is the newest. */
	do {
		e = shard_manifest_newest(table, shard, &version);
		if (err_is(e) || version == before)
			return err_is(e) ? e :
			    FAIL(NOT_FOUND, "newest version of the shard");
		before = version;
		e = shard_manifest_load_version(table, shard, version, a, out);
	} while (e.kind == ERR_NOT_FOUND);
	return e;
}

/* changing */

struct change {
	struct object_dir *table;
	const struct uuid *shard;
	struct uuid writer;		/* of this put */
	struct shard_manifest m;
	char name[SHARD_NAME_MAX];
	bool may_stand;			/* what a put of ours made */
};

static struct err
make_generations(struct arena *a, const struct shard_manifest *m,
    Pb__ShardManifest *p)
{
	Pb__ShardGeneration **list, *room, *old;
	uint32_t i;
	size_t k;

	MUST(m->generation_count <= SHARD_GENERATIONS_MAX);
	list = arena_calloc(a, m->generation_count, sizeof(*list));
	room = arena_calloc(a, m->generation_count, sizeof(*room));
	if (list == NULL || room == NULL)
		return FAIL(NO_MEMORY, "shard manifest");
	for (i = 0, k = 0; i < m->generation_count; i++) {
		const struct shard_generation *g = &m->generations[i];

		MUST(g->number > 0 && g->directory.len > 0);
		MUST(i == 0 || g->number > g[-1].number);
		pb__shard_generation__init(&room[i]);
		/* One that was there keeps what newer engines know of it. */
		while (k < p->n_generations &&
		    p->generations[k]->generation < g->number)
			k++;
		old = k < p->n_generations ? p->generations[k] : NULL;
		if (old != NULL && old->generation == g->number &&
		    proto_is(old->directory, g->directory)) {
			list[i] = old;
			continue;
		}
		room[i].has_generation = room[i].has_directory = 1;
		room[i].generation = g->number;
		room[i].directory = proto_bytes(g->directory);
		list[i] = &room[i];
	}
	p->generations = list;
	p->n_generations = m->generation_count;
	return OK;
}

static struct err
make_bytes(struct arena *a, const struct shard_manifest *m, struct slice *out)
{
	Pb__ShardManifest p = PB__SHARD_MANIFEST__INIT;
	Pb__Uuid uuid = PB__UUID__INIT;
	struct err e;

	if (m->carried != NULL)
		p = *m->carried;
	uuid.has_uuid = 1;
	uuid.uuid = proto_bytes(slice_make(m->shard.bytes,
	    sizeof(m->shard.bytes)));
	p.has_version = p.has_spec_id = 1;
	p.version = m->version;
	p.epoch = m->epoch;
	p.has_epoch = p.epoch != 0;
	p.replay_after = m->replay_after;
	p.has_replay_after = p.replay_after != 0;
	p.last_seen = m->last_seen;
	p.has_last_seen = p.last_seen != 0;
	p.current_generation = m->current_generation;
	p.has_current_generation = p.current_generation != 0;
	p.status = m->status;
	p.has_status = p.status != 0;
	p.spec_id = SPEC_ID;
	p.shard = &uuid;
	p.has_writer = !uuid_eq(&m->writer, &no_uuid);
	p.writer = proto_bytes(slice_make(m->writer.bytes,
	    sizeof(m->writer.bytes)));
	e = make_generations(a, m, &p);
	if (err_is(e))
		return e;
	e = proto_pack(a, &p.base, out);
	if (!err_is(e) && out->len > SHARD_MANIFEST_BYTES_MAX)
		return FAIL(NO_MEMORY, "shard manifest too large");
	return e;
}

static void
put_hint(const struct change *c)
{
	char name[SHARD_NAME_MAX + 32], text[64];
	struct err e;
	int n;

	n = snprintf(text, sizeof(text), "{\"version\":%llu}",
	    (unsigned long long)c->m.version);
	shard_directory_name(c->shard, name);
	strcat(name, "/manifest/version_hint.json");
	e = object_put_hint(c->table, name, slice_make(text, (size_t)n));
	if (err_is(e))
		log_err(LOG_DEBUG, e, "shard hint not written, going on");
}

/* The put's outcome is unknown, or the version is taken: does it bear our
 * uuid? */
static struct err
read_back(const struct change *c, struct arena *a, bool *ours)
{
	struct shard_manifest there;
	struct err e;

	e = shard_manifest_load_version(c->table, c->shard, c->m.version, a,
	    &there);
	if (e.kind == ERR_NOT_FOUND) {
		*ours = false;
		return OK;
	}
	if (err_is(e))
		return (struct err){ ERR_UNKNOWN, e.os, e.what };
	*ours = uuid_eq(&there.writer, &c->writer);
	e = *ours ? object_confirm(c->table, c->name) : OK;
	return err_is(e) ? (struct err){ ERR_UNKNOWN, e.os, e.what } : OK;
}

/*
 * Ours is there; is it the newest? A higher one means that ours filled a hole,
 * or that others went on from it. The two look alike, so in both cases ours
 * goes and the change is tried on the newest, where it stands already if they
 * went on from ours.
 */
static struct err
confirm(const struct change *c, bool *stands)
{
	uint64_t newest;
	struct err e;

	FAULT_HERE(shard_committed);
	e = shard_manifest_newest(c->table, c->shard, &newest);
	if (err_is(e))
		return (struct err){ ERR_UNKNOWN, e.os, e.what };
	MUST(newest > 0);
	*stands = newest <= c->m.version;
	if (*stands)
		return OK;
	log_info("shard manifest was not the newest, starting again "
	    "version=%llu newest=%llu", (unsigned long long)c->m.version,
	    (unsigned long long)newest);
	e = object_delete(c->table, c->name);
	if (err_is(e))
		return (struct err){ ERR_UNKNOWN, e.os, e.what };
	return OK;
}

static struct err
put(struct change *c, struct arena *a, bool *stands)
{
	struct slice bytes;
	bool ours = true;
	struct err e;

	*stands = false;
	e = make_bytes(a, &c->m, &bytes);
	if (err_is(e))
		return e;
	e = FAULT(shard_commit);
	if (err_is(e))
		return e;
	shard_manifest_name(c->shard, c->m.version, c->name);
	e = object_put_new(c->table, c->name, bytes);
	c->may_stand |= e.kind == ERR_UNKNOWN;
	if (e.kind == ERR_UNKNOWN || e.kind == ERR_EXISTS)
		e = read_back(c, a, &ours);
	if (err_is(e) || !ours)
		return e;
	e = confirm(c, stands);
	if (!err_is(e) && *stands)
		put_hint(c);
	/* Others may have gone on from it before it was removed. */
	c->may_stand |= !*stands;
	return e;
}

static struct err
try_once(struct change *c, shard_manifest_edit_fn *edit, void *ctx,
    struct arena *a, bool *done)
{
	uint64_t version;
	struct err e;

	*done = false;
	e = shard_manifest_load(c->table, c->shard, a, &c->m);
	if (e.kind == ERR_NOT_FOUND) {
		c->m = (struct shard_manifest){ .current_generation = 1,
			.shard = *c->shard };
		e = OK;
	}
	if (err_is(e))
		return e;
	version = c->m.version;
	e = edit(&c->m, a, done, ctx);
	if (err_is(e) || *done)
		return e;
	MUST(c->m.version == version && uuid_eq(&c->m.shard, c->shard));
	c->m.version++;
	c->m.writer = c->writer;
	return put(c, a, done);
}

struct err
shard_manifest_change(struct object_dir *table, const struct uuid *shard,
    shard_manifest_edit_fn *edit, void *ctx, struct arena *a,
    struct shard_manifest *result)
{
	struct change c = { .table = table, .shard = shard };
	bool done = false;
	struct err e = OK;
	int tries;

	for (tries = 0; tries < SHARD_MANIFEST_TRIES && !done; tries++) {
		c.writer = uuid_random();
		e = try_once(&c, edit, ctx, a, &done);
		if (err_is(e))
			break;
	}
	if (!err_is(e) && !done)
		e = FAIL(CONFLICT, "too many changes of others to this shard");
	if (err_is(e))
		return c.may_stand ? (struct err){ ERR_UNKNOWN, e.os, e.what } :
		    e;
	*result = c.m;
	return OK;
}
