#include "common/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "shm/limit.h"

#define PATH_BYTES 4096

/* "max", like anything that is no number, limits nothing. */
static uint64_t
read_limit(const char *dir, const char *file)
{
	char path[PATH_BYTES + 64], text[64], *end;
	uint64_t value = UINT64_MAX;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	f = fopen(path, "re");
	if (f == NULL)
		return UINT64_MAX;
	if (fgets(text, sizeof(text), f) != NULL) {
		value = strtoull(text, &end, 10);
		if (end == text)
			value = UINT64_MAX;
	}
	fclose(f);
	return value;
}

/* From the group at root + path up to root. */
static uint64_t
walk_up(const char *root, const char *path, const char *file)
{
	char dir[PATH_BYTES];
	uint64_t least = UINT64_MAX, limit;
	size_t root_len = strlen(root), len;
	int n = snprintf(dir, sizeof(dir), "%s%s", root, path);

	if (n < 0 || (size_t)n >= sizeof(dir))
		return UINT64_MAX;
	for (len = (size_t)n; len >= root_len; len--) {
		if (dir[len] != '\0' && dir[len] != '/')
			continue;
		dir[len] = '\0';
		limit = read_limit(dir, file);
		least = MIN(least, limit);
		if (len == 0)
			break;
	}
	return least;
}

/* A line is "number:controllers:path"; version 2 has neither. */
static uint64_t
limit_of_line(char *line, const char *cgroup_fs)
{
	char root[PATH_BYTES / 2], *controllers, *path;

	line[strcspn(line, "\n")] = '\0';
	controllers = strchr(line, ':');
	if (controllers == NULL)
		return UINT64_MAX;
	path = strchr(++controllers, ':');
	if (path == NULL)
		return UINT64_MAX;
	*path++ = '\0';
	if (*controllers == '\0')
		return walk_up(cgroup_fs, path, "memory.max");
	if (strstr(controllers, "memory") == NULL)
		return UINT64_MAX;
	snprintf(root, sizeof(root), "%s/memory", cgroup_fs);
	return walk_up(root, path, "memory.limit_in_bytes");
}

uint64_t
shm_memory_limit_under(const char *proc_cgroup, const char *cgroup_fs)
{
	uint64_t least = (uint64_t)sysconf(_SC_PHYS_PAGES) *
	    (uint64_t)sysconf(_SC_PAGESIZE), limit;
	char line[PATH_BYTES];
	FILE *f = fopen(proc_cgroup, "re");

	if (f == NULL)
		return least;
	while (fgets(line, sizeof(line), f) != NULL) {
		limit = limit_of_line(line, cgroup_fs);	/* once: it cuts */
		least = MIN(least, limit);
	}
	fclose(f);
	return least;
}

uint64_t
shm_memory_limit(void)
{
	return shm_memory_limit_under("/proc/self/cgroup", "/sys/fs/cgroup");
}
