#include "common/base.h"

#include <stdio.h>

#include "common/clock.h"
#include "shm/instance.h"
#include "shm/part.h"

/* A text that one process writes and others read: in words, so that nobody
 * reads what the compiler thinks cannot change. */
struct text {
	_Atomic uint64_t words[SHM_INSTANCE_TEXT / sizeof(uint64_t)];
};

struct entry {
	/* Nobody is here, or somebody else since it was read. */
	_Atomic bool empty;
	_Atomic uint32_t lives;

	struct text id;			/* constant unless it is empty */
	struct text address;
	_Atomic uint64_t version;
	_Atomic uint64_t span_ns;
	_Atomic uint64_t changed_ns;	/* a time after the look that found it */
	_Atomic uint64_t silent_ns;
	_Atomic bool released;
};

static struct table {
	char id[SHM_INSTANCE_TEXT];
	char address[SHM_INSTANCE_TEXT];
	struct uuid holder;

	alignas(CACHELINE)
	_Atomic uint64_t until_ns;	/* the only truth; 0: not ours */

	alignas(CACHELINE)
	_Atomic uint32_t state;		/* enum shm_lease_state */
	_Atomic uint64_t version;
	_Atomic uint32_t terms, losses;
	struct text why;

	_Atomic uint32_t count;		/* an entry is there once it counts */
	struct entry entries[SHM_INSTANCES_MAX];
} *table;

static const char *const state_names[] = {
#define X(state, text) text,
	SHM_LEASE_STATES(X)
#undef X
};

static void
text_set(struct text *t, const char *from, size_t len)
{
	char bytes[SHM_INSTANCE_TEXT] = "";
	uint64_t word;
	size_t i;

	memcpy(bytes, from, MIN(len, sizeof(bytes) - 1));
	for (i = 0; i < ARRAY_LEN(t->words); i++) {
		memcpy(&word, bytes + i * sizeof(word), sizeof(word));
		atomic_store_explicit(&t->words[i], word,
		    memory_order_release);
	}
}

static void
text_get(const struct text *t, char to[SHM_INSTANCE_TEXT])
{
	uint64_t word;
	size_t i;

	for (i = 0; i < ARRAY_LEN(t->words); i++) {
		word = atomic_load_explicit(&t->words[i],
		    memory_order_acquire);
		memcpy(to + i * sizeof(word), &word, sizeof(word));
	}
	to[SHM_INSTANCE_TEXT - 1] = '\0';
}

uint64_t
shm_instance_bytes(const struct shm_config *cfg)
{
	(void)cfg;
	return sizeof(struct table);
}

void
shm_instance_carve(void *at, const struct shm_config *cfg)
{
	MUST(cfg->instance_id.len < SHM_INSTANCE_TEXT);
	MUST(cfg->address.len < SHM_INSTANCE_TEXT);
	table = at;
	memcpy(table->id, cfg->instance_id.ptr, cfg->instance_id.len);
	if (cfg->address.len > 0)
		memcpy(table->address, cfg->address.ptr, cfg->address.len);
	table->holder = uuid_random();
}

const char *
shm_instance_id(void)
{
	return table->id;
}

const char *
shm_instance_address(void)
{
	return table->address;
}

struct uuid
shm_instance_holder(void)
{
	return table->holder;
}

/* Our lease. */

const char *
shm_lease_state_name(uint32_t state)
{
	return state < SHM_LEASE_STATE_COUNT ? state_names[state] : "unknown";
}

bool
shm_lease_held(void)
{
	return clock_boot_ns() < atomic_load_explicit(&table->until_ns,
	    memory_order_acquire);
}

uint32_t
shm_lease_term(void)
{
	return atomic_load_explicit(&table->terms, memory_order_acquire);
}

bool
shm_lease_term_lasts(uint32_t term)
{
	return shm_lease_held() && shm_lease_term() == term;
}

void
shm_lease_get(struct shm_lease *l)
{
	uint64_t now_ns = clock_boot_ns();
	uint64_t until_ns = atomic_load_explicit(&table->until_ns,
	    memory_order_acquire);

	l->state = (enum shm_lease_state)atomic_load_explicit(&table->state,
	    memory_order_acquire);
	l->left_ns = until_ns > now_ns ? until_ns - now_ns : 0;
	if (l->state == SHM_LEASE_HELD && l->left_ns == 0)
		l->state = SHM_LEASE_LOST;
	l->version = atomic_load_explicit(&table->version,
	    memory_order_relaxed);
	l->terms = atomic_load_explicit(&table->terms, memory_order_relaxed);
	l->losses = atomic_load_explicit(&table->losses,
	    memory_order_relaxed);
	text_get(&table->why, l->why);
}

void
shm_lease_hold(uint64_t version, uint64_t until_ns)
{
	/* Also one that had run out before it was renewed: what hung on it may
	 * be another's by now. */
	bool anew = atomic_load(&table->state) != SHM_LEASE_HELD ||
	    !shm_lease_held();

	atomic_store_explicit(&table->version, version,
	    memory_order_relaxed);
	text_set(&table->why, "", 0);
	/* Before it is held: else the term that has ended would go on. */
	if (anew)
		atomic_fetch_add(&table->terms, 1);
	atomic_store_explicit(&table->until_ns, until_ns,
	    memory_order_release);
	atomic_store_explicit(&table->state, SHM_LEASE_HELD,
	    memory_order_release);
}

void
shm_lease_end(enum shm_lease_state state, const char *why)
{
	MUST(state != SHM_LEASE_HELD);
	atomic_store_explicit(&table->until_ns, 0, memory_order_release);
	text_set(&table->why, why, strlen(why));
	if (state == SHM_LEASE_LOST &&
	    atomic_load(&table->state) == SHM_LEASE_HELD)
		atomic_fetch_add_explicit(&table->losses, 1,
		    memory_order_relaxed);
	atomic_store_explicit(&table->state, state, memory_order_release);
}

/* Other instances. */

uint32_t
shm_instance_count(void)
{
	return atomic_load_explicit(&table->count, memory_order_acquire);
}

bool
shm_instance_get(uint32_t index, struct shm_instance *i)
{
	const struct entry *e;
	uint32_t life;

	MUST(index < shm_instance_count());
	e = &table->entries[index];
	life = atomic_load(&e->lives);
	if (atomic_load(&e->empty))
		return false;
	text_get(&e->id, i->id);
	text_get(&e->address, i->address);
	/* Before the span: both are of one look, or the silence is of an older
	 * one and shorter. */
	i->silent_ns = atomic_load_explicit(&e->silent_ns,
	    memory_order_acquire);
	i->version = atomic_load_explicit(&e->version, memory_order_acquire);
	i->span_ns = atomic_load_explicit(&e->span_ns, memory_order_acquire);
	i->released = atomic_load_explicit(&e->released,
	    memory_order_acquire);
	/* All of that acquires: of what came after, this is seen. */
	return !atomic_load(&e->empty) && atomic_load(&e->lives) == life;
}

/* By its id; NULL: there is none. */
static struct entry *
find(struct slice id)
{
	uint32_t i, count = shm_instance_count();
	char there[SHM_INSTANCE_TEXT];

	for (i = 0; i < count; i++) {
		struct entry *e = &table->entries[i];

		if (atomic_load(&e->empty))
			continue;
		text_get(&e->id, there);
		if (slice_eq(slice_of(there), id))
			return e;
	}
	return NULL;
}

bool
shm_instance_find(const char *id, struct shm_instance *i)
{
	const struct entry *e = find(slice_of(id));

	return e != NULL &&
	    shm_instance_get((uint32_t)(e - table->entries), i) &&
	    strcmp(i->id, id) == 0;
}

bool
shm_instance_lives(const struct shm_instance *i)
{
	return !i->released && i->silent_ns < i->span_ns;
}

static void
note(struct entry *e, const struct shm_instance_look *l)
{
	uint64_t changed_ns = atomic_load(&e->changed_ns);

	if (l->version == atomic_load(&e->version)) {
		atomic_store_explicit(&e->silent_ns,
		    l->before_ns > changed_ns ? l->before_ns - changed_ns : 0,
		    memory_order_release);
		return;
	}
	atomic_store(&e->silent_ns, 0);
	atomic_store(&e->changed_ns, l->after_ns);
	text_set(&e->address, l->address.ptr, l->address.len);
	atomic_store(&e->span_ns, l->span_ns);
	atomic_store(&e->released, l->released);
	atomic_store(&e->version, l->version);
}

/* A place that is empty, behind all others if need be; NULL: there is none. */
static struct entry *
take_place(void)
{
	uint32_t i, count = shm_instance_count();

	for (i = 0; i < count; i++) {
		if (atomic_load(&table->entries[i].empty))
			return &table->entries[i];
	}
	if (count == SHM_INSTANCES_MAX)
		return NULL;
	atomic_store(&table->entries[count].empty, true);
	atomic_fetch_add(&table->count, 1);
	return &table->entries[count];
}

struct err
shm_instance_seen(const struct shm_instance_look *l)
{
	struct entry *e;

	MUST(l->id.len > 0 && l->id.len < SHM_INSTANCE_TEXT);
	MUST(l->version > 0);
	e = find(l->id);
	if (e != NULL) {
		note(e, l);
		return OK;
	}
	e = take_place();
	if (e == NULL)
		return FAIL(NO_MEMORY, "the table of instances is full");
	text_set(&e->id, l->id.ptr, l->id.len);
	atomic_store(&e->version, 0);
	note(e, l);
	/* Before it is there: who still reads the last one sees it. */
	atomic_fetch_add(&e->lives, 1);
	atomic_store(&e->empty, false);
	return OK;
}

void
shm_instance_forget(uint32_t index)
{
	MUST(index < shm_instance_count());
	atomic_store(&table->entries[index].empty, true);
}
