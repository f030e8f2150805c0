#ifndef MEMWALD_ARROW_IPC_META_H
#define MEMWALD_ARROW_IPC_META_H

/*
 * ipc_meta - what the files of ipc.h share about the metadata of messages.
 * Nothing outside of worker/arrow includes it.
 */

#include "worker/arrow/flatbuf.h"
#include "worker/arrow/ipc.h"

/* Message.fbs, union MessageHeader; MetadataVersion. */
enum { IPC_HEADER_SCHEMA = 1, IPC_HEADER_BATCH = 3 };
enum { IPC_VERSION_V4 = 3, IPC_VERSION_V5 = 4 };

/* A message whose metadata are being written: prefix, then Message. */
struct ipc_opening {
	struct fbw w;
	size_t body_length_at;		/* positions in the flatbuffer */
	size_t header_at;
	size_t pairs_at;		/* 0 if there are none */
};

void ipc_message_begin(struct ipc_opening *, struct buf *, int header,
    bool has_pairs);
/* Pads the metadata and writes their length into the prefix. */
struct err ipc_message_end(struct ipc_opening *) MUST_CHECK;

/* A vector of KeyValue; values_at (may be NULL): where each value's bytes
 * begin. */
size_t ipc_pairs_write(struct fbw *, const struct arrow_pair *, uint32_t count,
    size_t *values_at);
/* The table Schema, of a message or a footer. */
size_t ipc_schema_table_write(struct fbw *, const struct arrow_schema *);

#endif
