#include "common/base.h"

#include <stdio.h>

#include "common/arena.h"
#include "common/clock.h"
#include "common/fault.h"
#include "common/json.h"
#include "common/log.h"
#include "common/secret.h"
#include "common/transport.h"
#include "shm/ordinal_table.h"
#include "shm/process.h"
#include "worker/maintain/remote.h"

/* Address, name and ordinal, each byte of the latter as three at most. */
#define URL_MAX	(SHM_INSTANCE_TEXT + 3 * (SHM_MAIL_TEXT + SHM_ORDINAL_NAME_MAX) + 128)

struct remote_job {
	struct op op;
	bool runs;
	struct shm_command asked;
	char url[URL_MAX];
	char owner[SHM_INSTANCE_TEXT];
	uint64_t span_ns;
	struct err err;
	uint64_t reclaimed;
	struct transport_reply reply;
};

static struct {
	struct pool *pool;
	_Atomic bool stop;
	struct remote_job jobs[REMOTE_AT_ONCE];
} remote;

/* On the pool. */

static struct err
read_count(const struct transport_reply *r, uint64_t *count)
{
	const struct json *top;
	struct arena a;
	struct err e;

	arena_init(&a, 64u << 10);
	e = json_parse(&a, slice_make(r->body, r->body_len), "answer", &top);
	if (!err_is(e))
		e = json_get_uint64(&a, top, "reclaimed", JSON_REQUIRED,
		    count);
	arena_free(&a);
	return err_is(e) ? FAIL(IO, "its answer is none of a memwald") : OK;
}

/* Whether it says by itself that it has no such store: a 404 may be of whoever
 * else listens there. */
static bool
has_code(const struct transport_reply *r, const char *code)
{
	return memmem(r->body, r->body_len, code, strlen(code)) != NULL;
}

static bool
is_refused(const struct transport_reply *r)
{
	return r->status == 401 || r->status == 403;
}

static struct err
read_answer(const struct transport_reply *r, uint64_t *count)
{
	struct err e;

	switch (r->status) {
	case 200:
		return read_count(r, count);
	case 401:
	case 403:
		return FAIL(UNAVAILABLE, "it does not take our secret, compare "
		    "--internal-token-file there and here");
	case 404:
		e = FAIL(NOT_FOUND, "it has no such store");
		return has_code(r, err_code(e)) ? e :
		    FAIL(IO, "its answer is none of a memwald");
	case 503:
		return FAIL(UNAVAILABLE, "it refused");
	default:
		return FAIL(IO, "it failed");
	}
}

static struct err
ask(struct remote_job *j)
{
	struct transport_request q = { j->url, secret_get(), j->span_ns,
	    &remote.stop };
	struct err e = FAULT(remote_ask);

	j->reply.status = 0;
	if (!err_is(e))
		e = transport_post(&q, &j->reply);
	if (!err_is(e))
		e = read_answer(&j->reply, &j->reclaimed);
	return err_is(e) ? e : FAULT(remote_answer);
}

static int32_t
run(struct op *op)
{
	struct remote_job *j = CONTAINER_OF(op, struct remote_job, op);

	j->err = ask(j);
	/* The master tells of the failure, but cannot know of the secret. */
	if (err_is(j->err))
		log_err(is_refused(&j->reply) ? LOG_WARN : LOG_DEBUG, j->err,
		    "fold by another instance failed instance=%s url=%s "
		    "status=%d", j->owner, j->url, j->reply.status);
	return 0;
}

/* On the loop. */

static void
done(struct op *op, int32_t res)
{
	struct remote_job *j = CONTAINER_OF(op, struct remote_job, op);

	(void)res;
	j->runs = false;
	shm_mailbox_reply(&j->asked, j->err, j->reclaimed);
}

static size_t
put_escaped(char *to, const char *text)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	    "abcdefghijklmnopqrstuvwxyz0123456789-._~";
	size_t n = 0;

	for (; *text != '\0'; text++) {
		if (strchr(plain, *text) != NULL)
			to[n++] = *text;
		else
			n += (size_t)sprintf(to + n, "%%%02X",
			    (unsigned char)*text);
	}
	to[n] = '\0';
	return n;
}

/* Of its lease, which is newer than the assignment. */
static void
find_address(const char *instance, char address[SHM_INSTANCE_TEXT])
{
	struct shm_instance i;

	if (shm_instance_find(instance, &i))
		memcpy(address, i.address, sizeof(i.address));
}

static void
put_url(struct remote_job *j, const struct shm_ordinal *o)
{
	char address[SHM_INSTANCE_TEXT];
	size_t n;

	memcpy(address, o->is.address, sizeof(address));
	find_address(o->is.instance, address);
	n = (size_t)snprintf(j->url, sizeof(j->url),
	    "http://%s/api/v1/internal/merge-wal/", address);
	n += put_escaped(j->url + n, j->asked.text);
	n += (size_t)snprintf(j->url + n, sizeof(j->url) - n,
	    "?kind=%s&ordinal=", store_kind_name((uint32_t)j->asked.args[1]));
	n += put_escaped(j->url + n, o->name);
	MUST(n < sizeof(j->url));
}

static struct err
begin(struct remote_job *j, const struct shm_command *c)
{
	uint64_t now_ns = clock_mono_ns();
	struct shm_ordinal o;

	if (c->args[1] >= STORE_KIND_COUNT ||
	    c->args[2] >= shm_ordinal_count() || c->args[3] <= now_ns)
		return FAIL(TIMED_OUT, "too late to ask another instance");
	if (err_is(shm_ordinal_get((uint32_t)c->args[2], &o)) ||
	    o.is.state != SHM_ORDINAL_OWNED || o.owner != SHM_NOBODY)
		return FAIL(FENCED, "the ordinal is not another instance's");
	j->asked = *c;
	j->asked.text[SHM_MAIL_TEXT - 1] = '\0';
	snprintf(j->owner, sizeof(j->owner), "%s", o.is.instance);
	put_url(j, &o);
	j->span_ns = clock_real_ns(c->args[3] - now_ns);
	j->reclaimed = 0;
	j->runs = true;
	j->op.done = done;
	pool_submit_first(remote.pool, &j->op, run);
	return OK;
}

bool
remote_command(const struct shm_command *c)
{
	struct err e = FAIL(BUSY, "as many instances are asked as may be");
	uint32_t i;

	if (c->kind != SHM_MAIL_JOB || c->args[0] != SHM_JOB_FOLD_THERE)
		return false;
	for (i = 0; i < REMOTE_AT_ONCE; i++) {
		if (remote.jobs[i].runs)
			continue;
		e = begin(&remote.jobs[i], c);
		break;
	}
	if (err_is(e))
		shm_mailbox_reply(c, e, 0);
	return true;
}

void
remote_start(struct pool *pool)
{
	transport_init();
	remote.pool = pool;
}

void
remote_stop(void)
{
	atomic_store(&remote.stop, true);
}

bool
remote_idle(void)
{
	uint32_t i;

	for (i = 0; i < REMOTE_AT_ONCE; i++) {
		if (remote.jobs[i].runs)
			return false;
	}
	return true;
}
