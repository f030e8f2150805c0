#include "common/base.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/clock.h"
#include "common/config.h"
#include "common/fault.h"
#include "common/host.h"
#include "common/log.h"
#include "common/merge_target.h"
#include "common/secret.h"
#include "common/version.h"
#include "shm/limit.h"
#include "shm/process.h"
#include "shm/segment.h"
#include "master/lock.h"
#include "master/master.h"
#include "master/signal.h"
#include "master/socket.h"
#include "master/takeover.h"

/*
 * main - from arguments to the running master: configuration, lock, port,
 * segment, in this order, so that what a second start would disturb is touched
 * only once the lock is held. Everything that can refuse does so before the
 * first fork, with exit status 1 and one line that says what to do.
 */

#define START_WAIT_NS (10 * NS_PER_SEC)	/* processes of a killed master leave */
#define WORKERS_MAX_DEFAULT 16u
#define SLOTS_DEFAULT 12000u
#define SLOTS_MIN 16u
#define FDS_WANTED 65536u
#define ID_BYTES 128
#define ADDRESS_BYTES 128

static int listen_fds[SHM_WORKERS_LIMIT];
static struct takeover taken;

static struct err
print(struct err (*make)(struct buf *))
{
	struct buf b;
	struct err e;

	buf_init(&b, 1u << 20);
	e = make(&b);
	if (!err_is(e) && fwrite(b.ptr, 1, b.len, stdout) != b.len)
		e = FAIL_OS(IO, "print");
	buf_free(&b);
	return e;
}

/* How many workers, and slots for them: 0 is ours to choose. */
static struct err
choose_workers(const struct config *c, uint32_t *workers, uint32_t *slots)
{
	uint32_t cpus = host_cpus("");

	*workers = c->workers != 0 ? c->workers : MIN(cpus, SHM_WORKERS_LIMIT);
	*slots = c->workers_max != 0 ? c->workers_max :
	    MAX(*workers, WORKERS_MAX_DEFAULT);
	if (c->workers > *slots)
		return FAIL(BAD_INPUT, "--workers is more than --workers-max");
	*workers = MIN(*workers, *slots);
	if (taken.listen_count != 0) {
		if (taken.workers != *workers || taken.listen_count != *slots)
			log_info("an upgrade keeps the number of workers and "
			    "slots");
		*workers = taken.workers;
		*slots = taken.listen_count;
	}
	log_info("workers chosen workers=%u slots=%u cpus=%u by=%s", *workers,
	    *slots, cpus, c->workers != 0 ? "option" : "cpus");
	return OK;
}

/* Resident stores: as many as asked for, or what 1/16 of the memory holds. */
static uint32_t
choose_slots(const struct config *c, uint32_t workers_max, uint64_t memory)
{
	uint64_t fit = memory / 16 / shm_slot_size(workers_max);

	if (c->rollout_cache_capacity != 0)
		return c->rollout_cache_capacity;
	if (fit >= SLOTS_DEFAULT)
		return SLOTS_DEFAULT;
	log_info("fewer stores resident than the default, for want of memory "
	    "slots=%llu memory=%llu", (unsigned long long)fit,
	    (unsigned long long)memory);
	return (uint32_t)MAX(fit, SLOTS_MIN);
}

static struct err
make_segment(const struct config *c, const char *instance_id,
    uint32_t workers, uint32_t workers_max, uint32_t port)
{
	char address[ADDRESS_BYTES];
	uint64_t memory = shm_memory_limit();
	struct shm_config s = {
		.workers = workers,
		.workers_max = workers_max,
		.slots = choose_slots(c, workers_max, memory),
		.shard_records = SHM_SHARD_RECORDS_DEFAULT,
		.ordinals = SHM_ORDINALS_DEFAULT,
		.instance_id = slice_of(instance_id),
		.memory_limit = memory,
	};
	struct err e;

	if (*c->address != '\0')
		s.address = slice_of(c->address);
	else
		s.address = slice_make(address, (size_t)snprintf(address,
		    sizeof(address), strchr(c->host, ':') != NULL ?
		    "[%s]:%u" : "%s:%u", c->host, port));
	s.budget_limits[SHM_BUDGET_REQUEST_BYTES] =
	    c->request_memory_bytes != 0 ? c->request_memory_bytes : memory / 4;
	s.budget_limits[SHM_BUDGET_FOLD_MEMORY] =
	    ROUND_UP(c->rollout_merge_memory_bytes, 1u << 20);
	s.budget_limits[SHM_BUDGET_FOLD_SLOTS] = c->rollout_merge_concurrency;
	s.budget_limits[SHM_BUDGET_BLOB_BYTES] =
	    c->rollout_max_inflight_blob_bytes;
	e = shm_segment_create(&s);
	if (err_is(e))
		return e;
	shm_process_refill(SHM_MASTER);
	shm_process_forked(SHM_MASTER, getpid());
	shm_process_attach(SHM_MASTER);
	log_info("segment made bytes=%llu stores=%u memory=%llu",
	    (unsigned long long)shm_segment_bytes(), s.slots,
	    (unsigned long long)memory);
	return OK;
}

static void
raise_descriptors(void)
{
	struct rlimit l;

	MUST(getrlimit(RLIMIT_NOFILE, &l) == 0);
	if (l.rlim_cur < FDS_WANTED && l.rlim_cur < l.rlim_max) {
		l.rlim_cur = MIN(l.rlim_max, FDS_WANTED);
		/* It stays as it was if the kernel refuses. */
		(void)setrlimit(RLIMIT_NOFILE, &l);
	}
}

static bool
is_loopback(const char *host)
{
	return strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0;
}

/* Lock and port; they are kept by us and all children until we end. */
static struct err
claim(const struct config *c, const char *id, uint32_t workers,
    uint32_t workers_max, uint32_t *port, int *lock_fd)
{
	struct socket_ask ask = { c->host, c->port, workers, START_WAIT_NS,
	    workers_max - workers };
	struct err e;

	if (strstr(c->data_dir, "://") != NULL)
		return FAIL(UNSUPPORTED, "--data-dir: only local directories are "
		    "supported");
	e = lock_make_dir(c->data_dir);
	if (!err_is(e))
		e = lock_take(c->data_dir, id, START_WAIT_NS, lock_fd);
	if (!err_is(e))
		e = socket_listen(&ask, listen_fds, port);
	if (!err_is(e) && !is_loopback(c->host))
		log_warn("listening beyond this machine without authentication "
		    "host=%s", c->host);
	if (!err_is(e) && *c->address == '\0' &&
	    (strcmp(c->host, "0.0.0.0") == 0 || strcmp(c->host, "::") == 0))
		log_warn("other instances on this directory cannot reach this "
		    "one: give --address beside --host=%s", c->host);
	return e;
}

/* The same, of the server that we take over from. */
static struct err
adopt(const struct config *c, const char *id, uint32_t workers,
    uint32_t workers_max, uint32_t *port, int *lock_fd)
{
	struct socket_ask ask = { c->host, c->port, workers, 0,
	    workers_max - workers };
	struct err e = lock_adopt(c->data_dir, id, taken.lock_fd);

	memcpy(listen_fds, taken.listen_fds, sizeof(listen_fds));
	*lock_fd = taken.lock_fd;
	return err_is(e) ? e : socket_adopt(&ask, listen_fds, port);
}

/* The file that was started, as it was named: where that is a link, an upgrade
 * follows where it points then. */
static const char *
program_of(const char *argv0)
{
	static char path[4096];
	ssize_t n;

	if (strchr(argv0, '/') != NULL)
		return argv0;
	n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	return n > 0 ? path : argv0;
}

static struct err
serve(const struct config *c, char **argv, int signal_fd, int *status)
{
	static char id[ID_BYTES], admin_path[4400];
	struct master_plan plan = { .signal_fd = signal_fd, .argv = argv };
	uint32_t workers, workers_max, port = 0;
	bool nameless = false;
	int watch[2];		/* its end tells the children of ours */
	int family[2];		/* its end tells a new master of all of us */
	struct err e;

	e = host_instance_id(c->instance_id, getenv("HOSTNAME"), id, sizeof(id),
	    &nameless);
	if (!err_is(e))
		e = choose_workers(c, &workers, &workers_max);
	if (!err_is(e))
		e = (taken.listen_count != 0 ? adopt : claim)(c, id, workers,
		    workers_max, &port, &plan.lock_fd);
	if (!err_is(e))
		e = make_segment(c, id, workers, workers_max, port);
	if (err_is(e))
		return e;
	MUST(pipe2(watch, O_CLOEXEC) == 0);
	/* Of this one each of us keeps the writing end, and nobody uses it. */
	MUST(pipe2(family, O_CLOEXEC) == 0);
	plan.family_fd = family[0];
	plan.takeover = taken.listen_count != 0 ? &taken : NULL;
	plan.program = program_of(argv[0]);
	if (*c->admin_socket != '\0')
		snprintf(admin_path, sizeof(admin_path), "%s", c->admin_socket);
	else
		snprintf(admin_path, sizeof(admin_path), "%s/admin.sock",
		    c->data_dir);
	plan.children = (struct child_plan){
		.start = {
			.config = c,
			.instance_id = id,
			.nameless = nameless,
			.master_fd = watch[0],
			.listen_fds = listen_fds,
			.listen_count = workers_max,
		},
		.master_write_fd = watch[1],
		.workers = workers,
	};
	plan.admin_path = admin_path;
	plan.listen_fds = listen_fds;
	plan.listen_count = workers_max;
	plan.drain_ns = CONFIG_NOW(c, drain_secs) * NS_PER_SEC;
	plan.drain_delay_ns = CONFIG_NOW(c, drain_delay_secs) * NS_PER_SEC;
	plan.orphan_grace_ns = c->orphan_grace_secs * NS_PER_SEC;
	plan.fanout.queue_ns = c->merge_queue_timeout_secs * NS_PER_SEC;
	plan.fanout.work_ns = c->merge_execution_timeout_secs * NS_PER_SEC;
	plan.orphans_manual = c->orphans != 0;
	plan.server = (struct status_server){
		.instance_id = id,
		.host = c->host,
		.port = port,
		.started_us = clock_wall_us(),
	};
	log_info("memwald %s starts instance=%s host=%s port=%u data_dir=%s "
	    "admin_socket=%s", MEMWALD_VERSION, id, c->host, port, c->data_dir,
	    admin_path);
	*status = master_run(&plan);
	return OK;
}

/* Fault points and the speed of the clock, of a test build. */
static struct err
read_test_environment(void)
{
#ifdef MEMWALD_FAULTS
	const char *faults = getenv("MEMWALD_FAULTS");
	const char *speed = getenv("MEMWALD_CLOCK_SPEED");

	if (speed != NULL)
		clock_set_speed((uint32_t)MAX(atoi(speed), 1));
	if (faults != NULL)
		return fault_set_all(faults);
#endif
	return OK;
}

int
main(int argc, char **argv)
{
	static struct config config;	/* children read it for ever */
	enum config_ask ask = CONFIG_RUN;
	int status = 0, signal_fd;
	struct err e;

	e = read_test_environment();
	if (!err_is(e))
		e = config_read(argc, argv, environ, &config, &ask);
	if (!err_is(e) && ask == CONFIG_HELP)
		e = print(config_help);
	else if (!err_is(e) && ask == CONFIG_HELP_MAN)
		e = print(config_man);
	else if (!err_is(e) && ask == CONFIG_VERSION)
		printf("memwald %s\n", MEMWALD_VERSION);
	if (err_is(e)) {
		fprintf(stderr, "memwald: %s\n", e.what);
		return 1;
	}
	if (ask != CONFIG_RUN)
		return 0;
	log_init("master");
	log_set_level((enum log_level)config.log_level);
	signal_fd = signal_open();
	raise_descriptors();
	e = takeover_read(&taken);
	if (!err_is(e))
		e = secret_load(config.internal_token_file);
	if (!err_is(e))
		e = merge_target_check(config.merge_owned_targets,
		    config.merge_drain_targets);
	if (!err_is(e))
		e = serve(&config, argv, signal_fd, &status);
	if (e.kind == ERR_TIMED_OUT) {
		log_info("stopped before the start was done");
		return 0;
	}
	if (err_is(e)) {
		log_err(LOG_ERROR, e, "cannot run");
		return 1;
	}
	log_info("stopped status=%d", status);
	return status;
}
