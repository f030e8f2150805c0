#include "common/base.h"

#include "common/clock.h"
#include "common/fault.h"
#include "shm/metric.h"
#include "worker/object/retry.h"
#include "worker/object/stub.h"
#include "worker/object/temp.h"

/*
 * Put if absent. What an object store answers when two requests race, "conflict,
 * nothing stored", is neither taken nor stored: it is tried again here, so that
 * nobody above can mistake it for one of them (field fault I.2).
 */

/* From here on written in steps, so that its sync holds up nobody else's. */
#define STEPPED_MIN_BYTES (1u << 20)

static struct err
write_parts(int fd, const struct slice *parts, uint32_t count)
{
	struct err e = OK;
	size_t bytes = 0;
	uint32_t i;

	for (i = 0; i < count; i++)
		bytes += parts[i].len;
	if (bytes >= STEPPED_MIN_BYTES)
		return object_write_parts(fd, parts, count, 0);
	for (i = 0; !err_is(e) && i < count; i++)
		e = temp_write(fd, parts[i].ptr, parts[i].len);
	return e;
}

static struct err
put_local(struct object_dir *d, const char *name, const struct slice *parts,
    uint32_t count)
{
	struct place p;
	struct temp t;
	struct err e = FAULT(object_put);

	if (err_is(e))
		return temp_injected(e, "put object");
	e = temp_place_open(d, name, true, &p);
	if (err_is(e))
		return e;
	e = temp_create(p.fd, &t);
	if (err_is(e))
		goto out;
	e = write_parts(t.fd, parts, count);
	if (!err_is(e))
		e = temp_publish(p.fd, &t, p.leaf);
	temp_drop(p.fd, &t);
out:
	temp_place_close(&p);
	return e;
}

struct err
object_put_parts(struct object_dir *d, const char *name,
    const struct slice *parts, uint32_t count)
{
	struct object_retry r;
	struct err e;

	object_retry_begin(&r, OBJECT_PUT_SPAN_NS);
	while ((e = stub_put(d, name, parts, count, put_local)).kind ==
	    ERR_CONFLICT) {
		shm_metric_add(METRIC_memwald_object_conflicts_total, 0, 1);
		if (!object_retry_wait(&r))
			return FAIL(UNAVAILABLE, "object store answers "
			    "conflict, again and again");
	}
	return e;
}

struct err
object_put_new(struct object_dir *d, const char *name, struct slice bytes)
{
	return object_put_parts(d, name, &bytes, 1);
}
