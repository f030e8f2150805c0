#include "common/base.h"

#include <stdlib.h>

#include "common/log.h"
#include "worker/store/generic.h"
#include "worker/store/shape.h"

#define SHAPE_BYTES_MAX	(64u << 20)
#define MANIFEST_BYTES_MAX	(256u << 20)

struct owned {
	struct store_shape shape;	/* first */
	struct arena arena;
};

static struct err
load(struct object_dir *dir, struct owned *o)
{
	struct arena arena;
	struct table *t;
	struct err e;

	arena_init(&arena, MANIFEST_BYTES_MAX);
	e = table_load(dir, &arena, &t);
	if (!err_is(e)) {
		e = generic_shape_read(&o->arena, t, &o->shape);
		table_free(t);
	}
	if (err_is(e)) {
		log_err(LOG_DEBUG, e, "shape of a store not read");
		e.what = "read the store's schema";	/* text is in an arena */
	}
	arena_free(&arena);
	return e;
}

struct err
shape_load(const struct kind *kind, struct object_dir *dir,
    const struct store_shape **out)
{
	struct owned *o;
	struct err e;

	if (kind->shape != NULL) {
		*out = kind->shape;
		return OK;
	}
	o = calloc(1, sizeof(*o));
	if (o == NULL)
		return FAIL(NO_MEMORY, "read the store's schema");
	arena_init(&o->arena, SHAPE_BYTES_MAX);
	e = load(dir, o);
	if (err_is(e))
		shape_drop(kind, &o->shape);
	else
		*out = &o->shape;
	return e;
}

void
shape_drop(const struct kind *kind, const struct store_shape *shape)
{
	struct owned *o;

	if (shape == NULL || shape == kind->shape)
		return;
	o = CONTAINER_OF((struct store_shape *)(uintptr_t)shape, struct owned,
	    shape);
	arena_free(&o->arena);
	free(o);
}
