#ifndef MEMWALD_OBJECT_MAP_H
#define MEMWALD_OBJECT_MAP_H

/*
 * map - reads of mapped files that survive the file being cut under them.
 *
 * The length of an immutable object is checked once, before it is mapped. If
 * somebody cuts the file later, the kernel answers the next access with SIGBUS.
 * Within a marked read that becomes CORRUPT; anywhere else it is a bug or bad
 * memory, and the process dies as it would without us. It is the only signal
 * handler of the server (design 5).
 *
 * A marked read is a function that may be left at any access to the mapping, so
 * it takes no lock, opens nothing, and allocates from arenas or from buffers
 * that its caller owns. It costs tens of nanoseconds: mark a page or a probe,
 * not a value.
 *
 * Death:	nothing is shared.
 * Locking:	the mark is the thread's; marks nest.
 * Errors:	CORRUPT, or what the function answers.
 */

#include "common/base.h"
#include "common/err.h"

typedef struct err object_map_read_fn(void *ctx);

/* Once a process, before its first marked read; survives fork. */
void object_map_install(void);
/* The pages of these bytes, which are of a mapping, are not of this process any
 * more until they are read again: what was read once need not stay. */
void object_map_forget(const void *, size_t);
struct err object_map_guarded(object_map_read_fn *, void *ctx) MUST_CHECK;

#endif
