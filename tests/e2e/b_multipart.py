"""Appends as multipart/form-data: rows as JSON, payloads as raw bytes.

Contract 2.4.1, rules 1 to 7, and what a client that leaves in the middle
leaves behind (field fault G.7). The parser's cuts are tests/unit/form_test.c.
"""

import os
import random
import unittest

from client import b64, form
from harness import Server, wait_for
from rows import row, same_rows

MIB = 1 << 20
BUDGET = 'memwald_budget_used{budget="request_bytes"}'
HEAD = (b"POST /api/v1/rollouts/%s/records HTTP/1.1\r\nHost: x\r\n"
        b"Content-Type: multipart/form-data; boundary=Q\r\n%s\r\n\r\n")


def part(name, data):
    """One part as it stands in a body, for bodies that form() would not make."""
    return (b"--Q\r\nContent-Disposition: form-data; name=\"%s\"\r\n\r\n%s\r\n"
            % (name, data))


class Multipart(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server.during(cls.addClassCleanup)
        cls.server.wait_walked()

    def setUp(self):
        self.c = self.server.client()
        self.store = self.id().rsplit(".", 1)[1]
        self.c.create(self.store)

    def payloads(self, ids):
        out = []
        for row_id in ids:
            reply = self.c.blob(self.store, row_id)
            out.append(reply.must(200).body if reply.status != 404 else None)
        return out

    def test_rules(self):
        """What is taken, rule by rule: rows, parts, payloads afterwards."""
        for k, (rows, parts, want) in enumerate([
                ([{}], [], [None]),			# no part at all
                ([{}, {}], [(0, b"x"), (1, b"")], [b"x", b""]),
                ([{}, {}], [(1, b"\0\xff")], [None, b"\0\xff"]),
                ([{"payload_size": 3}], [(0, b"xyz")], [b"xyz"]),	# 4
                ([{"payload_size": 0}], [(0, b"")], [b""]),
                ([{"payload_size": 9, "binary_payload": b64(b"in")}], [],
                 [b"in"]),				# 5: it has one
                ([{"binary_payload": b64(b"in")}] * 2, [(1, b"part")],
                 [b"in", b"part"]),			# 6
                ([{}] * 3, [(2, b"2"), (0, b"0")], [b"0", None, b"2"]),	# 7
                ([{}, {"binary_payload": b64(b"in")}, {}],
                 [(2, b"2"), (0, b"0")], [b"0", b"in", b"2"])]):
            ids = ["r%d-%d" % (k, i) for i in range(len(rows))]
            rows = [row(i, **r) for i, r in zip(ids, rows)]
            reply = self.c.append_form(self.store, form(rows, parts)).must(201)
            self.assertEqual(reply.json()["ids"], ids)
            self.assertEqual(reply.json()["count"], len(rows))
            self.assertEqual(self.payloads(ids), want, (rows, parts))
            same_rows(self, rows, [self.c.record(self.store, i) for i in ids])

    def test_refused(self):
        """400 with a text that names it, and nothing is stored."""
        meta = part(b"metadata", b'{"records":[{"id":"a","rollout_id":"t"}]}')
        sized = part(b"metadata", b'{"records":[{"id":"a","rollout_id":"t",'
                     b'"payload_size":2}]}')
        end = b"--Q--\r\n"
        for body, why in (
                (b"", "without the last boundary"),
                (end, "metadata"),
                (part(b"0", b"x") + meta + end, "metadata"),		# 1
                (part(b"Metadata", b"{}") + end, "metadata"),
                (part(b"metadata", b"[]") + end, "object"),
                (part(b"metadata", b'{"records":[]}') + end, "empty"),
                (part(b"metadata", b'{"records":[{"id":"a"}]}') + end,
                 "records[0].rollout_id"),
                (meta + part(b"a", b"x") + end, 'part "a"'),		# 2
                (meta + part(b"-1", b"x") + end, 'part "-1"'),
                (meta + part(b"metadata", b"{}") + end, 'part "metadata"'),
                (meta + part(b"1", b"x") + end, "no such record"),	# 3
                (meta + part(b"0", b"x") * 2 + end, "twice"),
                (sized + part(b"0", b"x") + end, "payload_size"),	# 4
                (sized + end, "payload_size"),				# 5
                (meta + part(b"0", b"x"), "without the last boundary"),
                (meta + part(b"0", b"x") + b"--Q", "without the last boundary"),
                (meta + b"--Q\r\nX: y\r\n\r\nz\r\n" + end,
                 "Content-Disposition")):
            reply = self.c.append_form(self.store, body)
            self.assertEqual(reply.status, 400, body)
            code, message = reply.error()
            self.assertEqual(code, "INVALID_REQUEST")
            self.assertIn(why, message, body)
        for kind in ("multipart/form-data", "multipart/form-data; boundary=",
                     "multipart/mixed; boundary=Q", "text/plain", ""):
            reply = self.c.request("POST", "/api/v1/rollouts/%s/records" % self.store,
                                   meta + end, headers={"Content-Type": kind})
            self.assertEqual(reply.status, 400, kind)
        self.assertEqual(self.c.list(self.store), [])

    def test_every_way_to_write_it(self):
        """File names, content types, quotes, preamble, chunks, flush."""
        body = (b"This is a form.\r\n--a'b \t\r\n"
                b"content-disposition: FORM-DATA; name=metadata\r\n"
                b"Content-Type: application/json; charset=utf-8\r\n\r\n"
                b'{"records":[{"id":"a","rollout_id":"t"}]}\r\n--a\'b\r\n'
                b"Content-Type: image/png\r\nX-Odd: 1\r\n"
                b"Content-Disposition: form-data; filename=\"1; name=x\"; "
                b"name=\"0\"\r\n\r\n--a'b-\r\n--a'\r\n--a'b--\r\nThe end.")
        # Right behind the headers a boundary is refused; so not so here.
        body = body.replace(b"\r\n\r\n--a'b-", b"\r\n\r\n-")
        reply = self.c.append_form(self.store, body, "?flush=true",
                                   "\"a'b\"; charset=utf-8").must(201)
        self.assertEqual(reply.json()["ids"], ["a"])
        self.assertEqual(self.payloads("a"), [b"-\r\n--a'"])
        self.c.merge_all(self.store)
        self.assertEqual(self.payloads("a"), [b"-\r\n--a'"])

        rows = [row("b"), row("c")]
        self.c.conn.request(		# chunked, and long enough for pieces
            "POST", "/api/v1/rollouts/%s/records" % self.store,
            iter([form(rows, [(1, b"1" * MIB), (0, b"0" * MIB)])]),
            {"Content-Type": "multipart/form-data; boundary=Q"},
            encode_chunked=True)
        reply = self.c.conn.getresponse()
        reply.read()
        self.assertEqual(reply.status, 201)
        self.assertEqual(self.payloads("bc"), [b"0" * MIB, b"1" * MIB])

    def test_byte_exact_in_any_cut(self):
        """Field fault G.9, over the wire: a body that comes in pieces."""
        random.seed(4)
        blobs = [random.randbytes(300000), b"a --Q b", b"\r", b"\r\n--", b"",
                 b"\r\n--P\r\n-" * 9, b"\n--Q\r", b"--\r\n\r\n--R--"]
        for size in (1, 2, 3, 7, 64):
            ids = ["s%d-%d" % (size, k) for k in range(len(blobs))]
            body = form([row(i) for i in ids], enumerate(blobs))
            with self.server.raw() as r:
                r.send(HEAD % (self.store.encode(),
                               b"Content-Length: %d" % len(body)))
                at = body.index(blobs[0]) + len(blobs[0]) - 70
                r.send(body[:at])
                for k in range(at, len(body), size):
                    r.send(body[k:k + size])
                self.assertEqual(r.recv_reply().status, 201)
            self.assertEqual(self.payloads(ids), blobs, size)

    def test_survives_everything(self):
        rows = [row("r%d" % k, payload_size=k) for k in range(20)]
        blobs = [bytes([k]) * k for k in range(20)]
        ids = [r["id"] for r in rows]
        order = list(enumerate(blobs))
        random.Random(1).shuffle(order)
        self.c.append_form(self.store, form(rows, order)).must(201)
        self.c.close()
        self.server.restart()
        self.assertEqual(self.payloads(ids), blobs)
        self.c.merge_all(self.store)
        self.assertEqual(self.payloads(ids), blobs)
        same_rows(self, rows, self.c.list(self.store))


class Leaving(unittest.TestCase):
    def files(self, server):
        """Entries that are prepared ahead come and go: one a shard."""
        found = [os.path.join(d, f)
                 for d, _, names in os.walk(server.data_dir) for f in names]
        return sorted(f for f in found if "/.tmp-" not in f), \
            sum("/.tmp-" in f for f in found)

    def sockets(self, server):
        """How many each worker has; of files it opens more when it likes."""
        def target(path):
            try:
                return os.readlink(path)
            except FileNotFoundError:
                return ""
        return [sum(target("/proc/%d/fd/%s" % (p, f)).startswith("socket:")
                    for f in os.listdir("/proc/%d/fd" % p))
                for p in server.processes("worker")]

    def test_cut_uploads_leave_nothing(self):
        """The client leaves in the middle (field fault G.7)."""
        body = form([row("a"), row("b")],
                    [(1, b"1" * 400000), (0, b"0" * 400000)])
        as_json = b'{"records":[{"id":"a","rollout_id":"t","content":"' + \
            b"x" * 800000
        heads = (HEAD % (b"st", b"Content-Length: %d" % len(body)),
                 HEAD % (b"st", b"Transfer-Encoding: chunked") +
                 b"%x\r\n" % len(body))
        with Server(args=["--rollout-flush-interval-secs=0"]) as s, \
                s.client() as c:
            s.wait_walked()
            c.create("st")
            c.append_form("st", form([row("there")], [(0, b"x")])).must(201)
            before, _ = self.files(s)
            sockets = self.sockets(s)
            for k in range(60):
                with s.raw() as r:
                    if k % 3 == 2:
                        r.send(heads[0].replace(
                            b"multipart/form-data; boundary=Q",
                            b"application/json") + as_json)
                    else:
                        # The last one lacks no more than its last dash.
                        r.send(heads[k % 3] + body[:-3 if k == 57 else
                                                   len(body) * k // 61])
            wait_for("the budget to be given back",
                     lambda: c.metrics()[BUDGET] == 0)
            wait_for("connections to be closed",
                     lambda: self.sockets(s) == sockets)
            self.assertEqual([r["id"] for r in c.list("st")], ["there"])
            after, prepared = self.files(s)
            self.assertEqual(after, before)
            self.assertLessEqual(prepared, 1)
            c.append_form("st", body).must(201)
            self.assertEqual(len(c.list("st")), 3)


if __name__ == "__main__":
    unittest.main()
