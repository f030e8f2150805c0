"""
fault_points - each fault point times {die, fail, delay}, then the oracle
(style 12). A test file an action, so that they run beside each other.

A workload passes every point: two workers append, a flush seals, a fold runs,
a store is made and deleted. One point at a time is armed; what is refused or
lost is sent again once it is off. LONG=1 also lets the first passes go by.
"""

import os
import re
import unittest

from oracle import Book, check_status
from client import Lost
from harness import LONG, ROOT, Server, wait_for

LONGER = {"die:1": ["die:1@1", "die:1@2", "die:1@5"],
          "fail:5:1": ["fail:28:3", "fail:5:2@1"], "delay:300:1": []}


def points():
    with open(os.path.join(ROOT, "common", "fault.def")) as f:
        return re.findall(r"^FAULT_POINT\((\w+)", f.read(), re.M)


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
        wait_for(what, lambda: self.some(action), 20)

    def workload(self, book, name):
        """Whatever its steps answer; two rounds, so that also the second
        commit, entry and generation of a shard are passed."""
        s = self.server
        clients = [s.client(), s.client(), s.client()]
        for n in range(2):
            for k, c in enumerate(clients):
                book.append(c, ["%s-%d-%d-%d" % (name, n, k, i)
                                for i in range(3)])
            book.append(clients[0], ["%s-f%d" % (name, n)], flush=True)
            self.some(clients[1].post,
                      "/api/v1/internal/merge-wal/" + book.store)
        other = "other-" + name
        self.some(clients[2].post, "/api/v1/rollouts", {"name": other})
        self.some(clients[2].request, "DELETE", "/api/v1/rollouts/" + other)
        for c in clients:
            c.close()

    def one(self, point, action):
        s = self.server
        name = "%s-%s" % (point, re.sub(r"[^a-z0-9]+", "-", action))
        book = Book(name)
        with s.client() as c:
            c.create(name)
            if point not in ("claim_epoch", "claim_sentinel", "claim_entry"):
                book.append(c, ["warm"])
        s.fault("%s=%s" % (point, action))
        self.workload(book, name)
        s.fault("%s=off" % point)
        wait_for("all processes", lambda: len(
            s.processes("worker")) == 2 and s.processes("maintainer"), 20)

        def append():
            with s.client() as c:
                return book.append(c, ["late"], flush=True)
        self.until_done("an append", append)
        book.check(s)
        if action.startswith("die") or LONG:
            book.check_after_restart(s)

        def fold():
            with s.client() as c:
                reply = c.post("/api/v1/internal/merge-wal/" + name)
                return reply.status == 200 and reply.json()["reclaimed"] == 0
        self.until_done("folds", fold)
        book.check(s)
        book.check_files(s)
        check_status(s)
        with s.client() as c:
            other = "/api/v1/rollouts/other-" + name
            self.until_done("the delete", lambda: c.request(
                "DELETE", other).status in (204, 404))
            c.request("DELETE", "/api/v1/rollouts/" + name).must(204)


def cases(action):
    """A test case with one test for each point, and more in the long form."""
    class Points(FaultPoints):
        pass

    for point in points():
        for what in [action] + (LONGER[action] if LONG else []):
            def test(self, point=point, what=what):
                self.one(point, what)
            setattr(Points, "test_%s_%s" % (
                point, re.sub(r"[^a-z0-9]+", "_", what)), test)
    return Points
