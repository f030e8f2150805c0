#ifndef MEMWALD_API_MEDIA_H
#define MEMWALD_API_MEDIA_H

/*
 * media - what a Content-Type says: the media type alone, in any case, its
 * parameters ignored.
 */

#include "common/err.h"
#include "common/slice.h"

enum media {
	MEDIA_NONE,		/* no header */
	MEDIA_JSON,		/* application/json */
	MEDIA_JSON_LIKE,	/* application/anything+json */
	MEDIA_MULTIPART,	/* multipart/form-data */
	MEDIA_OTHER
};

enum media media_of(struct slice content_type);
/* MEDIA_TYPE unless it is one of the two of JSON. */
struct err media_need_json(struct slice content_type) MUST_CHECK;

#endif
