#!/usr/bin/env python3
"""LanceDB reads what folds of orphans' shards made: stores of all kinds, written
by four workers, of which two come back (LONG=1: thirty of them)."""

import unittest

import engine
from c_fanout import moved_are_folded
from c_leases import QUIET
from c_orphans import Rows, by_worker, every_store
from harness import Server


class Orphans(unittest.TestCase):
    def test_exact_rows(self):
        kinds = every_store()
        rows = Rows(kinds)
        with Server(workers=4, args=QUIET) as s:
            rows.spread(by_worker(s), lambda: s.ctl("seal", "--all"), same=True)
            s.kill_all()
            s.workers_wanted = 2
            s.start()
            with s.client() as c:
                moved_are_folded(s, c, rows, ("test#2", "test#3"), {
                    "r%d-%d" % (n, k) for n in range(2) for k in (2, 3)})
                for kind in kinds:	# the others' shards are as any
                    kind.folded(c)
                rows.in_base(self, c)
            for kind in kinds:
                got, = engine.run(kind.directory(s), [
                    "rows", {"columns": [kind.key, kind.text]}])
                self.assertEqual(len(got), len(rows.want[kind.path]))
                self.assertEqual({r[kind.key]: r[kind.text] for r in got},
                                 rows.want[kind.path])


if __name__ == "__main__":
    unittest.main()
