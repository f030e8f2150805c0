#include "common/base.h"

#include <stdlib.h>

#include "shm/instance.h"
#include "shm/metric.h"
#include "shm/ordinal_table.h"
#include "worker/store/guest.h"
#include "worker/store/pressure.h"
#include "worker/store/writer.h"

bool
append_busy(const struct store *s)
{
	return s->writer != NULL && writer_busy(s->writer);
}

void
append_close(struct store *s)
{
	if (s->writer != NULL)
		writer_free(s);
}

/* Without a lease nothing is written: before anybody is asked. */
static struct err
check_lease(const struct store *s)
{
	if (shm_lease_held())
		return OK;
	shm_metric_add(METRIC_memwald_lease_refusals_total, s->kind->id, 1);
	return FAIL(UNAVAILABLE, "this server has lost its lease and takes no "
	    "appends until it has it again, try again");
}

struct err
append_builder(struct store *s, struct arena *errors, struct builder **builder)
{
	struct shm_slot *slot = shm_store_slot(s->ref);
	uint64_t pinned;
	struct err e = OK;

	if (slot == NULL)
		return FAIL(UNAVAILABLE, "store has moved, try again");
	if ((shm_store_flags(s->ref) & SHM_FLAG_DELETED) != 0)
		return FAIL(BAD_INPUT, "store is being deleted");
	pinned = atomic_load_explicit(&slot->pinned_version,
	    memory_order_acquire);
	if (pinned != 0)
		return FAIL(BAD_INPUT, arena_printf(errors, "store is pinned to "
		    "version %llu, nothing can be appended before it is "
		    "released", (unsigned long long)pinned));
	e = check_lease(s);
	if (!err_is(e))
		e = pressure_append(s);
	if (!err_is(e) && s->writer == NULL)
		e = writer_new(s);
	if (!err_is(e))
		e = writer_builders(s->writer);
	if (err_is(e))
		return e;
	if (builder_bytes(s->writer->pending) > APPEND_COMMIT_MAX)
		return FAIL(BUSY, "too many appends are waiting for the disk");
	*builder = s->writer->pending;
	return OK;
}

void
append_submit(struct store *s, struct append *a)
{
	store_hold(s);
	list_append(&s->writer->waiting, &a->link);
	writer_due(s->writer);
}

void
append_leave(struct store *s)
{
	if (s->writer != NULL && s->writer->at == WRITER_READY)
		writer_close_entry(s->writer);
}

void
append_rest(struct store *s)
{
	if (s->writer != NULL)
		writer_rest(s->writer);
}

/* What is answered here may hold the last use of a handle that is dead. */
static void
refuse(struct writer *w, struct err e)
{
	struct store *s = store_hold(w->store);

	writer_refuse(w, e);
	store_close(s);
}

static void
start_due(struct engine *en, struct list *due, bool alone)
{
	struct list *l;

	while ((l = list_pop(due)) != NULL) {
		struct writer *w = CONTAINER_OF(l, struct writer, due_link);
		struct err e;

		en->due_count--;
		if (list_empty(&w->waiting))
			continue;
		e = w->at == WRITER_UNCLAIMED || w->at == WRITER_READY ?
		    check_lease(w->store) : OK;
		/* What it claimed before the lease was lost may be another's. */
		if (!err_is(e) && w->at == WRITER_READY &&
		    !writer_claim_lasts(w))
			writer_lose_claim(w);
		if (err_is(e))
			refuse(w, e);
		else if (w->at == WRITER_UNCLAIMED)
			writer_claim(w);
		else if (w->at == WRITER_READY)
			writer_commit(w, alone);
		/* Else it is stepped when what is in flight has ended. */
	}
}

/* Until nothing is due: what an inline commit left for the next one must not
 * sleep with the loop. Each pass takes at least one request of each writer. */
void
append_start_due(struct engine *en)
{
	while (!list_empty(&en->due)) {
		bool alone = en->due_count == 1 &&
		    loop_idle_otherwise(en->loop);
		struct list due;

		list_init(&due);
		list_splice(&due, &en->due);
		start_due(en, &due, alone);
	}
}

void
append_release(struct engine *en, const struct shm_command *command)
{
	const struct list *l;
	uint32_t i;

	for (i = 0; i < ENGINE_BUCKETS; i++) {
		LIST_FOREACH(l, &en->buckets[i]) {
			struct store *s = CONTAINER_OF(l, struct store, link);

			if (s->writer != NULL)
				writer_release(s->writer);
		}
	}
	shm_mailbox_reply(command, OK, 0);
}

struct rotate_job {		/* a store that this worker has not open yet */
	struct store_wait wait;
	struct shm_command command;
};

static void
rotate_store(struct store *s, const struct shm_command *command)
{
	struct err e = s->writer == NULL ? writer_new(s) : OK;
	struct writer *w = s->writer;

	if (!err_is(e) && w->rotate_count == WRITER_ROTATES_MAX)
		e = FAIL(BUSY, "too many rotations of one store");
	if (err_is(e)) {
		shm_mailbox_reply(command, e, 0);
		return;
	}
	w->rotates[w->rotate_count++] = *command;
	writer_step(w);
}

static void
rotate_any(struct store *s, const struct shm_command *command)
{
	struct uuid own = shm_ordinal_shard(s->engine->ordinal);

	if (uuid_eq(&own, &command->shard))
		rotate_store(s, command);
	else
		guest_rotate(s, command);
}

static void
rotate_opened(struct store_wait *wait, struct err e)
{
	struct rotate_job *j = CONTAINER_OF(wait, struct rotate_job, wait);

	if (err_is(e)) {
		shm_mailbox_reply(&j->command, e, 0);
	} else {
		rotate_any(wait->store, &j->command);
		store_close(wait->store);
	}
	free(j);
}

void
append_rotate(struct engine *en, const struct shm_command *command)
{
	struct store *s = store_by_ref(en, command->store);
	struct shm_store_info info;
	struct rotate_job *j;

	if (s != NULL) {
		rotate_any(s, command);
		return;
	}
	if (!shm_store_peek(command->store, &info) ||
	    kind_get(info.kind) == NULL) {
		shm_mailbox_reply(command, FAIL(NOT_FOUND,
		    "store is not resident any more"), 0);
		return;
	}
	j = calloc(1, sizeof(*j));
	if (j == NULL) {
		shm_mailbox_reply(command, FAIL(NO_MEMORY, "rotate"), 0);
		return;
	}
	j->command = *command;
	j->wait.done = rotate_opened;
	store_open(en, kind_get(info.kind), info.name, &j->wait);
}
