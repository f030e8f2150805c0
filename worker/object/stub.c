#include "common/base.h"

#include "worker/object/stub.h"

#ifdef MEMWALD_FAULTS

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/fault.h"
#include "worker/object/temp.h"

/* By what the whole name holds; the first that fits. */
static const struct class {
	const char *holds;
	enum fault_point point;
} classes[] = {
	{ "_gen_", FAULT_put_generation },
	{ "/wal/", FAULT_put_wal },
	{ "/manifest/", FAULT_put_shard },
	{ "/_versions/", FAULT_put_base },
	{ "/_registry/", FAULT_put_registry },
	{ "/_cluster/lease/", FAULT_put_lease },
	{ "/_cluster/assignment/", FAULT_put_assignment },
	{ "", FAULT_put_other },
};

struct late_put {		/* fd -1: none */
	struct object_dir dir;
	char name[OBJECT_NAME_MAX];
	char *bytes;
	size_t len;
};

static struct late_put late_puts[ARRAY_LEN(classes)];
static bool any_late[ARRAY_LEN(classes)];
static pthread_mutex_t late_lock = PTHREAD_MUTEX_INITIALIZER;

/* A name is relative to a directory that may itself be inside of what is
 * looked for: only the kernel knows the whole. */
static size_t
class_of(struct object_dir *d, const char *name)
{
	char link[64], path[PATH_MAX + OBJECT_NAME_MAX];
	size_t i = 0;
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", d->fd);
	n = readlink(link, path, PATH_MAX);
	MUST(n >= 0);
	snprintf(path + n, sizeof(path) - (size_t)n, "/%s", name);
	while (strstr(path, classes[i].holds) == NULL)
		i++;
	return i;
}

static void
keep_late(size_t class, struct object_dir *d, const char *name,
    const struct slice *parts, uint32_t count)
{
	struct late_put *l = &late_puts[class];
	size_t len = 0;
	uint32_t i;

	pthread_mutex_lock(&late_lock);
	if (any_late[class]) {
		close(l->dir.fd);
		free(l->bytes);
	}
	l->dir = *d;
	l->dir.fd = fcntl(d->fd, F_DUPFD_CLOEXEC, 0);
	snprintf(l->name, sizeof(l->name), "%s", name);
	for (i = 0; i < count; i++)
		len += parts[i].len;
	l->bytes = malloc(MAX(len, 1u));
	MUST(l->dir.fd >= 0 && l->bytes != NULL);
	for (i = 0, l->len = 0; i < count; i++) {
		memcpy(l->bytes + l->len, parts[i].ptr, parts[i].len);
		l->len += parts[i].len;
	}
	any_late[class] = true;
	pthread_mutex_unlock(&late_lock);
}

/* Whatever comes of it, who had asked for it does not wait any more. */
static void
store_late(size_t class, stub_put_fn *put)
{
	struct late_put *l = &late_puts[class];

	pthread_mutex_lock(&late_lock);
	if (any_late[class]) {
		struct slice bytes = slice_make(l->bytes, l->len);
		struct err e = put(&l->dir, l->name, &bytes, 1);

		(void)e;
		close(l->dir.fd);
		free(l->bytes);
		any_late[class] = false;
	}
	pthread_mutex_unlock(&late_lock);
}

struct err
stub_put(struct object_dir *d, const char *name, const struct slice *parts,
    uint32_t count, stub_put_fn *put)
{
	size_t class = class_of(d, name);
	enum fault_action action;
	struct err e, stored;

	store_late(class, put);
	action = fault_take(classes[class].point, &e);
	switch (action) {
	case FAULT_FAIL:
	case FAULT_ANSWER:
		return temp_injected(e, "put object");
	case FAULT_DROP:
		stored = put(d, name, parts, count);
		return err_is(stored) ? stored : e;
	case FAULT_LATE:
		keep_late(class, d, name, parts, count);
		return e;
	default:
		return put(d, name, parts, count);
	}
}

struct err
stub_write(struct object_dir *d, const char *name)
{
	struct err e;

	fault_take(classes[class_of(d, name)].point, &e);
	return temp_injected(e, "put object");
}

#endif
