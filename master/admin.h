#ifndef MEMWALD_MASTER_ADMIN_H
#define MEMWALD_MASTER_ADMIN_H

/*
 * admin - the UNIX socket for memwaldctl and ops scripts, mode 0600.
 *
 *	request	= command *( SP ( "--" option [ "=" value ] / operand ) ) LF
 *	answer	= *( "PROGRESS" SP done SP total SP text LF
 *		/ "BODY" SP length LF length-bytes ) last
 *	last	= ( "OK" / "UNHEALTHY" / "LATE" / "LOST" / "ERROR" SP text ) LF
 *
 * A request line has at most 1 KiB. One request a connection; the server closes
 * after the last line, and an answer without one was cut off. admin.def is the
 * list of commands.
 *
 * Clients are few, and each has a deadline: 5 s for its request, and for its
 * answer as long as the command may take. One that is slow is cut off and
 * delays nobody; beyond ADMIN_CLIENTS_MAX others wait in the kernel's queue.
 * What is long is written a piece at a time (call.h).
 *
 * Death:	a socket file that nobody listens on is replaced at the next
 *		start; whether somebody does is decided by connecting. Starts
 *		on one folder do that one after the other, under a lock on the
 *		folder.
 * Lifetime:	admin_open before the first fork; children call admin_forget.
 * Errors:	EXISTS: another server answers there.
 */

#include "common/base.h"
#include "common/err.h"
#include "master/status.h"

#define ADMIN_CLIENTS_MAX 16
#define ADMIN_POLLS_MAX	  (ADMIN_CLIENTS_MAX + 1)

struct pollfd;

enum admin_command {
#define ADMIN(symbol, function, name, operands, options, when, seconds, help) \
	ADMIN_##symbol,
#include "master/admin.def"
#undef ADMIN
	ADMIN_COMMAND_COUNT
};

struct admin_plan {
	const char *path;
	const struct status_server *server;	/* may change */
	void (*shutdown)(void);
	bool (*draining)(void);
	bool (*stopped)(void);		/* nobody is left but the master */
	void (*reloaded)(void);		/* live options may have changed */
	void (*resize)(uint32_t workers, uint64_t now_ns);
};

/* TEXT of an error is static until the next call. */
struct err admin_open(const struct admin_plan *) MUST_CHECK;
/* The master is about to end: who waited for that is told. His connection ends
 * with the process, so that whoever sees its end knows that it is gone. Replaced
 * by another: who waits for something else is told that. */
void admin_farewell(uint64_t now_ns, bool replaced);
/* The socket of another master, from which this one takes over; BAD_INPUT: it
 * has another path. Nobody is served before admin_serve is called. */
struct err admin_adopt(const struct admin_plan *, int fd) MUST_CHECK;
int admin_fd(void);
/* Removes the file, too, unless another master goes on with it. */
void admin_close(bool keep_file);
/* In a child: its copies of the descriptors. */
void admin_forget(void);

/* What to poll, new clients as well if they are taken; how many of
 * polls[ADMIN_POLLS_MAX] were filled. */
uint32_t admin_polls(struct pollfd *polls, bool take_new);
/* After the poll, with the same array. */
void admin_serve(const struct pollfd *polls, uint32_t count, uint64_t now_ns);
/* The earliest deadline of a client, or UINT64_MAX. */
uint64_t admin_next_ns(void);

#endif
