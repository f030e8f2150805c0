"""An orderly stop leaves no tail behind: closed by the workers, sealed by the
maintainer, so that other servers see every row (contract 6.9)."""

import unittest

import memwal
from harness import Server
from rows import row, same_rows


class Drain(unittest.TestCase):
    def test_tails_are_sealed(self):
        sent = [row("r%03d" % k, content="x" * 100) for k in range(60)]
        with Server(workers=2) as s:
            clients = s.clients_by_worker()
            clients[0].create("st")
            for k, r in enumerate(sent):
                clients[k % 2].append("st", [r]).must(201)
            where = s.store_dir("st")
            for c in clients.values():
                c.close()
            s.stop()
            for shard in memwal.shards(where).values():
                self.assertEqual(shard.replay_after, shard.wal_positions()[-1])
            s.start()
            with s.client() as c:
                same_rows(self, sent, c.list("st"))


if __name__ == "__main__":
    unittest.main()
