#include "common/base.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/fault.h"
#include "common/json.h"
#include "common/log.h"
#include "shm/mailbox.h"
#include "shm/metric.h"
#include "shm/process.h"
#include "shm/server_state.h"
#include "worker/object/chain.h"
#include "worker/store/assignment.h"

#define PREFIX		"_cluster/assignment"
#define ORDINALS_MAX	65536u

static struct chain
chain_of(struct object_dir *root)
{
	return (struct chain){ root, PREFIX };
}

/* reading */

static struct err
read_state(struct arena *a, const struct json *j, enum shm_ordinal_state *state)
{
	struct slice text;
	struct err e = json_get_text(a, j, "state", JSON_REQUIRED, &text);
	uint32_t s;

	if (err_is(e))
		return e;
	for (s = 0; s < SHM_ORDINAL_STATE_COUNT; s++) {
		if (slice_eq(text, slice_of(shm_ordinal_state_name(s)))) {
			*state = (enum shm_ordinal_state)s;
			return OK;
		}
	}
	return FAIL(UNSUPPORTED, "state of an ordinal");
}

static struct err
read_reason(struct arena *a, const struct json *j,
    enum shm_ordinal_reason *reason)
{
	struct slice text = { 0 };
	struct err e = json_get_text(a, j, "why", JSON_OPTIONAL, &text);
	uint32_t r;

	*reason = SHM_ORDINAL_BY_UNKNOWN;
	for (r = 0; r < SHM_ORDINAL_REASON_COUNT && !err_is(e); r++) {
		if (slice_eq(text, slice_of(shm_ordinal_reason_name(r))))
			*reason = (enum shm_ordinal_reason)r;
	}
	return e;
}

static struct err
read_change(struct arena *a, const struct json *j, struct assignment_change *c)
{
	uint64_t worker = 0;
	struct err e;

	e = json_get_uint64(a, j, "version", JSON_REQUIRED, &c->version);
	if (!err_is(e))
		e = read_state(a, j, &c->state);
	if (!err_is(e))
		e = json_get_text(a, j, "instance", JSON_REQUIRED,
		    &c->instance);
	if (!err_is(e))
		e = json_get_uint64(a, j, "worker", JSON_REQUIRED, &worker);
	if (!err_is(e))
		e = json_get_uint64(a, j, "at_ms", JSON_REQUIRED, &c->at_ms);
	if (!err_is(e))
		e = read_reason(a, j, &c->reason);
	if (!err_is(e) && (worker >= SHM_WORKERS_LIMIT ||
	    c->instance.len >= SHM_INSTANCE_TEXT))
		e = FAIL(CORRUPT, "owner of an ordinal");
	c->worker = (uint32_t)worker;
	return e;
}

static struct err
read_history(struct arena *a, const struct json *j,
    struct assignment_ordinal *o)
{
	const struct json *list, *one;
	struct err e = json_get_array(a, j, "history", JSON_REQUIRED, &list);

	if (err_is(e))
		return e;
	JSON_FOREACH(one, list) {
		if (o->history_count == ASSIGNMENT_HISTORY)
			break;
		e = read_change(a, one, &o->history[o->history_count]);
		if (err_is(e))
			return e;
		o->history_count++;
	}
	return OK;
}

static struct err
read_ordinal(struct arena *a, const struct json *j,
    struct assignment_ordinal *o)
{
	struct slice shard;
	uint64_t drained = 0;
	struct err e;

	e = json_get_text(a, j, "name", JSON_REQUIRED, &o->name);
	if (!err_is(e))
		e = json_get_text(a, j, "shard", JSON_REQUIRED, &shard);
	if (!err_is(e))
		e = json_get_text(a, j, "address", JSON_REQUIRED, &o->address);
	if (!err_is(e))
		e = json_get_uint64(a, j, "drained", JSON_OPTIONAL, &drained);
	if (!err_is(e))
		e = read_change(a, j, &o->now);
	if (!err_is(e))
		e = read_history(a, j, o);
	o->drained = (uint32_t)drained & SHM_DRAINED_ALL;
	if (!err_is(e) && (!uuid_from_text(shard, &o->shard) ||
	    o->name.len == 0 || o->name.len > SHM_ORDINAL_NAME_MAX ||
	    o->address.len >= SHM_INSTANCE_TEXT))
		e = FAIL(CORRUPT, "name, shard or address of an ordinal");
	return e;
}

static struct err
read_all(struct slice bytes, struct arena *a, struct assignment *out)
{
	struct assignment_ordinal *ordinals = NULL;
	const struct json *top, *list, *one;
	struct assignment t = { 0 };
	struct err e;

	e = json_parse(a, bytes, "assignment", &top);
	if (!err_is(e))
		e = json_get_uint64(a, top, "version", JSON_REQUIRED,
		    &t.version);
	if (!err_is(e))
		e = json_get_array(a, top, "ordinals", JSON_REQUIRED, &list);
	if (err_is(e))
		return e;
	if (list->count > ORDINALS_MAX)
		return FAIL(CORRUPT, "too many ordinals");
	ordinals = arena_calloc(a, MAX(list->count, 1u), sizeof(*ordinals));
	if (ordinals == NULL)
		return FAIL(NO_MEMORY, "assignment");
	JSON_FOREACH(one, list) {
		e = read_ordinal(a, one, &ordinals[t.count]);
		if (err_is(e))
			return e;
		t.count++;
	}
	t.ordinals = ordinals;
	*out = t;
	return OK;
}

struct err
assignment_parse(struct slice bytes, struct arena *a, struct assignment *out)
{
	struct err e = read_all(bytes, a, out);

	/* To a client of ours it would be an error of his. */
	if (e.kind == ERR_BAD_INPUT || e.kind == ERR_SHAPE)
		e.kind = ERR_CORRUPT;
	return e;
}

struct err
assignment_load(struct object_dir *root, struct arena *a,
    struct assignment *out)
{
	struct chain c = chain_of(root);
	uint64_t version;
	struct slice bytes;
	struct err e = chain_load(&c, a, &version, &bytes);

	if (!err_is(e) && version == 0) {
		*out = (struct assignment){ 0 };
		return OK;
	}
	if (!err_is(e))
		e = assignment_parse(bytes, a, out);
	if (!err_is(e) && out->version != version)
		e = FAIL(CORRUPT, "assignment of another version");
	return e;
}

/* the segment's cache */

static void
copy_text(char to[SHM_INSTANCE_TEXT], struct slice from)
{
	memset(to, 0, SHM_INSTANCE_TEXT);
	memcpy(to, from.ptr, from.len);
}

static struct shm_news
news_of(const struct assignment_ordinal *o)
{
	struct shm_news n = { .version = o->now.version,
	    .at_ms = o->now.at_ms, .drained = o->drained,
	    .reason = o->now.reason };
	uint32_t i;

	n.is.state = o->now.state;
	n.is.worker = o->now.worker;
	copy_text(n.is.instance, o->now.instance);
	copy_text(n.is.address, o->address);
	for (i = 0; i < o->history_count; i++) {
		const struct assignment_change *was = &o->history[i];

		n.was[i] = (struct shm_past){ .state = was->state,
		    .worker = was->worker, .version = was->version,
		    .at_ms = was->at_ms, .reason = was->reason };
		copy_text(n.was[i].instance, was->instance);
	}
	return n;
}

/* It closes its entries and gives its claims up now; else the next commit would,
 * or the fence of the new owner. */
static void
tell_owner(uint16_t before, uint32_t index)
{
	struct shm_command command = { .kind = SHM_MAIL_RELEASE,
	    .token = shm_mailbox_token(),
	    .shard = shm_ordinal_shard(index) };
	struct err e;

	if (before == SHM_NOBODY || shm_ordinal_owner(index) == before)
		return;
	e = shm_mailbox_send(before, &command);
	if (err_is(e))
		log_err(LOG_DEBUG, e, "owner of an ordinal that moved not told");
}

/* It is not known here, and nobody would miss it. */
static bool
is_passed_over(const struct assignment_ordinal *o)
{
	uint32_t index;

	return o->now.state == SHM_ORDINAL_RETIRED && o->drained == 0 &&
	    shm_ordinal_full() && err_is(shm_ordinal_find(&o->shard, &index));
}

static void
apply(const struct assignment *t)
{
	struct shm_news news;
	bool changed, any = false;
	uint32_t i, index;
	uint16_t before;
	struct err e;

	for (i = 0; i < t->count; i++) {
		const struct assignment_ordinal *o = &t->ordinals[i];

		if (is_passed_over(o))
			continue;
		news = news_of(o);
		e = shm_ordinal_adopt(o->name, &o->shard, &index);
		before = err_is(e) ? SHM_NOBODY : shm_ordinal_owner(index);
		if (!err_is(e))
			e = shm_ordinal_assign(index, &news, &changed);
		if (!err_is(e) && changed)
			tell_owner(before, index);
		any |= !err_is(e) && changed;
		if (err_is(e))
			log_err(LOG_WARN, e, "ordinal passed over, its shards "
			    "are nobody's here ordinal=%.*s",
			    (int)o->name.len, o->name.ptr);
	}
	shm_ordinal_version_raise(t->version);
	/* It may have to decide about it. */
	if (any)
		shm_mailbox_wake(SHM_MASTER);
}

struct err
assignment_look(struct object_dir *root)
{
	struct chain c = chain_of(root);
	struct assignment t;
	struct arena arena;
	uint64_t newest;
	struct err e = chain_newest(&c, &newest);

	if (err_is(e))
		return e;
	if (newest > shm_ordinal_version()) {
		arena_init(&arena, ASSIGNMENT_BYTES_MAX);
		e = assignment_load(root, &arena, &t);
		if (!err_is(e))
			apply(&t);
		else
			e.what = "read the assignment of ordinals";
		arena_free(&arena);
	}
	shm_ordinal_unread_set(err_is(e) ? newest : 0);
	return e;
}

bool
assignment_has(const struct assignment *t, const struct uuid *shard)
{
	uint32_t i;

	for (i = 0; i < t->count; i++) {
		if (uuid_eq(&t->ordinals[i].shard, shard))
			return true;
	}
	return false;
}

struct err
assignment_check(struct object_dir *root, uint32_t ordinal, uint16_t slot,
    uint32_t *moves)
{
	uint32_t before;
	struct err e;

	if (!shm_lease_held())
		return FAIL(UNAVAILABLE, "this server does not hold its lease");
	e = assignment_look(root);
	if (err_is(e))
		return e;
	/* The owner of one and the same stay. */
	do {
		before = shm_ordinal_moves(ordinal);
		if (shm_ordinal_owner(ordinal) != slot)
			return shm_server_is(SHM_SERVER_DRAINED) ?
			    FAIL(FENCED, "this server is drained, append "
			    "through another") :
			    FAIL(FENCED, "the ordinal is assigned to another");
		*moves = shm_ordinal_moves(ordinal);
	} while (*moves != before);
	return OK;
}

/* changing */

static void
write_change(struct json_writer *w, const struct assignment_change *c)
{
	json_write_uint64(w, "version", c->version);
	json_write_text(w, "state",
	    slice_of(shm_ordinal_state_name(c->state)));
	json_write_text(w, "instance", c->instance);
	json_write_uint64(w, "worker", c->worker);
	json_write_uint64(w, "at_ms", c->at_ms);
	if (c->reason != SHM_ORDINAL_BY_UNKNOWN)
		json_write_text(w, "why",
		    slice_of(shm_ordinal_reason_name(c->reason)));
}

static void
write_ordinal(struct json_writer *w, const struct assignment_ordinal *o)
{
	char shard[UUID_TEXT_LEN + 1];
	uint32_t i;

	uuid_to_text(&o->shard, shard);
	json_write_open(w, NULL, '{');
	json_write_text(w, "name", o->name);
	json_write_text(w, "shard", slice_of(shard));
	write_change(w, &o->now);
	json_write_text(w, "address", o->address);
	if (o->drained != 0)
		json_write_uint64(w, "drained", o->drained);
	json_write_open(w, "history", '[');
	for (i = 0; i < o->history_count; i++) {
		json_write_open(w, NULL, '{');
		write_change(w, &o->history[i]);
		json_write_close(w, '}');
	}
	json_write_close(w, ']');
	json_write_close(w, '}');
}

/* The writer is made afresh for each put: no two are alike. */
static bool
write_all(struct buf *b, const struct assignment *t)
{
	struct uuid writer = uuid_random();
	char text[UUID_TEXT_LEN + 1];
	struct json_writer w;
	uint32_t i;

	uuid_to_text(&writer, text);
	json_write_init(&w, b);
	json_write_open(&w, NULL, '{');
	json_write_uint64(&w, "version", t->version);
	json_write_text(&w, "writer", slice_of(text));
	json_write_open(&w, "ordinals", '[');
	for (i = 0; i < t->count; i++)
		write_ordinal(&w, &t->ordinals[i]);
	json_write_close(&w, ']');
	json_write_close(&w, '}');
	return json_write_done(&w);
}

struct bring {			/* all wants, and what becomes of them */
	uint32_t count;
	struct one {
		uint32_t index;			/* NEWCOMER: none yet */
		struct shm_newcomer what;	/* name, shard and want */
	} *wants;
	uint32_t stand, late, changed;
	const char *taken;		/* a name of ours that another shard has */
};

#define NEWCOMER UINT32_MAX

static struct err
collect_wants(struct bring *b)
{
	uint32_t i, count = shm_ordinal_count();

	b->wants = calloc(count + 1, sizeof(*b->wants));
	if (b->wants == NULL)
		return FAIL(NO_MEMORY, "assign ordinals");
	for (i = 0; i < count; i++) {
		struct one *o = &b->wants[b->count];
		struct slice name = shm_ordinal_name(i);

		if (!shm_ordinal_wanted(i, &o->what.want))
			continue;
		memcpy(o->what.name, name.ptr, name.len);
		o->what.shard = shm_ordinal_shard(i);
		o->index = i;
		b->count++;
	}
	if (shm_ordinal_wanted_new(&b->wants[b->count].what))
		b->wants[b->count++].index = NEWCOMER;
	return OK;
}

static uint32_t
drained_by(uint32_t drained, const struct shm_want *want)
{
	return (drained | want->drain) & ~want->undrain;
}

static bool
is_owned_so(const struct assignment_ordinal *o, const struct shm_assignment *to)
{
	return o->now.state == to->state && o->now.worker == to->worker &&
	    slice_eq(o->now.instance, slice_of(to->instance));
}

static bool
is_so(const struct assignment_ordinal *o, const struct shm_want *want)
{
	return o->drained == drained_by(o->drained, want) &&
	    is_owned_so(o, &want->to) &&
	    slice_eq(o->address, slice_of(want->to.address));
}

static void
change(struct assignment_ordinal *o, const struct shm_want *want,
    uint64_t version)
{
	enum shm_ordinal_reason reason = is_owned_so(o, &want->to) &&
	    o->now.version != 0 ? o->now.reason :
	    (enum shm_ordinal_reason)want->reason;

	if (o->now.version != 0) {
		memmove(&o->history[1], &o->history[0],
		    (ASSIGNMENT_HISTORY - 1) * sizeof(o->history[0]));
		o->history[0] = o->now;
		o->history_count = MIN(o->history_count + 1,
		    ASSIGNMENT_HISTORY);
	}
	o->now = (struct assignment_change){ version, want->to.state,
	    want->to.worker, slice_of(want->to.instance),
	    clock_wall_us() / 1000, reason };
	o->address = slice_of(want->to.address);
	o->drained = drained_by(o->drained, want);
}

/* One want into the next version, which has room for one more. */
static void
bring_one(struct bring *b, const struct one *w, struct assignment *next,
    struct assignment_ordinal *ordinals)
{
	struct slice name = slice_of(w->what.name);
	struct assignment_ordinal *o = NULL, *named = NULL;
	uint32_t i;

	for (i = 0; i < next->count && o == NULL; i++) {
		if (uuid_eq(&ordinals[i].shard, &w->what.shard))
			o = &ordinals[i];
		else if (slice_eq(ordinals[i].name, name))
			named = &ordinals[i];
	}
	if (o == NULL ? named != NULL : !slice_eq(o->name, name)) {
		b->late++;
		if (o == NULL && w->index != NEWCOMER)
			b->taken = w->what.name;
		return;
	}
	if (o != NULL && is_so(o, &w->what.want)) {
		b->stand++;
		return;
	}
	if ((o == NULL ? 0 : o->now.version) != w->what.want.from_version) {
		b->late++;
		return;
	}
	if (o == NULL) {
		o = &ordinals[next->count++];
		*o = (struct assignment_ordinal){ .name = name,
		    .shard = w->what.shard };
	}
	change(o, &w->what.want, next->version);
	b->changed++;
}

/* *stands: the newest version is as the wants that were not late would have
 * it, and the segment knows it. */
static struct err
try_once(struct object_dir *root, struct bring *b, struct arena *a,
    bool *stands)
{
	struct chain c = chain_of(root);
	struct assignment_ordinal *ordinals;
	struct assignment t;
	struct buf bytes;
	struct err e = assignment_load(root, a, &t);
	uint32_t i;

	if (err_is(e))
		return e;
	ordinals = arena_calloc(a, t.count + b->count, sizeof(*ordinals));
	if (ordinals == NULL)
		return FAIL(NO_MEMORY, "assign ordinals");
	if (t.count > 0)
		memcpy(ordinals, t.ordinals, t.count * sizeof(*ordinals));
	t.ordinals = ordinals;
	t.version++;
	b->stand = b->late = b->changed = 0;
	b->taken = NULL;
	for (i = 0; i < b->count; i++)
		bring_one(b, &b->wants[i], &t, ordinals);
	*stands = b->changed == 0;
	if (*stands) {
		t.version--;
		apply(&t);
		return OK;
	}
	buf_init(&bytes, CHAIN_BYTES_MAX);
	e = write_all(&bytes, &t) ? FAULT(assignment_put) :
	    FAIL(NO_MEMORY, "the assignment of ordinals is too large");
	if (!err_is(e))
		e = chain_put(&c, t.version, buf_slice(&bytes), a, stands);
	buf_free(&bytes);
	if (!err_is(e) && *stands) {
		b->stand += b->changed;
		apply(&t);
	}
	return e;
}

static void
count(const struct bring *b, struct err e)
{
	if (b->changed > 0 || err_is(e))
		shm_metric_add(METRIC_memwald_assignments_total, err_is(e) ?
		    METRIC_SUCCESS_FAILED : METRIC_SUCCESS_SUCCESS, 1);
}

static void
end_want(const struct one *w)
{
	if (w->index == NEWCOMER)
		shm_ordinal_want_new_end(&w->what);
	else
		shm_ordinal_want_end(w->index, &w->what.want);
}

struct err
assignment_bring(struct object_dir *root, uint32_t *stand, uint32_t *late)
{
	struct bring b = { 0 };
	struct arena arena;
	bool stands = false;
	struct err e = collect_wants(&b);
	uint32_t i;
	int tries;

	for (tries = 0; tries < CHAIN_TRIES && !stands && !err_is(e);
	    tries++) {
		arena_init(&arena, ASSIGNMENT_BYTES_MAX);
		e = try_once(root, &b, &arena, &stands);
		if (err_is(e))
			e.what = "assign ordinals";
		arena_free(&arena);
	}
	if (!err_is(e) && !stands)
		e = FAIL(CONFLICT, "too many changes of others to the "
		    "assignment of ordinals");
	count(&b, e);
	/* After an error they stay, for the next try. */
	for (i = 0; i < b.count && !err_is(e); i++)
		end_want(&b.wants[i]);
	if (!err_is(e) && b.taken != NULL) {
		log_warn("ordinal has the name of one that was adopted, so it is "
		    "not assigned and its worker writes nothing: give this "
		    "server another instance id ordinal=%s", b.taken);
		e = FAIL(EXISTS, "assign ordinals");
	}
	free(b.wants);
	*stand = b.stand;
	*late = b.late;
	return e;
}

struct err
assignment_collect(struct object_dir *root)
{
	struct chain c = chain_of(root);

	return chain_collect(&c, shm_ordinal_version(), ASSIGNMENT_KEEP);
}
