"""A batch of events is there as a whole or not at all, to readers while it is
written and after its worker was killed (contract 2.5.1)."""

import threading
import unittest

from client import Lost
from events import append, create, event, of_item
from harness import Server, wait_for

SIZE = 8
BATCHES = 60


def batch(k, n):
    """Some are short and share a commit, some come in pieces."""
    text = "x" * (60000 if n % 10 == 9 else 100)
    return [event("%d-%d" % (k, n), seq, traceback=text)
            for seq in range(SIZE)]


class Atomic(unittest.TestCase):
    def setUp(self):
        self.failures = []
        self.done = threading.Event()
        self.began = {}			# writer: its newest batch
        self.acked = set()

    def guard(self, run, *args):
        try:
            with self.server.client() as c:
                run(c, *args)
        except BaseException as e:
            self.failures.append(e)

    def write(self, c, k):
        for n in range(BATCHES):
            self.began[k] = n
            try:
                reply = append(c, "st", batch(k, n))
            except Lost:
                continue
            if reply.status == 201:
                self.acked.add((k, n))
            elif reply.status < 500:
                raise AssertionError("%d %s" % (reply.status, reply.body))

    def read(self, c, k):
        while not self.done.is_set():
            n = self.began.get(k, 0)
            was_acked = (k, n) in self.acked
            try:
                got = len(of_item(c, "st", "%d-%d" % (k, n)))
            except Lost:
                continue
            if got not in ((SIZE,) if was_acked else (0, SIZE)):
                raise AssertionError("%d of a batch, acknowledged: %s" % (
                    got, was_acked))

    def run_all(self, kills):
        writers = [threading.Thread(target=self.guard, args=(self.write, k))
                   for k in range(3)]
        readers = [threading.Thread(target=self.guard, args=(self.read, k))
                   for k in range(3)]
        for t in writers + readers:
            t.start()
        for _ in range(kills):
            before = len(self.acked)
            wait_for("more batches", lambda: len(self.acked) > before + 9
                     or not any(t.is_alive() for t in writers))
            for pid in self.server.processes("worker")[:1]:
                self.server.kill(pid)
        for t in writers:
            t.join()
        self.done.set()
        for t in readers:
            t.join()
        self.assertEqual(self.failures, [])
        self.assertGreater(len(self.acked), BATCHES)
        with self.server.client() as c:
            for k in range(3):
                for n in range(BATCHES):
                    got = len(of_item(c, "st", "%d-%d" % (k, n)))
                    self.assertIn(got, (SIZE,) if (k, n) in self.acked
                                  else (0, SIZE), (k, n))

    def test_under_load(self):
        with Server(args=["--rollout-flush-interval-secs=1"]) as self.server:
            with self.server.client() as c:
                create(c, "st")
            self.run_all(0)
            self.assertEqual(len(self.acked), 3 * BATCHES)

    def test_killed(self):
        with Server() as self.server:
            with self.server.client() as c:
                create(c, "st")
            self.run_all(4)


if __name__ == "__main__":
    unittest.main()
