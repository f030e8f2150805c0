#include "common/base.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/log.h"
#include "master/notify.h"

void
notify_send(const char *text)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	const char *path = getenv("NOTIFY_SOCKET");
	size_t len = path == NULL ? 0 : strlen(path);
	int fd;

	if (len == 0)
		return;
	if (len >= sizeof(to.sun_path)) {
		log_warn("the service manager's socket has too long a path");
		return;
	}
	memcpy(to.sun_path, path, len);
	if (*path == '@')
		to.sun_path[0] = '\0';	/* an abstract one */
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || sendto(fd, text, strlen(text), MSG_NOSIGNAL,
	    (struct sockaddr *)&to, (socklen_t)(offsetof(struct sockaddr_un,
	    sun_path) + len)) < 0)
		log_warn("the service manager cannot be told text=\"%s\" "
		    "os=\"%s\"", text, strerrordesc_np(errno));
	if (fd >= 0)
		close(fd);
}
