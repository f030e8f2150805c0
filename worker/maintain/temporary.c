#include "common/base.h"

#include <stdio.h>

#include "common/log.h"
#include "worker/maintain/temporary.h"

struct cleaning {
	struct object_dir *dir;
	const char *parent;
	uint32_t removed;
};

uint32_t
temporary_clean(struct object_dir *dir, const char *prefix)
{
	uint32_t removed = 0;
	struct err e = object_clean_temp(dir, prefix, &removed);

	if (err_is(e) && e.kind != ERR_NOT_FOUND)
		log_err(LOG_WARN, e, "unfinished files not removed, the next "
		    "look tries again prefix=%s", prefix);
	return removed;
}

static bool
clean_shard(const struct object_info *info, void *ctx)
{
	static const char *const below[] = { "wal", "manifest" };
	struct cleaning *c = ctx;
	char prefix[OBJECT_NAME_MAX];
	size_t i;

	for (i = 0; info->is_dir && i < ARRAY_LEN(below); i++) {
		snprintf(prefix, sizeof(prefix), "_mem_wal/%.*s/%s",
		    (int)info->name.len, info->name.ptr, below[i]);
		c->removed += temporary_clean(c->dir, prefix);
	}
	return true;
}

static bool
clean_child(const struct object_info *info, void *ctx)
{
	struct cleaning *c = ctx;
	char prefix[OBJECT_NAME_MAX];

	snprintf(prefix, sizeof(prefix), "%s/%.*s", c->parent,
	    (int)info->name.len, info->name.ptr);
	if (info->is_dir)
		c->removed += temporary_clean(c->dir, prefix);
	return true;
}

/* In each directory of parent, which need not exist. */
static void
clean_children(struct cleaning *c, const char *parent)
{
	struct err e;

	c->parent = parent;
	e = object_list(c->dir, parent, clean_child, c);
	if (err_is(e) && e.kind != ERR_NOT_FOUND)
		log_err(LOG_WARN, e, "not listed, unfinished files below stay "
		    "until the next look prefix=%s", parent);
}

uint32_t
temporary_clean_root(struct object_dir *root)
{
	static const char *const prefixes[] = { "", "_registry",
	    "_cluster/assignment" };
	static const char *const parents[] = { "_registry", "_cluster/lease" };
	struct cleaning c = { .dir = root };
	size_t i;

	for (i = 0; i < ARRAY_LEN(prefixes); i++)
		c.removed += temporary_clean(root, prefixes[i]);
	for (i = 0; i < ARRAY_LEN(parents); i++)
		clean_children(&c, parents[i]);
	return c.removed;
}

uint32_t
temporary_clean_store(struct object_dir *dir)
{
	static const char *const prefixes[] = { "", "data", "_versions",
	    "_transactions", "_deletions" };
	struct cleaning c = { .dir = dir };
	struct err e;
	size_t i;

	for (i = 0; i < ARRAY_LEN(prefixes); i++)
		c.removed += temporary_clean(dir, prefixes[i]);
	e = object_list(dir, "_mem_wal", clean_shard, &c);
	if (err_is(e) && e.kind != ERR_NOT_FOUND)
		log_err(LOG_WARN, e, "shards not listed, unfinished files in "
		    "them stay until the next look");
	clean_children(&c, "_indices");
	return c.removed;
}
