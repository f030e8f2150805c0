"""Ids in paths are split first and decoded once (field fault G.5, H.4)."""

import unittest

from harness import Server
from rows import row

IDS = ["a/b", "a%2Fb", "a b", "100%", "\u00e9", "..", ".", "a+b", "?x=1",
       "#", "\U0001f600", "\"", "\\", "%00", "records", "x" * 4096]


class Ids(unittest.TestCase):
    def test_each_comes_back(self):
        with Server() as s, s.client() as c:
            c.create("st")
            c.append("st", [row(i, content=i) for i in IDS]).must(201)
            for flush in (False, True):
                for i in IDS:
                    got = c.record("st", i)
                    self.assertIsNotNone(got, i[:50])
                    self.assertEqual((got["id"], got["content"]), (i, i))
                c.append("st", [row("more")], flush=flush).must(201)
                c.merge_all("st")

    def test_bad_escapes(self):
        with Server() as s, s.client() as c:
            c.create("st")
            for i in ("%", "%2", "%zz", "a%", "%ff", "%c3%28"):
                reply = c.get("/api/v1/rollouts/st/records/" + i)
                self.assertEqual(reply.status, 400, i)


if __name__ == "__main__":
    unittest.main()
