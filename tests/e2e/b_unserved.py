"""What the contract has and this version does not serve is refused by name:
who asks for some rows must not get all of them."""

import unittest

from harness import Server
from rows import row


class Unserved(unittest.TestCase):
    def test_refused_by_name(self):
        with Server(workers=1) as s, s.client() as c:
            c.create("st")
            c.append("st", [row("a")]).must(201)
            records = "/api/v1/rollouts/st/records"
            for path, name in (("?order=newest", "order"),
                               ("?version=2&after=a", "after"),
                               ("/a/blob?order=any", "order")):
                reply = c.get(records + path)
                self.assertEqual(reply.status, 501, path)
                self.assertIn("'%s'" % name, reply.json()["error"]["message"])
            for query in ("?on_conflict=error", "?version=2"):
                reply = c.post(records + query,
                               {"records": [row("a", content="other")]})
                self.assertEqual(reply.status, 501)
            self.assertNotIn("content", c.record("st", "a"))
            self.assertEqual(len(c.get(records + "?x=1").must(200)
                                 .json()["records"]), 1)


if __name__ == "__main__":
    unittest.main()
