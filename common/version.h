#ifndef MEMWALD_COMMON_VERSION_H
#define MEMWALD_COMMON_VERSION_H

/*
 * version - which memwald this is: what --version and the log say.
 */

#define MEMWALD_VERSION "0.1.0"

#endif
