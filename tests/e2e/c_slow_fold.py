"""While a fold is slow, appends and lists go on and no lock is held (check 6).

fold_prepare is where a fold reads its generations; delayed there it holds the
store's guard for seconds. What happens meanwhile is counted, not timed.
"""

import threading
import unittest

from harness import Server, locks_held, wait_for
from rows import row

DELAY_MS = 3000


class SlowFold(unittest.TestCase):
    def fold_in_thread(self, s):
        done = threading.Event()
        reply = []

        def fold():
            with s.client() as c:
                reply.append(c.merge("st"))
            done.set()

        thread = threading.Thread(target=fold)
        thread.start()
        self.addCleanup(thread.join)
        return done, reply

    def guard_held(self, s):
        return any(store["guard"]["held"] for store in s.status()["stores"])

    def flush_meanwhile(self, clients, done):
        """A flush seals, and does not wait for the fold."""
        for worker, c in clients.items():
            c.append("st", [row("m%d" % worker)], flush=True).must(201)
        self.assertFalse(done.is_set())
        return len(clients)

    def test_appends_and_lists_go_on(self):
        with Server(workers=2) as s:
            s.wait_walked()
            with s.client() as c:
                c.create("st")
                for k in range(4):
                    c.append("st", [row("g%d-%d" % (k, i))
                                    for i in range(50)], flush=True).must(201)
            s.fault("fold_prepare=delay:%d:1" % DELAY_MS)
            done, reply = self.fold_in_thread(s)
            wait_for("the fold to hold its guard",
                     lambda: self.guard_held(s), 10)
            appends = lists = checks = 0
            clients = s.clients_by_worker()
            flushes = self.flush_meanwhile(clients, done)
            while not done.is_set():
                for worker, c in clients.items():
                    c.append("st", [row("a%d-%d" % (worker, appends))]) \
                        .must(201)
                    appends += 1
                    if len(c.list("st")) < 200 + flushes + appends:
                        raise AssertionError("a row is missing")
                    lists += 1
                if appends % 50 == 0:
                    clients[0].append("st", [row("f%d" % appends)],
                                      flush=True).must(201)
                    appends += 1
                if appends % 20 == 0 and self.guard_held(s):
                    self.assertEqual(locks_held(s.status()), [])
                    checks += 1
            self.assertGreater(reply[0], 0)
            self.assertGreater(min(appends, lists), 20)
            self.assertGreater(checks, 0)
            # What was flushed meanwhile may be over the threshold.
            wait_for("the guard to be free", lambda: not self.guard_held(s))
            self.assertEqual(len(clients[0].list("st")), 200 + flushes + appends)

    def test_no_row_is_ever_out_of_sight(self):
        """At every point of a seal and a fold each worker sees all (A.5)."""
        points = ("seal_write", "seal_commit", "seal_publish", "fold_prepare",
                  "fold_write", "fold_commit", "fold_drain", "fold_publish")
        with Server(workers=2) as s:
            s.wait_walked()
            clients = s.clients_by_worker()
            clients[0].create("st")
            clients[0].append("st", [row("r%03d" % k) for k in range(100)]) \
                .must(201)
            for n, point in enumerate(points):
                clients[n % 2].append("st", [row("r%03d" % k)
                                             for k in range(100)]).must(201)
                s.fault("%s=delay:700:1" % point)
                done, _ = self.fold_in_thread(s)
                samples = 0
                while not done.is_set():
                    for c in clients.values():
                        self.assertEqual(len(c.list("st")), 100, point)
                        self.assertIsNotNone(c.record("st", "r050"), point)
                    samples += 1
                self.assertGreater(samples, 1, point)


if __name__ == "__main__":
    unittest.main()
