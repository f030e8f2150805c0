#!/usr/bin/env python3
"""Of two writes of one key, the second sent after the first was acknowledged,
every read returns the second: through any workers, with kills in between.

One writer a key gives it version after version, each through another worker;
readers on all workers look on. A version whose outcome nobody knows may show
or not, but never again once a later one was acknowledged.
"""

import random
import threading
import time
import unittest

from oracle import check_status, fold
from client import Lost
from harness import LONG, Server, wait_for
from rows import row

SECONDS = 60 if LONG else 6
KEYS = 3
READERS = 3


class Key:
    def __init__(self, name):
        self.name = name
        self.lock = threading.Lock()
        self.acked = self.sent = 0

    def floor(self):
        with self.lock:
            return self.acked

    def check(self, record, floor):
        """A read that began when floor was the last acknowledged."""
        with self.lock:
            sent = self.sent
        version = record["sequence_order"] if record else 0
        if not floor <= version <= sent:
            raise AssertionError("%s: read %d, acknowledged %d, sent %d" % (
                self.name, version, floor, sent))
        if record and record["content"] != "version %d" % version:
            raise AssertionError("not whole: %s" % record)


class Newest(unittest.TestCase):
    def write(self, s, key, pick, stop):
        """Each version on a connection of its own: any worker's."""
        while not stop.is_set():
            try:
                self.write_one(s, key, pick.random() < 0.05)
            except Lost:
                stop.wait(0.01)

    def write_one(self, s, key, flush=False):
        """False: refused. Lost: nobody knows whether it was written."""
        with key.lock:
            key.sent += 1
            version = key.sent
        r = row(key.name, sequence_order=version,
                content="version %d" % version,
                created_at="2026-01-01T00:00:00Z")
        with s.client() as c:
            reply = c.append("st", [r], flush=flush)
        if reply.status == 201:
            with key.lock:
                key.acked = version
        elif reply.status != 503:
            raise AssertionError("%d %s" % (reply.status, reply.body))
        return reply.status == 201

    def read(self, s, keys, pick, stop):
        while not stop.is_set():
            key = pick.choice(keys)
            floor = key.floor()
            try:
                with s.client() as c:
                    self.read_one(c, key, floor, pick.random() < 0.2)
            except Lost:
                stop.wait(0.01)

    def read_one(self, c, key, floor, by_list):
        path = "/api/v1/rollouts/st/records"
        reply = c.get(path if by_list else path + "/" + key.name)
        if reply.status == 503:
            return
        reply.must(200)
        if not by_list:
            key.check(reply.json()["record"], floor)
            return
        found = [r for r in reply.json()["records"] if r["id"] == key.name]
        if len(found) > 1:
            raise AssertionError("twice: %s" % found)
        key.check(found[0] if found else None, floor)

    def folds(self, s, stop):
        while not stop.wait(0.5):
            with s.client() as c:
                fold(c, "st")

    def check_all(self, s, keys):
        """No writer is left: all workers agree. {key: record}"""
        answers = []
        for c in s.clients_by_worker().values():
            answers.append({r["id"]: r for r in c.list("st")})
            for key in keys:
                key.check(answers[-1].get(key.name), key.floor())
                self.assertEqual(c.record("st", key.name),
                                 answers[-1].get(key.name))
            c.close()
        for a in answers:
            self.assertEqual(a, answers[0])
        return answers[0]

    def start(self, s, keys, stop, failures):
        def guard(body, *args):
            try:
                body(s, *args, stop)
            except BaseException as e:
                failures.append(e)
        work = [(self.write, k, random.Random(k.name)) for k in keys]
        work += [(self.read, keys, random.Random(k)) for k in range(READERS)]
        work += [(self.folds,)]
        threads = [threading.Thread(target=guard, args=w) for w in work]
        for t in threads:
            t.start()
        return threads

    def test_newest_wins(self):
        pick = random.Random(5)
        keys = [Key("key-%d" % k) for k in range(KEYS)]
        stop, failures = threading.Event(), []
        with Server(workers=4, args=["--rollout-flush-interval-secs=1",
                                     "--rollout-merge-after-generations=2"]
                    ) as s:
            with s.client() as c:
                c.create("st")
            threads = self.start(s, keys, stop, failures)
            until = time.monotonic() + SECONDS
            while time.monotonic() < until and not failures:
                stop.wait(0.3)
                children = s.pids()[1:]
                if children:
                    s.kill(pick.choice(children))
            stop.set()
            for t in threads:
                t.join()
            print("%s" % ", ".join("%s: %d of %d" % (
                k.name, k.acked, k.sent) for k in keys), flush=True)
            self.assertEqual(failures, [])
            check_status(s)
            # What the last kill left unknown may show later, if it is the last.
            for k in keys:
                wait_for("the last version", lambda k=k: self.write_one(s, k))
            before = self.check_all(s, keys)
            for k in keys:
                self.assertGreater(k.acked, SECONDS)
            s.kill_all(master_first=False)
            s.start()
            self.assertEqual(self.check_all(s, keys), before)
            with s.client() as c:
                wait_for("folds", lambda: fold(c, "st"))
            self.assertEqual(self.check_all(s, keys), before)
            check_status(s)


if __name__ == "__main__":
    unittest.main()
