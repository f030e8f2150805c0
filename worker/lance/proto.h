#ifndef MEMWALD_LANCE_PROTO_H
#define MEMWALD_LANCE_PROTO_H

/*
 * proto - protobuf messages of Lance from and to bytes, in an arena.
 *
 * The messages themselves are generated from the .proto files beside this
 * (table, file, shard) as Pb__X; whoever fills one in includes
 * "worker/lance/x.pb-c.h". Messages are untrusted input: all that unpacking
 * allocates comes from the arena, so its cap bounds it, and nothing is freed
 * one by one. None of our messages nests itself, so the parser's depth is
 * bounded by the schema.
 *
 * Lifetime:	a message and all it points to lives as long as the arena.
 * Locking:	none; one thread at a time for an arena.
 * Errors:	CORRUPT: not a message of this kind. NO_MEMORY: the arena's cap.
 */

#include "common/arena.h"
#include "common/base.h"
#include "common/err.h"
#include "common/slice.h"

struct ProtobufCMessage;
struct ProtobufCMessageDescriptor;

/* what: for the error, "table manifest". *out is the generated struct. */
struct err proto_unpack(struct arena *, const struct ProtobufCMessageDescriptor *,
    struct slice, const char *what, void **out) MUST_CHECK;
/* The generated struct's base; unknown fields are written as they were. */
struct err proto_pack(struct arena *, const struct ProtobufCMessage *,
    struct slice *) MUST_CHECK;

#endif
