"""Bad input is a 400 that names row and field; nothing of it is written."""

import unittest

from harness import Server
from rows import row

RECORDS = "/api/v1/rollouts/st/records"

# What is wrong, and the field that the message must name.
BAD_FIELDS = [
    ({"id": None}, "id"), ({"id": ""}, "id"), ({"id": 7}, "id"),
    ({"id": "a\u0000b"}, "id"),
    ({"id": "x" * 4097}, "id"),
    ({"rollout_id": None}, "rollout_id"), ({"rollout_id": []}, "rollout_id"),
    ({"problem_id": 1}, "problem_id"), ({"dataset": {}}, "dataset"),
    ({"sequence_order": None}, "sequence_order"),
    ({"sequence_order": 1.0}, "sequence_order"),
    ({"sequence_order": 2147483648}, "sequence_order"),
    ({"sequence_order": "1"}, "sequence_order"),
    ({"role": None}, "role"), ({"role": 1}, "role"),
    ({"content_type": None}, "content_type"),
    ({"created_at": "yesterday"}, "created_at"),
    ({"created_at": "2026-02-30T00:00:00Z"}, "created_at"),
    ({"created_at": "2026-01-01T00:00:00"}, "created_at"),
    ({"created_at": 1767225600}, "created_at"),
    ({"created_at": "9999-12-31T23:59:60Z"}, "created_at"),
    ({"created_at": "0000-01-01T00:00:00+23:59"}, "created_at"),
    ({"content": 5}, "content"), ({"content": ["x"]}, "content"),
    ({"input_tokens": [1, "2"]}, "input_tokens"),
    ({"input_tokens": [1.5]}, "input_tokens"),
    ({"output_tokens": [2147483648]}, "output_tokens"),
    ({"output_tokens": 7}, "output_tokens"),
    ({"output_logprobs": ["x"]}, "output_logprobs"),
    ({"output_logprobs": [0, [1]]}, "output_logprobs"),
    ({"ref_logprobs": [1e39]}, "ref_logprobs"),
    ({"loss_mask": [128]}, "loss_mask"), ({"loss_mask": [-129]}, "loss_mask"),
    ({"loss_mask": [True]}, "loss_mask"),
    ({"num_input_tokens": -2147483649}, "num_input_tokens"),
    ({"reward": "1"}, "reward"), ({"reward": 1e39}, "reward"),
    ({"score": True}, "score"), ({"advantage": [1]}, "advantage"),
    ({"include_in_training": 1}, "include_in_training"),
    ({"include_in_training": "true"}, "include_in_training"),
    ({"relationships": None}, "relationships"),
    ({"relationships": {}}, "relationships"),
    ({"relationships": [1]}, "relationships"),
    ({"relationships": [{"relation": "r"}]}, "target_id"),
    ({"relationships": [{"target_id": "t"}]}, "relation"),
    ({"relationships": [{"target_id": "t", "relation": "r",
                         "weight": "x"}]}, "weight"),
    ({"binary_payload": "####"}, "binary_payload"),
    ({"binary_payload": "QQ"}, "binary_payload"),
    ({"binary_payload": "QR=="}, "binary_payload"),
    ({"binary_payload": [1]}, "binary_payload"),
    ({"payload_size": 9223372036854775808}, "payload_size"),
    ({"payload_size": 0.5}, "payload_size"),
]

# Raw text of a row that no JSON library would print.
BAD_TEXT = [
    (b'{"id":"x","rollout_id":"t","reward":NaN}', "reward"),
    (b'{"id":"x","rollout_id":"t","reward":-Infinity}', "reward"),
    (b'{"id":"x","rollout_id":"t","reward":1e400}', "reward"),
    (b'{"id":"x","rollout_id":"t","output_logprobs":[0,NaN]}',
     "output_logprobs"),
    (b'{"id":"x","rollout_id":"t","content":"\\ud800"}', "content"),
    (b'{"id":"x","rollout_id":"t","metadata":1e999}', "metadata"),
    (b'{"id":"x","rollout_id":"t","metadata":{"a":[1,{"b":-1e999}]}}',
     "metadata"),
    (b'{"id":"x","rollout_id":"t","metadata":[' + b"9" * 310 + b"]}",
     "metadata"),
    (b'{"rollout_id":"t"}', "id"),
    (b'{"id":"x"}', "rollout_id"),
]

# Not a body at all.
BAD_BODIES = [
    b"", b"{", b"[]", b"null", b'"x"', b"{}", b'{"records":{}}',
    b'{"records":[]}', b'{"records":null}', b'{"records":[1]}',
    b'{"records":[null]}', b'{"records":[[]]}',
    b'{"records":[{"id":"x","rollout_id":"t"}]} {}',
    b'{"records":[{"id":"x","rollout_id":"t"},]}',
    b'{"records":[{"id":"x","rollout_id":"t"}',
    b'{"records":[{"id":"x","rollout_id":"t\\', b"{'records':[]}",
    b'{"records":[{"id":"x","rollout_id":"\xff\xfe"}]}',
    b'{"records":[{"id":"x","rollout_id":"a\nb"}]}',
    b'{"records":[{"id":"x","rollout_id":"t","reward":01}]}',
    b'{"records":[{"id":"x","rollout_id":"t","reward":+1}]}',
    b'{"records":[{"id":"x","rollout_id":"t","reward":.5}]}',
    b"[" * 100000, b'{"a":' * 100000,
    b'{"records":[{"id":"x","rollout_id":"t","metadata":'
    + b"[" * 100000 + b"]" * 100000 + b"}]}",
]


class BadRows(unittest.TestCase):
    def setUp(self):
        self.server = Server.during(self.addCleanup)
        self.c = self.server.client()
        self.addCleanup(self.c.close)
        self.c.create("st")
        self.c.append("st", [row("before")]).must(201)

    def nothing_was_written(self):
        self.assertEqual([r["id"] for r in self.c.list("st")], ["before"])
        self.c.append("st", [row("before")]).must(201)

    def test_fields(self):
        for columns, field in BAD_FIELDS:
            bad = dict(row("bad"), **columns)
            reply = self.c.append("st", [row("good0"), row("good1"), bad,
                                         row("good3")])
            with self.subTest(columns):
                self.assertEqual(reply.status, 400, reply.body)
                code, message = reply.error()
                self.assertEqual(code, "INVALID_REQUEST")
                self.assertIn(field, message)
                self.assertRegex(message, r"\b2\b", "names no row")
        self.nothing_was_written()

    def test_text(self):
        for text, field in BAD_TEXT:
            body = b'{"records":[{"id":"g","rollout_id":"t"},' + text + b"]}"
            reply = self.c.post(RECORDS, body)
            with self.subTest(text):
                self.assertEqual(reply.status, 400, reply.body)
                self.assertIn(field, reply.error()[1])
                self.assertRegex(reply.error()[1], r"\b1\b", "names no row")
        self.nothing_was_written()

    def test_bodies(self):
        for body in BAD_BODIES:
            reply = self.c.post(RECORDS, body)
            with self.subTest(body[:60]):
                self.assertEqual(reply.status, 400, reply.body[:200])
                self.assertEqual(reply.error()[0], "INVALID_REQUEST")
        self.nothing_was_written()

    def test_media_types(self):
        good = b'{"records":[{"id":"before","rollout_id":"t-before"}]}'
        for media in ("text/plain", "application/octet-stream",
                      "application/x-ndjson"):
            self.c.post(RECORDS, good, headers={"Content-Type": media}) \
                .must(400)
        for media in ("APPLICATION/JSON", "application/json; charset=utf-8"):
            self.c.post(RECORDS, good, headers={"Content-Type": media}) \
                .must(201)
        self.nothing_was_written()

    def test_cut_requests(self):
        """The peer leaves in the middle of its body (field fault G.7)."""
        body = b'{"records":[{"id":"cut","rollout_id":"t"}]}'
        for chunked in (False, True):
            for _ in range(20):
                with self.server.raw() as r:
                    head = (b"POST %s HTTP/1.1\r\nHost: x\r\n"
                            b"Content-Type: application/json\r\n"
                            % RECORDS.encode())
                    if chunked:
                        r.send(head + b"Transfer-Encoding: chunked\r\n\r\n%x"
                               b"\r\n%s\r\n" % (len(body), body))
                    else:
                        r.send(head + b"Content-Length: %d\r\n\r\n%s" % (
                            len(body) + 1, body))
        self.nothing_was_written()


if __name__ == "__main__":
    unittest.main()
