"""A quiet store costs little: what its appends needed is given back.

Every store keeps buffers between commits, up to megabytes, since the next
commit is near. With its entry they go.
"""

import unittest

from harness import SLOW, Server, wait_for
from rows import row

STORES = 24
KIB_A_STORE = 1536


def anonymous_kib(pid):
    with open("/proc/%d/status" % pid) as f:
        for line in f:
            if line.startswith("RssAnon:"):
                return int(line.split()[1])
    raise AssertionError("no RssAnon of %d" % pid)


class QuietStores(unittest.TestCase):
    def test_buffers_go_with_the_entry(self):
        with Server(workers=1,
                    args=["--rollout-flush-interval-secs=1"]) as s, \
                s.client() as c:
            pid = s.processes("worker")[0]
            before = anonymous_kib(pid)
            short = [row("s%d" % k, content="y" * 9000) for k in range(20)]
            long = [row("l%d" % k, content="x" * 1000000) for k in range(5)]
            for k in range(STORES):
                c.create("s%d" % k)
                for _ in range(4):
                    c.append("s%d" % k, short).must(201)
                c.append("s%d" % k, long).must(201)

            def sealed():
                return c.metric("memwald_tails") == 0 and \
                    c.metric("memwald_stores_dirty") == 0
            wait_for("all to be sealed", sealed, 60)
            if SLOW == 1:		# a sanitizer holds back what is freed
                wait_for("memory to be given back", lambda: anonymous_kib(
                    pid) - before < STORES * KIB_A_STORE, 10)
            for k in range(STORES):
                self.assertEqual(len(c.list("s%d" % k)), 25)


if __name__ == "__main__":
    unittest.main()
