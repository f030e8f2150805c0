#ifndef MEMWALD_API_BLOB_STREAM_H
#define MEMWALD_API_BLOB_STREAM_H

/*
 * blob_stream - a long payload as a reply that the connection pulls: a piece of
 * memory, whatever its length. The bytes stay in their file: a WAL entry, which
 * is read, or a data file, which is mapped, and whose pages are let go of once
 * they were sent.
 *
 * Lifetime:	the request's arena. What the mapping belongs to (a snapshot)
 *		must be held as long; of an entry the stream has a descriptor
 *		of its own, until it is closed.
 * Locking:	the loop's thread.
 * Errors:	CORRUPT, IO: the reply ends unfinished.
 */

#include "worker/arrow/batch.h"
#include "worker/http/stream.h"

/* Shorter ones that are in memory are sent from where they lie. */
#define BLOB_STREAM_MIN	(1u << 20)

struct blob_stream {
	struct stream stream;
	int fd;				/* -1: mapped */
	uint64_t offset;
	const char *mapped;
	uint64_t left;
};

/* Value i of an array that is far. IO: no descriptor is left. */
struct err blob_stream_far(struct blob_stream *, const struct array *,
    uint64_t i) MUST_CHECK;
/* Bytes of a mapped file. */
void blob_stream_mapped(struct blob_stream *, struct slice);

#endif
