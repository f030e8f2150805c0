#include "common/base.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/fault.h"
#include "common/log.h"
#include "common/panic.h"
#include "shm/metric.h"
#include "shm/process.h"
#include "shm/rwlock.h"

/*
 * Every process changes only its own share, and the writer word only from 0 to
 * itself and back. So whatever instruction it dies at, what it leaves is true
 * of it, and taking its share away leaves what is true of the others: the
 * repair of the inner mutex has nothing to do.
 *
 * There are no totals for the same reason: a taker sums the shares, a few
 * dozen neighbouring numbers.
 */

#define LOG_AFTER_NS	(100 * NS_PER_MS)

struct waiting {
	struct shm_wait wait;	/* start_ns 0: has not waited yet */
	bool logged, over;
};

size_t
shm_rwlock_bytes(uint16_t process_count)
{
	return ROUND_UP(sizeof(struct shm_rwlock) +
	    process_count * sizeof(struct shm_rwlock_share), CACHELINE);
}

void
shm_rwlock_init(struct shm_rwlock *l, uint16_t process_count)
{
	memset(l, 0, shm_rwlock_bytes(process_count));
	shm_mutex_init(&l->state, SHM_LOCK_rwlock_state);
	l->process_count = process_count;
}

void
shm_rwlock_repair(struct shm_mutex *m)
{
	struct shm_rwlock *l = CONTAINER_OF(m, struct shm_rwlock, state);

	MUST(l->writer <= l->process_count);
}

static uint32_t
readers(const struct shm_rwlock *l)
{
	uint32_t n = 0;
	uint16_t i;

	for (i = 0; i < l->process_count; i++)
		n += l->shares[i].readers;
	return n;
}

static uint32_t
writers_waiting(const struct shm_rwlock *l)
{
	uint32_t n = 0;
	uint16_t i;

	for (i = 0; i < l->process_count; i++)
		n += l->shares[i].writers_waiting;
	return n;
}

static bool
anybody_waits(const struct shm_rwlock *l)
{
	uint32_t n = 0;
	uint16_t i;

	for (i = 0; i < l->process_count; i++)
		n += l->shares[i].readers_waiting + l->shares[i].writers_waiting;
	return n != 0;
}

static void
sleep_on(_Atomic uint32_t *word, uint32_t seen)
{
	struct timespec span = { 0, SHM_WAIT_SLICE_NS };

	if (syscall(SYS_futex, word, FUTEX_WAIT, seen, &span, NULL, 0) < 0)
		MUST(errno == EAGAIN || errno == ETIMEDOUT || errno == EINTR);
}

static void
wake_all(_Atomic uint32_t *word)
{
	MUST(syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0) >= 0);
}

/* Comes and goes with the state mutex held; sleeps without it. */
static void
wait_change(struct shm_rwlock *l, struct waiting *w)
{
	uint32_t seen = atomic_load_explicit(&l->change, memory_order_relaxed);
	uint16_t writer = l->writer;
	uint32_t inside = readers(l);
	uint64_t waited_ns;

	/* Not before it has looked once more: it may have stood still. */
	if (w->over)
		panic("store slot not free after its deadline, "
		    "writer slot %d, readers %u", (int)writer - 1, inside);
	shm_mutex_unlock(&l->state);
	if (w->wait.start_ns == 0)
		w->wait.start_ns = shm_lock_now_ns();
	sleep_on(&l->change, seen);
	waited_ns = shm_lock_now_ns() - w->wait.start_ns;
	w->over = shm_wait_over(&w->wait);
	if (waited_ns > LOG_AFTER_NS && !w->logged) {
		w->logged = true;
		log_warn("long wait for a store slot, waiting on writer=%d "
		    "readers=%u", (int)writer - 1, inside);
	}
	shm_mutex_lock(&l->state);
}

static void
count_wait(const struct waiting *w)
{
	if (w->wait.start_ns != 0)
		shm_metric_observe(METRIC_memwald_lock_wait_seconds,
		    SHM_LOCK_store_slot,
		    shm_lock_now_ns() - w->wait.start_ns);
}

/* With the state mutex held, after something was given up; gives it up too. */
static void
leave(struct shm_rwlock *l)
{
	bool wake = anybody_waits(l);

	if (wake)
		atomic_fetch_add_explicit(&l->change, 1, memory_order_relaxed);
	shm_mutex_unlock(&l->state);
	FAULT_HERE(shm_waking);
	if (wake)
		wake_all(&l->change);
}

void
shm_rwlock_read(struct shm_rwlock *l)
{
	struct shm_rwlock_share *mine = &l->shares[shm_self()];
	struct waiting w = { 0 };

	shm_order_acquire(SHM_LOCK_store_slot);
	shm_mutex_lock(&l->state);
	while (l->writer != 0 || writers_waiting(l) != 0) {
		mine->readers_waiting++;
		wait_change(l, &w);
		mine->readers_waiting--;
	}
	MUST(mine->readers < UINT16_MAX);
	mine->readers++;
	shm_mutex_unlock(&l->state);
	count_wait(&w);
	FAULT_HERE(shm_reading);
}

void
shm_rwlock_read_done(struct shm_rwlock *l)
{
	struct shm_rwlock_share *mine = &l->shares[shm_self()];

	shm_mutex_lock(&l->state);
	MUST(l->writer == 0);
	MUST(mine->readers > 0);
	mine->readers--;
	leave(l);
	shm_order_release(SHM_LOCK_store_slot);
}

void
shm_rwlock_write(struct shm_rwlock *l)
{
	struct shm_rwlock_share *mine = &l->shares[shm_self()];
	struct waiting w = { 0 };

	shm_order_acquire(SHM_LOCK_store_slot);
	shm_mutex_lock(&l->state);
	mine->writers_waiting++;
	while (l->writer != 0 || readers(l) != 0)
		wait_change(l, &w);
	/* Dead between these: both are taken away, in any order. */
	l->writer = (uint16_t)(shm_self() + 1);
	mine->writers_waiting--;
	l->write_since_ns = shm_lock_now_ns();
	shm_mutex_unlock(&l->state);
	count_wait(&w);
	FAULT_HERE(shm_writing);
}

void
shm_rwlock_write_done(struct shm_rwlock *l)
{
	uint64_t held_ns = shm_lock_now_ns() - l->write_since_ns;

	shm_mutex_lock(&l->state);
	MUST(l->writer == shm_self() + 1);
	MUST(readers(l) == 0);
	l->writer = 0;
	leave(l);
	shm_order_release(SHM_LOCK_store_slot);
	shm_metric_observe(METRIC_memwald_lock_hold_seconds,
	    SHM_LOCK_store_slot, held_ns);
}

struct shm_rwlock_reaped
shm_rwlock_reap(struct shm_rwlock *l, uint16_t dead_slot,
    void (*spoil)(void *), void *arg)
{
	struct shm_rwlock_share *share = &l->shares[dead_slot];
	struct shm_rwlock_reaped reaped;

	MUST(dead_slot < l->process_count);
	shm_mutex_lock(&l->state);
	reaped.readers = share->readers;
	reaped.writers_waiting = share->writers_waiting;
	reaped.wrote = l->writer == dead_slot + 1;
	if (reaped.wrote) {
		spoil(arg);	/* before anybody else gets in */
		l->writer = 0;
	}
	*share = (struct shm_rwlock_share){ 0 };
	leave(l);
	return reaped;
}
