"""When a store is aged: the count trigger, forced ticks, skipped ones, and the
intervals (issue 4, points 1 and 2; contract 6.2, design 6.10).

Ticks are counted and never timed: which one is forced is in the log, what a
fold came to in metrics and in the files.
"""

import re
import unittest

import memwal
from harness import Server, wait_for
from rows import row

COUNT = "--rollout-merge-after-generations=%d"
FLUSH = "--rollout-flush-interval-secs=%d"
CLEANUP = "--rollout-cleanup-interval-secs=%d"
SPEED = 20		# no more: the time-outs of idle clients shrink as well


def pending(s, store="st"):
    return sum(memwal.pending(s.store_dir(store)).values())


def counted(s, name, **labels):
    """The sum of a metric over all series with these labels."""
    with s.client() as c:
        return sum(v for k, v in c.metrics().items()
                   if k.split("{")[0] == name and all(
                       '%s="%s"' % pair in k for pair in labels.items()))


def folds(s, result):
    return counted(s, "rollout_wal_cleanup_total", result=result)


def reclaimed(s):
    return counted(s, "rollout_wal_generations_reclaimed_total")


def sealed_rows(s, names, store="st"):
    """A generation for each name, of one row."""
    with s.client() as c:
        for name in names:
            c.append(store, [row(name)], flush=True).must(201)


def ticks(s, kind):
    """(number, forced, stores due) of each tick of that kind, from the log."""
    return [tuple(int(x) for x in m) for m in re.findall(
        r"tick kind=%s number=(\d+) forced=(\d) stores=(\d+)" % kind,
        s.log())]


class Ticks(unittest.TestCase):
    def server(self, *args, **settings):
        s = Server.during(self.addCleanup, args=list(args), **settings)
        s.wait_walked()
        with s.client() as c:
            c.create("st")
        return s

    def rows(self, s):
        with s.client() as c:
            return sorted(r["id"] for r in c.list("st"))

    def test_count_trigger_at_once(self):
        """Without a ticker: the seal that reaches it has the store folded."""
        s = self.server(FLUSH % 0, COUNT % 4, workers=1)
        self.assertIn("flush interval is 0", s.log())
        sealed_rows(s, "abc")
        self.assertEqual((pending(s), reclaimed(s)), (3, 0))
        sealed_rows(s, "d")
        wait_for("the fold", lambda: reclaimed(s) == 4)
        self.assertEqual((pending(s), folds(s, "merged")), (0, 1))
        self.assertEqual(memwal.base_rows(s.store_dir("st")), 4)

    def test_count_trigger_of_a_tick(self):
        """A fold that failed is not tried again at once but by a tick, and that
        is no forced one; exactly N generations are gone after one."""
        s = self.server(FLUSH % 1, CLEANUP % 0, COUNT % 3, workers=1,
                        faults="fold_write=fail:5:1")
        self.assertIn("cleanup interval is 0", s.log())
        sealed_rows(s, "abc")
        wait_for("the fold", lambda: reclaimed(s) == 3)
        self.assertEqual((pending(s), folds(s, "failed")), (0, 1))
        self.assertEqual(self.rows(s), list("abc"))

    def test_threshold_zero(self):
        """0 is off, not always; what asks for a fold by hand still gets it."""
        s = self.server(FLUSH % 2, CLEANUP % 0, COUNT % 0, workers=1,
                        clock_speed=8)
        for name in "abc":
            before = len(ticks(s, "rollout"))
            sealed_rows(s, name)
            self.next_tick(s, before)
        self.assertEqual((pending(s), folds(s, "merged")), (3, 0))
        with s.client() as c:
            self.assertEqual(c.merge("st"), 3)
        self.assertEqual(memwal.base_rows(s.store_dir("st")), 3)

    def next_tick(self, s, before):
        """Needs --log-level=debug to be seen, which is set at run time."""
        s.ctl("log-level", "debug")
        wait_for("a tick", lambda: len(ticks(s, "rollout")) > before + 1)

    def test_forced_ticks(self):
        """CLEANUP is no multiple of FLUSH: every second one is forced, and
        folds a single generation also where the count trigger is off."""
        s = self.server(FLUSH % 4, CLEANUP % 6, COUNT % 0,
                        "--log-level=debug", workers=1, clock_speed=10)
        self.assertIn("is no multiple of the flush interval", s.log())
        self.assertIn("every=2 interval_s=8", s.log())
        sealed_rows(s, "a")
        wait_for("the fold", lambda: pending(s) == 0)
        wait_for("four ticks", lambda: len(ticks(s, "generic")) >= 4)
        for kind in ("rollout", "datagen", "generic"):
            seen = ticks(s, kind)
            numbers = [n for n, _, _ in seen]
            # Those before the ordinals were home are none.
            self.assertEqual(numbers, list(range(
                numbers[0], numbers[0] + len(numbers))))
            self.assertEqual([forced for _, forced, _ in seen],
                             [(n + 1) % 2 for n in numbers])
        self.assertEqual(self.rows(s), ["a"])
        # Nothing has been written since: no tick wants it any more.
        before = len(ticks(s, "rollout"))
        wait_for("more ticks", lambda: len(ticks(s, "rollout")) > before + 3)
        self.assertEqual([due for _, _, due in ticks(s, "rollout")][-2:],
                         [0, 0])

    def test_cleanup_below_flush(self):
        """Every tick is forced, and the log says so."""
        s = self.server(FLUSH % 2, CLEANUP % 1, COUNT % 0,
                        "--log-level=debug", workers=1, clock_speed=4)
        self.assertIn("cleanup interval is shorter", s.log())
        sealed_rows(s, "a")
        wait_for("the fold", lambda: pending(s) == 0)
        self.assertTrue(all(forced for _, forced, _ in ticks(s, "rollout")))

    def test_a_fold_longer_than_its_interval(self):
        """Ticks that come meanwhile skip; nothing is folded twice, nor caught
        up; and merge-wal waits for the guard only as long as its deadline."""
        s = self.server(FLUSH % 10, CLEANUP % 10, COUNT % 0, workers=1,
                        clock_speed=SPEED)
        s.fault("fold_prepare=hold:1")
        sealed_rows(s, "abc")
        guard = self.held(s)
        self.assertEqual(guard["phase"], "prepare")
        wait_for("skipped ticks", lambda: counted(
            s, "memwald_ticks_skipped_total", kind="rollout") >= 3)
        self.assertEqual(self.rows(s), list("abc"))
        self.assertGreater(self.held(s)["held_ms"], 10000)
        self.assertGreater(counted(s, "memwald_guard_oldest_seconds"), 10)
        self.assertEqual(counted(s, "memwald_stores_guarded",
                                 phase="prepare"), 1)
        with s.client() as c:
            reply = c.post("/api/v1/internal/merge-wal/st").must(503)
            self.assertEqual(reply.error()[0], "OVERLOADED")
            self.assertGreaterEqual(int(reply.headers["Retry-After"]), 1)
        s.fault("fold_prepare=off")
        wait_for("the fold", lambda: reclaimed(s) == 3)
        self.assertEqual(pending(s), 0)
        self.assertEqual(memwal.base_rows(s.store_dir("st")), 3)
        self.assertEqual(self.rows(s), list("abc"))

    def held(self, s):
        def look():
            guards = [store["guard"] for store in s.status()["stores"]]
            return next((g for g in guards if g["held"]), None)
        return wait_for("the guard to be held", look)

    def test_merge_waits_for_the_guard(self):
        """Found busy three times, then free: one answer, and it is 200. Always
        busy: 503, and the next one succeeds."""
        s = self.server(FLUSH % 0, COUNT % 0, workers=1, clock_speed=SPEED)
        sealed_rows(s, "ab")
        s.fault("tick_guard=answer:BUSY:3")
        with s.client() as c:
            self.assertEqual(c.merge("st"), 2)
        sealed_rows(s, "c")
        s.fault("tick_guard=answer:BUSY")
        with s.client() as c:
            reply = c.post("/api/v1/internal/merge-wal/st").must(503)
            self.assertIn("Retry-After", reply.headers)
        self.assertEqual(pending(s), 1)
        s.fault("tick_guard=off")
        with s.client() as c:
            wait_for("nothing to be left", lambda: c.merge("st") == 0)
        self.assertEqual((pending(s), reclaimed(s)), (0, 3))
        self.assertEqual(memwal.base_rows(s.store_dir("st")), 3)

    def test_merge_drains_what_it_saw(self):
        """Pass by pass under the cap; one answer counts all of them."""
        s = self.server(FLUSH % 0, COUNT % 0,
                        "--rollout-merge-max-generations=2", workers=1)
        sealed_rows(s, "abcde")
        with s.client() as c:
            self.assertEqual(c.merge("st"), 5)
        self.assertEqual((pending(s), reclaimed(s)), (0, 5))
        self.assertEqual(memwal.base_rows(s.store_dir("st")), 5)


if __name__ == "__main__":
    unittest.main()
