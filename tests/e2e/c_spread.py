"""64 connections spread over 4 workers, none with fewer than 4 (check 7)."""

import collections
import unittest

from harness import Server


class Spread(unittest.TestCase):
    def test_connections(self):
        with Server(workers=4) as s:
            # Until then who has started accepts for who has not.
            for c in s.clients_by_worker().values():
                c.close()
            clients = [s.client() for _ in range(64)]
            for _ in range(3):
                seen = collections.Counter(
                    c.get("/api/v1/health").must(200).worker for c in clients)
                self.assertEqual(sorted(seen), [0, 1, 2, 3])
                self.assertGreaterEqual(min(seen.values()), 4, seen)
            for c in clients:
                c.close()


if __name__ == "__main__":
    unittest.main()
