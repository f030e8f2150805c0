#include "common/base.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/host.h"
#include "common/slice.h"
#include "common/utf8.h"
#include "common/uuid.h"

#define PATH_BYTES 4096

/* Reads a small file; false if it is not there. */
static bool
slurp(const char *path, char *text, size_t bytes)
{
	FILE *f = fopen(path, "re");
	size_t n;

	if (f == NULL)
		return false;
	n = fread(text, 1, bytes - 1, f);
	text[n] = '\0';
	fclose(f);
	return true;
}

/* Whether a line's comma separated list of controllers has this one. */
static bool
has_controller(const char *list, const char *end, const char *name)
{
	size_t len = strlen(name);

	while (list < end) {
		const char *comma = memchr(list, ',', (size_t)(end - list));
		const char *stop = comma != NULL ? comma : end;

		if ((size_t)(stop - list) == len && memcmp(list, name, len) == 0)
			return true;
		list = stop + 1;
	}
	return false;
}

/*
 * The directory of our group in a hierarchy: v2 (controller NULL, "0::/path")
 * or a v1 one. False if /proc/self/cgroup has no such line.
 */
static bool
own_group(const char *root, const char *controller, char *mount, char *path)
{
	char name[PATH_BYTES], text[8192], *line, *rest = text;

	snprintf(name, sizeof(name), "%s/proc/self/cgroup", root);
	if (!slurp(name, text, sizeof(text)))
		return false;
	while ((line = strsep(&rest, "\n")) != NULL) {
		char *list = strchr(line, ':');
		char *group = list != NULL ? strchr(list + 1, ':') : NULL;

		if (group == NULL)
			continue;
		list++;
		if (controller == NULL ? group != list :
		    !has_controller(list, group, controller))
			continue;
		*group++ = '\0';
		snprintf(mount, PATH_BYTES, "%.512s/sys/fs/cgroup%s%.512s", root,
		    *list != '\0' ? "/" : "", list);
		snprintf(path, PATH_BYTES, "%.2048s", group);
		return true;
	}
	return false;
}

/* A value at one level of a hierarchy; UINT64_MAX: no limit here. */
typedef uint64_t look(const char *dir);

static uint64_t
look_cpu_v2(const char *dir)
{
	char name[PATH_BYTES], text[128];
	unsigned long long quota, period;

	snprintf(name, sizeof(name), "%s/cpu.max", dir);
	if (!slurp(name, text, sizeof(text)) ||
	    sscanf(text, "%llu %llu", &quota, &period) != 2 || period == 0)
		return UINT64_MAX;	/* "max 100000", too */
	return (quota + period - 1) / period;
}

static uint64_t
look_cpu_v1(const char *dir)
{
	char name[PATH_BYTES], text[128];
	long long quota, period;

	snprintf(name, sizeof(name), "%s/cpu.cfs_quota_us", dir);
	if (!slurp(name, text, sizeof(text)))
		return UINT64_MAX;
	quota = atoll(text);
	snprintf(name, sizeof(name), "%s/cpu.cfs_period_us", dir);
	if (quota <= 0 || !slurp(name, text, sizeof(text)))
		return UINT64_MAX;
	period = atoll(text);
	if (period <= 0)
		return UINT64_MAX;
	return (uint64_t)((quota + period - 1) / period);
}

/* The least value from our group up to the root of the hierarchy. */
static uint64_t
least(const char *root, const char *controller, look *at)
{
	char mount[PATH_BYTES], path[PATH_BYTES], dir[2 * PATH_BYTES];
	uint64_t min = UINT64_MAX, v;
	char *slash;

	if (!own_group(root, controller, mount, path))
		return UINT64_MAX;
	for (;;) {
		snprintf(dir, sizeof(dir), "%s%s", mount, path);
		v = at(dir);
		min = MIN(min, v);
		slash = strrchr(path, '/');
		if (slash == NULL)
			break;
		*slash = '\0';
	}
	return min;
}

uint32_t
host_cpu_quota(const char *root)
{
	uint64_t v = MIN(least(root, NULL, look_cpu_v2),
	    least(root, "cpu", look_cpu_v1));

	return (uint32_t)MIN(MAX(v, 1u), UINT32_MAX);
}

uint32_t
host_cpus(const char *root)
{
	cpu_set_t set;
	uint32_t cpus = 1;

	/* More CPUs than the set has room for: the kernel says EINVAL. */
	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		cpus = (uint32_t)CPU_COUNT(&set);
	else
		cpus = (uint32_t)MAX(sysconf(_SC_NPROCESSORS_ONLN), 1);
	return MAX(MIN(cpus, host_cpu_quota(root)), 1u);
}

void
host_boot_id(char *id, size_t id_bytes)
{
	char text[UUID_TEXT_LEN + 1];
	struct uuid random;

#ifdef MEMWALD_FAULTS
	/* Tests are several machines in one. */
	const char *given = getenv("MEMWALD_BOOT_ID");

	if (given != NULL) {
		snprintf(id, id_bytes, "%s", given);
		return;
	}
#endif
	if (slurp("/proc/sys/kernel/random/boot_id", id, id_bytes)) {
		id[strcspn(id, "\n")] = '\0';
		return;
	}
	/* Then it is like nobody else's, which is safe. */
	random = uuid_random();
	uuid_to_text(&random, text);
	snprintf(id, id_bytes, "%s", text);
}

static bool
is_name(const char *s)
{
	return s != NULL && *s != '\0' && strcmp(s, "localhost") != 0;
}

static bool
is_utf8(const char *text)
{
	size_t left = strlen(text);

	while (left > 0) {
		int n = utf8_length(text, left);

		if (n <= 0)
			return false;
		text += n;
		left -= (size_t)n;
	}
	return true;
}

struct err
host_instance_id(const char *asked, const char *env_hostname, char *id,
    size_t id_bytes, bool *nameless)
{
	static const char nobody[] = "default";
	char name[256] = "";
	const char *from = nobody, *p;

	/* Cut names are not terminated: leave the last byte alone. */
	if (gethostname(name, sizeof(name) - 1) < 0)
		name[0] = '\0';
	if (is_name(asked))
		from = asked;
	else if (is_name(env_hostname))
		from = env_hostname;
	else if (is_name(name))
		from = name;
	for (p = from; *p != '\0'; p++) {
		if (*p == '#' || *p == '/' || (unsigned char)*p < 0x20 ||
		    *p == 0x7f)
			return FAIL(BAD_INPUT, "the instance id holds '#', '/' or "
			    "a control character: give one with --instance-id");
	}
	if (!is_utf8(from))
		return FAIL(BAD_INPUT, "the instance id is not UTF-8: give one "
		    "with --instance-id");
	if (strlen(from) >= id_bytes)
		return FAIL(BAD_INPUT, "the instance id is too long: give one "
		    "with --instance-id");
	snprintf(id, id_bytes, "%s", from);
	*nameless = from == nobody;
	return OK;
}
