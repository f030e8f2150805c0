#include "common/base.h"

#include <curl/curl.h>
#include <stdio.h>

#include "common/clock.h"
#include "common/transport.h"

/*
 * A multi handle for one transfer: unlike the easy one it says when it waits,
 * so that a process that is to leave need not wait for an answer.
 */

#define LOOK_MS		100
#define HEADER_MAX	600u		/* the longest secret, and its name */

struct transfer {
	CURL *easy;
	CURLM *multi;
	struct curl_slist *headers;
	struct transport_reply *reply;
	bool too_large;
};

static size_t
take_body(char *bytes, size_t one, size_t count, void *arg)
{
	struct transfer *t = arg;
	struct transport_reply *r = t->reply;

	(void)one;			/* always 1 */
	t->too_large = count > sizeof(r->body) - r->body_len;
	if (t->too_large)
		return 0;
	memcpy(r->body + r->body_len, bytes, count);
	r->body_len += count;
	return count;
}

static bool
add_header(struct transfer *t, const char *line)
{
	struct curl_slist *more = curl_slist_append(t->headers, line);

	if (more != NULL)
		t->headers = more;
	return more != NULL;
}

static bool
add_headers(struct transfer *t, struct slice bearer)
{
	char line[HEADER_MAX];
	bool added;

	if (bearer.len == 0)
		return true;
	if (bearer.len > sizeof(line) - sizeof("Authorization: Bearer "))
		return false;
	snprintf(line, sizeof(line), "Authorization: Bearer %.*s",
	    (int)bearer.len, bearer.ptr);
	added = add_header(t, line);
	explicit_bzero(line, sizeof(line));
	return added;
}

static bool
set_up(struct transfer *t, const struct transport_request *q)
{
	CURL *c = t->easy = curl_easy_init();

	t->multi = curl_multi_init();
	if (c == NULL || t->multi == NULL || !add_headers(t, q->bearer))
		return false;
	return curl_easy_setopt(c, CURLOPT_URL, q->url) == CURLE_OK &&
	    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http") == CURLE_OK &&
	    curl_easy_setopt(c, CURLOPT_POSTFIELDS, "") == CURLE_OK &&
	    curl_easy_setopt(c, CURLOPT_HTTPHEADER, t->headers) == CURLE_OK &&
	    /* Its signals would be those of the whole process. */
	    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
	    /* What the environment names is for other programs. */
	    curl_easy_setopt(c, CURLOPT_PROXY, "") == CURLE_OK &&
	    curl_easy_setopt(c, CURLOPT_FORBID_REUSE, 1L) == CURLE_OK &&
	    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS,
		(long)(TRANSPORT_CONNECT_NS / NS_PER_MS)) == CURLE_OK &&
	    curl_easy_setopt(c, CURLOPT_TIMEOUT_MS,
		(long)(q->span_ns / NS_PER_MS) + 1) == CURLE_OK &&
	    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, take_body) == CURLE_OK &&
	    curl_easy_setopt(c, CURLOPT_WRITEDATA, t) == CURLE_OK &&
	    curl_multi_add_handle(t->multi, c) == CURLM_OK;
}

/* A peer that speaks something else is one we have asked. */
static bool
was_asked(const struct transfer *t)
{
	long bytes = 0;

	return curl_easy_getinfo(t->easy, CURLINFO_REQUEST_SIZE, &bytes) ==
	    CURLE_OK && bytes > 0;
}

static struct err
outcome(const struct transfer *t, CURLcode code)
{
	switch (code) {
	case CURLE_OK:
		return OK;
	case CURLE_URL_MALFORMAT:
	case CURLE_UNSUPPORTED_PROTOCOL:
		return was_asked(t) ?
		    FAIL(IO, "its answer is none of HTTP/1.1") :
		    FAIL(BAD_INPUT, "the address of an instance");
	case CURLE_COULDNT_RESOLVE_HOST:
		return FAIL(UNAVAILABLE, "its host is not known");
	case CURLE_COULDNT_CONNECT:
		return FAIL(UNAVAILABLE, "it takes no connection");
	case CURLE_OPERATION_TIMEDOUT:
		return FAIL(TIMED_OUT, "it does not answer");
	case CURLE_OUT_OF_MEMORY:
		return FAIL(NO_MEMORY, "ask another instance");
	default:
		return t->too_large ?
		    FAIL(TOO_LARGE, "its answer is too long") :
		    FAIL(IO, "its answer was cut off, or is none");
	}
}

/* Until it has ended, however. */
static struct err
perform(struct transfer *t, const _Atomic bool *stop)
{
	int running = 1, left;
	CURLMsg *m;
	long status;

	while (running > 0) {
		if (atomic_load(stop))
			return FAIL(UNAVAILABLE, "this server leaves");
		if (curl_multi_perform(t->multi, &running) != CURLM_OK ||
		    (running > 0 && curl_multi_poll(t->multi, NULL, 0,
		    LOOK_MS, NULL) != CURLM_OK))
			return FAIL(IO, "ask another instance");
	}
	m = curl_multi_info_read(t->multi, &left);
	if (m == NULL || m->msg != CURLMSG_DONE)
		return FAIL(IO, "ask another instance");
	if (m->data.result != CURLE_OK)
		return outcome(t, m->data.result);
	MUST(curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status) ==
	    CURLE_OK);
	t->reply->status = (int)status;
	return OK;
}

static void
tear_down(struct transfer *t)
{
	if (t->multi != NULL && t->easy != NULL)
		curl_multi_remove_handle(t->multi, t->easy);
	if (t->easy != NULL)
		curl_easy_cleanup(t->easy);
	if (t->multi != NULL)
		curl_multi_cleanup(t->multi);
	curl_slist_free_all(t->headers);
}

struct err
transport_post(const struct transport_request *q, struct transport_reply *r)
{
	struct transfer t = { .reply = r };
	struct err e;

	r->status = 0;
	r->body_len = 0;
	e = set_up(&t, q) ? perform(&t, q->stop) :
	    FAIL(NO_MEMORY, "ask another instance");
	tear_down(&t);
	return e;
}

void
transport_init(void)
{
	MUST(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK);
}
