#ifndef MEMWALD_TESTS_LANCE_DIR_H
#define MEMWALD_TESTS_LANCE_DIR_H

/*
 * lance_dir - a directory of its own for a test that writes objects.
 */

#include "common/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "worker/object/object.h"

#define see_ok(call) do { \
	struct err see_ok_ = (call); \
	if (err_is(see_ok_)) \
		fail_msg("%s: %s", err_name(see_ok_), see_ok_.what); \
} while (0)

#define see_error(call, kind_) assert_int_equal((call).kind, ERR_##kind_)

__attribute__((unused)) static char root_path[] = "/tmp/memwald-lance-XXXXXX";
__attribute__((unused)) static struct object_dir *root;
__attribute__((unused)) static struct object_dir *dir;		/* what a test writes into */

static inline int
dir_setup(void **state)
{
	(void)state;
	assert_non_null(mkdtemp(root_path));
	see_ok(object_root_open(root_path, &root));
	see_ok(object_dir_open(root, "test", true, &dir));
	return 0;
}

static inline int
dir_teardown(void **state)
{
	(void)state;
	object_dir_close(dir);
	see_ok(object_delete_tree(root, "test"));
	object_dir_close(root);
	/* Whatever the object store keeps there is its own matter. */
	rmdir(root_path);
	return 0;
}

/* A name that no test has used. */
static inline const char *
new_name(const char *suffix)
{
	static char name[64];
	static int number;

	snprintf(name, sizeof(name), "x%d%s", number++, suffix);
	return name;
}

#endif
