#include "common/base.h"

#include "common/clock.h"
#include "master/assign.h"

#define JOB_NS (20 * NS_PER_SEC)

void
assign_order(struct assign *a, enum shm_job job, uint64_t now_ns)
{
	struct shm_command c = { .kind = SHM_MAIL_JOB, .args = { job } };

	MUST(!a->ordered);
	mail_ask(&a->question, &c);
	a->ordered = true;
	a->until_ns = now_ns + JOB_NS;
}

bool
assign_done(struct assign *a, uint64_t now_ns, struct err *e)
{
	*e = OK;
	if (!a->ordered)
		return true;
	if (!mail_over(&a->question, now_ns, a->until_ns))
		return false;
	a->ordered = false;
	if (a->question.err.kind != ERR_CONFLICT)
		*e = a->question.err;
	return true;
}

void
assign_drop(struct assign *a)
{
	mail_drop(&a->question);
	a->ordered = false;
}
