#!/usr/bin/env python3
"""A store is deleted and created anew under load, while processes die; of each
kind.

Nothing of the old store is in the new one: no request whose end came before
the new store was asked for may show in it. What was acknowledged by the new
one is there. Whatever the old one still holds up, a reader that does not read,
an append under way, does not keep the name; and no request hangs.
"""

import random
import threading
import time
import unittest

from oracle import check_status
from client import Lost
from harness import LONG, SLOW, Server, wait_for
from kinds import Datagen, Generic, Rollout

APPENDERS = 4
STUCK_SECONDS = 2.0 * SLOW


class Load:
    """Appenders that note, by time, what their requests came to."""

    def __init__(self, server, kind):
        self.server = server
        self.kind = kind
        self.lock = threading.Lock()
        self.ended = {}			# id: when its request began and ended
        self.acked = {}
        self.failures = []
        self.slowest = 0.0
        self.stop = threading.Event()
        self.threads = [threading.Thread(target=self.guard, args=(k,))
                        for k in range(APPENDERS)]
        for t in self.threads:
            t.start()

    def guard(self, k):
        try:
            with self.server.client() as c:
                self.append(c, k)
        except BaseException as e:
            self.failures.append(e)

    def append(self, c, k):
        n = 0
        while not self.stop.is_set():
            name = "%d-%d" % (k, n)
            n += 1
            began = time.monotonic()
            try:
                reply = self.kind.append(c, [self.kind.row(name)],
                                         flush=n % 20 == 0)
                status = reply.status
            except Lost:
                status = 0
            ended = time.monotonic()
            if status not in (0, 201, 400, 404, 503):
                raise AssertionError("%d %s" % (status, reply.body))
            with self.lock:
                self.slowest = max(self.slowest, ended - began)
                self.ended[name] = (began, ended)
                if status == 201:
                    self.acked[name] = (began, ended)
            if status != 201:
                c.close()
                self.stop.wait(0.005)

    def end(self):
        self.stop.set()
        for t in self.threads:
            t.join()


class Recreate:
    kind = None				# one of kinds.py, its store is st
    rounds = 0

    def ask(self, s, method, path, body, wanted):
        """Until it has such an answer. When that try began, and ended."""
        def once():
            began = time.monotonic()
            try:
                with s.client() as c:
                    reply = c.request(method, path, body)
            except Lost:
                return None
            if reply.status not in wanted + (503,):
                raise AssertionError("%s: %d %s" % (
                    method, reply.status, reply.body))
            if reply.status == 503:
                return None
            return began, time.monotonic()
        return wait_for("%s %s" % (method, path), once, 10)

    def life(self, s, load, pick, kills):
        """One store: created, appended to, deleted. Its rows are its own."""
        asked = time.monotonic()
        # A create that died half way may have made it: 409.
        _, created = self.ask(s, "POST", self.kind.stores, self.kind.body,
                              (201, 409))
        for _ in range(4):
            load.stop.wait(0.15)
            children = s.pids()[1:]
            if kills and children and pick.random() < 0.6:
                s.kill(pick.choice(children))
        until = time.monotonic()
        ids = self.list(s)
        with load.lock:
            before = [i for i in ids if i in load.ended and
                      load.ended[i][1] < asked]
            gone = [i for i, (began, ended) in load.acked.items()
                    if began > created and ended < until and i not in ids]
        self.assertEqual(before, [], "of the store before")
        self.assertEqual(gone, [], "acknowledged and gone")
        self.ask(s, "DELETE", self.kind.path, None, (204, 404))
        return len(ids)

    def list(self, s):
        def once():
            try:
                with s.client() as c:
                    reply = c.get(self.kind.list_path)
                    return reply.status == 200 and reply
            except Lost:
                return None
        return set(self.kind.ids(wait_for("a list", once, 10)))

    def create(self, c):
        c.post(self.kind.stores, self.kind.body).must(201)

    def ids(self, c):
        return self.kind.ids(c.get(self.kind.list_path))

    def run_lives(self, kills):
        pick = random.Random(3)
        with Server(workers=3, args=["--rollout-flush-interval-secs=1"]) as s:
            load = Load(s, self.kind)
            try:
                rows = [self.life(s, load, pick, kills)
                        for _ in range(self.rounds)]
            finally:
                load.end()
            print("kills: %s, rows: %s, %d requests, %d acknowledged, slowest "
                  "%.2f s" % (kills, rows, len(load.ended), len(load.acked),
                              load.slowest), flush=True)
            self.assertEqual(load.failures, [])
            self.assertLess(load.slowest, STUCK_SECONDS)
            self.assertGreater(sum(rows), self.rounds)
            check_status(s)
            s.kill_all()
            s.start()
            with s.client() as c:
                c.get(self.kind.path).must(404)
                self.create(c)
                self.assertEqual(self.ids(c), [])
                wait_for("folds", lambda: self.kind.fold(c))
                self.assertEqual(self.ids(c), [])
            check_status(s)

    def test_under_load(self):
        self.run_lives(False)

    def test_under_load_with_kills(self):
        self.run_lives(True)

    def test_a_slow_reader_keeps_no_name(self):
        """It holds the old store's view; the new one is served meanwhile."""
        with Server(workers=2) as s, s.client() as c:
            self.create(c)
            for n in range(100):
                self.kind.append(c, [self.kind.row("r%d" % n, "x" * 200000)]) \
                    .must(201)
            with s.raw(timeout=20) as slow:
                slow.send(("GET %s HTTP/1.1\r\nHost: x\r\n\r\n" %
                           self.kind.list_path).encode())
                slow.sock.recv(1000)
                c.request("DELETE", self.kind.path).must(204)
                c.get(self.kind.path).must(404)
                self.create(c)
                for n, client in enumerate(s.clients_by_worker().values()):
                    self.assertEqual(len(self.ids(client)), n)
                    self.kind.append(client, [self.kind.row("n%d" % n)],
                                     flush=True).must(201)
                    self.assertEqual(len(self.ids(client)), n + 1)
                    client.close()
                c.request("DELETE", self.kind.path).must(204)
                self.create(c)
                self.assertEqual(self.ids(c), [])
            check_status(s)


class Rollouts(Recreate, unittest.TestCase):
    kind = Rollout("st")
    rounds = 40 if LONG else 6


class Datagens(Recreate, unittest.TestCase):
    kind = Datagen("st")
    rounds = 20 if LONG else 3


class Generics(Recreate, unittest.TestCase):
    kind = Generic("st")
    rounds = 20 if LONG else 3


if __name__ == "__main__":
    unittest.main()
