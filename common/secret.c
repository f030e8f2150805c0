#include "common/base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "common/secret.h"

#define TOKEN_MIN	16u
#define TOKEN_MAX	512u

static struct {
	char token[TOKEN_MAX];
	size_t len;
} secret;

static struct err
refuse(const char *path, const char *why)
{
	static char text[4096];

	snprintf(text, sizeof(text), "--internal-token-file %s: %s", path, why);
	return (struct err){ ERR_BAD_INPUT, 0, text };
}

static struct err
read_file(const char *path, char *to, size_t room, size_t *len)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return refuse(path, strerror(errno));
	n = read(fd, to, room);
	if (n < 0) {
		struct err e = refuse(path, strerror(errno));

		close(fd);
		return e;
	}
	close(fd);
	*len = (size_t)n;
	return OK;
}

struct err
secret_load(const char *path)
{
	char bytes[TOKEN_MAX + 2];
	size_t got, len = 0;
	struct err e;

	secret.len = 0;
	if (path[0] == '\0')
		return OK;
	e = read_file(path, bytes, sizeof(bytes), &got);
	if (err_is(e))
		return e;
	while (len < got && bytes[len] > ' ' && bytes[len] <= '~')
		len++;
	if (len < TOKEN_MIN || len > TOKEN_MAX || (len < got &&
	    bytes[len] != '\n' && bytes[len] != '\r'))
		e = refuse(path, "its first line must be 16 to 512 printable "
		    "characters without blanks");
	if (!err_is(e)) {
		memcpy(secret.token, bytes, len);
		secret.len = len;
	}
	explicit_bzero(bytes, sizeof(bytes));
	return e;
}

struct slice
secret_get(void)
{
	return slice_make(secret.token, secret.len);
}

bool
secret_is(struct slice given)
{
	volatile unsigned char differs = given.len != secret.len;
	size_t i;

	/* As long as what was given, which who gave it knows anyway. */
	for (i = 0; i < given.len; i++)
		differs |= (unsigned char)given.ptr[i] ^
		    (unsigned char)secret.token[i % TOKEN_MAX];
	return secret.len > 0 && differs == 0;
}
