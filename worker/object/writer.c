#include "common/base.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/fault.h"
#include "worker/object/pace.h"
#include "worker/object/stub.h"
#include "worker/object/temp.h"

/*
 * Bytes are gathered into steps. With a pace each step waits for its time and
 * is on the disk before the next begins; without one the kernel writes back as
 * it likes, and the sync at the end waits for all of it.
 */

#define ALIGN_MAX 4096u

struct object_writer {
	struct place place;
	struct temp temp;
	struct object_pace *pace;
	uint64_t at;			/* bytes taken */
	uint64_t written;		/* of them, given to the kernel */
	char name[OBJECT_NAME_MAX];	/* place.leaf points into it */
	char step[OBJECT_PACE_STEP];
};

struct err
object_writer_open(struct object_dir *d, const char *name,
    struct object_pace *pace, struct object_writer **out)
{
	struct object_writer *w;
	struct err e = FAULT(object_put);

	if (err_is(e))
		return temp_injected(e, "put object");
	e = stub_write(d, name);
	if (err_is(e))
		return e;
	if (strlen(name) >= sizeof(w->name))
		return FAIL(CORRUPT, "object name too long");
	w = malloc(sizeof(*w));
	if (w == NULL)
		return FAIL(NO_MEMORY, "object writer");
	strcpy(w->name, name);
	w->pace = pace;
	w->at = w->written = 0;
	e = temp_place_open(d, w->name, true, &w->place);
	if (err_is(e))
		goto out;
	e = temp_create(w->place.fd, &w->temp);
	if (err_is(e)) {
		temp_place_close(&w->place);
		goto out;
	}
	*out = w;
	return OK;
out:
	free(w);
	return e;
}

static struct err
flush_step(struct object_writer *w)
{
	size_t len = (size_t)(w->at - w->written);
	struct err e;

	if (len == 0)
		return OK;
	if (w->pace != NULL)
		object_pace_take(w->pace, len);
	e = temp_write(w->temp.fd, w->step, len);
	if (err_is(e))
		return e;
	if (w->pace != NULL)
		e = temp_sync_step(w->temp.fd, w->written, len);
	if (err_is(e))
		return e;
	w->written = w->at;
	return OK;
}

struct err
object_writer_write(struct object_writer *w, const void *bytes, size_t len)
{
	const char *from = bytes;
	size_t used, n;
	struct err e;

	while (len > 0) {
		used = (size_t)(w->at - w->written);
		n = MIN(len, sizeof(w->step) - used);
		memcpy(w->step + used, from, n);
		w->at += n;
		from += n;
		len -= n;
		if (used + n == sizeof(w->step)) {
			e = flush_step(w);
			if (err_is(e))
				return e;
		}
	}
	return OK;
}

/* What the kernel does not copy between these two (other file systems, old
 * kernels) goes through the step's bytes, which are free just now. */
static struct err
copy_step(struct object_writer *w, int fd, uint64_t offset, size_t len)
{
	off_t from = (off_t)offset;
	struct err e = FAULT(object_write);
	size_t left = len;
	ssize_t n;

	if (err_is(e))
		return temp_injected(e, "copy into an object");
	while (left > 0) {
		n = copy_file_range(fd, &from, w->temp.fd, NULL, left, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == ENOSPC || errno == EIO))
			return FAIL_OS(IO, "copy into an object");
		if (n <= 0)
			break;
		left -= (size_t)n;
	}
	if (left == 0)
		return OK;
	e = object_read_at(fd, w->step, left, (uint64_t)from);
	return err_is(e) ? e : temp_write(w->temp.fd, w->step, left);
}

struct err
object_writer_copy(struct object_writer *w, int fd, uint64_t offset,
    uint64_t len)
{
	struct err e = flush_step(w);
	size_t n;

	for (; !err_is(e) && len > 0; offset += n, len -= n) {
		n = (size_t)MIN(len, (uint64_t)OBJECT_PACE_STEP);
		if (w->pace != NULL)
			object_pace_take(w->pace, n);
		e = copy_step(w, fd, offset, n);
		if (!err_is(e) && w->pace != NULL)
			e = temp_sync_step(w->temp.fd, w->at, n);
		if (!err_is(e))
			w->at = w->written = w->at + n;
	}
	return e;
}

struct err
object_writer_pad(struct object_writer *w, uint32_t align)
{
	static const char zeroes[ALIGN_MAX];

	MUST(align > 0 && align <= ALIGN_MAX && (align & (align - 1)) == 0);
	return object_writer_write(w, zeroes,
	    (size_t)(ROUND_UP(w->at, align) - w->at));
}

uint64_t
object_writer_at(const struct object_writer *w)
{
	return w->at;
}

struct err
object_writer_finish(struct object_writer *w)
{
	struct err e = flush_step(w);

	if (!err_is(e))
		e = temp_publish(w->place.fd, &w->temp, w->place.leaf);
	object_writer_abort(w);
	return e;
}

void
object_writer_abort(struct object_writer *w)
{
	temp_drop(w->place.fd, &w->temp);
	temp_place_close(&w->place);
	free(w);
}
