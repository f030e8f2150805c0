"""Ids in paths are split first and decoded once (field fault G.5, H.4)."""

import unittest
from urllib.parse import unquote

import events
import generic
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

    def test_words_of_routes(self):
        """They are matched as they were sent, and ids decoded after that."""
        with Server(workers=1) as s, s.client() as c:
            c.create("st")
            c.append("st", [row("count"), row("blob"), row("more")]).must(201)
            records = "/api/v1/rollouts/st/records"
            self.assertEqual(c.get(records + "/count").must(200).json(),
                             {"count": 3})
            for i in ("%63ount", "coun%74", "%63%6F%75%6e%74", "blob",
                      "%62lob"):
                got = c.get("%s/%s" % (records, i)).must(200).json()["record"]
                self.assertEqual(got["id"], unquote(i))
            c.append("st", [row("count", binary_payload="AAAA")]).must(201)
            self.assertEqual(c.get(records + "/count/blob").must(200).body,
                             b"\0\0\0")
            g = generic.Generic(c, "st")
            g.create({"columns": [generic.ID]})
            g.append([{"id": "count"}, {"id": "other"}]).must(201)
            self.assertEqual(c.get(g.path + "/rows/count").must(200).json(),
                             {"count": 2})
            self.assertEqual(c.get(g.path + "/rows/%63ount").must(200).json(),
                             {"id": "count"})
            for path in ("/api/v1/%72ollouts/st", "/%61pi/v1/rollouts",
                         records + "/more/%62lob", "/%6detrics"):
                c.get(path).must(404)
            events.create(c, "st")
            e = events.event("5/events", 0)
            events.append(c, "st", [e]).must(201)
            got = c.get("/api/v1/datagen/st/items/5/%65vents/events").must(200)
            self.assertEqual([x["event_id"] for x in got.json()["events"]],
                             [e["event_id"]])

    def test_bad_escapes(self):
        with Server() as s, s.client() as c:
            c.create("st")
            for i in ("%", "%2", "%zz", "a%", "%ff", "%c3%28"):
                reply = c.get("/api/v1/rollouts/st/records/" + i)
                self.assertEqual(reply.status, 400, i)


if __name__ == "__main__":
    unittest.main()
