#include "common/base.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/fault.h"
#include "common/host.h"
#include "common/json.h"
#include "common/log.h"
#include "shm/metric.h"
#include "shm/ordinal_table.h"
#include "worker/maintain/lease.h"
#include "worker/object/chain.h"
#include "worker/object/local.h"

#define FOLDER		"_cluster/lease"
#define LEASE_BYTES_MAX	(64u << 10)
#define ROUND_TRIES	8
#define SPAN_MS_MAX	(86400000ull * 30)

struct seen {			/* the newest version of a lease */
	uint64_t version;	/* 0: there is none */
	struct uuid holder;
	bool released;
	uint64_t span_ns;
	uint64_t pid;
	struct slice instance, address, boot;
};

/* What the segment is told, and whether it is told twice. */
static pthread_mutex_t told = PTHREAD_MUTEX_INITIALIZER;

static struct chain
chain_of(struct object_dir *root, const struct uuid *id)
{
	struct chain c = { .root = root };
	char text[UUID_TEXT_LEN + 1];

	uuid_to_text(id, text);
	snprintf(c.prefix, sizeof(c.prefix), FOLDER "/%s", text);
	return c;
}

static struct chain
own_chain(const struct lease *l)
{
	struct uuid id = uuid_named(slice_of(shm_instance_id()));

	return chain_of(l->root, &id);
}

/* reading */

static struct err
parse(struct slice bytes, struct arena *a, struct seen *s)
{
	struct slice holder, state;
	const struct json *top;
	uint64_t span_ms = 0;
	struct err e;

	e = json_parse(a, bytes, "lease", &top);
	if (!err_is(e))
		e = json_get_text(a, top, "holder", JSON_REQUIRED, &holder);
	if (!err_is(e))
		e = json_get_text(a, top, "state", JSON_REQUIRED, &state);
	if (!err_is(e))
		e = json_get_text(a, top, "instance", JSON_REQUIRED,
		    &s->instance);
	if (!err_is(e))
		e = json_get_text(a, top, "address", JSON_REQUIRED,
		    &s->address);
	if (!err_is(e))
		e = json_get_text(a, top, "boot", JSON_REQUIRED, &s->boot);
	if (!err_is(e))
		e = json_get_uint64(a, top, "pid", JSON_REQUIRED, &s->pid);
	if (!err_is(e))
		e = json_get_uint64(a, top, "span_ms", JSON_REQUIRED,
		    &span_ms);
	if (err_is(e))
		return FAIL(CORRUPT, "lease");
	if (!uuid_from_text(holder, &s->holder) || span_ms > SPAN_MS_MAX ||
	    s->instance.len == 0 || s->instance.len >= SHM_INSTANCE_TEXT ||
	    s->address.len >= SHM_INSTANCE_TEXT)
		return FAIL(CORRUPT, "lease");
	s->released = slice_eq(state, SLICE("released"));
	s->span_ns = span_ms * NS_PER_MS;
	return OK;
}

static struct err
load(const struct chain *c, struct arena *a, struct seen *s)
{
	struct slice bytes;
	struct err e;

	*s = (struct seen){ 0 };
	e = chain_load(c, a, &s->version, &bytes);
	if (!err_is(e) && s->version != 0)
		e = parse(bytes, a, s);
	return e;
}

static bool
is_ours(const struct seen *s)
{
	struct uuid holder = shm_instance_holder();

	return uuid_eq(&s->holder, &holder);
}

/* writing */

/* The writer is made afresh for each put: no two are alike. */
static bool
write_version(const struct lease *l, uint64_t version, const char *state,
    struct buf *b)
{
	struct uuid writer = uuid_random(), holder = shm_instance_holder();
	char text[UUID_TEXT_LEN + 1];
	struct json_writer w;

	json_write_init(&w, b);
	json_write_open(&w, NULL, '{');
	json_write_uint64(&w, "version", version);
	uuid_to_text(&writer, text);
	json_write_text(&w, "writer", slice_of(text));
	uuid_to_text(&holder, text);
	json_write_text(&w, "holder", slice_of(text));
	json_write_text(&w, "state", slice_of(state));
	json_write_text(&w, "instance", slice_of(shm_instance_id()));
	json_write_text(&w, "address", slice_of(shm_instance_address()));
	json_write_text(&w, "boot", slice_of(l->boot));
	/* The master's: the one that people look for. */
	json_write_uint64(&w, "pid", (uint64_t)getppid());
	json_write_uint64(&w, "span_ms", l->span_ns / NS_PER_MS);
	json_write_uint64(&w, "at_ms", clock_wall_us() / 1000);
	json_write_close(&w, '}');
	return json_write_done(&w);
}

static struct err
put(const struct lease *l, uint64_t version, const char *state,
    struct arena *a, bool *stands)
{
	struct chain c = own_chain(l);
	struct buf b;
	struct err e;

	buf_init(&b, LEASE_BYTES_MAX);
	e = write_version(l, version, state, &b) ? FAULT(lease_renew) :
	    FAIL(NO_MEMORY, "lease");
	if (!err_is(e))
		e = chain_put(&c, version, buf_slice(&b), a, stands);
	buf_free(&b);
	shm_metric_add(METRIC_memwald_lease_renewals_total, err_is(e) ||
	    !*stands ? METRIC_SUCCESS_FAILED : METRIC_SUCCESS_SUCCESS, 1);
	return e;
}

/* what the segment is told; each change of it is said once */

static void
end(enum shm_lease_state state, const char *why)
{
	struct shm_lease before;

	pthread_mutex_lock(&told);
	shm_lease_get(&before);
	shm_lease_end(state, why);
	pthread_mutex_unlock(&told);
	if (before.state == state && strcmp(before.why, why) == 0)
		return;
	if (state == SHM_LEASE_LOST)
		log_error("lease lost: appends are refused until it is ours "
		    "again, which is tried all the time instance=%s "
		    "why=\"%s\"", shm_instance_id(), why);
	else
		log_warn("lease not had, no appends meanwhile instance=%s "
		    "state=%s why=\"%s\"", shm_instance_id(),
		    shm_lease_state_name(state), why);
}

static void
hold(uint64_t version, uint64_t until_ns)
{
	struct shm_lease before;

	pthread_mutex_lock(&told);
	shm_lease_get(&before);
	shm_lease_hold(version, until_ns);
	pthread_mutex_unlock(&told);
	if (before.state != SHM_LEASE_HELD)
		log_info("lease held instance=%s version=%llu term=%u",
		    shm_instance_id(), (unsigned long long)version,
		    before.terms + 1);
}

void
lease_expire(void)
{
	struct shm_lease l;
	bool lost;

	pthread_mutex_lock(&told);
	shm_lease_get(&l);
	lost = l.state == SHM_LEASE_LOST && l.why[0] == '\0';
	if (lost)
		shm_lease_end(SHM_LEASE_LOST, "not renewed in time");
	pthread_mutex_unlock(&told);
	if (lost)
		log_error("lease ran out before it was renewed: appends are "
		    "refused until it is ours again, check the storage "
		    "instance=%s version=%llu", shm_instance_id(),
		    (unsigned long long)l.version);
}

/* rounds */

enum step { TAKE, WATCH, REFUSE };

static enum step
watch(struct lease *l, const struct seen *s, bool starting, uint64_t before_ns,
    uint64_t after_ns)
{
	bool lived = l->watched_version != 0 &&
	    l->watched_version != s->version;

	if (l->watched_version != s->version) {
		l->watched_version = s->version;
		l->watched_ns = after_ns;
	}
	if (lived && starting)
		return REFUSE;
	return before_ns > l->watched_ns &&
	    before_ns - l->watched_ns >= s->span_ns ? TAKE : WATCH;
}

static enum step
decide(struct lease *l, const struct seen *s, bool starting,
    uint64_t before_ns, uint64_t after_ns)
{
	if (s->version == 0 || s->released || is_ours(s))
		return TAKE;
	if (starting && slice_eq(s->boot, slice_of(l->boot))) {
		log_info("lease of a server that is gone, its lock was free "
		    "instance=%s pid=%llu", shm_instance_id(),
		    (unsigned long long)s->pid);
		return TAKE;
	}
	return watch(l, s, starting, before_ns, after_ns);
}

/* Rule 5: who else is there when we come without a name. */
static enum step
decide_nameless(struct lease *l, char why[SHM_INSTANCE_TEXT])
{
	enum step step = TAKE;
	uint32_t i;

	if (object_on_network(l->root)) {
		snprintf(why, SHM_INSTANCE_TEXT, "the data directory is on a "
		    "network file system: give this server an --instance-id");
		return REFUSE;
	}
	for (i = 0; i < shm_instance_count(); i++) {
		struct shm_instance other;

		if (!shm_instance_get(i, &other))
			continue;
		if (l->first_versions[i] == 0)
			l->first_versions[i] = other.version;
		if (!shm_instance_lives(&other))
			continue;
		if (other.version != l->first_versions[i]) {
			snprintf(why, SHM_INSTANCE_TEXT, "another instance is "
			    "there, give this one an --instance-id: %.40s",
			    other.id);
			return REFUSE;
		}
		snprintf(why, SHM_INSTANCE_TEXT, "without an --instance-id, "
		    "and maybe another instance lives: %.40s", other.id);
		step = WATCH;
	}
	return step;
}

/* *again: lost a race for the next version, look again. */
static struct err
take(struct lease *l, const struct seen *s, struct arena *a, bool *again)
{
	struct chain c = own_chain(l);
	uint64_t began_ns = clock_boot_ns();
	bool stands = false;
	struct err e = put(l, s->version + 1, "held", a, &stands);

	*again = !err_is(e) && !stands;
	if (err_is(e) || !stands)
		return e;
	l->watched_version = 0;
	lease_expire();
	hold(s->version + 1, began_ns + l->span_ns - l->span_ns / 8);
	return chain_collect(&c, s->version + 1, LEASE_KEEP);
}

static struct err
round_once(struct lease *l, struct arena *a, bool *again)
{
	uint64_t before_ns = clock_boot_ns();
	struct chain c = own_chain(l);
	char why[SHM_INSTANCE_TEXT];
	struct shm_lease now;
	struct seen s;
	enum step step;
	struct err e = load(&c, a, &s);

	*again = false;
	if (err_is(e))
		return e;
	shm_lease_get(&now);
	step = decide(l, &s, now.terms == 0, before_ns, clock_boot_ns());
	if (step != TAKE)
		snprintf(why, sizeof(why), "%s by pid %llu at %.*s",
		    step == REFUSE ? "this instance id is in use" : "held",
		    (unsigned long long)s.pid, (int)s.address.len,
		    s.address.ptr);
	else if (l->nameless && now.terms == 0)
		step = decide_nameless(l, why);
	switch (step) {
	case TAKE:
		return take(l, &s, a, again);
	case WATCH:
		end(now.terms == 0 ? SHM_LEASE_WATCHED : SHM_LEASE_LOST, why);
		break;
	case REFUSE:
		end(SHM_LEASE_REFUSED, why);
		break;
	}
	return OK;
}

struct err
lease_round(struct lease *l)
{
	bool again = true;
	struct arena a;
	struct err e = OK;
	int tries;

	for (tries = 0; tries < ROUND_TRIES && again && !err_is(e); tries++) {
		arena_init(&a, 1u << 20);
		e = round_once(l, &a, &again);
		arena_free(&a);
	}
	return e;
}

struct err
lease_release(struct lease *l)
{
	struct chain c = own_chain(l);
	struct shm_lease now;
	bool stands = false;
	struct arena a;
	struct seen s;
	struct err e;

	shm_lease_get(&now);
	if (now.terms == 0)
		return OK;		/* it never was ours */
	pthread_mutex_lock(&told);
	shm_lease_end(SHM_LEASE_RELEASED, "the server leaves");
	pthread_mutex_unlock(&told);
	arena_init(&a, 1u << 20);
	e = load(&c, &a, &s);
	if (!err_is(e) && s.version != 0 && is_ours(&s) && !s.released)
		e = put(l, s.version + 1, "released", &a, &stands);
	arena_free(&a);
	return e;
}

/* others */

struct looking {
	struct arena *arena;
	struct slice names[SHM_INSTANCES_MAX];
	uint32_t count;
};

static bool
take_name(const struct object_info *info, void *ctx)
{
	struct looking *k = ctx;
	char *name = arena_copy(k->arena, info->name);

	if (name == NULL || k->count == SHM_INSTANCES_MAX)
		return false;
	k->names[k->count++] = slice_of(name);
	return true;
}

static bool
known(const struct uuid *id, struct shm_instance *there)
{
	uint32_t i;

	for (i = 0; i < shm_instance_count(); i++) {
		struct uuid named;

		if (!shm_instance_get(i, there))
			continue;
		named = uuid_named(slice_of(there->id));
		if (uuid_eq(&named, id))
			return true;
	}
	return false;
}

static struct err
note_silent(const struct shm_instance *there, uint64_t before_ns)
{
	return shm_instance_seen(&(struct shm_instance_look){
	    .id = slice_of(there->id), .version = there->version,
	    .before_ns = before_ns, .after_ns = before_ns });
}

/* The newest version is damaged: that it is there is a sign of life, and all
 * that is known of it. If it stays the newest, its writer is as silent as any:
 * whoever renews a lease reads it first. */
static struct err
note_unread(const struct shm_instance *there, uint64_t version,
    uint64_t before_ns)
{
	return shm_instance_seen(&(struct shm_instance_look){
	    .id = slice_of(there->id), .address = slice_of(there->address),
	    .version = version, .span_ns = there->span_ns,
	    .before_ns = before_ns, .after_ns = clock_boot_ns() });
}

/* One that we know, at a version that we know, is not read again. */
static struct err
look_at(struct lease *l, const struct uuid *id, struct arena *a)
{
	struct chain c = chain_of(l->root, id);
	struct shm_instance_look look = { .before_ns = clock_boot_ns() };
	struct shm_instance there;
	struct seen s;
	bool is_known;
	struct err noted, e = chain_newest(&c, &look.version);

	if (err_is(e) || look.version == 0)
		return e;
	is_known = known(id, &there);
	if (is_known && there.version == look.version)
		return note_silent(&there, look.before_ns);
	e = load(&c, a, &s);
	/* Only what never will be read: else that it was released is missed. */
	if (e.kind == ERR_CORRUPT && is_known) {
		noted = note_unread(&there, look.version, look.before_ns);
		return err_is(noted) ? noted : e;
	}
	if (err_is(e) || s.version == 0)
		return e;
	look.id = s.instance;
	look.address = s.address;
	look.version = s.version;
	look.span_ns = s.span_ns;
	look.released = s.released;
	look.after_ns = clock_boot_ns();
	return shm_instance_seen(&look);
}

static bool
is_listed(const struct looking *k, const struct uuid *id)
{
	char text[UUID_TEXT_LEN + 1];
	uint32_t i;

	uuid_to_text(id, text);
	for (i = 0; i < k->count; i++) {
		if (slice_eq(k->names[i], slice_of(text)))
			return true;
	}
	return false;
}

/* Another instance removed its lease, since it is gone for good: it is as silent
 * as before. Only if the listing has all of them, and so our own. */
static struct err
look_at_missing(const struct looking *k, const struct uuid *own,
    uint64_t before_ns)
{
	struct err e = OK;
	uint32_t i;

	if (k->count == SHM_INSTANCES_MAX || !is_listed(k, own))
		return OK;
	for (i = 0; i < shm_instance_count() && !err_is(e); i++) {
		struct shm_instance there;
		struct uuid id;

		if (!shm_instance_get(i, &there))
			continue;
		id = uuid_named(slice_of(there.id));
		if (!is_listed(k, &id))
			e = note_silent(&there, before_ns);
	}
	return e;
}

struct err
lease_look(struct lease *l)
{
	uint64_t before_ns = clock_boot_ns();
	struct uuid own = uuid_named(slice_of(shm_instance_id()));
	struct looking k = { 0 };
	struct arena a;
	struct uuid id;
	struct err e, one;
	uint32_t i;

	e = FAULT(lease_look);
	if (err_is(e))
		return e;
	arena_init(&a, 16u << 20);
	k.arena = &a;
	e = object_list_names(l->root, FOLDER, take_name, &k);
	if (e.kind == ERR_NOT_FOUND)
		e = OK;
	for (i = 0; i < k.count && !err_is(e); i++) {
		if (!uuid_from_text(k.names[i], &id) || uuid_eq(&id, &own))
			continue;
		/* One that cannot be read hides no other. */
		one = look_at(l, &id, &a);
		if (err_is(one))
			log_err(LOG_WARN, one, "lease of another instance "
			    "passed over lease=%.*s", (int)k.names[i].len,
			    k.names[i].ptr);
	}
	if (!err_is(e))
		e = look_at_missing(&k, &own, before_ns);
	arena_free(&a);
	return e;
}

static bool
owns_any(const char *instance)
{
	uint32_t i, count = shm_ordinal_count();
	struct shm_ordinal o;

	for (i = 0; i < count; i++) {
		if (!err_is(shm_ordinal_get(i, &o)) &&
		    strcmp(o.is.instance, instance) == 0)
			return true;
	}
	return false;
}

struct err
lease_forget(struct lease *l, uint64_t silent_ns)
{
	struct err e = OK;
	uint32_t i;

	for (i = 0; i < shm_instance_count() && !err_is(e); i++) {
		struct shm_instance other;
		struct chain c;
		struct uuid id;

		if (!shm_instance_get(i, &other) ||
		    other.silent_ns < MAX(silent_ns, other.span_ns) ||
		    owns_any(other.id))
			continue;
		id = uuid_named(slice_of(other.id));
		c = chain_of(l->root, &id);
		e = chain_end(&c, other.version);
		if (e.kind == ERR_NOT_FOUND)
			e = OK;		/* others removed it */
		if (err_is(e))
			break;
		shm_instance_forget(i);
		l->first_versions[i] = 0;
		log_info("instance forgotten that is gone for good "
		    "instance=%s version=%llu", other.id,
		    (unsigned long long)other.version);
	}
	return e;
}

void
lease_init(struct lease *l, struct object_dir *root, uint64_t span_ns,
    bool nameless)
{
	*l = (struct lease){ .root = root, .span_ns = span_ns,
	    .nameless = nameless };
	host_boot_id(l->boot, sizeof(l->boot));
}
