#ifndef MEMWALD_COMMON_BASE_H
#define MEMWALD_COMMON_BASE_H

/*
 * base - the first include of every .c file: feature macros, the integer
 * types, and MUST. No state.
 *
 * Two failures, never mixed (style 2.4): what the world does is a struct err;
 * what we did wrong is a MUST, which stays on in production. It takes the
 * process down, and the master starts a new one from what the object store
 * says.
 */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <assert.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifndef __cplusplus
#include <stdatomic.h>
#endif

#define CACHELINE 64

#define MUST_CHECK	__attribute__((warn_unused_result))
#define NORETURN	__attribute__((noreturn))
#define PRINTF_LIKE(f, a) __attribute__((format(printf, f, a)))

#define ARRAY_LEN(a)	(sizeof(a) / sizeof((a)[0]))
#define CONTAINER_OF(p, type, member) \
	((type *)(void *)((char *)(p) - offsetof(type, member)))

#define MIN(a, b)	((a) < (b) ? (a) : (b))
#define MAX(a, b)	((a) > (b) ? (a) : (b))

/* Rounds n up to a multiple of a power of two. */
#define ROUND_UP(n, to)	(((n) + ((to) - 1)) & ~((uint64_t)(to) - 1))

#ifdef __cplusplus
extern "C"
#endif
NORETURN void panic_must(const char *file, int line, const char *what);

/* A broken promise of our own: on in production, may hold a call. */
#define MUST(cond) \
	do { \
		if (__builtin_expect(!(cond), 0)) \
			panic_must(__FILE__, __LINE__, #cond); \
	} while (0)

#endif
