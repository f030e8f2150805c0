#ifndef MEMWALD_WORKER_API_HANDLERS_H
#define MEMWALD_WORKER_API_HANDLERS_H

/*
 * handlers - the names that route.def uses; each lives in the file of its
 * resource: status.c (health, ready, metrics), stores.c, rollouts.c (append), rows.c
 * (get, blob), list.c (list, count), checkout.c, compact.c, generic.c (get-rows,
 * flush), internal.c (folds).
 *
 * Locking:	all on the loop's thread.
 */

#include "worker/http/http.h"

extern const struct http_handler api_health;
extern const struct http_handler api_ready;
extern const struct http_handler api_metrics;

extern const struct http_handler api_store_create;
extern const struct http_handler api_store_list;
extern const struct http_handler api_store_info;
extern const struct http_handler api_store_delete;
extern const struct http_handler api_rollout_append;
extern const struct http_handler api_row_list;
extern const struct http_handler api_row_count;
extern const struct http_handler api_row_get;
extern const struct http_handler api_row_blob;
extern const struct http_handler api_row_get_many;
extern const struct http_handler api_store_checkout;
extern const struct http_handler api_store_compact;
extern const struct http_handler api_store_compact_stats;
extern const struct http_handler api_store_seal;
extern const struct http_handler api_store_fold;

extern const struct http_handler api_event_list_item;
extern const struct http_handler api_event_list_root;
extern const struct http_handler api_unserved;

extern const struct http_handler api_internal_fold;
extern const struct http_handler api_internal_executor;
extern const struct http_handler api_internal_refuse;

#endif
