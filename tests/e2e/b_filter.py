"""Lists and counts with filter= and filters=: which rows they give, from tails,
generations and base, and what a bad one is told."""

import json
import unittest

from harness import Server
from rows import row

ROWS = [
    row("a", rollout_id="t1", dataset="math", reward=1.0, role="user",
        policy_version="ckpt-0012", include_in_training=True,
        created_at="2026-01-01T00:00:00Z", content="50% of 10 is 5"),
    row("b", rollout_id="t1", dataset="math", reward=0.1,
        policy_version="ckpt-0007", include_in_training=False,
        created_at="2026-01-02T00:00:00Z", content="a\u00e9b"),
    row("c", rollout_id="t2", policy_version="main", role="tool",
        created_at="2026-01-03T00:00:00Z", content="it's"),
    row("d", rollout_id="t2", dataset="code", reward=-1.5,
        content_type="image/png", artifact_type="shot", binary_payload="AAAA",
        include_in_training=True, created_at="2026-01-04T00:00:00Z"),
]
FILTERS = [
    ({}, "abcd"), ({"rollout_id": "t1"}, "ab"), ({"problem_id": "t2"}, "cd"),
    ({"dataset": "math"}, "ab"), ({"dataset": ""}, "abcd"),
    ({"dataset": None}, "abcd"), ({"policy_version": "main"}, "c"),
    ({"role": "user"}, "a"), ({"role": "assistant"}, "bd"),
    ({"content_type": "image/png"}, "d"), ({"artifact_type": "shot"}, "d"),
    ({"include_in_training": True}, "ad"),
    ({"include_in_training": False}, "b"),
    ({"rollout_id": "t1", "include_in_training": True, "dataset": ""}, "a"),
    ({"rollout_id": "t"}, ""), ({"rollout_id": "T1"}, ""),
]
FILTER = [
    ("reward > 0", "ab"), ("reward = 0.1", "b"), ("reward IS NULL", "c"),
    ("NOT reward > 0", "d"), ("reward > 0 OR role = 'tool'", "abc"),
    ("id IN ('a', 'd', 'x')", "ad"), ("content LIKE '50\\% %'", "a"),
    ("content LIKE 'a_b'", "b"), ("content = 'it''s'", "c"),
    ("version(policy_version) BETWEEN 10 AND 12", "a"),
    ("version(policy_version) IS NULL", "cd"),
    ("created_at >= timestamp '2026-01-03'", "cd"),
    ("include_in_training", "ad"), ("include_in_training IS NOT TRUE", "bc"),
    ("binary_payload IS NOT NULL", "d"), ("relationships IS NULL", ""),
    ("reward BETWEEN -2 AND 0.1 AND rollout_id = 't2'", "d"),
]
BAD_FILTER = [
    ("reward >", "position 9: expected a column or a value, found the end"),
    ("rewrd > 1", "position 1: there is no column 'rewrd'"),
    ("reward = 'x'", "position 10: expected a number (column 'reward')"),
    ("_seq > 1", "position 1: there is no column '_seq'"),
    ("", "position 1: expected a column or a value"),
]
BAD_FILTERS = [
    ('{"id":"a"}', "'id' is no key"), ('{"x":1}', "'x' is no key"),
    ('{"role":1}', "'role' must be a string"),
    ('{"include_in_training":"true"}', "must be a boolean"),
    ('{"role":"a","role":"b"}', "given twice"),
    ('[]', "must be a JSON object"), ('"x"', "must be a JSON object"),
    ('{', "filters"), ('', "filters"),
]


class Filter(unittest.TestCase):
    def given(self, c, **query):
        return "".join(r["id"] for r in c.list("st", **query))

    def see(self, c, where, want, **query):
        self.assertEqual(self.given(c, **query), want, (where, query))
        for offset in range(3):
            self.assertEqual(
                self.given(c, offset=offset, limit=1, **query),
                want[offset:offset + 1], (where, query, offset))
        self.assertEqual(c.count("st", **query), len(want), (where, query))

    def see_all(self, c, where):
        for filters, want in FILTERS:
            self.see(c, where, want, filters=json.dumps(filters))
        for text, want in FILTER:
            self.see(c, where, want, filter=text)
        self.see(c, where, "a", filter="reward > 0.5",
                 filters='{"rollout_id":"t1"}')
        self.see(c, where, "abcd")

    def test_given_from_every_tier(self):
        with Server() as s, s.client() as c:
            c.create("st")
            self.assertEqual(c.count("st"), 0)
            self.assertEqual(self.given(c, filter="reward > 0"), "")
            for r in ROWS:
                c.append("st", [r]).must(201)
            self.see_all(c, "tails")
            c.append("st", ROWS[:1], flush=True).must(201)
            self.see_all(c, "generations")
            c.merge_all("st")
            self.see_all(c, "base")
            c.append("st", ROWS[1:3]).must(201)
            self.see_all(c, "base and tail")

    def test_columns_beside_a_filter(self):
        with Server() as s, s.client() as c:
            c.create("st")
            c.append("st", ROWS).must(201)
            for _ in range(2):
                self.assertEqual(
                    c.list("st", filter="content LIKE '%5%'",
                           columns="reward,binary_payload"),
                    [{"id": "a", "reward": 1}])
                self.assertEqual(
                    c.list("st", filter="role = 'assistant'",
                           columns="binary_payload"),
                    [{"id": "b"}, {"id": "d", "binary_payload": "AAAA"}])
                c.merge_all("st")

    def test_nul(self):
        """Values may hold one, and no query (LIKE has a sign for it)."""
        with Server(workers=1) as s, s.client() as c:
            c.create("st")
            c.append("st", [row("a", rollout_id="t\0"), row("b")]).must(201)
            self.assertEqual(self.given(c, filter="rollout_id LIKE 't_'"), "a")
            for query in ({"filter": "rollout_id = 't\0'"},
                          {"filters": '{"rollout_id":"t\0"}'},
                          {"filters": '{"rollout_id":"t\\u0000"}'}):
                for end in ("", "/count"):
                    reply = c.get("/api/v1/rollouts/st/records%s?%s" % (
                        end, c.encode(**query)))
                    self.assertEqual(reply.status, 400, query)
                    self.assertIn(list(query)[0], reply.error()[1])
                    self.assertIn("U+0000", reply.error()[1])

    def test_bad_ones(self):
        with Server(workers=1) as s, s.client() as c:
            c.create("st")
            for name, cases in (("filter", BAD_FILTER),
                                ("filters", BAD_FILTERS)):
                for text, said in cases:
                    for end in ("", "/count"):
                        reply = c.get("/api/v1/rollouts/st/records" + end +
                                      "?" + c.encode(**{name: text}))
                        self.assertEqual(reply.status, 400, text)
                        code, message = reply.error()
                        self.assertEqual(code, "INVALID_REQUEST")
                        self.assertIn(said, message)
            # No time that any row could have.
            for text in ("9999-12-31T23:59:60Z", "0000-01-01T00:00:00+00:01",
                         "9999-12-31 23:59:60"):
                reply = c.get("/api/v1/rollouts/st/records?" + c.encode(
                    filter="created_at < timestamp '%s'" % text)).must(400)
                self.assertIn("expected a time", reply.error()[1])
            reply = c.get("/api/v1/rollouts/none/records?filter=x")
            self.assertEqual(reply.status, 404)


if __name__ == "__main__":
    unittest.main()
