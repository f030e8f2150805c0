"""A store is created, seen, listed and deleted, by the contract 2.3 and 5.1."""

import os
import unittest

from harness import Server

STORES = "/api/v1/rollouts"


class Stores(unittest.TestCase):
    def test_life_cycle(self):
        with Server() as s, s.client() as c:
            made = c.post(STORES, {"name": "math-3", "novel_key": 1}) \
                .must(201).json()
            self.assertEqual(made["name"], "math-3")
            self.assertEqual(made["uri"], s.store_dir("math-3"))
            self.assertGreaterEqual(made["version"], 1)
            self.assertTrue(os.path.isdir(s.store_dir("math-3")))

            info = c.get(STORES + "/math-3").must(200).json()
            self.assertEqual(info, made)

            again = c.post(STORES, {"name": "math-3"}).must(409)
            self.assertEqual(again.error()[0], "ALREADY_EXISTS")

            for name in ("zeta", "_a", "9", "a.b-c_d"):
                c.create(name)
            listed = c.get(STORES).must(200).json()["stores"]
            self.assertEqual([x["name"] for x in listed],
                             ["9", "_a", "a.b-c_d", "math-3", "zeta"])
            for x in listed:
                self.assertEqual(set(x), {"name", "uri"})

            gone = c.request("DELETE", STORES + "/math-3").must(204)
            self.assertEqual(gone.body, b"")
            c.get(STORES + "/math-3").must(404)
            c.request("DELETE", STORES + "/math-3").must(404)
            self.assertFalse(os.path.isdir(s.store_dir("math-3")))

    def test_bad_names(self):
        with Server() as s, s.client() as c:
            for name in ("", "-a", ".a", "a/b", "a b", "é", "x" * 129,
                         "_registry", "_stats", "a\u0000"):
                reply = c.post(STORES, {"name": name})
                self.assertEqual(reply.status, 400, name)
                self.assertEqual(reply.error()[0], "INVALID_REQUEST")
            c.create("x" * 128)
            for path in ("/-a", "/_registry/records", "/%2E%2E/records"):
                self.assertEqual(c.get(STORES + path).status, 400, path)
            listed = c.get(STORES).json()["stores"]
            self.assertEqual(len(listed), 1)

    def test_bad_requests(self):
        with Server() as s, s.client() as c:
            json_type = {"Content-Type": "application/json"}
            for body, status in ((b"", 400), (b"{", 400), (b"[]", 422),
                                 (b'"x"', 422), (b"{}", 422),
                                 (b'{"name":7}', 422),
                                 (b'{"name":null}', 422),
                                 (b'{"name":"a","storage_options":{"k":1}}',
                                  422),
                                 (b'{"name":"a"} x', 400)):
                reply = c.post(STORES, body, headers=json_type)
                self.assertEqual(reply.status, status, body)
                self.assertEqual(reply.error()[0], "INVALID_REQUEST")
            reply = c.post(STORES, b'{"name":"a"}',
                           headers={"Content-Type": "text/plain"})
            self.assertEqual(reply.status, 415)
            self.assertEqual(c.get(STORES).json(), {"stores": []})

    def test_unknown_store(self):
        with Server() as s, s.client() as c:
            base = STORES + "/none"
            for reply in (c.get(base), c.get(base + "/records"),
                          c.get(base + "/records/a"),
                          c.get(base + "/records/a/blob"),
                          c.request("DELETE", base),
                          c.append("none", [{"id": "a", "rollout_id": "t"}]),
                          c.post("/api/v1/internal/merge-wal/none")):
                self.assertEqual(reply.status, 404)
                code, message = reply.error()
                self.assertEqual(code, "NOT_FOUND")
                self.assertIn("none", message)

    def test_created_again_it_is_empty(self):
        with Server(workers=4) as s:
            clients = s.clients_by_worker()
            c = clients[0]
            for round_ in range(3):
                c.create("st")
                rows = [{"id": "r%d" % round_, "rollout_id": "t"}]
                for w in clients.values():
                    w.append("st", rows).must(201)
                for w in clients.values():
                    self.assertEqual([r["id"] for r in w.list("st")],
                                     ["r%d" % round_])
                c.request("DELETE", STORES + "/st").must(204)
                for w in clients.values():
                    w.get(STORES + "/st/records").must(404)
                    w.append("st", rows).must(404)

    def test_of_two_creates_one_wins(self):
        with Server(workers=4) as s:
            clients = s.clients_by_worker()
            for k in range(20):
                got = sorted(c.post(STORES, {"name": "s%d" % k}).status
                             for c in clients.values())
                self.assertEqual(got, [201, 409, 409, 409])

    def test_they_survive_a_restart(self):
        with Server() as s:
            with s.client() as c:
                c.create("kept")
                c.create("dropped")
                c.request("DELETE", STORES + "/dropped").must(204)
            s.restart()
            with s.client() as c:
                listed = c.get(STORES).json()["stores"]
                self.assertEqual([x["name"] for x in listed], ["kept"])
                self.assertEqual(c.list("kept"), [])


if __name__ == "__main__":
    unittest.main()
