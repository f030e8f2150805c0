"""What a fold meets: slow stores beside it, seals and appends within it, a time
limit in each of its phases, another instance that folds the same store (issue
4, points 1, 3 and 6)."""

import random
import threading
import unittest

import memwal
from events import event
from generic import Generic, ID, column, row as generic_row
from harness import LONG, SLOW, Server, wait_for
from rows import row

FORCED = ["--rollout-flush-interval-secs=1",
          "--rollout-cleanup-interval-secs=1",
          "--rollout-merge-after-generations=0"]
BY_HAND = ["--rollout-flush-interval-secs=0",
           "--rollout-merge-after-generations=0"]


def append_all(c):
    """A row to a store of each kind, and to a second rollout store."""
    c.append("other", [row("a")]).must(201)
    c.post("/api/v1/datagen/gen/events",
           {"events": [event(event_id="a")]}).must(201)
    Generic(c, "tab").append([generic_row("a", n=1)]).must(201)


def create_all(c):
    for name in ("slow", "other"):
        c.create(name)
    c.post("/api/v1/datagen", {"name": "gen"}).must(201)
    Generic(c, "tab").create({"columns": [ID, ["n", column("int32")]]})


def folded(path):
    return memwal.generations_made(path) > 0 and \
        not any(memwal.pending(path).values())


def guards(s):
    """{store: phase} of the guards that are held."""
    return {store["name"]: store["guard"]["phase"]
            for store in s.status()["stores"] if store["guard"]["held"]}


def in_thread(test, run):
    thread = threading.Thread(target=run)
    thread.start()
    test.addCleanup(thread.join)
    return thread


class Apart(unittest.TestCase):
    def server(self, args, **settings):
        s = Server.during(self.addCleanup, args=args, **settings)
        s.wait_walked()
        return s

    def test_one_slow_store(self):
        """It holds up neither others of its kind nor of other kinds; and never
        are more stores of a kind at work than allowed."""
        s = self.server(FORCED + ["--maintain-concurrency=2"], workers=1)
        with s.client() as c:
            create_all(c)
            s.fault("fold_prepare=hold:1")
            c.append("slow", [row("a")]).must(201)
        wait_for("the slow fold", lambda: guards(s) == {"slow": "prepare"})
        with s.client() as c:
            append_all(c)
        for path in ("other.rollout", "gen.datagen", "tab.generic"):
            wait_for("a fold of " + path, lambda path=path: folded(
                "%s/%s.lance" % (s.data_dir, path)))
        self.assertEqual(guards(s).get("slow"), "prepare")
        s.fault("fold_prepare=off")
        wait_for("the slow fold", lambda: folded(s.store_dir("slow")))

    def test_slow_seal_and_bound(self):
        """One store that cannot be sealed leaves the others' flushes alone;
        of a kind only as many are folded at once as allowed."""
        s = self.server(BY_HAND + ["--maintain-concurrency=2"], workers=1)
        with s.client() as c:
            create_all(c)
        s.fault("seal_write=hold:1")
        done = []

        def flush():
            with s.client() as c:
                c.append("slow", [row("a")], flush=True).must(201)
            done.append(True)

        t = in_thread(self, flush)
        wait_for("the held seal", lambda: "seal_write=1" in s.ctl(
            "fault").splitlines())
        with s.client() as c:
            c.append("other", [row("a")], flush=True).must(201)
            append_all(c)
            for kind, name in (("datagen", "gen"), ("generic", "tab")):
                c.post("/api/v1/internal/merge-wal/%s?kind=%s" % (
                    name, kind)).must(200)
            self.assertEqual(done, [])
        s.fault("seal_write=off")
        t.join()
        self.assertEqual(done, [True])
        self.bound(s)

    def bound(self, s):
        names = ["b%d" % k for k in range(4)]
        with s.client() as c:
            for name in names:
                c.create(name)
                c.append(name, [row("a")], flush=True).must(201)
        s.fault("fold_prepare=hold")
        replies = []

        def merge(name):
            with s.client() as c:
                replies.append(c.merge(name))

        threads = [in_thread(self, lambda n=n: merge(n)) for n in names]
        wait_for("two folds", lambda: len(guards(s)) == 2)
        for _ in range(5):
            self.assertEqual(len(guards(s)), 2)
        s.fault("fold_prepare=off")
        for t in threads:
            t.join()
        self.assertEqual(replies, [1, 1, 1, 1])

    def test_within_a_fold(self):
        """What is appended while it prepares, and what is sealed between that
        and the commit, survives; and a restart."""
        s = self.server(BY_HAND, workers=1)
        replies = []

        def merge():
            with s.client() as c:
                replies.append(c.merge("st"))

        with s.client() as c:
            c.create("st")
            c.append("st", [row("a", content="old"), row("b")],
                     flush=True).must(201)
            s.fault("fold_prepare=hold:1 fold_commit=hold:1")
            t = in_thread(self, merge)
            wait_for("prepare", lambda: guards(s) == {"st": "prepare"})
            c.append("st", [row("a", content="new"), row("c")]).must(201)
            s.fault("fold_prepare=off")
            wait_for("commit", lambda: guards(s) == {"st": "base_commit"})
            c.append("st", [row("d")], flush=True).must(201)
            s.fault("fold_commit=off")
            t.join()
            self.assertEqual(replies, [1])
            self.assertEqual(sum(memwal.pending(
                s.store_dir("st")).values()), 1)
        s.kill_all()
        s.start()
        with s.client() as c:
            self.check(c)
            wait_for("folds", lambda: c.merge_all("st") >= 0 and
                     folded(s.store_dir("st")))
            self.check(c)
        self.assertEqual(memwal.base_rows(s.store_dir("st")), 4)

    def check(self, c):
        self.assertEqual({r["id"]: r.get("content") for r in c.list("st")
                          if r["id"] in "abcd"}.keys(), set("abcd"))
        self.assertEqual(c.record("st", "a")["content"], "new")

    def test_time_limit(self):
        """Of max(5 x 1 s, 30 s), which a stop in each phase exceeds: it is told
        apart by phase, in log and metric, and nothing is lost."""
        phases = [("seal_write", "seal"), ("fold_prepare", "prepare"),
                  ("fold_commit", "base_commit"), ("fold_drain", "drain")]
        if not LONG:
            phases = phases[-1:] if SLOW > 1 else phases[1::2]
        s = self.server(["--rollout-flush-interval-secs=1",
                         "--rollout-cleanup-interval-secs=1"], workers=1,
                        clock_speed=20)
        with s.client() as c:
            c.create("st")
        for n, (point, phase) in enumerate(phases):
            s.fault("%s=delay:1800:1" % point)
            with s.client() as c:
                c.append("st", [row("r%d" % n), row("same")]).must(201)
            wait_for("a time-out in " + phase, lambda phase=phase:
                     self.timeouts(s, phase) > 0)
            wait_for("the fold", lambda n=n: folded(s.store_dir("st")) and
                     memwal.base_rows(s.store_dir("st")) == n + 2)
            self.assertIn("phase=" + phase, s.log())
            with s.client() as c:
                self.assertEqual(c.count("st"), n + 2)

    if LONG:
        def test_too_slow_for_its_limit(self):
            """What may only be written at a rate that the limit does not suffice
            for is written faster each time, not tried for ever."""
            s = self.server(["--rollout-flush-interval-secs=0"], workers=1)
            with s.client() as c:
                c.create("st")
                for n in range(10):
                    c.append("st", [row("r%d" % n, content=random.randbytes(
                        25000).hex())]).must(201)
            s.kill_all()		# as fast as rows come it may write at any time
            s.args = ["--rollout-flush-interval-secs=1",
                      "--rollout-cleanup-interval-secs=1",
                      "--maintain-write-rate=200"]
            s.clock_speed = 40
            s.start()
            wait_for("the fold", lambda: folded(s.store_dir("st")), 60)
            with s.client() as c:
                self.assertEqual(c.count("st"), 10)
            self.assertIn("tick failed", s.log())

    def timeouts(self, s, phase):
        with s.client() as c:
            return c.metrics().get(
                'memwald_tick_timeouts_total{phase="%s"}' % phase, 0)


class TwoInstances(unittest.TestCase):
    def test_both_fold_one_store(self):
        """Their commits meet, again and again: every row once, the newest of
        each key, in the base table itself."""
        rounds = 20 if LONG else 4
        a = Server.during(self.addCleanup, args=BY_HAND, workers=1)
        b = Server.during(self.addCleanup, args=BY_HAND, workers=1,
                          data_dir=a.data_dir, instance_id="other")
        a.wait_walked()
        b.wait_walked()
        with a.client() as c:
            c.create("st")
        for n in range(rounds):
            for s in (a, b):
                with s.client() as c:
                    c.append("st", [row("both"), row("%s-%d" % (
                        s.instance_id, n))], flush=True).must(201)
                s.fault("fold_commit=hold:1")
            replies = []

            def merge(s):
                with s.client() as c:
                    replies.append(c.merge("st"))

            threads = [in_thread(self, lambda s=s: merge(s)) for s in (a, b)]
            for s in (a, b):
                wait_for("both at their commits", lambda s=s:
                         guards(s) == {"st": "base_commit"})
            for s in (a, b):
                s.fault("fold_commit=off")
            for t in threads:
                t.join()
            self.assertEqual(replies, [1, 1])
            self.assertEqual(memwal.base_rows(a.store_dir("st")), 2 * n + 3)
        self.assertTrue(folded(a.store_dir("st")))
        for s in (a, b):
            with s.client() as c:
                self.assertEqual(c.count("st"), 2 * rounds + 1)


if __name__ == "__main__":
    unittest.main()
