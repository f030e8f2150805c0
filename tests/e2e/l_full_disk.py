"""A full disk: 507, reads go on, and it recovers by itself (A.4).

The data directory is a small tmpfs in a mount namespace of the server's own,
which ends with it; a filler file takes what is left of it.
"""

import os
import unittest

from harness import Server
from rows import row, same_rows

LEFT = 4 << 20
MOUNT = 'mkdir -p "$0" && mount -t tmpfs -o size=64m none "$0" && exec "$@"'


def fill(path):
    """A file that leaves LEFT bytes of its file system."""
    fs = os.statvfs(os.path.dirname(path))
    with open(path, "wb") as f:
        os.posix_fallocate(f.fileno(), 0, fs.f_bavail * fs.f_bsize - LEFT)


class FullDisk(unittest.TestCase):
    def test_until_full_and_back(self):
        how = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]
        s = Server(workers=2)
        s.wrap = how + ["sh", "-c", MOUNT, s.data_dir]
        with s, s.client() as c:
            c.create("st")
            filler = "/proc/%d/root%s/filler" % (s.proc.pid, s.data_dir)
            acked, n = [], 0
            for round_ in range(5):
                fill(filler)
                for _ in range(1000):
                    r = row("%d-%d" % (round_, n), content="x" * 200000)
                    n += 1
                    reply = c.append("st", [r])
                    if reply.status != 201:
                        break
                    acked.append(r)
                else:
                    self.fail("the disk never became full")
                self.assertIn(reply.status, (503, 507))
                self.assertIn("Retry-After", reply.headers)
                self.check(c, acked)
                os.unlink(filler)
                r = row("after-%d" % round_)
                c.append("st", [r]).must(201)
                acked.append(r)
                self.check(c, acked)
            self.assertGreater(len(acked), 20)

    def check(self, c, acked):
        """All that was acknowledged, and of the rest whole rows only."""
        known = {r["id"] for r in acked}
        got = c.list("st")
        same_rows(self, acked, [r for r in got if r["id"] in known])
        for r in got:
            self.assertIn(len(r.get("content", "")), (0, 200000))

    def test_one_write_without_space(self):
        """ENOSPC of the commit itself, once and then for a while."""
        with Server(workers=1) as s, s.client() as c:
            c.create("st")
            c.append("st", [row("a")]).must(201)
            for times in (1, 3):
                s.fault("wal_write=fail:28:%d" % times)
                for _ in range(times):
                    reply = c.append("st", [row("refused")])
                    self.assertEqual(reply.status, 507)
                    self.assertEqual(reply.error()[0], "STORAGE_FULL")
                    self.assertEqual(reply.headers["Retry-After"], "5")
                c.append("st", [row("b")]).must(201)
            self.assertEqual([r["id"] for r in c.list("st")], ["a", "b"])


if __name__ == "__main__":
    unittest.main()
