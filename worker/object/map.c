#include "common/base.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "worker/object/local.h"
#include "worker/object/map.h"

/* The innermost marked read of this thread. */
static _Thread_local sigjmp_buf *volatile mark;

static void
on_sigbus(int sig, siginfo_t *info, void *context)
{
	const ucontext_t *interrupted = context;

	/* BUS_ADRERR is an access behind the end of a file; the others are
	 * hardware's and alignment's. The mask is put back here, since saving
	 * it in each marked read would be a system call. */
	if (info->si_code == BUS_ADRERR && mark != NULL) {
		pthread_sigmask(SIG_SETMASK, &interrupted->uc_sigmask, NULL);
		siglongjmp(*mark, 1);
	}
	/* Returning repeats the access, which now kills us, with a core that
	 * shows where. */
	signal(sig, SIG_DFL);
}

void
object_map_install(void)
{
	struct sigaction sa = {
		.sa_sigaction = on_sigbus,
		.sa_flags = SA_SIGINFO,
	};

	MUST(sigaction(SIGBUS, &sa, NULL) == 0);
}

struct err
object_map_guarded(object_map_read_fn *fn, void *ctx)
{
	sigjmp_buf *outer = mark;
	sigjmp_buf here;
	struct err e;

	if (sigsetjmp(here, 0) != 0) {
		mark = outer;
		return FAIL(CORRUPT, "file was cut while it was read");
	}
	mark = &here;
	e = fn(ctx);
	mark = outer;
	return e;
}

void
object_map_forget(const void *bytes, size_t len)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t from = (uintptr_t)bytes / page * page;

	/* Whole pages, also of what others read: they are still cached. It is
	 * advice: where it is refused, memory is all that is lost. */
	(void)madvise((void *)from, (uintptr_t)bytes + len - from,
	    MADV_DONTNEED);
}

struct err
object_map_open(struct object_dir *d, const char *name, struct object_map *m)
{
	struct err e;
	uint64_t size;
	void *p;
	int fd;

	e = object_entry_open(d, name, &fd, &size);
	if (err_is(e))
		return e;
	if (size == 0) {
		/* There is no mapping of nothing. */
		*m = (struct object_map){ NULL, 0 };
		goto out;
	}
	p = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		e = FAIL_OS(IO, "map object");
	else
		*m = (struct object_map){ p, size };
out:
	close(fd);
	return e;
}

void
object_map_sparse(const struct object_map *m, bool sparse)
{
	/* Advice: where it is refused, more is read than is needed. */
	if (m->len > 0)
		(void)madvise((void *)(uintptr_t)m->ptr, m->len,
		    sparse ? MADV_RANDOM : MADV_NORMAL);
}

void
object_map_close(struct object_map *m)
{
	if (m->len > 0)
		MUST(munmap((void *)(uintptr_t)m->ptr, m->len) == 0);
	*m = (struct object_map){ NULL, 0 };
}
