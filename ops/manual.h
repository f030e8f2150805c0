#ifndef MEMWALD_OPS_MANUAL_H
#define MEMWALD_OPS_MANUAL_H

/*
 * manual - what memwaldctl says about itself, from the table that the master
 * has (master/admin.def): help, the manual page, the completion of bash.
 *
 * Commands of test builds are in the help of those builds alone.
 */

#include "common/base.h"

#include <stdio.h>

/* Of one command, or of all: NULL. False: there is no such command. */
bool manual_help(FILE *, const char *command);
void manual_page(FILE *);
void manual_completion(FILE *);

#endif
