#include "common/base.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include "worker/http/conn.h"

static bool
is_loopback(const struct sockaddr_storage *a)
{
	const struct sockaddr_in *four = (const void *)a;
	const struct sockaddr_in6 *six = (const void *)a;

	if (a->ss_family == AF_INET)
		return ntohl(four->sin_addr.s_addr) >> 24 == 127;
	if (a->ss_family != AF_INET6)
		return false;
	if (IN6_IS_ADDR_V4MAPPED(&six->sin6_addr))
		return six->sin6_addr.s6_addr[12] == 127;
	return IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
}

/* A proxy on this machine speaks for somebody else, and says so. */
static bool
is_forwarded(const struct http_head *h)
{
	return http_head_header(h, "x-forwarded-for") != NULL ||
	    http_head_header(h, "forwarded") != NULL ||
	    http_head_header(h, "via") != NULL;
}

bool
http_peer_is_local(const struct http_request *r)
{
	struct sockaddr_storage a;
	socklen_t len = sizeof(a);

	return getpeername(r->conn->fd, (struct sockaddr *)&a, &len) == 0 &&
	    is_loopback(&a) && !is_forwarded(&r->head);
}
