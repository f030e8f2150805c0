#ifndef MEMWALD_MASTER_RELOAD_H
#define MEMWALD_MASTER_RELOAD_H

/*
 * reload - the configuration once more, while all goes on: live options change
 * in all processes, others are named and need a start.
 *
 * An option that a command changed (log-level) is what the sources say again.
 * A file that cannot be read or holds a mistake changes nothing.
 */

#include "common/base.h"

/* SIGHUP: the outcome is in the log alone. */
void reload_by_signal(void);

#endif
