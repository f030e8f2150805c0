"""
fault_points - each fault point times {die, fail, delay}, then the oracle
(style 12). A test file a kind of action, so that they run beside each other.

A workload passes the points: two workers append, a flush seals, a fold runs,
a store is made and deleted. One point at a time is armed, and must have acted;
what is refused or lost is sent again once it is off. In the short form the
actions of a file share a store and an oracle; with LONG=1 each has its own,
with a restart and the base table, and there are more of them.
"""

import os
import re
import unittest

from oracle import Book, check_status, check_temporary, fold
from client import Lost
from harness import LONG, ROOT, Server, wait_for

# What this workload does not pass: nobody dies inside a mutex, no other
# instance's shards, no assignment changes, slots are not short, no outcome is
# unknown.
NOT_PASSED = {"shm_repair", "shm_record", "shm_assign", "wal_read_back"}
# What only those pass who load a store that another server left.
AT_LOAD = {"reload_listed", "reload_commit"}
# What only those pass who start.
AT_START = {"worker_start": "worker", "maintainer_start": "maintainer"}


def points():
    """But for the object store's own, which put_test.py goes through."""
    with open(os.path.join(ROOT, "common", "fault.def")) as f:
        return [p for p in re.findall(r"^FAULT_POINT\((\w+)", f.read(), re.M)
                if not p.startswith("put_")]


def tag_of(action):
    return re.sub(r"[^a-z0-9]+", "-", action)


class FaultPoints(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(workers=2, args=[
            "--rollout-flush-interval-secs=0",
            "--rollout-cleanup-interval-secs=0"])
        cls.server.start()

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__(None, None, None)

    @staticmethod
    def some(action, *args):
        """Its answer, or None if there was none."""
        try:
            return action(*args)
        except Lost:
            return None

    def until_done(self, what, action):
        """The client's part: again, until it is done or a deadline passed."""
        return wait_for(what, lambda: self.some(action), 20)

    def all_there(self):
        s = self.server
        wait_for("all processes", lambda: len(s.processes("worker")) == 2 and
                 s.processes("maintainer") and s.status()["clean"], 20)

    def kill(self, role):
        for pid in self.server.processes(role):
            self.server.kill(pid)

    def hits(self, point):
        return int(re.search(r"^%s=(\d+)$" % point,
                             self.server.ctl("fault"), re.M).group(1))

    def workload(self, book, tag):
        """Whatever its steps answer; two rounds, so that also the second
        commit, entry and generation of a shard are passed, and what the first
        left half done."""
        s = self.server
        other = "other-" + book.store
        with s.client() as a, s.client() as b:
            for n in range(2):
                for k, c in enumerate((a, b)):
                    book.append(c, ["%s-%d-%d-%d" % (tag, n, k, i)
                                    for i in range(2)])
                book.append(a, ["%s-f%d" % (tag, n)], flush=True)
                self.some(fold, b, book.store)
                self.some(a.post, "/api/v1/rollouts", {"name": other})
                self.some(b.request, "DELETE", "/api/v1/rollouts/" + other)

    def arm(self, book, point, action):
        """How often it had acted before."""
        s = self.server
        if point in AT_LOAD:
            with s.client() as c:
                book.append(c, [tag_of(action) + "-tail"])
            s.kill_all()
            s.faults = "%s=%s" % (point, action)
            s.start()
            s.faults = ""
            return 0
        if action.startswith("stop"):
            s.expect_panic = True	# of who waits for a lock of the stopped
        before = self.hits(point)
        s.fault("%s=%s" % (point, action))
        if point in AT_START:
            self.kill(AT_START[point])
        return before

    def act(self, book, point, action):
        """Armed, passed, acted, disarmed; and work goes on."""
        s = self.server
        tag = tag_of(action)
        if point.startswith("claim_"):
            self.kill("worker")		# else the shards are claimed
            self.all_there()
        before = self.arm(book, point, action)
        self.workload(book, tag)
        if point in AT_START:
            wait_for("a start", lambda: self.hits(point) > before)
        s.fault("%s=off" % point)
        if "@" not in action and point not in NOT_PASSED:
            self.assertGreater(self.hits(point), before,
                               "%s was not passed" % point)
        self.all_there()

        def append():
            with s.client() as c:
                return book.append(c, [tag + "-late"], flush=True)
        self.until_done("an append", append)

    def judge(self, book):
        s = self.server
        book.check(s)
        with s.client() as c:
            self.until_done("folds", lambda: fold(c, book.store))
        book.check(s)
        book.check_files(s)
        if LONG:
            book.check_after_restart(s)
            book.check_base(s)
        check_status(s)

    def drop(self, store):
        """What a create left that died before it registered is adopted by the
        next one of that name, and goes with it."""
        def is_one_of(wanted, *args):
            with self.server.client() as c:
                return c.request(*args).status in wanted
        path = "/api/v1/rollouts"
        for name in ("other-" + store, store):
            self.until_done("a create", lambda: is_one_of(
                (201, 409), "POST", path, {"name": name}))
            self.until_done("a delete", lambda: is_one_of(
                (204, 404), "DELETE", path + "/" + name))

    def run_on_one_store(self, point, actions):
        book = Book("%s-%s" % (point, tag_of(actions[0])))
        with self.server.client() as c:
            c.create(book.store)
        for action in actions:
            with self.subTest(action=action):
                self.act(book, point, action)
        self.judge(book)
        self.drop(book.store)

    def test_zz_nothing_is_left(self):
        check_temporary(self.server)
        with self.server.client() as c:
            stores = c.get("/api/v1/rollouts").must(200).json()["stores"]
            self.assertEqual(stores, [])
        left = [n for n in os.listdir(self.server.data_dir)
                if n.endswith(".lance")]
        self.assertEqual(left, [])


def cases(actions, longer):
    """A test case with one test for each point."""
    class Points(FaultPoints):
        pass

    groups = [[a] for a in actions + longer] if LONG else [actions]
    for point in points():
        def test(self, point=point):
            for group in groups:
                self.run_on_one_store(point, group)
        setattr(Points, "test_" + point, test)
    return Points
