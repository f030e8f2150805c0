#ifndef MEMWALD_COMMON_TRANSPORT_H
#define MEMWALD_COMMON_TRANSPORT_H

/*
 * transport - HTTP outwards, to other instances: one request, waited for.
 *
 * Plain HTTP/1.1, without proxies, redirects or cookies, a connection each. Who
 * answers is not trusted with anything: a body is read up to a bound, an answer
 * awaited up to a deadline, a connection for TRANSPORT_CONNECT_NS at most.
 *
 * Never in the master, which forks: the library makes handles, and may make
 * threads to look up names.
 *
 * Death:	nothing outlives the process.
 * Lifetime:	transport_init once a process, before its threads.
 * Locking:	none; any thread, which is blocked for as long.
 * Errors:	UNAVAILABLE: nobody could be reached, or stop was said.
 *		TIMED_OUT. BAD_INPUT: no URL. IO: what came is no answer.
 *		TOO_LARGE. NO_MEMORY. A status is no error.
 */

#include "common/base.h"
#include "common/err.h"
#include "common/slice.h"

#define TRANSPORT_CONNECT_NS (3000000000ull)
#define TRANSPORT_BODY_MAX   4096u

struct transport_request {
	const char *url;
	struct slice bearer;		/* empty: no authorization */
	uint64_t span_ns;		/* of true time, for all of it */
	const _Atomic bool *stop;	/* looked at meanwhile */
};

struct transport_reply {
	int status;
	size_t body_len;
	char body[TRANSPORT_BODY_MAX];
};

void transport_init(void);
/* POST without a body. */
struct err transport_post(const struct transport_request *,
    struct transport_reply *) MUST_CHECK;

#endif
