"""Kill everything, start again: every acknowledged row is there, once."""

import os
import random
import threading
import unittest

from client import Lost
from harness import LONG, SLOW, Server, wait_for
from rows import row

ROUNDS = 20 if LONG else max(5 // SLOW, 2)


class Recovery(unittest.TestCase):
    def test_rounds_of_crashes(self):
        pick = random.Random(3)
        with Server(workers=3, args=["--rollout-flush-interval-secs=1",
                                     "--rollout-merge-after-generations=2"]
                    ) as s:
            with s.client() as c:
                c.create("st")
            acked, maybe = set(), set()
            for round_ in range(ROUNDS):
                enough = threading.Event()

                def append(k, round_=round_, enough=enough):
                    with s.client() as c:
                        n = 0
                        while True:
                            row_id = "%d-%d-%d" % (round_, k, n)
                            maybe.add(row_id)
                            try:
                                c.append("st", [row(row_id)],
                                         flush=n % 50 == 49).must(201)
                            except (Lost, AssertionError):
                                return
                            acked.add(row_id)
                            n += 1
                            if n == 30:
                                enough.set()

                threads = [threading.Thread(target=append, args=(k,))
                           for k in range(4)]
                for t in threads:
                    t.start()
                self.assertTrue(enough.wait(60))
                threading.Event().wait(pick.random() * 0.5)
                s.kill_all(master_first=round_ % 2 == 0)
                for t in threads:
                    t.join()
                s.start()
                with s.client() as c:
                    got = [r["id"] for r in c.list("st")]
                self.assertEqual(len(set(got)), len(got), "a row twice")
                self.assertEqual(acked - set(got), set(), "lost")
                self.assertEqual(set(got) - maybe, set(), "invented")
                acked |= set(got)	# once seen, it must stay

    def test_a_second_restart_changes_nothing(self):
        with Server(workers=2) as s:
            with s.client() as c:
                c.create("st")
                c.append("st", [row("r%d" % k) for k in range(10)]).must(201)
            seen = None
            left = self.plant_temporary(s.data_dir)
            for _ in range(3):
                s.kill_all()
                s.start()
                with s.client() as c:
                    got = c.list("st")
                    self.assertIn(seen, (None, got))
                    seen = got
            wait_for("what killed processes left half made to go",
                     lambda: not any(map(os.path.exists, left)))

    def plant_temporary(self, data_dir):
        """One old file without a name yet beside all others in the data
        directory but those of generations, which go as a whole."""
        left = []
        for folder, _, names in os.walk(data_dir):
            if names and "/_trash" not in folder and "_gen_" not in folder:
                left.append(os.path.join(folder, ".tmp-1-planted"))
                with open(left[-1], "w", encoding="ascii"):
                    pass
                os.utime(left[-1], (0, 0))
        return left

    def test_fewer_and_more_workers(self):
        """Rows of slots that are gone stay readable (C.2)."""
        with Server(workers=4) as s:
            for c in s.clients_by_worker().values():
                if c.get("/api/v1/rollouts/st").status == 404:
                    c.create("st")
                worker = c.get("/api/v1/health").worker
                c.append("st", [row("w%d" % worker)]).must(201)
            for workers in (1, 4, 2):
                s.kill_all()
                s.workers_wanted = workers
                s.start()
                for c in s.clients_by_worker().values():
                    self.assertEqual([r["id"] for r in c.list("st")],
                                     ["w0", "w1", "w2", "w3"])

    def test_a_worker_dies_and_comes_back(self):
        with Server(workers=2) as s:
            clients = s.clients_by_worker()
            clients[0].create("st")
            for n in range(5):
                for c in clients.values():
                    worker = c.get("/api/v1/health").worker
                    c.append("st", [row("%d-%d" % (n, worker))]).must(201)
                dead = s.processes("worker")[n % 2]
                s.kill(dead)
                wait_for("the replacement", lambda dead=dead: len(
                    [p for p in s.processes("worker") if p != dead]) == 2)
                for c in clients.values():
                    c.close()
                clients = s.clients_by_worker()
                for c in clients.values():
                    self.assertEqual(len(c.list("st")), 2 * n + 2)


if __name__ == "__main__":
    unittest.main()
