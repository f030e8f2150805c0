"""What folds may take together, and that it is given back (issue 4, point 5;
field fault B.6).

A pass takes a slot and memory for its generations; who finds none waits, in
line and within the time limit of its store. What a killed maintainer had taken
is free again.
"""

import threading
import unittest

import memwal
from harness import BUILD, LONG, Server, wait_for
from rows import row

QUIET = ["--rollout-flush-interval-secs=0"]
BUFFERS = 32 << 20			# of a pass, beside its generations
GENERATION = 4 << 20
GENERATIONS = 60 if LONG else 8


def used(server, budget):
    return server.status()["budgets"][budget]["used"]


def fold_in_thread(test, server, store):
    done, status = threading.Event(), []

    def fold():
        with server.client() as c:
            status.append(c.post(
                "/api/v1/internal/merge-wal/%s" % store).status)
        done.set()

    thread = threading.Thread(target=fold)
    thread.start()
    test.addCleanup(thread.join)
    return done, status


class MergeBudget(unittest.TestCase):
    def stores(self, c, *names):
        for name in names:
            c.create(name)
            for k in range(3):
                c.append(name, [row("r%d" % k)], flush=True).must(201)

    def guards(self, s):
        return sum(store["guard"]["held"] for store in s.status()["stores"])

    def test_a_killed_fold_gives_back(self):
        with Server(workers=1, args=QUIET) as s, s.client() as c:
            s.wait_walked()
            self.stores(c, "st")
            s.fault("fold_prepare=hold")
            done, status = fold_in_thread(self, s, "st")
            wait_for("the fold to hold its budget",
                     lambda: used(s, "fold_memory") > BUFFERS)
            self.assertEqual(used(s, "fold_slots"), 1)
            s.fault("fold_prepare=hold")	# for the next one as well
            pid = s.processes("maintainer")[0]
            s.kill(pid)
            wait_for("another maintainer", lambda: s.processes(
                "maintainer") not in ([], [pid]))
            s.fault("fold_prepare=off")
            wait_for("the budgets", lambda: used(s, "fold_memory") == 0
                     and used(s, "fold_slots") == 0)
            done.wait()
            self.assertIn(status, ([200], [503]))
            c.merge_all("st")
            self.assertEqual(len(c.list("st")), 3)

    def test_the_second_fold_waits_for_the_only_slot(self):
        with Server(workers=1, args=QUIET + [
                "--rollout-merge-concurrency=1"]) as s, s.client() as c:
            s.wait_walked()
            self.stores(c, "a", "b")
            s.fault("fold_prepare=hold:1")
            first, _ = fold_in_thread(self, s, "a")
            wait_for("the first to have the slot",
                     lambda: used(s, "fold_slots") == 1)
            second, _ = fold_in_thread(self, s, "b")
            wait_for("both at work", lambda: self.guards(s) == 2)
            self.assertEqual(used(s, "fold_slots"), 1)
            self.assertFalse(first.is_set() or second.is_set())
            s.fault("fold_prepare=off")
            first.wait()
            second.wait()
            for name in ("a", "b"):
                self.assertEqual(set(memwal.pending(
                    s.store_dir(name)).values()), {0})
            self.assertEqual(c.metrics()[
                "rollout_wal_merge_slot_wait_seconds_count"], 2)

    def test_who_waits_too_long_is_told_so(self):
        # The time limit is 30 s, and a second of the true clock; a connection
        # that waits is not to be closed as idle by that clock.
        with Server(workers=1, clock_speed=30, args=QUIET + [
                "--keepalive-secs=86400",
                "--rollout-merge-concurrency=1"]) as s, s.client() as c:
            s.wait_walked()
            self.stores(c, "a", "b")
            s.fault("fold_prepare=hold:1")
            fold_in_thread(self, s, "a")
            wait_for("the first to have the slot",
                     lambda: used(s, "fold_slots") == 1)
            reply = c.post("/api/v1/internal/merge-wal/b").must(503)
            self.assertIn("Retry-After", reply.headers)
            wait_for("the wait to be over", lambda: s.client().metrics()[
                'rollout_wal_self_merge_skipped_total{kind="rollout"}'] == 1)
            self.assertIn("no fold slot within the time limit", s.log())
            s.fault("fold_prepare=off")

            def folded():
                with s.client() as c:
                    c.post("/api/v1/internal/merge-wal/a")
                    c.post("/api/v1/internal/merge-wal/b")
                return not any(memwal.pending(s.store_dir("a")).values()) \
                    and not any(memwal.pending(s.store_dir("b")).values())

            wait_for("both to be folded", folded)
            wait_for("the slot", lambda: used(s, "fold_slots") == 0)

    def memory(self, pid, name):
        with open("/proc/%d/status" % pid) as f:
            return next(int(line.split()[1]) << 10 for line in f
                        if line.startswith(name))

    def backlog(self, budget):
        """Folds the backlog of a shard: passes, and the growth of what the
        maintainer has in memory at most."""
        with Server(workers=1, args=QUIET + [
                "--maintain-write-rate=0",
                "--rollout-merge-after-generations=0",
                "--rollout-merge-memory-bytes=%d" % budget]) as s, \
                s.client() as c:
            s.wait_walked()
            c.create("st")
            text = "x" * (GENERATION // 64)
            for k in range(GENERATIONS):
                c.append("st", [row("%03d-%02d" % (k, i), content=text)
                                for i in range(64)], flush=True).must(201)
            pid = s.processes("maintainer")[0]
            before = self.memory(pid, "VmRSS")
            version = c.get("/api/v1/rollouts/st").json()["version"]
            c.merge_all("st")
            passes = c.get("/api/v1/rollouts/st").json()["version"] - version
            self.assertEqual(s.processes("maintainer"), [pid])
            self.assertEqual(c.count("st"), 64 * GENERATIONS)
            return passes, self.memory(pid, "VmHWM") - before

    def test_a_backlog_stays_within_the_budget(self):
        # Two generations a pass, then such that none fits: alone.
        for budget, together in ((BUFFERS + 2 * GENERATION + (1 << 20), 2),
                                 (1 << 20, 1)):
            passes, growth = self.backlog(budget)
            self.assertGreaterEqual(passes, GENERATIONS // together)
            if BUILD not in ("san", "tsan"):
                self.assertLess(growth, max(budget, BUFFERS) + GENERATION)


if __name__ == "__main__":
    unittest.main()
