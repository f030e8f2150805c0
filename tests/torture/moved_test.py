#!/usr/bin/env python3
"""What becomes of an ordinal that moves, step by step: the decision, the fold job
that follows from it, its claim, seal and fold, its report. Whoever passes a step
dies there, fails, or is held; then the oracle, and: the ordinal is where it was
ordered to, its shard is empty, no fold job is left and nothing is held.

LONG=1: all steps times all of that, also what a store may answer to a put, and
what an instance does that takes the ordinals of one that was killed."""

import json
import subprocess
import unittest

from oracle import Book, check_status, memwal
from harness import LONG, SLOW, Server, build_path, wait_for

QUIET = ["--rollout-flush-interval-secs=0",
         "--rollout-merge-after-generations=0"]
# Back-offs of the master are times of its clock.
SPEED = 10
DECISION = ("lease_look", "lease_renew", "assignment_put", "shm_assign")
JOB = ("pending_look", "worker_mail", "claim_epoch", "shard_committed",
       "claim_sentinel", "claim_entry", "seal_write", "seal_commit",
       "seal_publish", "tick_guard", "fold_read", "fold_prepare", "fold_write",
       "fold_index", "fold_commit", "table_committed", "fold_drain",
       "fold_publish", "fold_report")
# These only delay, stop or die: nothing can fail there.
HERE = ("shm_assign", "seal_publish", "fold_publish",
        "worker_mail")
# Who is held there serves nothing else meanwhile.
BLOCKING = ("shm_assign", "worker_mail")
PUTS = ("put_lease", "put_assignment", "put_shard", "put_generation", "put_base")
# By whom another's ordinals are taken.
TAKING = (*DECISION, "pending_look", "claim_sentinel", "seal_commit",
          "fold_commit", "fold_report")
ANSWERS = ("fail:28:1", "fail:5:2", "drop:1", "late:1")
# The short form.
SHORT = {
    "die:1": ("assignment_put", "pending_look", "claim_sentinel", "claim_entry",
              "seal_commit", "fold_drain", "fold_report"),
    "fail:5:1": ("claim_entry", "fold_commit"),
    "hold:1": ("assignment_put", "claim_sentinel"),
}


def cases():
    if not LONG:
        for action, points in SHORT.items():
            yield from ((p, action) for p in points)
        return
    for point in DECISION + JOB:
        for action in ("die:1", "hold:1", "fail:5:1"):
            if point not in HERE or not action.startswith("fail"):
                yield point, action
    for point in PUTS:
        yield from ((point, answer) for answer in ANSWERS)


def hits(server, point):
    return int(dict(line.split("=") for line in
                    server.ctl("fault").split())[point])


def left(server, ordinal):
    """Stores in which something is not folded, as they are on disk."""
    return json.loads(server.ctl("left", ordinal, "--json"))["left"]


def is_settled(server, ordinal):
    return not json.loads(server.ctl("jobs", "--json"))[
        "fold_jobs"] and left(server, ordinal) == 0


class Moved(unittest.TestCase):
    """Within one server: from one worker to the other, and home again."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server.during(cls.addClassCleanup, workers=2,
                                   args=QUIET, in_memory=True,
                                   clock_speed=SPEED)
        cls.server.wait_walked()
        cls.book = Book("st")
        with cls.server.client() as c:
            c.create("st")

    def move(self, to):
        """Returns at once."""
        return subprocess.Popen([
            build_path("memwaldctl"), "--admin-socket=" + self.server.socket,
            "reassign", "test#1", to], stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True)

    def moved(self, process, to):
        out = process.communicate(timeout=60 * SLOW)[0]
        self.assertEqual(process.returncode, 0, out)
        ordinals = json.loads(self.server.ctl("ordinals", "--json"))
        o, = [x for x in ordinals["ordinals"] if x["name"] == "test#1"]
        self.assertEqual((o["state"], memwal.ordinal(
            o["instance"], o["worker"])), ("owned", to))

    def by_worker(self, worker):
        """Of whom all may be new."""
        wait_for("both workers", lambda: len(
            self.server.processes("worker")) == 2)
        clients = self.server.clients_by_worker()
        for k in clients:
            if k != worker:
                clients[k].close()
        return clients[worker]

    def write(self, tag):
        """By its home: a generation and a tail."""
        with self.by_worker(1) as c:
            for n in range(2):
                wait_for("an append", lambda n=n: self.book.append(
                    c, ["%s-%d" % (tag, n)]))
                self.book.append_version(c, "newest")
                if n == 0:
                    self.server.ctl("seal", "--all")

    def while_held(self, tag):
        """Who is not concerned goes on."""
        with self.by_worker(0) as c:
            self.assertTrue(self.book.append(c, [tag + "-held"]))
            ids = {r["id"] for r in self.book.kind.list(c)}
            self.assertEqual(self.book.acknowledged() - ids, set())

    def one(self, point, action):
        tag = "%s-%s" % (point, action)
        self.write(tag)
        before = hits(self.server, point)
        self.server.fault("%s=%s" % (point, action))
        process = self.move("test#0")
        try:
            wait_for("%s to act" % point,
                     lambda: hits(self.server, point) > before)
            if action.startswith("hold") and point not in BLOCKING:
                self.while_held(tag)
        finally:
            self.server.fault(point + "=off")
            self.moved(process, "test")
        wait_for("its shard to be empty",
                 lambda: is_settled(self.server, "test#1"))
        self.book.check(self.server)
        self.moved(self.move("test#1"), "test#1")

    def test_each_step(self):
        for point, action in cases():
            with self.subTest(point, action=action):
                self.one(point, action)
        self.book.check_files(self.server)
        check_status(self.server)
        self.book.check_after_restart(self.server)
        self.book.check_base(self.server)


class There(unittest.TestCase):
    """To another instance, which nothing but the fold job tells of it: whoever
    asks it dies, fails or is held, before and behind that."""

    def test_each_step(self):
        one = Server.during(self.addCleanup, instance_id="one", workers=1,
                            args=QUIET, in_memory=True, clock_speed=SPEED)
        two = Server.during(self.addCleanup, instance_id="two", workers=1,
                            args=QUIET, data_dir=one.data_dir)
        with one.client() as c:
            c.create("st")
        book = Book("st")
        for s in (one, two):
            s.wait_walked()
        for point in ("remote_ask", "remote_answer"):
            for action in ("die:1", "fail:5:1", "hold:1"):
                with self.subTest(point, action=action):
                    self.one(one, book, point, action)
        book.check(one)
        book.check(two)
        book.settle(one)
        book.check_base(one)
        for s in (one, two):
            check_status(s)

    def one(self, one, book, point, action):
        tag = "%s-%s" % (point, action)
        with one.client() as c:
            wait_for("it to write", lambda: book.append(c, [tag + "-a"]))
            one.ctl("seal", "--all")
            wait_for("a row", lambda: book.append(c, [tag + "-b"]))
        before = hits(one, point)
        one.fault("%s=%s" % (point, action))
        one.ctl("reassign", "one", "two#0")
        try:
            wait_for("%s to act" % point, lambda: hits(one, point) > before)
        finally:
            one.fault(point + "=off")
        wait_for("it to be folded there", lambda: is_settled(one, "one"))
        one.ctl("reassign", "one", "one#0")


if LONG:
    class Taken(unittest.TestCase):
        """By another instance, of one that was killed."""

        def test_each_step(self):
            args = [*QUIET, "--orphan-grace-secs=1"]
            one = Server.during(self.addCleanup, instance_id="one", workers=1,
                                in_memory=True, lease_secs=4, args=args)
            with one.client() as c:
                c.create("st")
            book = Book("st")
            for n, (point, action) in enumerate(
                    (p, a) for p in TAKING for a in ("die:1", "hold:1")):
                with self.subTest(point, action=action):
                    self.one(one, book, "gone%d" % n, point, action)
            book.settle(one)
            book.check_after_restart(one)
            book.check_base(one)

        def one(self, one, book, name, point, action):
            gone = Server(instance_id=name, workers=1, lease_secs=2, args=one.args,
                          data_dir=one.data_dir)
            with gone, gone.client() as c:
                wait_for("a row", lambda: book.append(c, [name + "-a"]))
                gone.ctl("seal", "--all")
                wait_for("a row", lambda: book.append(c, [name + "-b"]))
                gone.kill_all()
            before = hits(one, point)
            one.fault("%s=%s" % (point, action))
            wait_for("%s to act" % point, lambda: hits(one, point) > before)
            with one.client() as c:
                wait_for("it to go on", lambda: book.append(c, [name + "-c"]))
            one.fault(point + "=off")
            # That it knows of it, first.
            wait_for("its shard to be empty", lambda: name in one.ctl(
                "ordinals") and left(one, name) == 0)
            book.check(one)


if __name__ == "__main__":
    unittest.main()
