#ifndef MEMWALD_WORKER_API_HANDLERS_H
#define MEMWALD_WORKER_API_HANDLERS_H

/*
 * handlers - the names that route.def uses; each lives in the file of its
 * resource: status.c (health, metrics).
 *
 * Locking:	all on the loop's thread.
 */

#include "worker/http/http.h"

extern const struct http_handler api_health;
extern const struct http_handler api_metrics;

#endif
