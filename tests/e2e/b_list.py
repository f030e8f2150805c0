"""Lists come in key order, page without gaps, and take only good queries."""

import unittest

from harness import Server
from rows import row


class List(unittest.TestCase):
    def test_order_limit_offset(self):
        ids = ["a", "B", "aa", "a b", "\u00e9", "z", "0", "10", "9", "Z\u4e16"]
        with Server() as s, s.client() as c:
            c.create("st")
            self.assertEqual(c.list("st"), [])
            for k in range(0, len(ids), 3):
                c.append("st", [row(i) for i in ids[k:k + 3]],
                         flush=k == 3).must(201)
            want = sorted(ids, key=lambda i: i.encode())
            for _ in range(2):
                got = [r["id"] for r in c.list("st")]
                self.assertEqual(got, want)
                for limit in (0, 1, 3, 10, 11, 4294967296):
                    for offset in (0, 1, 9, 10, 11, 4294967296):
                        got = [r["id"] for r in c.list(
                            "st", limit=limit, offset=offset)]
                        self.assertEqual(got, want[offset:offset + limit],
                                         (limit, offset))
                got = [r["id"] for r in c.list("st", offset=4)]
                self.assertEqual(got, want[4:])
                c.merge_all("st")

    def test_bad_queries(self):
        with Server() as s, s.client() as c:
            c.create("st")
            for query in ("limit=abc", "limit=-1", "limit=1.5", "offset=x",
                          "limit=", "offset=99999999999999999999",
                          "limit=%zz", "limit=1&limit=2"):
                reply = c.get("/api/v1/rollouts/st/records?" + query)
                self.assertEqual(reply.status, 400, query)
                self.assertEqual(reply.error()[0], "INVALID_REQUEST")

    def test_long_list(self):
        """More than any buffer holds, streamed, over all kinds of sources."""
        with Server() as s, s.client() as c:
            c.create("st")
            text = "x" * 4000
            want = []
            for k in range(20):
                rows = [row("r%05d" % (k + 20 * i), content=text)
                        for i in range(100)]
                want += [r["id"] for r in rows]
                c.append("st", rows, flush=k in (5, 10)).must(201)
                if k == 10:
                    c.merge_all("st")
            got = c.list("st")
            self.assertEqual([r["id"] for r in got], sorted(want))
            self.assertTrue(all(r["content"] == text for r in got))


if __name__ == "__main__":
    unittest.main()
