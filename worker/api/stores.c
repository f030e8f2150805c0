#include "common/base.h"

#include <stdlib.h>

#include "common/clock.h"
#include "common/json.h"
#include "shm/process.h"
#include "worker/api/handlers.h"
#include "worker/api/media.h"
#include "worker/api/request.h"
#include "worker/store/generic.h"
#include "worker/store/registry.h"

/*
 * Life cycle of stores: create, list, info, delete (contract 2.3). What asks
 * the object store runs on the pool.
 */

#define DELETE_SPAN_NS	(60 * NS_PER_SEC)
#define FIND_TRIES	4
#define INFO_BYTES_MAX	(64u << 20)
#define NAMES_BYTES_MAX	(64u << 20)

struct store_request {
	struct api_request q;		/* first */
	struct op op;			/* the job */
	struct err err;
	char name[SHM_STORE_NAME_MAX + 1];
	struct registry_entry entry;
	struct shm_ref gone;		/* delete: of one that nobody opens */
	struct store_shape own;		/* create: of a kind without one */
	const struct store_shape *shape;
	struct arena names_arena;
	const char **names;
	uint32_t name_count;
	struct engine_call call;
	struct buf reply;
};

static struct store_request *
of(struct http_request *r)
{
	return CONTAINER_OF((struct api_request *)r->user,
	    struct store_request, q);
}

static void
write_info(struct json_writer *w, const struct store_request *s,
    const char *name)
{
	char directory[REGISTRY_DIRECTORY_MAX], *uri;
	const char *root = api_engine()->config->data_dir;
	size_t n = strlen(root);

	registry_directory(s->q.kind, name, directory);
	while (n > 1 && root[n - 1] == '/')
		n--;
	uri = (char *)(uintptr_t)arena_printf(&s->q.r->arena, "%.*s/%s",
	    (int)n, root, directory);
	json_write_text(w, "name", slice_of(name));
	json_write_text(w, "uri", slice_of(uri));
}

static void
reply_info(struct store_request *s, uint16_t status)
{
	struct json_writer w;

	json_write_init(&w, &s->reply);
	json_write_open(&w, NULL, '{');
	write_info(&w, s, s->q.store->name);
	json_write_uint64(&w, "version", store_version(s->q.store));
	if (store_pinned(s->q.store) != 0)
		json_write_uint64(&w, "pinned_version",
		    store_pinned(s->q.store));
	if (s->q.store->shape->spec.len > 0)
		json_write_raw(&w, "schema", s->q.store->shape->spec);
	json_write_close(&w, '}');
	if (json_write_done(&w))
		http_reply_json(s->q.r, status, buf_slice(&s->reply));
	else
		http_reply_err(s->q.r, FAIL(NO_MEMORY, "answer"));
}

static void
store_finish(struct http_request *r)
{
	struct store_request *s;

	if (r->user == NULL)
		return;
	s = of(r);
	buf_free(&s->reply);
	arena_free(&s->names_arena);
	api_close(&s->q);
}

/* State for a handler that has no store in its path. */
static struct store_request *
begin(struct http_request *r)
{
	struct store_request *s = api_state(r, sizeof(*s));

	if (s == NULL)
		return NULL;
	s->q.r = r;
	s->q.kind = api_kind(r);
	buf_init(&s->reply, INFO_BYTES_MAX);
	arena_init(&s->names_arena, NAMES_BYTES_MAX);
	r->user = &s->q;
	return s;
}

static void
start_job(struct store_request *s, int32_t (*run)(struct op *),
    void (*done)(struct op *, int32_t))
{
	s->op.done = done;
	if (!pool_submit(api_engine()->pool, &s->op, run))
		http_reply_err(s->q.r, FAIL(BUSY, "too many jobs are waiting"));
}

/* ---- create */

static int32_t
run_create(struct op *op)
{
	struct store_request *s = CONTAINER_OF(op, struct store_request, op);

	s->err = store_create(api_engine()->root, s->q.kind, s->shape,
	    s->name);
	return 0;
}

static void
created_open(struct store_wait *w, struct err e)
{
	struct store_request *s = CONTAINER_OF(w, struct store_request, q.wait);

	/* To a create "not found" would say nothing. */
	if (e.kind == ERR_NOT_FOUND)
		e = FAIL(UNAVAILABLE, "the store was created, and deleted by "
		    "another client at once; try again");
	if (err_is(e)) {
		http_reply_err(s->q.r, e);
		return;
	}
	s->q.store = w->store;
	reply_info(s, 201);
}

static void
created(struct op *op, int32_t res)
{
	struct store_request *s = CONTAINER_OF(op, struct store_request, op);
	struct err e = s->err;

	(void)res;
	if (e.kind == ERR_EXISTS)
		e.what = arena_printf(&s->q.r->arena,
		    "%s '%s' exists already", s->q.kind->title, s->name);
	if (err_is(e)) {
		http_reply_err(s->q.r, e);
		return;
	}
	s->q.wait.done = created_open;
	store_open(api_engine(), s->q.kind, s->name, &s->q.wait);
}

/* The shape of a kind whose stores bring their own (contract 3.3.1). */
static struct err
parse_shape(struct store_request *s, const struct json *object,
    const struct json *schema)
{
	struct arena *arena = &s->q.r->arena;
	bool seal = false;
	struct err e;

	e = json_get_bool(arena, object, "seal_on_add", JSON_DEFAULT, &seal);
	if (!err_is(e))
		e = generic_shape_make(arena, schema, seal, &s->own);
	s->shape = &s->own;
	return e;
}

static struct err
parse_create(struct store_request *s, struct slice body)
{
	const struct json *object, *option, *options = NULL, *schema = NULL;
	struct arena *arena = &s->q.r->arena;
	struct slice name = { "", 0 };
	struct err e;

	e = json_parse(arena, body, "body", &object);
	if (!err_is(e))
		e = json_get_text(arena, object, "name", JSON_REQUIRED, &name);
	if (!err_is(e))
		e = json_get_object(arena, object, "storage_options",
		    JSON_OPTIONAL, &options);
	if (!err_is(e) && options != NULL) {
		JSON_FOREACH(option, options) {
			if (option->type != JSON_TEXT)
				e = FAIL(SHAPE, "storage_options: expected "
				    "strings");
		}
	}
	if (!err_is(e) && s->q.kind->shape == NULL)
		e = json_get_object(arena, object, "schema", JSON_REQUIRED,
		    &schema);
	if (!err_is(e))
		e = registry_name_check(name);
	s->shape = s->q.kind->shape;
	if (!err_is(e) && s->shape == NULL)
		e = parse_shape(s, object, schema);
	if (err_is(e))
		return e;
	memcpy(s->name, name.ptr, name.len);
	s->name[name.len] = '\0';
	return OK;
}

static enum http_flow
create_body(struct http_request *r, struct slice body, bool last)
{
	struct store_request *s = of(r);
	struct err e = parse_create(s, body);

	MUST(last);
	if (err_is(e))
		http_reply_err(r, e);
	else
		start_job(s, run_create, created);
	return HTTP_CONTINUE;
}

static void
create_begin(struct http_request *r)
{
	struct err e = media_need_json(r->head.content_type);

	if (err_is(e))
		http_reply_err(r, e);
	else
		(void)begin(r);
}

const struct http_handler api_store_create = {
	.begin = create_begin,
	.body = create_body,
	.finish = store_finish,
};

/* ---- list */

static int32_t
run_names(struct op *op)
{
	struct store_request *s = CONTAINER_OF(op, struct store_request, op);

	s->err = registry_names(api_engine()->root, s->q.kind,
	    &s->names_arena, &s->names, &s->name_count);
	return 0;
}

static void
named(struct op *op, int32_t res)
{
	struct store_request *s = CONTAINER_OF(op, struct store_request, op);
	struct json_writer w;
	uint32_t i;

	(void)res;
	if (err_is(s->err)) {
		http_reply_err(s->q.r, s->err);
		return;
	}
	json_write_init(&w, &s->reply);
	json_write_open(&w, NULL, '{');
	json_write_open(&w, "stores", '[');
	for (i = 0; i < s->name_count; i++) {
		json_write_open(&w, NULL, '{');
		write_info(&w, s, s->names[i]);
		json_write_close(&w, '}');
	}
	json_write_close(&w, ']');
	json_write_close(&w, '}');
	if (json_write_done(&w))
		http_reply_json(s->q.r, 200, buf_slice(&s->reply));
	else
		http_reply_err(s->q.r, FAIL(NO_MEMORY, "answer"));
}

static void
list_begin(struct http_request *r)
{
	struct store_request *s = begin(r);

	if (s != NULL)
		start_job(s, run_names, named);
}

const struct http_handler api_store_list = {
	.begin = list_begin,
	.finish = store_finish,
};

/* ---- info */

static void
info_then(struct api_request *q)
{
	reply_info(of(q->r), 200);
}

static void
info_begin(struct http_request *r)
{
	struct store_request *s = begin(r);

	if (s != NULL)
		api_open(&s->q, r, s->q.kind, info_then);
}

const struct http_handler api_store_info = {
	.begin = info_begin,
	.finish = store_finish,
};

/* ---- delete */

static void
reply_deleted(struct store_request *s, struct err e)
{
	struct http_reply gone = { .status = 204 };

	if (e.kind == ERR_NOT_FOUND)
		api_reply_err(&s->q, e);
	else if (err_is(e))
		http_reply_err(s->q.r, e);
	else
		http_reply(s->q.r, &gone);
}

static void
removed(struct engine_call *call, struct err e, uint64_t arg0)
{
	struct store_request *s =
	    CONTAINER_OF(call, struct store_request, call);

	(void)arg0;
	if (!err_is(e))
		store_forget(s->q.store);
	reply_deleted(s, e);
}

/* The maintainer alone takes a store away: it has the guard meanwhile. */
static struct err
ask_to_delete(struct store_request *s, struct shm_ref ref,
    void (*done)(struct engine_call *, struct err, uint64_t))
{
	struct shm_command command = { .kind = SHM_MAIL_DELETE, .store = ref };

	s->call.done = done;
	return engine_call(api_engine(), &s->call, SHM_MAINTAINER, &command,
	    DELETE_SPAN_NS);
}

static void
delete_then(struct api_request *q)
{
	struct store_request *s = of(q->r);
	struct err e = shm_store_delete(q->store->ref);

	if (!err_is(e))
		e = ask_to_delete(s, q->store->ref, removed);
	if (err_is(e))
		reply_deleted(s, e);
}

/* The slot of the store that the registry names, with a pin. */
static struct err
find_slot(struct store_request *s, struct shm_ref *ref)
{
	struct shm_store_key key = { (enum store_kind)s->q.kind->id,
	    slice_of(s->name) };
	struct shm_store_info info;
	struct uuid gone = { 0 };
	int tries = 0;
	struct err e;

	do {
		e = registry_get(api_engine()->root, s->q.kind, s->name,
		    &s->entry);
		if (err_is(e))
			return e;
		e = shm_store_insert(key, &s->entry.store, &gone, ref);
	} while (e.kind == ERR_CONFLICT && ++tries < FIND_TRIES);
	/* Its deletion is under way. */
	if (e.kind == ERR_NOT_FOUND)
		e = shm_store_find(key, ref);
	if (!err_is(e))
		e = shm_store_pin(*ref);
	if (!err_is(e) && (!shm_store_peek(*ref, &info) ||
	    !uuid_eq(&info.store, &s->entry.store))) {
		shm_store_unpin(*ref);
		e = FAIL(NOT_FOUND, "another store has its name");
	}
	return e.kind != ERR_NOT_FOUND ? e :
	    FAIL(CONFLICT, "the store is being deleted, try again");
}

/*
 * A registered store that cannot be opened: its data is gone, or it is being
 * deleted. What is left of it is not removed here: two who do that, and one who
 * creates the store anew between them, would take the new one away. So the slot
 * is found, or made for this, and the maintainer asked as ever.
 */
static int32_t
run_find(struct op *op)
{
	struct store_request *s = CONTAINER_OF(op, struct store_request, op);

	s->err = find_slot(s, &s->gone);
	if (err_is(s->err))
		return 0;
	s->err = shm_store_delete(s->gone);
	if (err_is(s->err))
		shm_store_unpin(s->gone);
	return 0;
}

static void
found_removed(struct engine_call *call, struct err e, uint64_t arg0)
{
	struct store_request *s =
	    CONTAINER_OF(call, struct store_request, call);

	(void)arg0;
	shm_store_unpin(s->gone);
	reply_deleted(s, e);
}

static void
found(struct op *op, int32_t res)
{
	struct store_request *s = CONTAINER_OF(op, struct store_request, op);
	struct err e = s->err;

	(void)res;
	if (!err_is(e)) {
		e = ask_to_delete(s, s->gone, found_removed);
		if (err_is(e))
			shm_store_unpin(s->gone);
	}
	if (err_is(e))
		reply_deleted(s, e);
}

static void
delete_opened(struct store_wait *w, struct err e)
{
	struct store_request *s = CONTAINER_OF(w, struct store_request, q.wait);

	if (e.kind == ERR_NOT_FOUND) {
		start_job(s, run_find, found);
	} else if (err_is(e)) {
		http_reply_err(s->q.r, e);
	} else {
		s->q.store = w->store;
		delete_then(&s->q);
	}
}

static void
delete_begin(struct http_request *r)
{
	struct slice name = r->head.segments[API_SEGMENT_NAME];
	struct err e = registry_name_check(name);
	struct store_request *s;

	if (err_is(e)) {
		http_reply_err(r, e);
		return;
	}
	s = begin(r);
	if (s == NULL)
		return;
	memcpy(s->name, name.ptr, name.len);
	s->q.wait.done = delete_opened;
	store_open(api_engine(), s->q.kind, s->name, &s->q.wait);
}

const struct http_handler api_store_delete = {
	.begin = delete_begin,
	.finish = store_finish,
};
