#include "common/base.h"

#include <stdio.h>

#include "common/clock.h"
#include "master/left_walk.h"

#define JOB_NS	 (20 * NS_PER_SEC)
#define AGAIN_NS (200 * NS_PER_MS)

static void
ask(struct left_walk *w, const struct uuid *shard, uint64_t now_ns)
{
	struct shm_command c = { .kind = SHM_MAIL_JOB, .shard = *shard,
	    .args = { SHM_JOB_LEFT, w->kind, w->any } };

	snprintf(c.text, sizeof(c.text), "%s", w->name);
	mail_ask(&w->question, &c);
	w->asked = true;
	w->until_ns = now_ns + JOB_NS;
}

static void
note_err(struct left_walk *w)
{
	const struct shm_command *reply = &w->question.reply;

	w->err = w->question.err;
	w->err_kind = (uint32_t)reply->args[0];
	snprintf(w->err_name, sizeof(w->err_name), "%.*s",
	    (int)sizeof(w->err_name) - 1,
	    reply->kind == SHM_MAIL_REPLY ? reply->text : "");
}

static enum left_step
take(struct left_walk *w, uint64_t now_ns)
{
	const struct shm_command *reply = &w->question.reply;

	w->asked = false;
	note_err(w);
	if (err_is(w->err)) {
		w->again_ns = now_ns + AGAIN_NS;
		return LEFT_WAIT;
	}
	w->kind = (uint32_t)reply->args[0];
	snprintf(w->name, sizeof(w->name), "%.*s", (int)sizeof(w->name) - 1,
	    reply->text);
	if ((reply->args[0] & SHM_LEFT_FOUND) == 0)
		return LEFT_WAIT;
	w->found++;
	return LEFT_FOUND;
}

enum left_step
left_walk_step(struct left_walk *w, const struct uuid *shard, uint64_t now_ns)
{
	if (w->asked && !mail_over(&w->question, now_ns, w->until_ns))
		return LEFT_WAIT;
	if (w->asked && take(w, now_ns) == LEFT_FOUND)
		return LEFT_FOUND;
	if (w->kind >= STORE_KIND_COUNT)
		return LEFT_END;
	if (!w->asked && now_ns >= w->again_ns)
		ask(w, shard, now_ns);
	return LEFT_WAIT;
}

const char *
left_walk_trouble(const struct left_walk *w, char text[LEFT_TROUBLE])
{
	text[0] = '\0';
	if (err_is(w->err) && *w->err_name != '\0')
		snprintf(text, LEFT_TROUBLE, "%s store %s: %s",
		    store_kind_name(w->err_kind), w->err_name, w->err.what);
	else if (err_is(w->err))
		snprintf(text, LEFT_TROUBLE, "%s", w->err.what);
	return text;
}

void
left_walk_drop(struct left_walk *w)
{
	mail_drop(&w->question);
	w->asked = false;
}
