#include "common/base.h"

#include "shm/instance.h"
#include "shm/ordinal_table.h"
#include "shm/process.h"
#include "shm/shard_state.h"

/* A point in a word: position << 28 | end / 8. */

#define END_BITS 28

uint64_t
shm_point_pack(struct shm_point p)
{
	MUST(p.position <= SHM_POSITION_MAX);
	MUST(p.end <= SHM_END_MAX);
	MUST(p.end % 8 == 0);
	MUST(p.end != 0 || p.position == 0);
	return p.position << END_BITS | p.end / 8;
}

struct shm_point
shm_point_unpack(uint64_t word)
{
	return (struct shm_point){
		.position = word >> END_BITS,
		.end = (word & ((1ull << END_BITS) - 1)) * 8,
	};
}

bool
shm_point_before(struct shm_point a, struct shm_point b)
{
	return shm_point_pack(a) < shm_point_pack(b);
}

void
shm_shard_init(struct shm_shard_state *s)
{
	memset(s, 0, sizeof(*s));
	shm_guard_init(&s->seal_guard);
}

void
shm_shard_claim(struct shm_shard_state *s, uint32_t ordinal,
    uint64_t epoch, struct shm_point tail)
{
	/* Nobody's while the epoch changes: a reader never pairs the old life
	 * with the new epoch. */
	atomic_store(&s->claim, 0);
	atomic_store(&s->closed, 0);
	atomic_store(&s->epoch, epoch);
	shm_shard_raise(s, tail);
	atomic_store(&s->term, shm_lease_term());
	atomic_store(&s->ordinal, ordinal);
	atomic_store(&s->moves, shm_ordinal_moves(ordinal));
	atomic_store(&s->claim, shm_life_self());
}

void
shm_shard_unclaim(struct shm_shard_state *s)
{
	uint64_t mine = shm_life_self();

	/* It may be another's by now: we were fenced. */
	atomic_compare_exchange_strong(&s->claim, &mine, 0);
}

/* Whoever claimed after that has read the tail, and raised the commit. */
static bool
still_claims(const struct shm_shard_state *s, uint64_t epoch)
{
	struct shm_claim c = shm_shard_claimed(s);

	return c.live && c.epoch == epoch;
}

void
shm_shard_publish(struct shm_shard_state *s, uint64_t epoch,
    struct shm_point p, uint64_t sequence)
{
	uint64_t word = shm_point_pack(p);
	uint64_t seen = atomic_load_explicit(&s->commit, memory_order_relaxed);
	struct shm_point before = shm_point_unpack(seen);

	MUST(word > seen || !still_claims(s, epoch));
	if (sequence > atomic_load_explicit(&s->max_seq, memory_order_relaxed))
		atomic_store_explicit(&s->max_seq, sequence,
		    memory_order_relaxed);
	shm_shard_raise(s, p);
	if (word <= seen)
		return;		/* counted by who raised it */
	/* After the commit: see shm_shard_tail_sealed. */
	atomic_fetch_add(&s->appended, p.end -
	    (before.position == p.position ? before.end : 0));
}

void
shm_shard_close(struct shm_shard_state *s, struct shm_point p)
{
	uint64_t word = shm_point_pack(p);

	MUST(word >= atomic_load_explicit(&s->closed, memory_order_relaxed));
	atomic_store_explicit(&s->closed, word, memory_order_release);
}

void
shm_shard_raise(struct shm_shard_state *s, struct shm_point p)
{
	uint64_t word = shm_point_pack(p);
	uint64_t seen = atomic_load_explicit(&s->commit, memory_order_relaxed);

	while (seen < word &&
	    !atomic_compare_exchange_weak_explicit(&s->commit, &seen, word,
	    memory_order_release, memory_order_relaxed))
		;
}

static uint64_t
behind(uint64_t appended, uint64_t sealed)
{
	return appended > sealed ? appended - sealed : 0;
}

/* Whether all that was published is in generations. */
static bool
no_tail(const struct shm_shard_state *s)
{
	return shm_shard_commit(s).position <=
	    shm_shard_marks(s).replay_after;
}

uint64_t
shm_shard_tail_bytes(const struct shm_shard_state *s)
{
	return no_tail(s) ? 0 : behind(atomic_load(&s->appended),
	    atomic_load(&s->sealed));
}

void
shm_shard_tail_found(struct shm_shard_state *s, uint64_t bytes)
{
	uint64_t seen = atomic_load(&s->appended);
	uint64_t least = atomic_load(&s->sealed) + bytes;

	while (seen < least && !atomic_compare_exchange_weak(&s->appended,
	    &seen, least))
		;
}

void
shm_shard_tail_sealed(struct shm_shard_state *s, uint64_t bytes)
{
	/* Before the commit is looked at: what was counted by now had been
	 * published, so without a tail all of it is sealed. */
	uint64_t appended = atomic_load(&s->appended);
	uint64_t sealed = MIN(atomic_load(&s->sealed) + bytes, appended);

	atomic_store(&s->sealed, no_tail(s) ? appended : sealed);
}

struct shm_point
shm_shard_commit(const struct shm_shard_state *s)
{
	return shm_point_unpack(atomic_load_explicit(&s->commit,
	    memory_order_acquire));
}

struct shm_point
shm_shard_closed(const struct shm_shard_state *s)
{
	return shm_point_unpack(atomic_load_explicit(&s->closed,
	    memory_order_acquire));
}

struct shm_claim
shm_shard_claimed(const struct shm_shard_state *s)
{
	uint64_t life = atomic_load(&s->claim);
	struct shm_claim c = {
		.epoch = atomic_load(&s->epoch),
		.slot = SHM_NOBODY,
	};

	c.newest = atomic_load_explicit(&s->manifest_epoch,
	    memory_order_relaxed) <= c.epoch;
	if (life != 0) {
		c.slot = shm_life_slot(life);
		c.live = shm_life_goes_on(life) &&
		    shm_lease_term_lasts(atomic_load(&s->term)) &&
		    shm_ordinal_moves(atomic_load(&s->ordinal)) ==
		    atomic_load(&s->moves);
		c.own = life == shm_life_self();
	}
	return c;
}

uint64_t
shm_shard_max_seq(const struct shm_shard_state *s)
{
	return atomic_load_explicit(&s->max_seq, memory_order_relaxed);
}

struct shm_manifest_marks
shm_shard_marks(const struct shm_shard_state *s)
{
	/* Acquire, and the version is stored last: the other marks are of this
	 * version, or newer. */
	struct shm_manifest_marks m = {
		.version = atomic_load_explicit(&s->manifest_version,
		    memory_order_acquire),
	};

	m.epoch = atomic_load_explicit(&s->manifest_epoch,
	    memory_order_relaxed);
	m.replay_after = atomic_load_explicit(&s->replay_after,
	    memory_order_relaxed);
	m.pending_bytes = atomic_load_explicit(&s->pending_bytes,
	    memory_order_relaxed);
	m.pending_generations = atomic_load_explicit(&s->pending_generations,
	    memory_order_relaxed);
	return m;
}

bool
shm_shard_raise_marks(struct shm_shard_state *s,
    const struct shm_manifest_marks *m)
{
	if (m->version <= atomic_load_explicit(&s->manifest_version,
	    memory_order_relaxed))
		return false;
	atomic_store_explicit(&s->manifest_epoch, m->epoch,
	    memory_order_relaxed);
	atomic_store_explicit(&s->replay_after, m->replay_after,
	    memory_order_relaxed);
	atomic_store_explicit(&s->pending_bytes, m->pending_bytes,
	    memory_order_relaxed);
	atomic_store_explicit(&s->pending_generations, m->pending_generations,
	    memory_order_relaxed);
	atomic_store_explicit(&s->manifest_version, m->version,
	    memory_order_release);
	return true;
}
