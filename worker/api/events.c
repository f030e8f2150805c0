#include "common/base.h"

#include "worker/api/handlers.h"
#include "worker/api/request.h"

/*
 * Reads of datagen stores (contract 2.5.2): the events of one item, and those
 * of all items of one root.
 */

static void
unserved_begin(struct http_request *r)
{
	http_reply_err(r, FAIL(UNSUPPORTED, "this route is not served"));
}

const struct http_handler api_event_list_item = { .begin = unserved_begin };
const struct http_handler api_event_list_root = { .begin = unserved_begin };
const struct http_handler api_unserved = { .begin = unserved_begin };
