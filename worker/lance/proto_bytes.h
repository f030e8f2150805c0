#ifndef MEMWALD_LANCE_PROTO_BYTES_H
#define MEMWALD_LANCE_PROTO_BYTES_H

/*
 * proto_bytes - bytes and texts of protobuf messages, as slices. Nothing is
 * copied: either side lives as long as the other.
 */

#include "common/slice.h"
#include "worker/lance/table.pb-c.h"	/* for the type, as any of them */

static inline struct slice
proto_slice(ProtobufCBinaryData b)
{
	return slice_make(b.data, b.len);
}

static inline ProtobufCBinaryData
proto_bytes(struct slice s)
{
	return (ProtobufCBinaryData){ s.len, (uint8_t *)(uintptr_t)s.ptr };
}

static inline bool
proto_is(ProtobufCBinaryData b, struct slice s)
{
	return slice_eq(proto_slice(b), s);
}

#endif
