#include "common/base.h"

#include <strings.h>

#include "worker/api/media.h"

static bool
is(struct slice text, const char *want)
{
	return text.len == strlen(want) &&
	    strncasecmp(text.ptr, want, text.len) == 0;
}

enum media
media_of(struct slice type)
{
	const char *semicolon;
	size_t suffix = strlen("+json"), prefix = strlen("application/");

	if (type.len == 0)
		return MEDIA_NONE;
	semicolon = memchr(type.ptr, ';', type.len);
	if (semicolon != NULL)
		type.len = (size_t)(semicolon - type.ptr);
	while (type.len > 0 &&
	    (type.ptr[type.len - 1] == ' ' || type.ptr[type.len - 1] == '\t'))
		type.len--;
	if (is(type, "application/json"))
		return MEDIA_JSON;
	if (is(type, "multipart/form-data"))
		return MEDIA_MULTIPART;
	if (type.len > prefix + suffix &&
	    is(slice_make(type.ptr, prefix), "application/") &&
	    is(slice_make(type.ptr + type.len - suffix, suffix), "+json"))
		return MEDIA_JSON_LIKE;
	return MEDIA_OTHER;
}

struct err
media_need_json(struct slice content_type)
{
	enum media media = media_of(content_type);

	return media == MEDIA_JSON || media == MEDIA_JSON_LIKE ? OK :
	    FAIL(MEDIA_TYPE, "Content-Type must be application/json");
}
