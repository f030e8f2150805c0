"""A seal that failed loses nothing and is tried again (field fault A.1)."""

import unittest

from harness import Server
from rows import row


class FailedSeal(unittest.TestCase):
    def test_rows_of_a_failed_seal_survive(self):
        for point in ("seal_write", "seal_commit", "object_put"):
            with Server(workers=1,
                        args=["--rollout-flush-interval-secs=0"]) as s:
                s.wait_walked()
                with s.client() as c:
                    c.create("st")
                    c.append("st", [row("warm")]).must(201)
                    s.fault("%s=fail:5" % point)
                    reply = c.append("st", [row("a")], flush=True)
                    self.assertGreaterEqual(reply.status, 500, point)
                    s.fault("%s=off" % point)
                    # "a" may have been refused or be durable: say it again.
                    c.append("st", [row("a")]).must(201)
                    c.append("st", [row("b")], flush=True).must(201)
                    self.assertEqual([r["id"] for r in c.list("st")],
                                     ["a", "b", "warm"])
                s.kill_all()
                s.start()
                with s.client() as c:
                    self.assertEqual([r["id"] for r in c.list("st")],
                                     ["a", "b", "warm"], point)
                    c.merge_all("st")
                    self.assertEqual([r["id"] for r in c.list("st")],
                                     ["a", "b", "warm"], point)

    def test_failed_folds_change_nothing(self):
        for point in ("fold_prepare", "fold_write", "fold_commit",
                      "fold_drain"):
            with Server(workers=1,
                        args=["--rollout-flush-interval-secs=0"]) as s, \
                    s.client() as c:
                s.wait_walked()
                c.create("st")
                ids = []
                for k in range(3):
                    ids.append("r%d" % k)
                    c.append("st", [row(ids[-1])], flush=True).must(201)
                s.fault("%s=fail:5" % point)
                reply = c.post("/api/v1/internal/merge-wal/st")
                self.assertGreaterEqual(reply.status, 500, point)
                self.assertEqual([r["id"] for r in c.list("st")], ids, point)
                c.append("st", [row("r3")]).must(201)
                s.fault("%s=off" % point)
                c.merge_all("st")
                self.assertEqual([r["id"] for r in c.list("st")],
                                 ids + ["r3"], point)


if __name__ == "__main__":
    unittest.main()
