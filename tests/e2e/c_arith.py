"""832 real rows by 16 clients through 4 workers come back equal (check 2)."""

import random
import threading
import unittest

from harness import Server
from rows import arith, payload, same_rows

CLIENTS = 16


class Arith(unittest.TestCase):
    def append_all(self, server, rows):
        todo = list(rows)
        random.Random(7).shuffle(todo)
        lock = threading.Lock()
        failures = []

        def writer(seed):
            pick = random.Random(seed)
            try:
                with server.client() as c:
                    while True:
                        with lock:
                            batch = [todo.pop() for _ in range(min(
                                pick.randint(1, 20), len(todo)))]
                        if not batch:
                            return
                        got = c.append("st", batch).must(201).json()
                        if got["ids"] != [r["id"] for r in batch]:
                            raise AssertionError("ids %s" % got["ids"])
            except BaseException as e:
                failures.append(e)

        threads = [threading.Thread(target=writer, args=(k,))
                   for k in range(CLIENTS)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(failures, [])

    def check(self, server, rows):
        for c in server.clients_by_worker().values():
            same_rows(self, rows, c.list("st"))
            for r in rows:
                if "binary_payload" in r:
                    self.assertEqual(c.blob("st", r["id"]).must(200).body,
                                     payload(r), r["id"])
            for r in rows[::40]:
                same_rows(self, [r], [c.record("st", r["id"])])
            c.close()

    def test_tail_flush_fold_restart(self):
        rows = arith()
        self.assertEqual(len(rows), 832)
        with Server(workers=4) as s:
            with s.client() as c:
                c.create("st")
                self.append_all(s, rows)
                self.check(s, rows)			# from the tails
                c.append("st", rows[:1], flush=True).must(201)
                self.check(s, rows)			# from generations
                self.assertGreater(c.merge_all("st"), 0)
                self.check(s, rows)			# from the base
            s.restart()
            self.check(s, rows)
            s.kill_all()
            s.start()
            self.check(s, rows)


if __name__ == "__main__":
    unittest.main()
