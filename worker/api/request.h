#ifndef MEMWALD_API_REQUEST_H
#define MEMWALD_API_REQUEST_H

/*
 * request - what all handlers of one store share: the name is checked, the
 * store opened and, for reads, brought up to date; errors are answered.
 *
 * Lifetime:	in the request's arena; r->user points to it, and api_finish
 *		gives everything back.
 * Locking:	the loop's thread.
 */

#include "worker/http/http.h"
#include "worker/store/read.h"
#include "worker/store/store.h"

struct api_request {
	struct http_request *r;
	const struct kind *kind;
	struct store_wait wait;
	struct store *store;		/* NULL until it is open */
	void (*then)(struct api_request *);
	struct snapshot *view;		/* what then is to read; held by the store,
					 * for its turn */
	struct arena rows;		/* of what is read; its own cap */
	struct snapshot *held;		/* bytes of a reply lie in its files */
};

/* Memory that the rows of one reply may take: a row may be as large as an
 * append. */
#define API_ROWS_BYTES_MAX (2048ull << 20)

/* Before the first request: what handlers work on. */
void api_init(struct engine *);
struct engine *api_engine(void);

/* The kind whose collection the path names: "rollouts" in /api/v1/rollouts. */
const struct kind *api_kind(const struct http_request *);

/* Segment of the path that holds the store's name, and the next one. */
#define API_SEGMENT_KIND 2u
#define API_SEGMENT_NAME 3u
#define API_SEGMENT_ID	5u

/* Fills in a request (zeroed, from r->arena) and opens the store that the path
 * names; then(q) is called with q->store, or the error is answered. */
void api_open(struct api_request *, struct http_request *, const struct kind *,
    void (*then)(struct api_request *));
/* The same, and then may get and list, of q->view: what is acknowledged now, read
 * strongly if the query or the store's shape says so (contract 4.2), or the
 * version of the base table that the query names (2.4.5). */
void api_open_view(struct api_request *, struct http_request *,
    const struct kind *, void (*then)(struct api_request *));
/* For handlers whose r->user is a struct api_request. */
void api_finish(struct http_request *);
void api_close(struct api_request *);

/* Asks the maintainer to seal the open store; call->done is set. That it could
 * not be asked is answered. */
void api_ask_seal(struct api_request *, struct engine_call *);

/* An error of a store request: NOT_FOUND names the store. */
void api_reply_err(struct api_request *, struct err);
/* 404: the store has no such version of its base table, or not any more. */
void api_reply_no_version(struct api_request *, uint64_t version);
/* An error of a read: a store with too many pending generations needs some
 * seconds until they are folded (contract 1.4). */
void api_reply_read_err(struct api_request *, struct err);
/* Memory for a handler's state, cleared; NULL: answered already. */
void *api_state(struct http_request *, size_t bytes) MUST_CHECK;
/* The same of one whose body is JSON, by its content type. */
void *api_json_state(struct http_request *, size_t bytes) MUST_CHECK;

#endif
