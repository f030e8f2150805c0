"""An acknowledged row is there through every worker at once (check 5, A.7)."""

import itertools
import threading
import unittest

from harness import LONG, SLOW, Server
from rows import row

TRIES = 100000 if LONG else 5000 // SLOW
PAIRS = 4


class WorkersAgree(unittest.TestCase):
    def test_never_a_miss(self):
        with Server(workers=4, args=["--rollout-flush-interval-secs=1"]) as s:
            with s.client() as c:
                c.create("st")
            failures = []

            def pair(k):
                """Appends through one worker, reads through all others."""
                try:
                    clients = s.clients_by_worker()
                    for n in range(TRIES // PAIRS):
                        writer = (k + n) % 4
                        row_id = "%d-%d" % (k, n)
                        got = clients[writer].append(
                            "st", [row(row_id, content=row_id)]).must(201)
                        assert got.worker == writer
                        reader = (writer + 1 + n // 4 % 3) % 4
                        reply = clients[reader].get(
                            "/api/v1/rollouts/st/records/" + row_id).must(200)
                        assert reply.worker == reader
                        record = reply.json()["record"]
                        assert record and record["content"] == row_id, (
                            row_id, writer, reader, record)
                except BaseException as e:
                    failures.append(e)

            threads = [threading.Thread(target=pair, args=(k,))
                       for k in range(PAIRS)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            self.assertEqual(failures, [])

    def test_of_two_writes_every_read_returns_the_second(self):
        tries = 2000 if LONG else 200 // SLOW
        with Server(workers=4, args=["--rollout-flush-interval-secs=1"]) as s:
            clients = s.clients_by_worker()
            clients[0].create("st")
            order = itertools.cycle(itertools.permutations(range(4), 2))
            for n, (a, b) in zip(range(tries), order):
                key = "k%d" % (n % 10)
                clients[a].append("st", [row(key, sequence_order=2 * n)]) \
                    .must(201)
                clients[b].append("st", [row(key, sequence_order=2 * n + 1)]) \
                    .must(201)
                for c in clients.values():
                    self.assertEqual(
                        c.record("st", key)["sequence_order"], 2 * n + 1)
                    if n % 10 == 0:
                        listed = {r["id"]: r["sequence_order"]
                                  for r in c.list("st")}
                        self.assertEqual(listed[key], 2 * n + 1)


if __name__ == "__main__":
    unittest.main()
