#include "common/base.h"

#include <protobuf-c/protobuf-c.h>

#include "worker/lance/proto.h"

/* The library does not say whether a message was bad or too large. */
struct source {
	struct arena *arena;
	bool dry;
};

static void *
proto_alloc(void *ctx, size_t bytes)
{
	struct source *s = ctx;
	void *p = arena_alloc(s->arena, bytes);

	if (p == NULL)
		s->dry = true;
	return p;
}

/* The arena gives all back at once. */
static void
proto_free(void *ctx, void *bytes)
{
	(void)ctx;
	(void)bytes;
}

struct err
proto_unpack(struct arena *a, const struct ProtobufCMessageDescriptor *type,
    struct slice bytes, const char *what, void **out)
{
	struct source source = { a, false };
	ProtobufCAllocator allocator = { proto_alloc, proto_free, &source };
	void *m;

	m = protobuf_c_message_unpack(type, &allocator, bytes.len,
	    (const uint8_t *)bytes.ptr);
	if (m == NULL)
		return source.dry ? FAIL(NO_MEMORY, what) : FAIL(CORRUPT, what);
	*out = m;
	return OK;
}

struct err
proto_pack(struct arena *a, const struct ProtobufCMessage *m, struct slice *out)
{
	size_t len = protobuf_c_message_get_packed_size(m);
	uint8_t *bytes = arena_alloc(a, len);

	if (bytes == NULL)
		return FAIL(NO_MEMORY, "message");
	MUST(protobuf_c_message_pack(m, bytes) == len);
	*out = slice_make(bytes, len);
	return OK;
}
