#include "common/base.h"

#include "common/fault.h"
#include "shm/view.h"
#include "worker/lance/commit.h"
#include "worker/store/pin.h"
#include "worker/store/reload.h"

struct pinning {
	struct object_dir *dir;
	uint64_t version;		/* 0: releases */
	uint64_t only;			/* instead of this pin and no other; 0: any */
	uint64_t before;		/* what was pinned */
};

uint64_t
pin_of(const struct table *newest)
{
	return reload_sequence(newest, SLICE(META_PINNED));
}

static struct err
build(const struct table *newest, struct arena *arena,
    struct commit_edit *edit, void *ctx)
{
	struct pinning *p = ctx;
	uint64_t now = pin_of(newest);
	struct arrow_pair *meta;
	struct err e = OK;

	p->before = now;
	if (now == p->version || (p->only != 0 && now != p->only))
		return OK;
	if (p->version > newest->version)
		e = FAIL(NOT_FOUND, "no such version");
	else if (p->version != 0)
		e = table_version_exists(p->dir, p->version);
	if (err_is(e))
		return e;
	meta = arena_calloc(arena, 1, sizeof(*meta));
	if (meta == NULL)
		return FAIL(NO_MEMORY, "pin a store");
	meta->key = SLICE(META_PINNED);
	meta->value = p->version == 0 ? SLICE("") :
	    slice_of(arena_printf(arena, "%llu",
	    (unsigned long long)p->version));
	edit->operation = COMMIT_UPDATE;
	edit->metadata = meta;
	edit->metadata_count = 1;
	return OK;
}

/* Collected between our look and the commit: it is pinned as it was. */
static struct err
take_back(struct pinning *p, struct shm_ref ref, struct arena *errors)
{
	struct pinning back = { .dir = p->dir, .version = p->before,
	    .only = p->version };
	struct commit_result result;
	struct err e;

	e = commit_run(p->dir, build, &back, errors, &result);
	if (e.kind == ERR_NOT_FOUND) {	/* that one, too */
		back.version = 0;
		e = commit_run(p->dir, build, &back, errors, &result);
	}
	if (!err_is(e) && result.written)
		e = shm_view_raise_base(ref, result.version, back.version);
	return err_is(e) ? e : FAIL(NOT_FOUND, "no such version");
}

struct err
pin_change(struct object_dir *dir, struct shm_ref ref, uint64_t version,
    struct arena *errors, uint64_t *base_version)
{
	struct pinning p = { .dir = dir, .version = version };
	struct commit_result result;
	struct err e;

	e = commit_run(dir, build, &p, errors, &result);
	if (err_is(e))
		return e;
	FAULT_HERE(pin_committed);
	if (version != 0) {
		e = table_version_exists(dir, version);
		if (e.kind == ERR_NOT_FOUND && result.written)
			return take_back(&p, ref, errors);
		if (err_is(e))
			return e;
	}
	*base_version = result.version;
	e = shm_view_raise_base(ref, result.version, version);
	/* Ticks passed over it, and forgot that it had garbage. */
	if (!err_is(e) && version == 0)
		shm_store_touch(ref);
	return e;
}
