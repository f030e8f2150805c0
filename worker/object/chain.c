#include "common/base.h"

#include <stdio.h>

#include "common/log.h"
#include "worker/object/chain.h"

#define DIGITS	20
#define SUFFIX	".json"
#define NAME_MAX_ (CHAIN_PREFIX_MAX + DIGITS + sizeof(SUFFIX) + 1)
/* A put that is neither there nor refused is put again this often. */
#define PUT_TRIES 4

static void
make_name(const struct chain *c, uint64_t version, char name[NAME_MAX_])
{
	snprintf(name, NAME_MAX_, "%s/%0*llu" SUFFIX, c->prefix, DIGITS,
	    (unsigned long long)version);
}

/* False: not the name of a version. */
static bool
parse_name(struct slice name, uint64_t *version)
{
	uint64_t v = 0;
	size_t i;

	if (name.len != DIGITS + strlen(SUFFIX) ||
	    memcmp(name.ptr + DIGITS, SUFFIX, strlen(SUFFIX)) != 0)
		return false;
	for (i = 0; i < DIGITS; i++) {
		if (name.ptr[i] < '0' || name.ptr[i] > '9' ||
		    v > UINT64_MAX / 10 - 9)
			return false;
		v = v * 10 + (uint64_t)(name.ptr[i] - '0');
	}
	*version = v;
	return v > 0;
}

static bool
take_newest(const struct object_info *info, void *ctx)
{
	uint64_t *newest = ctx, version;

	if (parse_name(info->name, &version) && version > *newest)
		*newest = version;
	return true;
}

struct err
chain_newest(const struct chain *c, uint64_t *version)
{
	uint64_t newest = 0;
	struct err e = object_list_names(c->root, c->prefix, take_newest,
	    &newest);

	if (err_is(e) && e.kind != ERR_NOT_FOUND)
		return e;
	*version = newest;
	return OK;
}

static struct err
get(const struct chain *c, uint64_t version, struct arena *a,
    struct slice *bytes)
{
	char name[NAME_MAX_];

	make_name(c, version, name);
	return object_get(c->root, name, CHAIN_BYTES_MAX, a, bytes);
}

struct err
chain_load(const struct chain *c, struct arena *a, uint64_t *version,
    struct slice *bytes)
{
	uint64_t newest, before = 0;
	struct err e;

	/* Collected, or taken back by who had filled a hole with it, between
	 * the listing and the read: then another is the newest. */
	do {
		e = chain_newest(c, &newest);
		if (err_is(e))
			return e;
		*bytes = SLICE("");
		if (newest != 0 && newest == before)
			return FAIL(NOT_FOUND, "newest version of a chain");
		before = newest;
		if (newest != 0)
			e = get(c, newest, a, bytes);
	} while (e.kind == ERR_NOT_FOUND);
	if (!err_is(e))
		*version = newest;
	return e;
}

/* The outcome of a put is unknown, or the version is taken: is it ours? */
static struct err
read_back(const struct chain *c, uint64_t version, struct slice ours,
    struct arena *a, bool *there, bool *is_ours)
{
	char name[NAME_MAX_];
	struct slice bytes;
	struct err e = get(c, version, a, &bytes);

	*there = !err_is(e);
	*is_ours = *there && slice_eq(bytes, ours);
	if (e.kind == ERR_NOT_FOUND)
		return OK;
	make_name(c, version, name);
	if (*is_ours)
		e = object_confirm(c->root, name);
	return err_is(e) ? (struct err){ ERR_UNKNOWN, e.os, e.what } : OK;
}

static struct err
put(const struct chain *c, uint64_t version, struct slice bytes,
    struct arena *a, bool *ours)
{
	char name[NAME_MAX_];
	bool there = false;
	struct err e = OK;
	int tries;

	make_name(c, version, name);
	*ours = false;
	for (tries = 0; tries < PUT_TRIES && !there; tries++) {
		e = object_put_new(c->root, name, bytes);
		if (!err_is(e))
			*ours = there = true;
		else if (e.kind == ERR_UNKNOWN || e.kind == ERR_EXISTS)
			e = read_back(c, version, bytes, a, &there, ours);
		if (err_is(e))
			return e;
	}
	return there ? OK : FAIL(UNKNOWN, "put a version of a chain");
}

struct err
chain_put(const struct chain *c, uint64_t version, struct slice bytes,
    struct arena *a, bool *stands)
{
	uint64_t newest = 0;
	char name[NAME_MAX_];
	bool ours;
	struct err e;

	MUST(version > 0 && bytes.len <= CHAIN_BYTES_MAX);
	*stands = false;
	e = put(c, version, bytes, a, &ours);
	if (err_is(e) || !ours)
		return e;
	e = chain_newest(c, &newest);
	if (err_is(e))
		return (struct err){ ERR_UNKNOWN, e.os, e.what };
	*stands = newest <= version;
	if (*stands)
		return OK;
	log_info("version of a chain was not the newest, starting again "
	    "chain=%s version=%llu newest=%llu", c->prefix,
	    (unsigned long long)version, (unsigned long long)newest);
	make_name(c, version, name);
	e = object_delete(c->root, name);
	return err_is(e) ? (struct err){ ERR_UNKNOWN, e.os, e.what } : OK;
}

#define COLLECT_AT_ONCE 64u

struct old_versions {
	uint64_t below;
	uint32_t count;
	uint64_t versions[COLLECT_AT_ONCE];
};

static bool
take_old(const struct object_info *info, void *ctx)
{
	struct old_versions *old = ctx;
	uint64_t version;

	if (parse_name(info->name, &version) && version < old->below)
		old->versions[old->count++] = version;
	return old->count < COLLECT_AT_ONCE;
}

static struct err
remove_below(const struct chain *c, uint64_t below)
{
	struct old_versions old = { .below = below };
	char name[NAME_MAX_];
	struct err e;
	uint32_t i;

	e = object_list_names(c->root, c->prefix, take_old, &old);
	for (i = 0; i < old.count && !err_is(e); i++) {
		make_name(c, old.versions[i], name);
		e = object_delete(c->root, name);
	}
	return e;
}

struct err
chain_collect(const struct chain *c, uint64_t version, uint32_t keep)
{
	return version > keep + 1ull ? remove_below(c, version - keep) : OK;
}

struct err
chain_end(const struct chain *c, uint64_t version)
{
	uint64_t left;
	struct err e = remove_below(c, version);

	if (!err_is(e))
		e = remove_below(c, version + 1);
	if (!err_is(e))
		e = chain_newest(c, &left);
	/* Others than these, if more than COLLECT_AT_ONCE were there, or it has
	 * begun anew. */
	return err_is(e) || left != 0 ? e :
	    object_delete_tree(c->root, c->prefix);
}
