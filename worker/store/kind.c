#include "common/base.h"

#include "worker/store/kind_field.h"

const struct arrow_pair kind_key_pairs[KIND_KEY_PAIRS] = {
	{ { STORE_KEY_MARK, sizeof(STORE_KEY_MARK) - 1 }, { "true", 4 } },
	{ { STORE_KEY_POSITION, sizeof(STORE_KEY_POSITION) - 1 }, { "1", 1 } },
};

const struct kind kind_generic = {
	.id = STORE_GENERIC,
	.name = "generic",
	.title = "Generic store",
	.collection = "generic",
	.rows = "rows",
	.suffix = ".generic.lance",
};

static const struct kind *const kinds[] = {
	&kind_rollout,
	&kind_datagen,
	&kind_generic,
};

const struct kind *
kind_find(struct slice name)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(kinds); i++) {
		if (slice_eq(name, slice_of(kinds[i]->name)) ||
		    slice_eq(name, slice_of(kinds[i]->collection)))
			return kinds[i];
	}
	return NULL;
}

const struct kind *
kind_get(enum store_kind id)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(kinds); i++) {
		if (kinds[i]->id == id)
			return kinds[i];
	}
	return NULL;
}
