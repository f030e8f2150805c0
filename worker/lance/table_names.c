#include "common/base.h"

#include <stdio.h>

#include "worker/lance/manifest.h"
#include "worker/lance/table.pb-c.h"
#include "worker/lance/table_names.h"

struct naming {
	table_name_fn *fn;
	void *ctx;
};

static struct err
name_below(const struct naming *n, const char *folder, struct slice leaf)
{
	char name[OBJECT_NAME_MAX];

	if (leaf.len + strlen(folder) + 2 > sizeof(name))
		return FAIL(CORRUPT, "table names a file with a long name");
	snprintf(name, sizeof(name), "%s/%.*s", folder, (int)leaf.len,
	    leaf.ptr);
	return n->fn(name, n->ctx);
}

static struct err
name_fragment(const struct naming *n, const struct table_fragment *f)
{
	char name[TABLE_NAME_MAX];
	struct err e = OK;
	uint32_t i;

	for (i = 0; !err_is(e) && i < f->file_count; i++)
		e = name_below(n, "data", f->files[i].path);
	if (err_is(e) || f->deletion.kind == TABLE_DELETION_NONE)
		return e;
	table_deletion_name(f->id, &f->deletion, name);
	return n->fn(name, n->ctx);
}

struct err
table_names(const struct table *t, table_name_fn *fn, void *ctx)
{
	const ProtobufCBinaryData *txn = &t->manifest->transaction_file;
	struct naming n = { fn, ctx };
	char uuid[UUID_TEXT_LEN + 1];
	struct err e = OK;
	uint32_t i;

	for (i = 0; !err_is(e) && i < t->fragment_count; i++)
		e = name_fragment(&n, &t->fragments[i]);
	for (i = 0; !err_is(e) && i < t->index_count; i++) {
		if (slice_eq(t->indices[i].name, SLICE(MEM_WAL_NAME)))
			continue;	/* has no files */
		uuid_to_text(&t->indices[i].uuid, uuid);
		e = name_below(&n, "_indices", slice_of(uuid));
	}
	if (!err_is(e) && txn->len > 0)
		e = name_below(&n, "_transactions",
		    slice_make(txn->data, txn->len));
	return e;
}
