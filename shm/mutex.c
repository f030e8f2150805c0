#include "common/base.h"

#include <errno.h>
#include <sched.h>
#include <time.h>

#include "common/fault.h"
#include "common/panic.h"
#include "shm/metric.h"
#include "shm/mutex.h"
#include "shm/process.h"

/* How often the master lets a holder be killed before it gives up. */
#define STUCK_TRIES_MAX 5

static shm_repair *const repairs[] = {
#define LOCK(name, rank, kind, repair, protects, taken_by, death) repair,
#include "shm/lock.def"
#undef LOCK
};

static uint64_t deadline_ns = NS_PER_SEC;
static void (*kill_holder)(uint16_t slot);

void
shm_mutex_on_stuck(void (*kill)(uint16_t slot))
{
	kill_holder = kill;
}

void
shm_lock_deadline(uint64_t ns)
{
	deadline_ns = ns;
}

uint64_t
shm_lock_now_ns(void)
{
	struct timespec ts;

	MUST(clock_gettime(CLOCK_MONOTONIC, &ts) == 0);
	return (uint64_t)ts.tv_sec * NS_PER_SEC + (uint64_t)ts.tv_nsec;
}

/*
 * Robustness and sharing are enum constants in glibc: a preprocessor test on
 * them is always false, so none is made, and every call is checked.
 */
void
shm_mutex_init(struct shm_mutex *m, enum shm_lock lock)
{
	pthread_mutexattr_t attr;

	MUST(repairs[lock] != NULL);
	MUST(pthread_mutexattr_init(&attr) == 0);
	MUST(pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED) == 0);
	MUST(pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST) == 0);
	MUST(pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK) == 0);
	MUST(pthread_mutex_init(&m->mutex, &attr) == 0);
	MUST(pthread_mutexattr_destroy(&attr) == 0);
	atomic_init(&m->holder, 0);
	m->lock = lock;
	m->since_ns = 0;
}

/* The deadline passed: the holder was stopped inside, or loops. */
static void
stuck(struct shm_mutex *m, int tries)
{
	uint32_t holder = atomic_load(&m->holder);
	uint16_t slot = holder == 0 ? SHM_NOBODY : (uint16_t)(holder - 1);

	/* A child has inherited the function, and with it pids of long ago. */
	if (kill_holder == NULL || shm_self() != SHM_MASTER ||
	    tries >= STUCK_TRIES_MAX)
		panic("lock %s not free after its deadline, held by slot %d",
		    shm_lock_name(m->lock),
		    slot == SHM_NOBODY ? -1 : (int)slot);
	kill_holder(slot);
}

#ifdef __SANITIZE_THREAD__
/* GCC 12's TSan does not know pthread_mutex_clocklock and would report every
 * unlock after it. */
static int
lock_until(pthread_mutex_t *mutex, const struct timespec *until)
{
	uint64_t until_ns = (uint64_t)until->tv_sec * NS_PER_SEC +
	    (uint64_t)until->tv_nsec;
	int rc;

	while ((rc = pthread_mutex_trylock(mutex)) == EBUSY) {
		if (shm_lock_now_ns() > until_ns)
			return ETIMEDOUT;
		sched_yield();
	}
	return rc;
}
#else
static int
lock_until(pthread_mutex_t *mutex, const struct timespec *until)
{
	return pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, until);
}
#endif

bool
shm_wait_over(struct shm_wait *w)
{
	w->looks++;
	return shm_lock_now_ns() - w->start_ns > deadline_ns &&
	    w->looks > deadline_ns / SHM_WAIT_SLICE_NS / 2;
}

static int
wait_for(struct shm_mutex *m)
{
	uint64_t start_ns = shm_lock_now_ns(), until_ns;
	struct shm_wait w = { .start_ns = start_ns };
	struct timespec until;
	int tries = 1, rc;

	for (;;) {
		until_ns = shm_lock_now_ns() + SHM_WAIT_SLICE_NS;
		until.tv_sec = (time_t)(until_ns / NS_PER_SEC);
		until.tv_nsec = (long)(until_ns % NS_PER_SEC);
		rc = lock_until(&m->mutex, &until);
		if (rc != ETIMEDOUT)
			break;
		if (shm_wait_over(&w)) {
			/* It may have become free while we stood still. */
			rc = pthread_mutex_trylock(&m->mutex);
			if (rc != EBUSY)
				break;
			stuck(m, tries++);
			w = (struct shm_wait){ .start_ns = shm_lock_now_ns() };
		}
	}
	shm_metric_observe(METRIC_memwald_lock_wait_seconds, m->lock,
	    shm_lock_now_ns() - start_ns);
	return rc;
}

void
shm_mutex_lock(struct shm_mutex *m)
{
	int rc;

	shm_order_acquire(m->lock);
	rc = pthread_mutex_trylock(&m->mutex);
	if (rc == EBUSY)
		rc = wait_for(m);
	MUST(rc == 0 || rc == EOWNERDEAD);
	atomic_store_explicit(&m->holder, shm_self() + 1u,
	    memory_order_relaxed);
	if (rc == EOWNERDEAD) {
		/* Repair first: whoever dies in it leaves the mutex to be
		 * repaired once more, and nobody sees the table meanwhile. */
		repairs[m->lock](m);
		FAULT_HERE(shm_repair);
		MUST(pthread_mutex_consistent(&m->mutex) == 0);
		shm_metric_add(METRIC_memwald_lock_repairs_total, m->lock, 1);
	}
	/* Not for the one inside every rwlock: timing it costs more than it. */
	if (m->lock != SHM_LOCK_rwlock_state)
		m->since_ns = shm_lock_now_ns();
}

void
shm_mutex_unlock(struct shm_mutex *m)
{
	if (m->lock != SHM_LOCK_rwlock_state)
		shm_metric_observe(METRIC_memwald_lock_hold_seconds, m->lock,
		    shm_lock_now_ns() - m->since_ns);
	atomic_store_explicit(&m->holder, 0, memory_order_relaxed);
	MUST(pthread_mutex_unlock(&m->mutex) == 0);
	shm_order_release(m->lock);
}
