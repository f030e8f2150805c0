"""Generic stores by the contract: 2.3 life cycle, 2.6 routes, 3.3.1 schemas."""

import os
import unittest

from generic import EVERY_TYPE, Generic, ID, STORES, column, row, store_dir
from harness import Server

JSON = {"Content-Type": "application/json"}
SCHEMA = {"columns": [ID, ["n", column("int32")],
                      ["video", column("binary", blob=True)]]}


def schema_of(*columns):
    return {"columns": [ID] + list(columns)}


# What is answered for a schema: status, and words of the message.
BAD_SCHEMAS = [
    (None, 422, "schema"),
    ([], 422, "schema"),
    ({}, 422, "columns"),
    ({"columns": {}}, 422, "columns"),
    ({"columns": ["id"]}, 422, "[0]"),
    ({"columns": [["id"]]}, 422, "[0]"),
    ({"columns": [["id", column("string", nullable=False), 1]]}, 422, "[0]"),
    ({"columns": [[1, column("string")]]}, 422, "name"),
    (schema_of(["a", "string"]), 422, "a"),
    (schema_of(["a", {}]), 422, "type"),
    (schema_of(["a", {"type": 1}]), 422, "type"),
    (schema_of(["a", column("string", nullable=1)]), 422, "nullable"),
    (schema_of(["a", column("string", nullable=None)]), 422, "nullable"),
    (schema_of(["a", column("string", large="no")]), 422, "large"),
    (schema_of(["a", column("binary", blob=0)]), 422, "blob"),
    (schema_of(["a", column("vector")]), 422, "dim"),
    (schema_of(["a", column("vector", dim="3")]), 422, "dim"),
    (schema_of(["a", column("vector", dim=3.0)]), 422, "dim"),
    (schema_of(["a", column("vector", dim=3, metric=1)]), 422, "metric"),
    (schema_of(["a", column("list")]), 422, "item"),
    (schema_of(["a", column("list", item="string")]), 422, "item"),
    ({"columns": []}, 400, "1 to 1024"),
    ({"columns": [ID] + [["c%d" % k, column("bool")] for k in range(1024)]},
     400, "1 to 1024"),
    (schema_of(["", column("string")]), 400, "empty"),
    (schema_of(["_a", column("string")]), 400, "_a"),
    (schema_of(["_seq", column("int64")]), 400, "_seq"),
    (schema_of(["a", column("string")], ["a", column("bool")]), 400, "a"),
    (schema_of(["x" * 257, column("string")]), 400, "256"),
    (schema_of(["a.b", column("string")]), 400, "a.b"),
    (schema_of(["a\u0000", column("string")]), 400, ""),
    ({"columns": [["a", column("string")]]}, 400, "id"),
    ({"columns": [["id", column("string")]]}, 400, "id"),
    ({"columns": [["id", column("int64", nullable=False)]]}, 400, "id"),
    ({"columns": [["ID", column("string", nullable=False)]]}, 400, "id"),
    (schema_of(["a", column("uuid")]), 400, "uuid"),
    (schema_of(["a", column("String")]), 400, "String"),
    (schema_of(["a", column("vector", dim=0)]), 400, "dim"),
    (schema_of(*[["v%d" % i, column("vector", dim=1 << 20)]
                 for i in range(5)]), 400, "16 MiB"),
] + [(schema_of(["a", column("vector", dim=n)]), 400, "dim: must be 1 to")
     for n in (-1, 2**20 + 1, 2**31 - 1, 2**31, -2**31 - 1, 2**63, -2**63 - 1,
               10**30)] + [
    (schema_of(["a", column("vector", dim=3, metric="l3")]), 400, "metric"),
    (schema_of(["a", column("list", item=column("list", item=column("bool")))]),
     400, "list of lists"),
    (schema_of(["a", column("list", item=column("vector", dim=2))]), 400,
     "list of lists"),
    (schema_of(["a", column("list", item=column("binary", blob=True))]), 400,
     "blob"),
]


class Life(unittest.TestCase):
    def test_life_cycle(self):
        with Server() as s, s.client() as c:
            made = c.post(STORES, {
                "name": "clips", "seal_on_add": True, "novel": 1,
                "storage_options": {"k": "v"}, "schema": {"columns": [
                    ["label", column("string")],
                    ["id", column("string", nullable=False, novel=1)],
                    ["emb", column("vector", dim=3, metric="Cosine")],
                    ["e2", column("vector", dim=1)],
                    ["tags", column("list", item=column("string"))],
                    ["n", column("int32", nullable=False)],
                    ["raw", column("binary")],
                    ["video", column("binary", blob=True)],
                    ["long", column("string", large=True)]]}}) \
                .must(201).json()
            self.assertEqual(made["name"], "clips")
            self.assertEqual(made["uri"], store_dir(s, "clips"))
            self.assertEqual(made["schema"], {"columns": [
                ["label", column("string", large=False, nullable=True)],
                ["id", column("string", large=False, nullable=False)],
                ["emb", column("vector", dim=3, metric="Cosine",
                               nullable=True)],
                ["e2", column("vector", dim=1, metric=None, nullable=True)],
                ["tags", column("list", nullable=True,
                                item=column("string", large=False))],
                ["n", column("int32", nullable=False)],
                ["raw", column("binary", blob=False, nullable=True)],
                ["video", column("binary", blob=True, nullable=True)],
                ["long", column("string", large=True, nullable=True)]]})
            self.assertEqual(c.get(STORES + "/clips").must(200).json(), made)
            self.assertEqual(c.get(STORES).must(200).json(), {"stores": [
                {"name": "clips", "uri": made["uri"]}]})
            again = c.post(STORES, {"name": "clips", "schema": SCHEMA})
            self.assertEqual(again.must(409).error()[0], "ALREADY_EXISTS")

            # A name is of its kind.
            c.create("clips")
            self.assertEqual(c.list("clips"), [])
            s.restart()
            with s.client() as c2:
                self.assertEqual(c2.get(STORES + "/clips").must(200).json(),
                                 made)
                c2.request("DELETE", STORES + "/clips").must(204)
                c2.get(STORES + "/clips").must(404)
                c2.request("DELETE", STORES + "/clips").must(404)
                self.assertEqual(c2.get(STORES).json(), {"stores": []})
                self.assertEqual(c2.list("clips"), [])
            self.assertFalse(os.path.isdir(store_dir(s, "clips")))

    def test_bad_schemas_leave_nothing(self):
        with Server() as s, s.client() as c:
            for schema, status, words in BAD_SCHEMAS:
                reply = c.post(STORES, {"name": "st", "schema": schema})
                self.assertEqual(reply.status, status, (schema, reply.body))
                code, message = reply.error()
                self.assertEqual(code, "INVALID_REQUEST")
                self.assertIn(words, message)
            for body, status in (({"name": "st"}, 422), ({}, 422),
                                 ({"name": "-", "schema": SCHEMA}, 400),
                                 ({"name": "st", "schema": SCHEMA,
                                   "seal_on_add": None}, 422),
                                 ({"name": "st", "schema": SCHEMA,
                                   "seal_on_add": "yes"}, 422)):
                self.assertEqual(c.post(STORES, body).status, status, body)
            reply = c.post(STORES, b"{}", headers={"Content-Type": "text/x"})
            self.assertEqual(reply.status, 415)
            self.assertEqual(c.get(STORES).json(), {"stores": []})
            self.assertEqual([n for n in os.listdir(s.data_dir)
                              if n.endswith(".lance")], [])

    def test_good_schemas(self):
        with Server() as s, s.client() as c:
            for k, metric in enumerate(("l2", "euclidean", "cosine", "dot",
                                        "dot_product", "DOT", None)):
                schema = schema_of(["v", column("vector", dim=2,
                                                metric=metric)])
                c.post(STORES, {"name": "m%d" % k, "schema": schema}).must(201)
            Generic(c, "one").create({"columns": [ID]})
            Generic(c, "large").create(
                {"columns": [["id", column("string", large=True,
                                           nullable=False)]]})
            for name in ("one", "large"):
                g = Generic(c, name)
                g.append([row("b"), row("a"), row("b")]).must(201)
                g.flush()
                g.merge_all()
                self.assertEqual(g.list(), [row("a"), row("b")])
                self.assertEqual(g.get("b").json(), row("b"))

    def test_created_again_with_another_schema(self):
        with Server(workers=2) as s:
            clients = s.clients_by_worker().values()
            for k in range(4):
                schema = schema_of(["c%d" % k, column("int32" if k % 2 else
                                                      "string")])
                value = k if k % 2 else str(k)
                r = row("a", **{"c%d" % k: value})
                for c in clients:
                    g = Generic(c, "st")
                    if c is list(clients)[k % 2]:
                        g.create(schema)
                for c in clients:
                    g = Generic(c, "st")
                    g.append([r]).must(201)
                    g.flush()
                    self.assertEqual(g.list(), [r])
                c = list(clients)[0]
                c.request("DELETE", STORES + "/st").must(204)

    def test_an_unfinished_create_is_repeated(self):
        """A directory without an entry is taken over, if it is the same."""
        with Server(faults="store_create=fail:5:1") as s, s.client() as c:
            body = {"name": "st", "schema": EVERY_TYPE}
            reply = c.post(STORES, body)
            self.assertGreaterEqual(reply.status, 500)
            self.assertTrue(os.path.isdir(store_dir(s, "st")))
            for other in ({"schema": SCHEMA}, {"seal_on_add": True}):
                reply = c.post(STORES, dict(body, **other))
                self.assertEqual(reply.status, 400, reply.body)
                self.assertIn("another schema", reply.error()[1])
            made = c.post(STORES, body).must(201).json()
            self.assertEqual(len(made["schema"]["columns"]),
                             len(EVERY_TYPE["columns"]))
            g = Generic(c, "st")
            g.append([row("a")]).must(201)
            self.assertEqual(g.list(), [row("a")])

    def test_unknown_stores(self):
        with Server() as s, s.client() as c:
            c.create("none")		# of another kind
            base = STORES + "/none"
            for reply in (c.get(base), c.get(base + "/rows"),
                          c.get(base + "/rows/a"),
                          c.post(base + "/rows", {"rows": []}),
                          c.post(base + "/get-rows", {"ids": []}),
                          c.post(base + "/flush"),
                          c.post(base + "/merge-wal"),
                          c.request("DELETE", base)):
                self.assertEqual(reply.status, 404)
                self.assertEqual(reply.error(), (
                    "NOT_FOUND", "Generic store 'none' does not exist"))
            for path in ("/-a", "/_registry/rows", "/%2E%2E/rows/a"):
                self.assertEqual(c.get(STORES + path).status, 400, path)
            for method, path in (("PUT", base), ("GET", base + "/flush"),
                                 ("DELETE", base + "/rows/a")):
                self.assertEqual(c.request(method, path).status, 405)
            self.assertEqual(c.get(base + "/rows/a/blob").status, 404)


class Routes(unittest.TestCase):
    def test_append(self):
        with Server() as s, s.client() as c:
            g = Generic(c, "st")
            g.create(SCHEMA)
            before = c.get(g.path).json()["version"]
            self.assertEqual(g.append([row("a", n=1), row("b")]).must(201)
                             .json(), {"version": before, "count": 2})
            self.assertEqual(g.append([]).must(201).json(),
                             {"version": before, "count": 0})
            # Unknown keys beside the rows are ignored; + json is JSON.
            c.post(g.path + "/rows", b'{"x":[{}],"rows":[{"id":"c"}]}',
                   headers={"Content-Type": "application/x+json; a=b"}) \
                .must(201)
            self.assertEqual([r["id"] for r in g.list()], ["a", "b", "c"])
            for body, status in ((b"", 400), (b"{", 400), (b"{}", 422),
                                 (b'{"rows":null}', 422),
                                 (b'{"rows":{}}', 422), (b'{"rows":[1]}', 422),
                                 (b'{"rows":[[]]}', 422),
                                 (b'{"rows":[{"id":"x"}]} x', 400)):
                reply = c.post(g.path + "/rows", body, headers=JSON)
                self.assertEqual(reply.status, status, body)
                self.assertEqual(reply.error()[0], "INVALID_REQUEST")
            for kind in ("text/plain", "multipart/form-data; boundary=x"):
                reply = c.post(g.path + "/rows", b'{"rows":[]}',
                               headers={"Content-Type": kind})
                self.assertEqual(reply.status, 415)
            self.assertEqual(len(g.list()), 3)

    def test_list(self):
        ids = ["a", "B", "aa", "z", "\u00e9", "0", "10", "9"]
        want = sorted(ids, key=lambda i: i.encode())
        with Server() as s, s.client() as c:
            g = Generic(c, "st")
            g.create(SCHEMA)
            self.assertEqual(g.list(), [])
            g.append([row(i, n=k) for k, i in enumerate(ids)]).must(201)
            for limit, offset in ((None, 0), (0, 0), (3, 0), (3, 2), (99, 7),
                                  (1, 99)):
                query = {"offset": offset}
                if limit is not None:
                    query["limit"] = limit
                end = len(ids) if limit is None else offset + limit
                self.assertEqual([r["id"] for r in g.list(**query)],
                                 want[offset:end])
            self.assertEqual(g.list(columns="", limit=1), [row("0")])
            for query in ("limit=x", "offset=-1", "columns=none",
                          "columns=_seq", "columns=n&columns=n"):
                self.assertEqual(c.get(g.path + "/rows?" + query).status, 400)

    def test_get(self):
        with Server() as s, s.client() as c:
            g = Generic(c, "st")
            g.create(SCHEMA)
            g.append([row("a/b c", n=1, video="AQ==")]).must(201)
            for columns, want in (
                    (None, {"n": 1}), ("", {}), ("id", {}), ("n", {"n": 1}),
                    (" n , ,id,", {"n": 1}),
                    ("video,n", {"n": 1, "video": "AQ=="})):
                self.assertEqual(g.get("a/b c", columns).must(200).json(),
                                 row("a/b c", **want))
            reply = g.get("a").must(404)
            self.assertEqual(reply.error()[0], "NOT_FOUND")
            for columns in ("x", "n,x", "_seq", "N"):
                reply = g.get("a/b c", columns).must(400)
                self.assertIn("column", reply.error()[1])

    def test_get_rows(self):
        with Server() as s, s.client() as c:
            g = Generic(c, "st")
            g.create(SCHEMA)
            g.append([row("r%04d" % k, n=k, video="AQ==")
                      for k in range(1024)]).must(201)
            ask = ["r0003", "none", "r0001", "r0003", "r0002"]
            want = [row(i, n=int(i[1:])) for i in ("r0003", "r0001", "r0002")]
            self.assertEqual(g.get_rows(ask).must(200).json(), {"rows": want})
            self.assertEqual(g.get_rows(ask, []).json()["rows"],
                             [row(r["id"]) for r in want])
            self.assertEqual(g.get_rows(ask[:1], ["video"]).json()["rows"],
                             [row("r0003", video="AQ==")])
            self.assertEqual(g.get_rows([]).must(200).json(), {"rows": []})
            every = ["r%04d" % (k * 7 % 1024) for k in range(1024)]
            got = g.get_rows(every).must(200).json()["rows"]
            self.assertEqual([r["id"] for r in got], every)
            # Counted with duplicates, and before the store is looked up.
            for name in ("st", "none"):
                reply = Generic(c, name).get_rows(["a"] * 1025).must(400)
                self.assertIn("1024", reply.error()[1])
            Generic(c, "none").get_rows([]).must(404)
            for body, status in (({}, 422), ({"ids": "a"}, 422),
                                 ({"ids": [1]}, 422), ({"ids": None}, 422),
                                 ({"ids": ["a"], "columns": "n"}, 422),
                                 ({"ids": ["a"], "columns": [1]}, 422),
                                 ({"ids": ["a"], "columns": ["x"]}, 400)):
                self.assertEqual(c.post(g.path + "/get-rows", body).status,
                                 status, body)
            reply = c.post(g.path + "/get-rows", b"[", headers=JSON)
            self.assertEqual(reply.status, 400)
            reply = c.post(g.path + "/get-rows", b'{"ids":[]}',
                           headers={"Content-Type": "text/plain"})
            self.assertEqual(reply.status, 415)

    def test_flush_and_merge(self):
        args = ["--rollout-flush-interval-secs=0",
                "--rollout-merge-after-generations=0"]
        with Server(workers=1, args=args) as s, s.client() as c:
            s.wait_walked()
            g = Generic(c, "st")
            g.create(SCHEMA)
            self.assertEqual(g.merge(), 0)
            for k in range(3):
                g.append([row("a", n=k)]).must(201)
                reply = c.post(g.path + "/flush").must(204)
                self.assertEqual(reply.body, b"")
                g.flush()		# nothing new: no generation
            g.append([row("b")]).must(201)
            version = c.get(g.path).json()["version"]
            self.assertEqual(g.merge(), 4)
            self.assertEqual(g.merge(), 0)
            self.assertGreater(c.get(g.path).json()["version"], version)
            self.assertEqual(g.list(), [row("a", n=2), row("b")])

            # The route for masters, by kind.
            c.create("st")
            for kind, status in (("?kind=generic", 200), ("", 200),
                                 ("?kind=rollout", 200),
                                 ("?kind=datagen", 404), ("?kind=x", 400)):
                reply = c.post("/api/v1/internal/merge-wal/st" + kind)
                self.assertEqual(reply.status, status, kind)
            g.append([row("c")]).must(201)
            self.assertEqual(c.post("/api/v1/internal/merge-wal/st").json(),
                             {"reclaimed": 0})
            self.assertEqual(
                c.post("/api/v1/internal/merge-wal/st?kind=generic").json(),
                {"reclaimed": 1})


if __name__ == "__main__":
    unittest.main()
