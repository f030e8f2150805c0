"""Rows that were appended together are read one by one from their batch, which
a worker keeps; what was written over them, sealed or folded meanwhile counts."""

import unittest

from client import b64
from harness import Server
from rows import row


class LargeBatch(unittest.TestCase):
    def test_gets_of_one_commit(self):
        def rows(which, keys):
            return [row("k%03d" % k, content="%s %d " % (which, k) + "x" * 900,
                        binary_payload=b64(b"%d" % k)) for k in keys]

        with Server(workers=2) as s:
            clients = s.clients_by_worker()
            clients[0].create("st")
            want = {}

            def write(worker, which, keys):
                new = rows(which, keys)
                clients[worker].append("st", new).must(201)
                want.update((r["id"], r["content"]) for r in new)

            def check():
                for k in range(0, 120, 7):
                    key = "k%03d" % k
                    for c in clients.values():
                        self.assertEqual(c.record("st", key)["content"],
                                         want[key])
                        self.assertEqual(c.blob("st", key).body, b"%d" % k)

            write(0, "first", range(120))
            check()
            write(1, "second", range(0, 120, 2))
            check()
            clients[0].append("st", [row("f")], flush=True).must(201)
            write(0, "third", range(0, 120, 3))
            check()
            clients[0].merge_all("st")
            check()
            write(1, "fourth", range(60))
            check()


if __name__ == "__main__":
    unittest.main()
