#!/usr/bin/env python3
"""Killed again and again under load, it loses no acknowledged row (check 4).

Every 200 ms a random worker or the maintainer dies, while clients append, get,
list and fold; then everything dies at once, the master first in every second
round, and is started again. While the master lives no request may take longer
than two seconds, whatever its outcome; a fold, which is work, no longer than
ten. A process that is stopped is dead once its heartbeat is too old.
"""

import datetime
import random
import signal
import threading
import time
import unittest

from oracle import Book, check_status, check_temporary, fold
from client import Lost
from harness import LONG, SLOW, Server, alive, wait_for

ROUNDS = 4 if LONG else 2
SECONDS = 60 if LONG else 5
APPENDERS, READERS = 6, 2
PAGE = 500
STUCK_SECONDS = 2.0 * SLOW
FOLD_SECONDS = 10.0 * SLOW
BEAT_SECONDS = 5.0			# master/child.c: older is dead


class Load:
    """Threads that append and read until stopped, and what they saw."""

    def __init__(self, server, book, round_):
        self.server = server
        self.book = book
        self.stopping = threading.Event()
        self.failures = []
        self.slowest = self.slowest_fold = 0.0
        self.requests = self.lost = self.folds = 0
        self.under_way = {}		# thread: since when
        work = [(self.append, "%d-%d" % (round_, k))
                for k in range(APPENDERS)]
        work += [(self.read, str(k)) for k in range(READERS)]
        work += [(self.fold, "")]
        self.threads = [threading.Thread(target=self.guard, args=w)
                        for w in work]
        for t in self.threads:
            t.daemon = True		# a failed test does not wait for them
            t.start()

    def guard(self, body, name):
        try:
            with self.server.client() as c:
                body(c, name)
        except BaseException as e:
            self.failures.append(e)

    def timed(self, what, action):
        started = time.monotonic()
        self.under_way[threading.get_ident()] = started
        try:
            return action()
        finally:
            del self.under_way[threading.get_ident()]
            took = time.monotonic() - started
            if not self.stopping.is_set():
                self.slowest = max(self.slowest, took)
            if took > STUCK_SECONDS / 2:
                print("slow: %.2f s until %s, %s" % (
                    took, datetime.datetime.utcnow().time(), what), flush=True)
            self.requests += 1

    def append(self, c, name):
        n = 0
        while not self.stopping.is_set():
            ids = ["%s-%d.%d" % (name, n, k) for k in range(1 + n % 3)]
            flush = n % 40 == 39
            if not self.timed("flush" if flush else "append",
                              lambda ids=ids, flush=flush: self.book.append(
                                  c, ids, flush=flush)):
                self.lost += 1
                self.stopping.wait(0.01)
                c.close()		# another worker may be there
            n += 1

    def read(self, c, name):
        pick = random.Random(name)
        while not self.stopping.is_set():
            acked = self.book.acknowledged()
            try:
                if pick.random() < 0.2:
                    # A page: all rows would keep this one interpreter, and
                    # with it every client, busy for seconds.
                    first = pick.randrange(len(acked) + 1)
                    reply = self.timed("list", lambda: c.get(
                        "/api/v1/rollouts/st/records?limit=%d&offset=%d" % (
                            PAGE, first)))
                    if reply.status == 200:
                        self.book.check_page(reply.json()["records"], acked)
                elif acked:
                    key = pick.choice(list(acked))
                    reply = self.timed("get", lambda: c.get(
                        "/api/v1/rollouts/st/records/" + key))
                    if reply.status == 200 and not reply.json()["record"]:
                        raise AssertionError("acknowledged, not found: " + key)
                else:
                    continue
                if reply.status not in (200, 503):
                    raise AssertionError("%d %s" % (reply.status, reply.body))
            except Lost:
                self.lost += 1
                self.stopping.wait(0.01)

    def fold(self, c, _):
        while not self.stopping.wait(0.3):
            started = time.monotonic()
            self.folds += fold(c, self.book.store)
            if not self.stopping.is_set():
                self.slowest_fold = max(self.slowest_fold,
                                        time.monotonic() - started)

    def settle(self):
        """Until nothing is under way that began before now."""
        now = time.monotonic()
        wait_for("requests to end", lambda: min(
            list(self.under_way.values()), default=now) >= now)

    def stop(self):
        self.stopping.set()

    def join(self):
        for t in self.threads:
            t.join()

    def report(self, what):
        print("%s: %d requests, %d without answer, %d rows acknowledged, "
              "slowest %.2f s, fold %.2f s" % (
                  what, self.requests, self.lost, len(self.book.acked),
                  self.slowest, self.slowest_fold), flush=True)


class Kill(unittest.TestCase):
    def one_round(self, s, book, round_, pick):
        load = Load(s, book, round_)
        until = time.monotonic() + SECONDS
        kills = 0
        while time.monotonic() < until and not load.failures:
            load.stopping.wait(0.2)
            children = s.pids()[1:]
            if children:
                s.kill(pick.choice(children))
                kills += 1
        load.stop()
        s.kill_all(master_first=round_ % 2 == 1)
        load.join()
        load.report("round %d: %d kills" % (round_, kills))
        self.assertEqual(load.failures, [])
        self.assertLess(load.slowest, STUCK_SECONDS)
        self.assertLess(load.slowest_fold, FOLD_SECONDS)
        self.assertGreater(kills, SECONDS)
        s.start()
        book.check(s)
        check_status(s)
        book.check_files(s)

    def test_kill_under_load(self):
        pick = random.Random(11)
        with Server(workers=4, args=["--rollout-flush-interval-secs=1",
                                     "--rollout-merge-after-generations=3"]
                    ) as s:
            with s.client() as c:
                c.create("st")
            book = Book("st")
            for round_ in range(ROUNDS):
                before = len(book.acked)
                self.one_round(s, book, round_, pick)
                self.assertGreater(len(book.acked), before)
            book.check_after_restart(s)
            book.check_base(s)
            check_temporary(s)
            self.assertEqual(sorted(book.check(s)), sorted(book.acked))
            book.check_files(s)
            check_status(s)

    def test_end_under_load(self):
        """SIGTERM: exit 0, and what was acknowledged is there."""
        with Server(workers=3, args=["--rollout-flush-interval-secs=1"]) as s:
            with s.client() as c:
                c.create("st")
            book = Book("st")
            for round_ in range(2):
                before = len(book.acked)
                load = Load(s, book, round_)
                try:
                    wait_for("appends", lambda b=before: len(book.acked) >
                             b + 300 or load.failures)
                    self.assertEqual(s.stop(), 0)
                finally:
                    load.stop()
                    load.join()
                self.assertEqual(load.failures, [])
                s.start()
                book.check(s)
            book.check_base(s)
            check_status(s)

    def stop_one(self, s, load, role):
        """It hangs, then is dead, and its requests end with it."""
        pid = s.processes(role)[0]
        load.slowest = 0.0
        s.kill(pid, signal.SIGSTOP)
        wait_for("a replacement", lambda: not alive(pid) and
                 pid not in s.processes(role) and s.processes(role),
                 BEAT_SECONDS + 5)
        check_status(s)

    def test_stop_under_load(self):
        with Server(workers=3, args=["--rollout-flush-interval-secs=1"]) as s:
            with s.client() as c:
                c.create("st")
            book = Book("st")
            load = Load(s, book, 0)
            try:
                for role in ("worker", "maintainer"):
                    before = len(book.acked)
                    self.stop_one(s, load, role)
                    wait_for("appends", lambda b=before: len(book.acked) > b)
                    # Else one request could wait for both of the stopped.
                    load.settle()
            finally:
                load.stop()
                load.join()
            load.report("stopped twice")
            self.assertEqual(load.failures, [])
            self.assertLess(load.slowest, BEAT_SECONDS + STUCK_SECONDS)
            book.check(s)
            book.check_after_restart(s)
            book.check_base(s)
            check_status(s)


if __name__ == "__main__":
    unittest.main()
