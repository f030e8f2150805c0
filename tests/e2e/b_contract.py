"""The rows of contract 2.3, 2.4 and 3.1 that no other scenario walks through.

Bad rows are b_bad_rows.py, names b_stores.py, payloads b_blob.py, multipart
b_multipart.py, ids in paths b_ids.py, pages of lists b_list.py.
"""

import os
import unittest

from b_append import FULL, NULLS
from client import b64, form
from harness import Server
from rows import row, same_rows

STORES = "/api/v1/rollouts"


class Contract(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server.during(cls.addClassCleanup, args=[
            "--rollout-flush-interval-secs=0"])
        cls.server.wait_walked()

    def setUp(self):
        self.c = self.server.client()
        self.store = self.id().rsplit(".", 1)[1]
        self.c.create(self.store)
        self.records = "%s/%s/records" % (STORES, self.store)

    # 2.3

    def test_create_checks_shape_then_name_then_registry(self):
        for body, status in (
                ({"name": "-bad", "storage_options": 5}, 422),
                ({"name": self.store, "storage_options": []}, 422),
                ({"name": "-bad"}, 400),
                ({"name": self.store}, 409)):
            reply = self.c.post(STORES, body)
            self.assertEqual(reply.status, status, body)
        for k, options in enumerate(({}, {"aws_key": "x", "": ""}, None)):
            name = "options-%d" % k
            made = self.c.post(STORES, {"name": name,
                                        "storage_options": options}) \
                .must(201).json()
            self.assertEqual(set(made), {"name", "uri", "version"})
            self.assertEqual(self.c.get("%s/%s" % (STORES, name)).json(), made)

    def test_version_never_falls_and_an_append_leaves_it(self):
        path = "%s/%s" % (STORES, self.store)
        first = self.c.get(path).json()["version"]
        reply = self.c.append(self.store, [row("a")], flush=True).must(201)
        self.assertEqual(reply.json()["version"], first)
        self.assertEqual(self.c.get(path).json()["version"], first)
        self.c.merge_all(self.store)
        folded = self.c.get(path).json()["version"]
        self.assertGreater(folded, first)
        reply = self.c.append(self.store, [row("b")]).must(201)
        self.assertEqual(reply.json()["version"], folded)

    def test_kinds_are_apart(self):
        generic = "/api/v1/generic/" + self.store
        self.assertEqual(self.c.get(generic).status, 404)
        self.assertEqual(self.c.request("DELETE", generic).status, 404)
        self.c.get("%s/%s" % (STORES, self.store)).must(200)

    def test_a_delete_that_fails_can_be_repeated(self):
        """500, the registry row stays."""
        path = "%s/%s" % (STORES, self.store)
        self.c.append(self.store, [row("a")]).must(201)
        for point in ("store_rename", "store_unregister"):
            self.server.fault(point + "=fail:1")
            reply = self.c.request("DELETE", path)
            self.server.fault(point + "=off")
            self.assertIn(reply.status, (500, 503), point)
            listed = self.c.get(STORES).json()["stores"]
            self.assertIn(self.store, [x["name"] for x in listed])
            self.assertEqual(self.c.post(STORES, {"name": self.store}).status,
                             409)
        self.c.request("DELETE", path).must(204)
        self.c.create(self.store)
        self.assertEqual(self.c.list(self.store), [])

    # 2.4.1

    def test_append_checks_media_then_store_then_body(self):
        none = STORES + "/none/records"
        bad_name = STORES + "/-bad/records"
        kind = {"Content-Type": "text/plain"}
        for path, headers, status in (
                (none, kind, 400), (bad_name, kind, 400),
                (none, {}, 404), (bad_name, {}, 400),
                (self.records, {}, 400)):
            reply = self.c.request("POST", path, b"{", headers=headers)
            self.assertEqual(reply.status, status, (path, headers))

    def test_append_answers_with_these_members(self):
        reply = self.c.append(self.store, [row("b"), row("a")]).must(201)
        self.assertEqual(set(reply.json()), {"version", "ids", "count"})
        self.assertEqual(reply.headers["Content-Type"], "application/json")
        self.assertFalse(reply.body.endswith(b"\n"))

    def test_flush_is_the_exact_word(self):
        flushed = 'rollout_appends_total{flush="true"}'
        for k, (query, flushes) in enumerate([
                ("flush", True), ("flush=true", True), ("flush=TrUe", True),
                ("flush=1", True), ("x&flush=1&y", True),
                ("flush=yes", False), ("flush=0", False),
                ("flush=false", False), ("flush=", False),
                ("flush=true ", False), ("flush=%31", False),
                ("flushed=true", False), ("Flush=1", False), ("", False)]):
            before = self.c.metrics()[flushed]
            self.c.append(self.store, [row("r%d" % k)],
                          query="?" + query.replace(" ", "+")).must(201)
            self.assertEqual(self.c.metrics()[flushed] - before, flushes,
                             query)

    def test_what_a_row_may_be(self):
        """Empty texts, repeated rollout ids, sizes that nothing proves."""
        sent = [row("a", rollout_id="", problem_id="", dataset="", role="",
                    content="", content_type="", metadata={}),
                row("b", rollout_id="t", payload_size=7),
                row("c", rollout_id="t", payload_size=-1,
                    binary_payload=b64(b"xyz")),
                row("d", problem_id=None, relationships=[]),
                row("e", metadata=None)]
        for k, value in enumerate([True, 0, -1.5e300, "", "text", [], [None],
                                   {"a": {"b": []}}, {"": "\u0000"}]):
            sent.append(row("m%d" % k, metadata=value))
        self.c.append(self.store, sent).must(201)
        for _ in range(2):
            same_rows(self, sent, self.c.list(self.store))
            self.assertEqual(self.c.record(self.store, "d")["problem_id"],
                             "t-d")
            self.assertEqual(self.c.blob(self.store, "c").body, b"xyz")
            self.assertEqual(self.c.blob(self.store, "b").status, 404)
            self.c.append(self.store, sent[:1], flush=True).must(201)
            self.c.merge_all(self.store)

    # 2.4.2, 2.4.3

    def test_rows_answered_have_what_was_given_and_no_more(self):
        self.c.append(self.store, [FULL, row("bare")]).must(201)
        listed = {r["id"]: r for r in self.c.list(self.store)}
        for row_id in ("full", "bare"):
            got = self.c.get(self.records + "/" + row_id).must(200).json()
            self.assertEqual(set(got), {"record"})
            self.assertEqual(got["record"], listed[row_id])
        self.assertEqual(set(listed["full"]), set(FULL) - {"binary_payload"})
        self.assertEqual(set(listed["bare"]), {
            "id", "rollout_id", "problem_id", "sequence_order", "role",
            "created_at", "content_type"})
        self.assertEqual(self.c.get(self.records + "/none").must(200).body,
                         b'{"record":null}')

    def test_unknown_parameters_say_nothing(self):
        self.c.append(self.store, [row("a")]).must(201)
        for path in ("", "/a", "/a/blob"):
            self.assertEqual(self.c.get(self.records + path + "?novel=1&&=&x")
                             .status, 404 if path == "/a/blob" else 200)

    def test_head_works_wherever_get_does(self):
        self.c.append(self.store, [row("a", binary_payload=b64(b"xyz"))]) \
            .must(201)
        for path in (STORES, "%s/%s" % (STORES, self.store), self.records,
                     self.records + "/a", self.records + "/a/blob",
                     self.records + "/none/blob"):
            got = self.c.get(path)
            head = self.c.request("HEAD", path)
            self.assertEqual((head.status, head.body), (got.status, b""), path)
            self.assertEqual(head.headers["Content-Length"],
                             got.headers["Content-Length"], path)

    # 2.4.4

    def test_blob_knows_no_ranges(self):
        self.c.append(self.store, [row("a", binary_payload=b64(b"0123456789"))
                                   ]).must(201)
        reply = self.c.get(self.records + "/a/blob",
                           headers={"Range": "bytes=2-3"}).must(200)
        self.assertEqual(reply.body, b"0123456789")
        self.assertNotIn("Content-Range", reply.headers)
        self.assertNotIn("Transfer-Encoding", reply.headers)

    # 3.1

    def test_every_column_through_every_tier(self):
        """Deviation 9: no text column is missing before the fold."""
        sent = [FULL, row("bare"), dict(NULLS, id="nulls", rollout_id="t2")]
        self.c.append(self.store, sent).must(201)

        def check():
            same_rows(self, sent, self.c.list(self.store))
            for r in sent:
                same_rows(self, [r], [self.c.record(self.store, r["id"])])
        check()						# tail
        sent.append(row("more"))
        self.c.append(self.store, sent[-1:], flush=True).must(201)
        check()						# generation
        self.c.merge_all(self.store)
        check()						# base


    # 10

    def test_unknown_keys_may_be_refused(self):
        bad = [row("a"), row("b", novel=1)]
        links = [row("a", relationships=[
            {"target_id": "t", "relation": "r", "novel": 1}])]
        for rows, named in ((bad, "'novel'"),
                            (links, "'relationships.novel'")):
            reply = self.c.append(self.store, rows, query="?unknown=reject")
            self.assertEqual(reply.status, 400)
            self.assertIn(named, reply.error()[1])
            reply = self.c.append_form(self.store, form(rows, [(0, b"x")]),
                                       "?unknown=reject")
            self.assertEqual(reply.status, 400)
        self.assertEqual(self.c.list(self.store), [])
        self.c.append(self.store, bad[:1], query="?unknown=reject").must(201)
        for query, status in (("unknown=x", 400), ("unknown", 400),
                              ("unknown=metadata", 501)):
            self.assertEqual(self.c.append(self.store, bad[:1],
                                           query="?" + query).status, status)

    def test_lengths_may_be_checked(self):
        good = [row("a"), row("b", loss_mask=[1]),
                row("c", output_tokens=[], loss_mask=[]),
                row("d", output_tokens=[1, 2], output_logprobs=[0, None],
                    loss_mask=[1, 0]),
                row("e", output_tokens=None, output_logprobs=[1.5],
                    loss_mask=[1], input_tokens=[1, 2, 3])]
        self.c.append(self.store, good, query="?check=lengths").must(201)
        for bad, names in (
                ({"output_tokens": [1], "loss_mask": []},
                 ("output_tokens", "loss_mask")),
                ({"output_tokens": [1], "output_logprobs": [1, 2],
                  "loss_mask": [1]}, ("output_tokens", "output_logprobs")),
                ({"output_logprobs": [], "loss_mask": [1]},
                 ("output_logprobs", "loss_mask"))):
            rows = [row("x"), row("y", **bad)]
            reply = self.c.append(self.store, rows, query="?check=lengths")
            self.assertEqual(reply.status, 400)
            for name in (*names, "records[1]"):
                self.assertIn(name, reply.error()[1])
        self.assertEqual(len(self.c.list(self.store)), len(good))
        self.c.append(self.store, rows).must(201)	# nobody asked
        self.assertEqual(self.c.append(self.store, rows,
                                       query="?check=x").status, 400)


class Restarts(unittest.TestCase):
    def test_what_is_there_without_registry_is_adopted(self):
        """A create that died before it registered can be repeated (2.3); a
        registered name is taken whatever is there."""
        with Server() as s:
            with s.client() as c:
                for name in ("adopted", "hollow"):
                    c.create(name)
                    c.append(name, [row("a")]).must(201)
            self.assertEqual(s.stop(), 0)
            os.unlink(os.path.join(s.data_dir, "_registry", "rollout",
                                   "adopted.json"))
            os.rename(s.store_dir("hollow"), s.store_dir("hollow") + ".away")
            s.start()
            with s.client() as c:
                self.assertEqual(c.get(STORES + "/adopted").status, 404)
                made = c.create("adopted")
                self.assertEqual(made["name"], "adopted")
                self.assertEqual([r["id"] for r in c.list("adopted")], ["a"])
                c.append("adopted", [row("b")]).must(201)
                self.assertEqual(len(c.list("adopted")), 2)
                self.assertEqual(c.post(STORES, {"name": "hollow"}).status,
                                 409)
                self.assertIn(c.get(STORES + "/hollow/records").status,
                              (404, 500))
                c.request("DELETE", STORES + "/hollow").must(204)
                c.create("hollow")
                self.assertEqual(c.list("hollow"), [])


if __name__ == "__main__":
    unittest.main()
