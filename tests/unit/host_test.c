#include "common/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/host.h"

static char root[64];

static void
put(const char *path, const char *text)
{
	char name[512], *p;
	FILE *f;

	snprintf(name, sizeof(name), "%s/%s", root, path);
	for (p = strchr(name + strlen(root) + 1, '/'); p != NULL;
	    p = strchr(p + 1, '/')) {
		*p = '\0';
		mkdir(name, 0700);
		*p = '/';
	}
	f = fopen(name, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static int
setup(void **state)
{
	(void)state;
	snprintf(root, sizeof(root), "/tmp/host_test.XXXXXX");
	return mkdtemp(root) == NULL;
}

static int
teardown(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", root);
	return system(command);
}

static void
without_cgroup(void **state)
{
	(void)state;
	assert_int_equal(host_cpu_quota(root), UINT32_MAX);
	assert_true(host_cpus(root) >= 1);
}

static void
v2_takes_the_least_of_the_path(void **state)
{
	(void)state;
	put("proc/self/cgroup", "0::/a/b\n");
	put("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
	assert_int_equal(host_cpu_quota(root), UINT32_MAX);
	put("sys/fs/cgroup/a/b/cpu.max", "800000 100000\n");
	put("sys/fs/cgroup/a/cpu.max", "200000 100000\n");
	assert_int_equal(host_cpu_quota(root), 2);
}

static void
v2_half_a_cpu_is_one(void **state)
{
	(void)state;
	put("proc/self/cgroup", "0::/\n");
	put("sys/fs/cgroup/cpu.max", "50000 100000\n");
	assert_int_equal(host_cpu_quota(root), 1);
	assert_int_equal(host_cpus(root), 1);
	put("sys/fs/cgroup/cpu.max", "250000 100000\n");
	assert_int_equal(host_cpu_quota(root), 3);
}

/* A container sees its own group as the mount's root, under a path that it
 * cannot see. */
static void
v1_falls_back_to_the_mount(void **state)
{
	(void)state;
	put("proc/self/cgroup", "5:memory:/docker/1\n4:cpu,cpuacct:/docker/1\n"
	    "3:cpuset:/docker/1\n");
	put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "150000\n");
	put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
	assert_int_equal(host_cpu_quota(root), 2);
	put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
	assert_int_equal(host_cpu_quota(root), UINT32_MAX);
}

static void
instance_ids(void **state)
{
	char id[64], own[256] = "";
	bool nameless;

	(void)state;
	assert_false(err_is(host_instance_id("a", "b", id, sizeof(id), &nameless)));
	assert_string_equal(id, "a");
	assert_false(err_is(host_instance_id("", "b", id, sizeof(id), &nameless)));
	assert_string_equal(id, "b");
	assert_false(err_is(host_instance_id("localhost", NULL, id, sizeof(id), &nameless)));
	gethostname(own, sizeof(own) - 1);
	assert_int_equal(nameless, *own == '\0' ||
	    strcmp(own, "localhost") == 0);
	assert_string_equal(id, *own != '\0' && strcmp(own, "localhost") != 0 ?
	    own : "default");
	assert_true(err_is(host_instance_id("a#1", "b", id, sizeof(id), &nameless)));
	assert_true(err_is(host_instance_id("a/b", "b", id, sizeof(id), &nameless)));
	assert_true(err_is(host_instance_id("", "a\nb", id, sizeof(id), &nameless)));
	assert_true(err_is(host_instance_id("abc", NULL, id, 3, &nameless)));
	assert_false(err_is(host_instance_id("worker-\xc3\xa9", NULL, id,
	    sizeof(id), &nameless)));
	assert_false(nameless);
	/* A name is one, also where it is what the nameless are called. */
	assert_false(err_is(host_instance_id("default", NULL, id, sizeof(id),
	    &nameless)));
	assert_false(nameless);
	assert_true(err_is(host_instance_id("worker-\xc3", NULL, id,
	    sizeof(id), &nameless)));
}

static void
boots_have_one_id(void **state)
{
	char a[64], b[64];

	(void)state;
	host_boot_id(a, sizeof(a));
	host_boot_id(b, sizeof(b));
	assert_string_equal(a, b);
	assert_int_equal(strlen(a), 36);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(without_cgroup, setup, teardown),
		cmocka_unit_test_setup_teardown(v2_takes_the_least_of_the_path,
		    setup, teardown),
		cmocka_unit_test_setup_teardown(v2_half_a_cpu_is_one, setup,
		    teardown),
		cmocka_unit_test_setup_teardown(v1_falls_back_to_the_mount,
		    setup, teardown),
		cmocka_unit_test(boots_have_one_id),
		cmocka_unit_test(instance_ids),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
