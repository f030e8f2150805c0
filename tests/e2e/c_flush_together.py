"""64 clients that append with ?flush=true share seals (check 7)."""

import threading
import unittest

import memwal
from harness import SLOW, Server
from rows import row, same_rows

CLIENTS = 64
EACH = 6 if SLOW == 1 else 3


class FlushTogether(unittest.TestCase):
    def test_far_fewer_generations_than_requests(self):
        with Server(workers=4) as s:
            with s.client() as c:
                c.create("st")
            failures, sent = [], []

            def client(k):
                try:
                    with s.client() as c:
                        for n in range(EACH):
                            r = row("%d-%d" % (k, n))
                            c.append("st", [r], flush=True).must(201)
                            sent.append(r)
                except BaseException as e:
                    failures.append(e)

            threads = [threading.Thread(target=client, args=(k,))
                       for k in range(CLIENTS)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            self.assertEqual(failures, [])
            made = memwal.generations_made(s.store_dir("st"))
            self.assertGreater(made, 0)
            self.assertLess(made * 4, CLIENTS * EACH)
            with s.client() as c:
                same_rows(self, sent, c.list("st"))

    def test_what_is_acknowledged_is_sealed(self):
        """After the 201 another engine sees the row in a generation or base."""
        with Server(workers=2) as s:
            s.wait_walked()
            clients = s.clients_by_worker()
            clients[0].create("st")
            clients[1].append("st", [row("first")]).must(201)
            clients[0].append("st", [row("second")], flush=True).must(201)
            made = memwal.shards(s.store_dir("st"))
            self.assertEqual(len(made), 2)
            for shard in made.values():
                self.assertEqual(len(shard.generations), 1)


if __name__ == "__main__":
    unittest.main()
