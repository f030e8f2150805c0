#include "common/base.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "shm/metric_table.h"
#include "shm/process.h"

/*
 * process_* as sums over the live processes, from /proc. A process that is
 * gone by the time we look adds nothing, but for its CPU time, a counter: each
 * scrape leaves what it saw in the process table, and the master's walk adds
 * that to the past of the slot.
 */

struct sums {
	uint64_t cpu_ticks, threads, virtual_bytes, resident_pages, fds;
};

/* Fields of /proc/PID/stat, counted from the one behind the name in brackets,
 * which may hold anything (proc(5): state is field 3). */
#define FIELD_UTIME	14
#define FIELD_STIME	15
#define FIELD_THREADS	20
#define FIELD_VSIZE	23
#define FIELD_RSS	24
#define FIELD_FIRST	3

static bool
read_stat(int32_t pid, uint64_t fields[FIELD_RSS + 1])
{
	char path[64], text[1024], *at, *end;
	size_t n;
	FILE *f;
	int i;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	if (f == NULL)
		return false;
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = '\0';
	at = strrchr(text, ')');
	if (at == NULL || strlen(at) < 4)
		return false;
	at += 4;			/* ") S ": the state is a letter */
	for (i = FIELD_FIRST + 1; i <= FIELD_RSS; i++) {
		fields[i] = strtoull(at, &end, 10);
		if (end == at)
			return false;
		at = end;
	}
	return true;
}

static uint64_t
count_fds(int32_t pid)
{
	char path[64];
	uint64_t n = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	if (dir == NULL)
		return 0;
	while (readdir(dir) != NULL)
		n++;
	closedir(dir);
	return n >= 2 ? n - 2 : 0;	/* . and .. */
}

static void
raise(_Atomic uint64_t *to, uint64_t value)
{
	uint64_t seen = atomic_load(to);

	while (seen < value &&
	    !atomic_compare_exchange_weak(to, &seen, value))
		;
}

static void
add_process(struct sums *sums, struct shm_process *p)
{
	int32_t pid = atomic_load(&p->pid);
	uint64_t fields[FIELD_RSS + 1];

	if (pid != 0 && read_stat(pid, fields)) {
		raise(&p->cpu_ticks, fields[FIELD_UTIME] + fields[FIELD_STIME]);
		sums->threads += fields[FIELD_THREADS];
		sums->virtual_bytes += fields[FIELD_VSIZE];
		sums->resident_pages += fields[FIELD_RSS];
		sums->fds += count_fds(pid);
	}
	sums->cpu_ticks += atomic_load(&p->cpu_ticks) +
	    atomic_load(&p->cpu_ticks_past);
}

static bool
print_value(struct buf *out, const char *name, const char *type,
    const char *help, double value)
{
	return buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n%s %.17g\n", name,
	    help, name, type, name, value);
}

static double
limit_of(int resource)
{
	struct rlimit r;

	if (getrlimit((__rlimit_resource_t)resource, &r) < 0 ||
	    r.rlim_cur == RLIM_INFINITY)
		return -1;		/* as the common client libraries do */
	return (double)r.rlim_cur;
}

bool
metric_print_processes(struct buf *out)
{
	struct sums sums = { 0 };
	uint64_t started_us = atomic_load(
	    &shm_process_get(SHM_MASTER)->started_us);
	uint16_t slot;

	for (slot = 0; slot < shm_process_count(); slot++)
		add_process(&sums, shm_process_get(slot));
	return print_value(out, "process_cpu_seconds_total", "counter",
	    "CPU time of all processes, also of those that are gone",
	    (double)sums.cpu_ticks / (double)sysconf(_SC_CLK_TCK)) &&
	    print_value(out, "process_open_fds", "gauge",
	    "Open descriptors of all processes", (double)sums.fds) &&
	    print_value(out, "process_max_fds", "gauge",
	    "Descriptors that one process may open",
	    limit_of(RLIMIT_NOFILE)) &&
	    print_value(out, "process_virtual_memory_bytes", "gauge",
	    "Address space of all processes", (double)sums.virtual_bytes) &&
	    print_value(out, "process_virtual_memory_max_bytes", "gauge",
	    "Address space that one process may use; -1: no limit",
	    limit_of(RLIMIT_AS)) &&
	    print_value(out, "process_resident_memory_bytes", "gauge",
	    "Resident memory of all processes, shared pages each time",
	    (double)sums.resident_pages * (double)sysconf(_SC_PAGESIZE)) &&
	    print_value(out, "process_start_time_seconds", "gauge",
	    "Start of the server, seconds of the wall clock",
	    (double)started_us / 1e6) &&
	    print_value(out, "process_threads", "gauge",
	    "Threads of all processes", (double)sums.threads);
}
