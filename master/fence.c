#include "common/base.h"

#include <stdio.h>

#include "common/clock.h"
#include "master/fence.h"

#define TURN_NS	 (60 * NS_PER_SEC)	/* until it is a store's turn */
#define WORK_NS	 (300 * NS_PER_SEC)
#define LOST_NS	 (330 * NS_PER_SEC)	/* a reply that was */
#define AGAIN_NS (200 * NS_PER_MS)

static void
ask(struct fence *f, const struct uuid *shard, uint64_t now_ns)
{
	uint64_t mono_ns = clock_mono_ns();
	struct shm_command c = { .kind = SHM_MAIL_FOLD_SHARD, .shard = *shard,
	    .args = { f->walk.kind, mono_ns + TURN_NS, mono_ns + WORK_NS } };

	snprintf(c.text, sizeof(c.text), "%s", f->walk.name);
	mail_ask(&f->question, &c);
	f->asked = true;
	f->until_ns = now_ns + LOST_NS;
}

/* What became of the store where it is. */
static void
take(struct fence *f, uint64_t now_ns)
{
	f->asked = false;
	f->err = f->question.err;
	f->again_ns = now_ns + AGAIN_NS;
	/* Deleted meanwhile. */
	f->holds = err_is(f->err) && f->err.kind != ERR_NOT_FOUND;
	f->count += !f->holds;
}

bool
fence_step(struct fence *f, const struct uuid *shard, uint64_t now_ns)
{
	f->walk.any = true;
	if (f->asked && !mail_over(&f->question, now_ns, f->until_ns))
		return false;
	if (f->asked)
		take(f, now_ns);
	if (!f->holds) {
		enum left_step step = left_walk_step(&f->walk, shard, now_ns);

		if (step != LEFT_FOUND)
			return step == LEFT_END;
		f->holds = true;
		f->again_ns = 0;
	}
	if (now_ns >= f->again_ns)
		ask(f, shard, now_ns);
	return false;
}

void
fence_drop(struct fence *f)
{
	left_walk_drop(&f->walk);
	mail_drop(&f->question);
}
