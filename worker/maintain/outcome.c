#include "common/base.h"

#include "common/fault.h"
#include "shm/ordinal_table.h"
#include "worker/maintain/askers.h"
#include "worker/maintain/outcome.h"

uint32_t
outcome_want(const struct shm_command *c)
{
	switch (c->kind) {
	case SHM_MAIL_SEAL:
		return WANT_SEAL;
	case SHM_MAIL_FOLD:
		return WANT_SEAL | WANT_FOLD |
		    (c->args[0] != 0 ? WANT_FORCE | WANT_ROUTE : 0) |
		    (c->args[0] == ASKERS_FOLD_SHARD ? WANT_CLAIM : 0);
	case SHM_MAIL_COMPACT:
		return WANT_COMPACT;
	case SHM_MAIL_DELETE:
		return WANT_DELETE;
	default:
		return 0;
	}
}

/* A tail that is left counts for who wants all shards of the store: a fold job
 * looks at its own, and who appends has his rows sealed whatever another's worker
 * left. */
static struct err
sealed_err(const struct tick_result *r, const struct shm_command *c)
{
	return !err_is(r->seal_err) && c->args[0] == 1 ? r->tail_err :
	    r->seal_err;
}

struct err
outcome_err(const struct tick_result *r, const struct shm_command *c)
{
	struct err sealed = sealed_err(r, c);

	switch (c->kind) {
	case SHM_MAIL_COMPACT:
		return r->compact_err;
	case SHM_MAIL_DELETE:
		return r->delete_err;
	case SHM_MAIL_FOLD:
		return err_is(sealed) ? sealed : r->fold_err;
	default:
		return sealed;
	}
}

/* And nobody writes to it: its worker's claim stands, unless it was never
 * written to. */
static bool
is_empty(struct shm_ref ref, const struct uuid *shard)
{
	uint32_t number = shm_store_shard_find(ref, shard), ordinal;
	const struct shm_shard_state *s;
	struct shm_manifest_marks m;
	struct shm_claim claim;

	if (number == SHM_SHARD_NONE)
		return true;
	ordinal = shm_store_shard_ordinal(ref, number);
	/* What has its home here is appended to. */
	if (ordinal == SHM_NO_ORDINAL || !shm_ordinal_guest(ordinal))
		return true;
	s = shm_store_shard(ref, number);
	m = shm_shard_marks(s);
	claim = shm_shard_claimed(s);
	return m.version == 0 || (m.pending_generations == 0 &&
	    shm_shard_commit(s).position <= m.replay_after &&
	    claim.live && claim.newest);
}

struct err
outcome_answer(struct shm_ref ref, const struct tick_result *r,
    const struct shm_command *c)
{
	struct err e = outcome_err(r, c);
	bool empty;

	if (err_is(e) || !askers_is_fold_job(c))
		return e;
	e = FAULT(fold_report);
	if (err_is(e) || err_is(shm_store_pin(ref)))
		return e;
	empty = is_empty(ref, &c->shard);
	shm_store_unpin(ref);
	return empty ? OK : FAIL(CONFLICT, "the shard is not empty yet");
}

uint64_t
outcome_count(const struct tick_result *r, const struct shm_command *c)
{
	switch (c->kind) {
	case SHM_MAIL_COMPACT:
		return compact_pack(&r->compacted);
	case SHM_MAIL_SEAL:
		return r->sealed;
	default:
		return r->reclaimed;
	}
}
