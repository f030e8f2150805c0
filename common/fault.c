#include "common/base.h"

#include "common/fault.h"

#ifdef MEMWALD_FAULTS

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { ACTION_OFF, ACTION_DELAY, ACTION_FAIL, ACTION_DIE, ACTION_STOP };

static const char *const point_names[] = {
#define FAULT_POINT(name, help) #name,
#include "common/fault.def"
#undef FAULT_POINT
};

static struct fault_state own_table[FAULT_COUNT];
static struct fault_state *table = own_table;

void
fault_attach(struct fault_state *shared)
{
	memcpy(shared, table, sizeof(own_table));
	table = shared;
}

void
fault_detach(void)
{
	memcpy(own_table, table, sizeof(own_table));
	table = own_table;
}

static int
find_point(const char *name, size_t len)
{
	int i;

	for (i = 0; i < FAULT_COUNT; i++) {
		if (strlen(point_names[i]) == len &&
		    memcmp(point_names[i], name, len) == 0)
			return i;
	}
	return -1;
}

struct err
fault_set(const char *spec)
{
	const char *eq = strchr(spec, '=');
	struct fault_state *s;
	unsigned arg = 0;
	int point, left = 0, skip = 0, action;

	if (eq == NULL)
		return FAIL(BAD_INPUT, "a fault is POINT=ACTION");
	point = find_point(spec, (size_t)(eq - spec));
	if (point < 0)
		return FAIL(BAD_INPUT, "no such fault point");
	if (strcmp(++eq, "off") == 0)
		action = ACTION_OFF;
	else if (sscanf(eq, "delay:%u:%d@%d", &arg, &left, &skip) >= 1)
		action = ACTION_DELAY;
	else if (sscanf(eq, "fail:%u:%d@%d", &arg, &left, &skip) >= 1)
		action = ACTION_FAIL;
	else if (strcmp(eq, "die") == 0 ||
	    sscanf(eq, "die:%d@%d", &left, &skip) >= 1)
		action = ACTION_DIE;
	else if (strcmp(eq, "stop") == 0 ||
	    sscanf(eq, "stop:%d@%d", &left, &skip) >= 1)
		action = ACTION_STOP;
	else
		return FAIL(BAD_INPUT, "no such fault action");
	s = &table[point];
	atomic_store(&s->action, ACTION_OFF);
	atomic_store(&s->arg, arg);
	atomic_store(&s->left, left == 0 ? -1 : left);
	atomic_store(&s->skip, skip);
	atomic_store(&s->action, (uint32_t)action);
	return OK;
}

struct err
fault_set_all(const char *specs)
{
	char *copy = strdup(specs), *rest = copy, *spec;
	struct err e = OK;

	MUST(copy != NULL);
	while (!err_is(e) && (spec = strsep(&rest, " ")) != NULL) {
		if (*spec != '\0')
			e = fault_set(spec);
	}
	free(copy);
	return e;
}

/* Whether this pass is one that counts. */
static bool
take_pass(struct fault_state *s)
{
	if (atomic_load(&s->skip) > 0 && atomic_fetch_sub(&s->skip, 1) > 0)
		return false;
	if (atomic_load(&s->left) < 0)
		return true;
	if (atomic_fetch_sub(&s->left, 1) > 0)
		return true;
	atomic_store(&s->left, 0);
	atomic_store(&s->action, ACTION_OFF);
	return false;
}

const char *
fault_name(enum fault_point point)
{
	return point_names[point];
}

uint32_t
fault_hits(enum fault_point point)
{
	return atomic_load(&table[point].hits);
}

struct err
fault_hit(enum fault_point point)
{
	struct fault_state *s = &table[point];
	uint32_t action = atomic_load(&s->action);
	uint32_t arg = atomic_load(&s->arg);
	struct timespec span;

	if (action == ACTION_OFF || !take_pass(s))
		return OK;
	atomic_fetch_add(&s->hits, 1);
	switch (action) {
	case ACTION_DELAY:
		span.tv_sec = arg / 1000;
		span.tv_nsec = (long)(arg % 1000) * 1000000;
		nanosleep(&span, NULL);
		return OK;
	case ACTION_FAIL:
		errno = (int)arg;
		return err_from_os(ERR_IO, point_names[point]);
	case ACTION_DIE:
		kill(getpid(), SIGKILL);
		return OK;
	case ACTION_STOP:
		kill(getpid(), SIGSTOP);
		return OK;
	}
	return OK;
}

#endif
