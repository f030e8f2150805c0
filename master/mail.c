#include "common/base.h"

#include <poll.h>

#include "shm/process.h"
#include "master/mail.h"

static struct list waiting = { &waiting, &waiting };

static struct err
failed(enum err_kind kind)
{
	struct err e = { (uint16_t)kind, 0, "" };

	e.what = err_text(e);
	return e;
}

void
mail_ask(struct mail_question *q, struct shm_command *command)
{
	struct err e;

	*q = (struct mail_question){ .token = shm_mailbox_token(),
	    /* Before it is sent: else a death in between is not seen. */
	    .life = shm_life_of(SHM_MAINTAINER), .err = OK };
	list_init(&q->link);
	command->token = q->token;
	e = shm_mailbox_send(SHM_MAINTAINER, command);
	if (err_is(e))
		q->err = e;
	else
		list_append(&waiting, &q->link);
}

bool
mail_answered(struct mail_question *q)
{
	if (list_empty(&q->link))
		return true;
	if (shm_life_goes_on(q->life))
		return false;
	list_remove(&q->link);
	q->err = failed(ERR_UNAVAILABLE);
	return true;
}

void
mail_drop(struct mail_question *q)
{
	if (q->link.next != NULL)
		list_remove(&q->link);
}

bool
mail_over(struct mail_question *q, uint64_t now_ns, uint64_t until_ns)
{
	if (mail_answered(q))
		return true;
	if (now_ns < until_ns)
		return false;
	mail_drop(q);
	q->err = FAIL(TIMED_OUT, "no answer of the maintainer");
	return true;
}

struct pollfd
mail_poll(void)
{
	return (struct pollfd){ shm_mailbox_fd(), POLLIN, 0 };
}

static void
take(const struct shm_command *m)
{
	struct list *l;

	LIST_FOREACH(l, &waiting) {
		struct mail_question *q = CONTAINER_OF(l, struct mail_question,
		    link);

		if (q->token != m->token)
			continue;
		list_remove(&q->link);
		q->reply = *m;
		if (m->kind == SHM_MAIL_ABORTED)
			q->err = failed(ERR_UNAVAILABLE);
		else if (m->err != ERR_OK)
			q->err = failed(m->err < ERR_KIND_COUNT ?
			    (enum err_kind)m->err : ERR_INTERNAL);
		return;
	}
}

void
mail_receive(void)
{
	struct shm_command m;

	shm_mailbox_drain();
	while (shm_mailbox_receive(&m)) {
		if (m.kind == SHM_MAIL_REPLY || m.kind == SHM_MAIL_ABORTED)
			take(&m);
	}
}
