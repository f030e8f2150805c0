"""Datagen stores are created, seen, listed and deleted (contract 2.3, 5.1)."""

import os
import unittest

from events import STORES, append, create, event, payload
from harness import Server


class Stores(unittest.TestCase):
    def test_life_cycle(self):
        with Server() as s, s.client() as c:
            made = create(c, "gen-1")
            path = os.path.join(s.data_dir, "gen-1.datagen.lance")
            self.assertEqual((made["name"], made["uri"]), ("gen-1", path))
            self.assertGreaterEqual(made["version"], 1)
            self.assertTrue(os.path.isdir(path))
            self.assertEqual(c.get(STORES + "/gen-1").must(200).json(), made)
            again = c.post(STORES, {"name": "gen-1"}).must(409)
            self.assertEqual(again.error()[0], "ALREADY_EXISTS")
            # Names are per kind.
            c.create("gen-1")
            create(c, "a")
            self.assertEqual(
                [(x["name"], set(x)) for x in
                 c.get(STORES).must(200).json()["stores"]],
                [("a", {"name", "uri"}), ("gen-1", {"name", "uri"})])
            c.request("DELETE", STORES + "/gen-1").must(204)
            self.assertFalse(os.path.isdir(path))
            self.assertTrue(os.path.isdir(s.store_dir("gen-1")))
            c.get("/api/v1/rollouts/gen-1").must(200)
            for reply in (c.get(STORES + "/gen-1"),
                          c.request("DELETE", STORES + "/gen-1"),
                          append(c, "gen-1", [event()]),
                          payload(c, "gen-1", "x")):
                self.assertEqual(reply.must(404).error()[0], "NOT_FOUND")
                self.assertIn("gen-1", reply.error()[1])
            create(c, "gen-1")
            s.restart()
            with s.client() as again:
                self.assertEqual(
                    [x["name"] for x in again.get(STORES).json()["stores"]],
                    ["a", "gen-1"])

    def test_names(self):
        with Server(workers=1) as s, s.client() as c:
            for name in ("", "-a", "a/b", "é", "x" * 129, "_registry"):
                self.assertEqual(c.post(STORES, {"name": name}).status, 400)
            for path in ("/-a", "/_registry/events", "/%2E/blobs/x"):
                self.assertIn(c.get(STORES + path).status, (400, 405), path)
            c.post(STORES, {"nam": "x"}).must(422)
            c.post(STORES, {"name": "x"},
                   headers={"Content-Type": "text/plain"}).must(415)

    def test_methods_and_paths(self):
        with Server(workers=1) as s, s.client() as c:
            create(c, "st")
            for path, allow in (("/st", "GET, HEAD, DELETE"),
                                ("/st/events", "POST"),
                                ("/st/items/a/b/events", "GET, HEAD"),
                                ("/st/blobs/x", "GET, HEAD")):
                reply = c.request("PUT", STORES + path, b"").must(405)
                self.assertEqual(reply.headers["Allow"], allow)
                self.assertEqual(reply.body, b"")
            for path in ("/", "/st/", "/st/events/", "/st/items", "/st/items/",
                         "/st/items/a/", "/st/items/a//events", "/st/roots",
                         "/st/roots/a", "/st/roots/a/failures", "/st/blobs",
                         "/st/blobs/a/b", "/st/rows"):
                self.assertEqual(c.get(STORES + path).status, 404, path)
            # What a later version serves: refused, and not as if absent.
            for path in ("/st/items/5", "/st/items/5/a:0", "/st/items/events",
                         "/st/items/5/a:0/failures", "/st/items/a%2Fevents",
                         "/st/overview", "/st/root-status?ids=5"):
                self.assertEqual(c.get(STORES + path).status, 501, path)


if __name__ == "__main__":
    unittest.main()
