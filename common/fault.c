#include "common/base.h"

#include "common/fault.h"

#ifdef MEMWALD_FAULTS

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define HOLD_LOOK_NS	1000000	/* whether it is still held */

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

static int
find_kind(const char *name)
{
	int kind;

	for (kind = 0; kind < ERR_KIND_COUNT; kind++) {
		struct err e = { .kind = (uint16_t)kind };

		if (strcmp(err_name(e), name) == 0)
			return kind;
	}
	return -1;
}

struct setting {
	enum fault_action action;
	unsigned arg;
	int left, skip;
};

/* "drop" or "drop:COUNT@SKIP". */
static bool
parse_plain(const char *spec, struct setting *s)
{
	static const struct {
		const char *name;
		enum fault_action action;
	} plain[] = {
		{ "off", FAULT_OFF }, { "hold", FAULT_HOLD },
		{ "drop", FAULT_DROP }, { "late", FAULT_LATE },
		{ "die", FAULT_DIE }, { "stop", FAULT_STOP },
	};
	size_t i, len = strcspn(spec, ":");

	for (i = 0; i < ARRAY_LEN(plain); i++) {
		if (strlen(plain[i].name) != len ||
		    memcmp(plain[i].name, spec, len) != 0)
			continue;
		s->action = plain[i].action;
		return spec[len] == '\0' ||
		    sscanf(spec + len, ":%d@%d", &s->left, &s->skip) >= 1;
	}
	return false;
}

static bool
parse(const char *spec, struct setting *s)
{
	char kind[24];
	int found;

	*s = (struct setting){ .action = FAULT_OFF };
	if (sscanf(spec, "delay:%u:%d@%d", &s->arg, &s->left, &s->skip) >= 1)
		s->action = FAULT_DELAY;
	else if (sscanf(spec, "fail:%u:%d@%d", &s->arg, &s->left,
	    &s->skip) >= 1)
		s->action = FAULT_FAIL;
	else if (sscanf(spec, "answer:%23[A-Z_]:%d@%d", kind, &s->left,
	    &s->skip) >= 1) {
		found = find_kind(kind);
		s->action = FAULT_ANSWER;
		s->arg = (unsigned)found;
		return found > 0;
	} else
		return parse_plain(spec, s);
	return true;
}

struct err
fault_set(const char *spec)
{
	const char *eq = strchr(spec, '=');
	struct fault_state *s;
	struct setting to;
	int point;

	if (eq == NULL)
		return FAIL(BAD_INPUT, "a fault is POINT=ACTION");
	point = find_point(spec, (size_t)(eq - spec));
	if (point < 0)
		return FAIL(BAD_INPUT, "no such fault point");
	if (!parse(eq + 1, &to))
		return FAIL(BAD_INPUT, "no such fault action");
	s = &table[point];
	atomic_store(&s->action, FAULT_OFF);
	atomic_store(&s->arg, to.arg);
	atomic_store(&s->left, to.left == 0 ? -1 : to.left);
	atomic_store(&s->skip, to.skip);
	atomic_store(&s->action, (uint32_t)to.action);
	atomic_fetch_add(&s->sets, 1);
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
	atomic_store(&s->action, FAULT_OFF);
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

static void
nap(uint64_t ns)
{
	struct timespec span = { (time_t)(ns / 1000000000),
	    (long)(ns % 1000000000) };

	nanosleep(&span, NULL);
}

enum fault_action
fault_take(enum fault_point point, struct err *e)
{
	struct fault_state *s = &table[point];
	uint32_t sets = atomic_load(&s->sets);
	enum fault_action action = (enum fault_action)atomic_load(&s->action);
	uint32_t arg = atomic_load(&s->arg);

	*e = OK;
	if (action == FAULT_OFF || !take_pass(s))
		return FAULT_OFF;
	atomic_fetch_add(&s->hits, 1);
	switch (action) {
	case FAULT_DELAY:
		nap(arg * 1000000ull);
		break;
	case FAULT_HOLD:
		while (atomic_load(&s->sets) == sets)
			nap(HOLD_LOOK_NS);
		break;
	case FAULT_FAIL:
		errno = (int)arg;
		*e = err_from_os(ERR_IO, point_names[point]);
		break;
	case FAULT_ANSWER:
		*e = (struct err){ (uint16_t)arg, 0, point_names[point] };
		break;
	case FAULT_DROP:
	case FAULT_LATE:
		*e = FAIL(UNKNOWN, point_names[point]);
		break;
	case FAULT_DIE:
		kill(getpid(), SIGKILL);
		break;
	case FAULT_STOP:
		kill(getpid(), SIGSTOP);
		break;
	case FAULT_OFF:
		break;
	}
	return action;
}

struct err
fault_hit(enum fault_point point)
{
	struct err e;

	fault_take(point, &e);
	return e;
}

#endif
