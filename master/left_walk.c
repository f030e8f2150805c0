#include "common/base.h"

#include <stdio.h>

#include "common/clock.h"
#include "shm/process.h"
#include "master/left_walk.h"

#define JOB_NS	 (20 * NS_PER_SEC)
#define AGAIN_NS (200 * NS_PER_MS)

static void
ask(struct left_walk *w, const struct uuid *shard, uint64_t now_ns)
{
	struct shm_command c = { .kind = SHM_MAIL_JOB, .shard = *shard,
	    .args = { SHM_JOB_LEFT, w->kind, w->any } };

	snprintf(c.text, sizeof(c.text), "%s", w->name);
	mail_ask(&w->question, SHM_MAINTAINER, &c);
	w->asked = true;
	w->until_ns = now_ns + JOB_NS;
}

static enum left_step
take(struct left_walk *w, uint64_t now_ns)
{
	const struct shm_command *reply = &w->question.reply;

	w->asked = false;
	if (err_is(w->question.err)) {
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
	if (w->asked && !mail_answered(&w->question)) {
		if (now_ns < w->until_ns)
			return LEFT_WAIT;
		left_walk_drop(w);
	}
	if (w->asked && take(w, now_ns) == LEFT_FOUND)
		return LEFT_FOUND;
	if (w->kind >= STORE_KIND_COUNT)
		return LEFT_END;
	if (!w->asked && now_ns >= w->again_ns)
		ask(w, shard, now_ns);
	return LEFT_WAIT;
}

void
left_walk_drop(struct left_walk *w)
{
	mail_drop(&w->question);
	w->asked = false;
}
