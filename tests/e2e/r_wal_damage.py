"""Damaged WAL entries never stop a start (field fault A.3, design 4)."""

import unittest

import memwal
from harness import Server
from rows import row


class WalDamage(unittest.TestCase):
    @staticmethod
    def entry_with(shard, text):
        """The newest entry that holds it."""
        for position in reversed(shard.wal_positions()):
            path = shard.wal_path(position)
            with open(path, "rb") as f:
                if text in f.read():
                    return path
        raise AssertionError("no entry holds %r" % text)

    def damaged(self, damage, expect_before, text=b""):
        """Ten commits, a crash, the damage of the newest entry that holds the
        text, five more rows, another crash."""
        with Server(workers=1, args=["--rollout-flush-interval-secs=0"]) as s:
            with s.client() as c:
                c.create("st")
                for k in range(10):
                    c.append("st", [row("old%d" % k,
                                        content="payload %d" % k)]).must(201)
            s.kill_all()
            shard, = memwal.shards(s.store_dir("st")).values()
            path = self.entry_with(shard, text)
            with open(path, "rb") as f:
                data = bytearray(f.read())
            damage(data, path)
            s.start()
            with s.client() as c:
                before = {r["id"] for r in c.list("st")}
                expect_before({"old%d" % k for k in range(10)}, before)
                for k in range(5):
                    c.append("st", [row("new%d" % k)]).must(201)
            s.kill_all()
            s.start()
            with s.client() as c:
                self.assertEqual({r["id"] for r in c.list("st")},
                                 before | {"new%d" % k for k in range(5)})
                c.merge_all("st")
                self.assertEqual({r["id"] for r in c.list("st")},
                                 before | {"new%d" % k for k in range(5)})
            return s.log()

    def test_cut_to_nothing(self):
        def damage(_, path):
            with open(path, "wb"):
                pass
        log = self.damaged(damage, lambda want, got: self.assertLessEqual(
            got, want))
        self.assertRegex(log, r"(WARN|ERROR) .*st")

    def test_cut_by_a_byte(self):
        def damage(data, path):
            with open(path, "r+b") as f:
                f.truncate(len(data) - 1)
        self.damaged(damage, self.assertEqual)

    def test_a_byte_flipped_in_the_middle(self):
        def damage(data, path):
            at = data.index(b"payload 4")
            with open(path, "r+b") as f:
                f.seek(at)
                f.write(bytes([data[at] ^ 0x20]))
        log = self.damaged(damage, lambda want, got: self.assertEqual(
            want - got, {"old4"}), b"payload 4")
        self.assertRegex(log, r"ERROR .*st")

    def test_garbage_after_the_last_batch(self):
        """A torn end is stepped over: nothing that was acknowledged is lost."""
        def damage(data, path):
            end = len(bytes(data).rstrip(b"\0"))
            end += -end % 8
            with open(path, "r+b") as f:
                f.seek(end + 8)
                f.write(b"\xff" * 64)
        self.damaged(damage, self.assertEqual)


if __name__ == "__main__":
    unittest.main()
