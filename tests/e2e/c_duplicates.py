"""Of two writes of one key the later wins, wherever the two may lie (check 5).

The first goes through one worker, the second, sent after the first was
acknowledged, through the other; their shards are then sealed and folded in
either order. Every read through every worker returns the second throughout.
"""

import unittest

import memwal
from client import b64
from harness import Server, wait_for
from rows import row


class Duplicates(unittest.TestCase):
    def newest_everywhere(self, clients, where):
        for worker, c in clients.items():
            got = {r["id"]: r.get("content") for r in c.list("st")}
            for key in self.keys:
                self.assertEqual(got[key], "new", (where, worker))
                self.assertEqual(c.record("st", key)["content"], "new",
                                 (where, worker))
                self.assertEqual(c.blob("st", key).must(200).body, b"new",
                                 (where, worker))
            self.assertEqual(len(got), len(c.list("st")), where)

    def write(self, c, which, flush=False):
        c.append("st", [row(k, content=which,
                            binary_payload=b64(which.encode()))
                        for k in self.keys], flush=flush).must(201)

    def setUp(self):
        self.keys = ["k%03d" % k for k in range(50)]

    def test_tails_generations_base(self):
        for first, second in ((0, 1), (1, 0), (0, 0)):
            with Server(workers=2) as s:
                clients = s.clients_by_worker()
                clients[0].create("st")
                self.write(clients[first], "old")
                self.write(clients[second], "new")
                self.newest_everywhere(clients, "tails")
                clients[0].append("st", [row("x")], flush=True).must(201)
                self.newest_everywhere(clients, "generations")
                clients[0].merge_all("st")
                self.newest_everywhere(clients, "base")
                s.restart()
                clients = s.clients_by_worker()
                self.newest_everywhere(clients, "base after a restart")

    def test_old_in_base_or_generation_new_in_tail(self):
        for first, second in ((0, 1), (1, 0), (0, 0)):
            with Server(workers=2) as s:
                clients = s.clients_by_worker()
                clients[0].create("st")
                self.write(clients[first], "older")
                clients[0].merge_all("st")
                self.write(clients[first], "old", flush=True)
                self.write(clients[second], "new")
                self.newest_everywhere(clients, "base, generation, tail")
                s.kill_all()
                s.start()
                clients = s.clients_by_worker()
                self.newest_everywhere(clients, "after a crash")
                clients[0].merge_all("st")
                self.newest_everywhere(clients, "folded")

    def one_shard_folded_first(self, newer):
        """Two generations of one shard fold by count while the other shard,
        with one, waits."""
        with Server(workers=2,
                    args=["--rollout-merge-after-generations=2",
                          "--rollout-flush-interval-secs=86400"]) as s:
            s.wait_walked()
            clients = s.clients_by_worker()
            clients[0].create("st")
            older = 1 - newer
            self.write(clients[older], "old")
            self.write(clients[newer], "new", flush=True)
            folds = newer if self.fold_newer_first else older
            shard = {w: memwal.shard_uuid(memwal.ordinal("test", w))
                     for w in (0, 1)}
            clients[folds].append("st", [row("y")], flush=True).must(201)
            wait_for("the fold by count", lambda: memwal.pending(
                s.store_dir("st"))[shard[folds]] == 0)
            left = memwal.pending(s.store_dir("st"))[shard[1 - folds]]
            self.assertEqual(left, 1)
            self.newest_everywhere(clients, "one shard folded")
            self.assertGreaterEqual(clients[0].merge_all("st"), 1)
            self.assertEqual(set(memwal.pending(
                s.store_dir("st")).values()), {0})
            self.newest_everywhere(clients, "both folded")
            self.assertEqual(len(clients[0].list("st")), len(self.keys) + 1)

    def test_newer_folded_first(self):
        self.fold_newer_first = True
        for newer in (0, 1):
            self.one_shard_folded_first(newer)

    def test_older_folded_first(self):
        self.fold_newer_first = False
        for newer in (0, 1):
            self.one_shard_folded_first(newer)

    def test_within_one_request_the_later_row_wins(self):
        with Server() as s, s.client() as c:
            c.create("st")
            rows = [row("k", content="%d" % k) for k in range(100)]
            c.append("st", rows).must(201)
            for flush in (False, True):
                self.assertEqual(c.record("st", "k")["content"], "99")
                self.assertEqual(len(c.list("st")), 1 + flush)
                c.append("st", [row("other")], flush=True).must(201)
            c.merge_all("st")
            self.assertEqual(c.record("st", "k")["content"], "99")
            self.assertEqual(len(c.list("st")), 2)


if __name__ == "__main__":
    unittest.main()
