#ifndef MEMWALD_MASTER_MAIL_H
#define MEMWALD_MASTER_MAIL_H

/*
 * mail - commands of the master to the maintainer whose replies it waits for.
 *
 * Nobody waits in here: a question is asked, and looked at again at each turn
 * of the loop, which takes the replies out of the master's mailbox.
 *
 * Death:	of the maintainer: the walk answers for what it had not begun
 *		(ABORTED), and a look sees that that life is over for the rest.
 * Lifetime:	a question is its asker's memory, from mail_ask until it is
 *		answered or mail_drop.
 * Locking:	none, the master has one thread; the mailbox's mutex.
 * Errors:	in the question: BUSY (its mailbox is full, or none lives),
 *		UNAVAILABLE (it died), TIMED_OUT, what the reply says.
 */

#include "common/base.h"
#include "common/err.h"
#include "common/list.h"
#include "shm/mailbox.h"

struct pollfd;

struct mail_question {
	struct list link;		/* empty: not waiting */
	uint64_t token, life;
	struct err err;			/* text: what a client is told */
	struct shm_command reply;	/* if there is no error */
};

void mail_ask(struct mail_question *, struct shm_command *);
/* Whether it is answered, then err or reply stands. */
bool mail_answered(struct mail_question *) MUST_CHECK;
/* The same; or it is not until then, and dropped: TIMED_OUT. */
bool mail_over(struct mail_question *, uint64_t now_ns, uint64_t until_ns)
    MUST_CHECK;
/* An answer that comes later is nobody's. All zero: nothing to drop. */
void mail_drop(struct mail_question *);

/* The loop's: what to poll, and the taking out. */
struct pollfd mail_poll(void);
void mail_receive(void);

#endif
