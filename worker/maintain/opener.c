#include "common/base.h"

#include "worker/maintain/opener.h"
#include "worker/store/kind.h"
#include "worker/store/reload.h"

#define ASKERS_MAX 64u			/* more than the master has clients */

static struct {
	struct pool *pool;
	struct object_dir *root;
	void (*no_room)(void);
	struct shm_command asked[ASKERS_MAX];	/* a ring */
	uint32_t first, count;
	struct op op;
	bool runs;
	struct err err;			/* the job's, of the first asker */
	struct shm_ref ref;
} opener;

static int32_t
run(struct op *op)
{
	const struct shm_command *c = &opener.asked[opener.first];
	const struct kind *kind = c->args[0] < STORE_KIND_COUNT ?
	    kind_get((enum store_kind)c->args[0]) : NULL;
	struct object_dir *dir;

	(void)op;
	opener.err = FAIL(NOT_FOUND, "no such kind");
	if (kind == NULL)
		return 0;
	opener.err = reload_open(opener.root, kind, c->text, &opener.ref, &dir);
	if (!err_is(opener.err))
		object_dir_close(dir);
	return 0;
}

static void
go_on(void)
{
	if (opener.runs || opener.count == 0)
		return;
	opener.runs = true;
	pool_submit_first(opener.pool, &opener.op, run);
}

static void
done(struct op *op, int32_t res)
{
	struct shm_command *c = &opener.asked[opener.first];

	(void)op;
	(void)res;
	opener.runs = false;
	if (!err_is(opener.err))
		c->store = opener.ref;
	else if (opener.err.kind == ERR_BUSY)
		opener.no_room();
	shm_mailbox_reply(c, opener.err, 0);
	opener.first = (opener.first + 1) % ASKERS_MAX;
	opener.count--;
	go_on();
}

void
opener_start(struct pool *pool, struct object_dir *root,
    void (*no_room)(void))
{
	opener.pool = pool;
	opener.root = root;
	opener.no_room = no_room;
	opener.op.done = done;
}

void
opener_ask(const struct shm_command *c)
{
	struct shm_command *kept;

	if (opener.count == ASKERS_MAX) {
		shm_mailbox_reply(c, FAIL(BUSY, "too many ask"), 0);
		return;
	}
	kept = &opener.asked[(opener.first + opener.count++) % ASKERS_MAX];
	*kept = *c;
	kept->text[SHM_MAIL_TEXT - 1] = '\0';
	go_on();
}

bool
opener_idle(void)
{
	return opener.count == 0;
}
