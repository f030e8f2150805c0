"""Rows go in with every field and come out equal (contract 2.4.1 to 2.4.3)."""

import datetime
import json
import unittest

from client import b64
from harness import Server
from rows import canonical, row, same_rows, timestamp

FULL = {
    "id": "full", "rollout_id": "t1", "problem_id": "p9",
    "dataset": "d", "sequence_order": -7, "role": "tool",
    "created_at": "2026-02-03T04:05:06.123456789+02:00",
    "content": "x = 4, \"quoted\" \u00e9 \U0001f600 \u0000 end",
    "content_type": "text/markdown", "model_input_string": "in",
    "model_output_string": "out", "rationale": "", "problem_text": "2+2",
    "user_metadata": "{not json", "input_tokens": [1, -2147483648, 2147483647],
    "output_tokens": [], "num_input_tokens": 3, "num_output_tokens": 0,
    "output_logprobs": [-0.1, 0, 1e-45, 3.4028234e38], "input_logprobs": [],
    "ref_logprobs": [-1.5], "loss_mask": [-128, 127, 0, 1],
    "advantage": -0.57735, "reward": 1, "raw_reward": 0.1, "score": -0.0,
    "grader_id": "g", "include_in_training": False, "exclude_reason": "dup",
    "policy_version": "ckpt-0012",
    "relationships": [{"target_id": "a", "relation": "called_by"},
                      {"target_id": "b", "relation": "r", "weight": 0.3}],
    "payload_size": 9223372036854775807, "payload_checksum": "abc",
    "artifact_type": "png", "binary_payload": b64(bytes(range(256))),
    "metadata": {"n": [1, {"deep": None}], "big": 9007199254740993},
}
NULLS = {k: None for k in FULL if k not in (
    "id", "rollout_id", "sequence_order", "role", "content_type",
    "relationships")}


class Append(unittest.TestCase):
    def test_every_field_and_every_default(self):
        with Server() as s, s.client() as c:
            c.create("st")
            before = datetime.datetime.now(datetime.timezone.utc)
            sent = [FULL, row("bare"), dict(NULLS, id="nulls",
                                            rollout_id="t2")]
            reply = c.append("st", sent).must(201).json()
            self.assertEqual(reply["ids"], ["full", "bare", "nulls"])
            self.assertEqual(reply["count"], 3)
            self.assertIsInstance(reply["version"], int)
            same_rows(self, sent, c.list("st"))

            full = c.record("st", "full")
            self.assertEqual(canonical(full), canonical(FULL))
            self.assertEqual(full["created_at"], "2026-02-03T02:05:06.123456Z")
            self.assertNotIn("binary_payload", full)
            self.assertEqual(full["metadata"]["big"], 9007199254740993)

            bare = c.record("st", "bare")
            made = bare.pop("created_at")
            self.assertEqual(bare, {
                "id": "bare", "rollout_id": "t-bare", "problem_id": "t-bare",
                "sequence_order": 0, "role": "assistant",
                "content_type": "text/plain"})
            drift = timestamp(made) - timestamp(before.isoformat())
            self.assertLess(abs(drift), 60 * 1000 * 1000)
            self.assertIsNone(c.record("st", "absent"))

    def test_request_order_and_version(self):
        with Server() as s, s.client() as c:
            version = c.create("st")["version"]
            for k in range(3):
                ids = ["z%d" % k, "a%d" % k, "z%d" % k]
                reply = c.append("st", [row(i) for i in ids]).must(201).json()
                self.assertEqual(reply["ids"], ids)
                self.assertEqual(reply["count"], 3)
                self.assertEqual(reply["version"], version)

    def test_time_stamps(self):
        cases = {"2026-11-01T08:00:00.000Z": "2026-11-01T08:00:00Z",
                 "1969-12-31T23:59:59.5Z": "1969-12-31T23:59:59.500Z",
                 "2026-01-01T00:00:00.000001+00:00":
                 "2026-01-01T00:00:00.000001Z",
                 "2024-02-29T23:30:00-01:30": "2024-03-01T01:00:00Z"}
        with Server() as s, s.client() as c:
            c.create("st")
            for k, text in enumerate(cases):
                c.append("st", [row("r%d" % k, created_at=text)]).must(201)
            for k, text in enumerate(cases.values()):
                self.assertEqual(c.record("st", "r%d" % k)["created_at"], text)

    def test_unknown_keys_are_named(self):
        with Server() as s, s.client() as c:
            c.create("st")
            reply = c.append("st", [row("a", novel=1, other=[{}]),
                                    row("b", novel="x")]).must(201).json()
            self.assertEqual(sorted(reply["ignored"]), ["novel", "other"])
            self.assertNotIn("ignored",
                             c.append("st", [row("c")]).must(201).json())

    def test_flush_is_asked_for_exactly(self):
        with Server() as s, s.client() as c:
            c.create("st")
            for k, query in enumerate(("?flush", "?flush=true", "?flush=TRUE",
                                       "?flush=1", "?flush=yes", "?flush=0",
                                       "?flushed=true", "?x=1&flush=true&y")):
                c.append("st", [row("r%d" % k)], query=query).must(201)
            self.assertEqual(len(c.list("st")), 8)

    def test_large_and_chunked_bodies(self):
        with Server() as s, s.client() as c:
            c.create("st")
            text = "0123456789abcdef" * 65536		# 1 MiB
            sent = [row("big-%d" % k, content=text) for k in range(3)]
            c.append("st", sent).must(201)
            sent.append(row("chunked", content=text))
            body = json.dumps({"records": sent[-1:]}).encode()
            pieces = (body[i:i + 7777] for i in range(0, len(body), 7777))
            c.post("/api/v1/rollouts/st/records", pieces).must(201)
            same_rows(self, sent, c.list("st"))


if __name__ == "__main__":
    unittest.main()
