#include "common/base.h"

#include "common/clock.h"
#include "shm/process.h"
#include "worker/store/append.h"
#include "worker/store/engine.h"
#include "worker/store/guest.h"
#include "worker/store/store.h"
#include "worker/store/tail_cache.h"

#define LOOK_NS (50 * NS_PER_MS)	/* whether the other still lives */

struct err
engine_root(const struct config *config, struct object_dir **root)
{
	struct err e = object_root_open(config->data_dir, root);

	if (!err_is(e) && config->wal == CONFIG_WAL_PUT)
		object_put_only(*root);
	return e;
}

struct err
engine_init(struct engine *en, const struct config *config, struct loop *loop,
    struct pool *pool, uint32_t ordinal, uint32_t workers)
{
	struct err e;
	uint32_t i;

	*en = (struct engine){ .loop = loop, .pool = pool, .config = config,
	    .ordinal = ordinal };
	for (i = 0; i < ENGINE_BUCKETS; i++)
		list_init(&en->buckets[i]);
	list_init(&en->due);
	list_init(&en->guests);
	list_init(&en->calls);
	e = tail_cache_new(&en->tails);
	if (!err_is(e))
		e = engine_root(config, &en->root);
	if (!err_is(e))
		source_cache_init(&en->cache, en, workers);
	return e;
}

static const struct err died = { ERR_UNAVAILABLE, 0,
    "the process that was asked died" };

static void
call_end(struct engine_call *call, struct err e, uint64_t arg0)
{
	list_remove(&call->link);
	timer_cancel(loop_timers(call->engine->loop), &call->look);
	call->done(call, e, arg0);
}

static void
look_again(struct engine_call *call, uint64_t now_ns)
{
	timer_set(loop_timers(call->engine->loop), &call->look,
	    MIN(now_ns + LOOK_NS, call->until_ns));
}

static void
call_look(struct timer *t)
{
	struct engine_call *call = CONTAINER_OF(t, struct engine_call, look);
	uint64_t now_ns = loop_now_ns(call->engine->loop);

	if (now_ns >= call->until_ns)
		call_end(call, FAIL(TIMED_OUT,
		    "no reply from another process in time"), 0);
	else if (!shm_life_goes_on(call->life))
		call_end(call, died, 0);
	else
		look_again(call, now_ns);
}

struct err
engine_call(struct engine *en, struct engine_call *call, uint16_t to,
    struct shm_command *command, uint64_t span_ns)
{
	uint64_t now_ns = loop_now_ns(en->loop);
	struct err e;

	call->engine = en;
	/* Before it is sent: else a death in between would not be seen. */
	call->life = shm_life_of(to);
	call->token = command->token = shm_mailbox_token();
	e = shm_mailbox_send(to, command);
	if (err_is(e))
		return e;
	list_append(&en->calls, &call->link);
	call->until_ns = now_ns + span_ns;
	timer_init(&call->look, call_look);
	look_again(call, now_ns);
	return OK;
}

/* A reply whose caller gave up finds nobody. */
static void
take_reply(struct engine *en, const struct shm_command *command)
{
	struct err e = died;
	struct list *l;

	if (command->kind != SHM_MAIL_ABORTED)
		e = (struct err){ command->err < ERR_KIND_COUNT ?
		    (uint16_t)command->err : ERR_INTERNAL, 0,
		    "so says the process that was asked, whose log has more" };
	LIST_FOREACH(l, &en->calls) {
		struct engine_call *call =
		    CONTAINER_OF(l, struct engine_call, link);

		if (call->token == command->token) {
			call_end(call, e, command->args[0]);
			return;
		}
	}
}

/* The store was deleted: its handle goes, as soon as nobody uses it. */
static void
forget(struct engine *en, const struct shm_command *command)
{
	struct store *s = store_by_ref(en, command->store);

	if (s != NULL)
		store_forget(s);
	shm_mailbox_reply(command, OK, 0);
}

bool
engine_command(struct engine *en, const struct shm_command *command)
{
	switch (command->kind) {
	case SHM_MAIL_REPLY:
	case SHM_MAIL_ABORTED:
		take_reply(en, command);
		return true;
	case SHM_MAIL_ROTATE:
		append_rotate(en, command);
		return true;
	case SHM_MAIL_RELEASE:
		append_release(en, command);
		return true;
	case SHM_MAIL_FORGET:
		forget(en, command);
		return true;
	case SHM_MAIL_RELIEVE:
	case SHM_MAIL_WORKERS:
		source_cache_command(&en->cache, command);
		return true;
	default:
		return false;
	}
}

void
engine_before_wait(void *engine)
{
	struct engine *en = engine;

	append_start_due(en);
	source_cache_trim(&en->cache);
}

bool
engine_idle(const struct engine *en)
{
	const struct list *l;
	uint32_t i;

	if (en->due_count > 0 || !list_empty(&en->calls) || guest_busy(en))
		return false;
	for (i = 0; i < ENGINE_BUCKETS; i++) {
		LIST_FOREACH(l, &en->buckets[i]) {
			if (append_busy(CONTAINER_OF(l, struct store, link)))
				return false;
		}
	}
	return true;
}

void
engine_close_entries(struct engine *en)
{
	const struct list *l;
	uint32_t i;

	for (i = 0; i < ENGINE_BUCKETS; i++) {
		LIST_FOREACH(l, &en->buckets[i])
			append_leave(CONTAINER_OF(l, struct store, link));
	}
}
