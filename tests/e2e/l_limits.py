"""Every limit is an answer and a metric, and none is a crash.

Blob budget (contract 7), bodies too long on every route (1.2), connections,
peers that stop sending (1.1), the warning of large payloads.
"""

import os
import re
import socket
import unittest

from client import Raw, b64, form
from harness import ROOT, Server, wait_for
from rows import row

MIB = 1 << 20
USED = 'memwald_budget_used{budget="blob_bytes"}'
REFUSED = "rollout_blob_budget_rejections_total"
RECORDS = "/api/v1/rollouts/st/records"


def head(size, path=RECORDS, extra=b""):
    framing = b"Transfer-Encoding: chunked" if size is None else \
        b"Content-Length: %d" % size
    return (b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"%s%s\r\n\r\n" % (path.encode(), extra, framing))


def body_of(row_id, size):
    """An append of exactly that many bytes."""
    empty = b'{"records":[{"id":"%s","rollout_id":"t","content":""}]}' % \
        row_id.encode()
    return empty.replace(b'""', b'"%s"' % (b"x" * (size - len(empty))))


class Bodies(unittest.TestCase):
    LIMIT = 8 * MIB

    @classmethod
    def setUpClass(cls):
        cls.server = Server.during(cls.addClassCleanup, workers=2, args=[
            "--rollout-max-inflight-blob-bytes=%d" % cls.LIMIT,
            "--rollout-large-blob-log-bytes=1000",
            "--rollout-flush-interval-secs=0"])
        with cls.server.client() as c:
            c.create("st")
            c.append_form("st", form(
                [row("large"), row("small"), row("none")],
                [(0, b"y" * (6 * MIB)), (1, b"z")])).must(201)

    def setUp(self):
        self.c = self.server.client()
        self.used(0)

    def used(self, want):
        wait_for("%d in use" % want,
                 lambda: self.c.metrics()[USED] == want)

    def refused(self):
        return self.c.metrics()[REFUSED]

    def slow_reader(self, row_id):
        """Asks for a payload and takes nothing of it yet."""
        r = Raw.__new__(Raw)
        r.buf = b""
        r.sock = socket.socket()
        r.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        r.sock.settimeout(60)
        r.sock.connect(("127.0.0.1", self.server.port))
        r.send(b"GET %s/%s/blob HTTP/1.1\r\nHost: x\r\n\r\n" % (
            RECORDS.encode(), row_id.encode()))
        return r

    def must_be_refused(self, reply):
        self.assertEqual(reply.status, 503)
        self.assertEqual(reply.error()[0], "OVERLOADED")
        self.assertEqual(reply.headers["Retry-After"], "1")

    def test_uploads(self):
        """Content-Length is held from before the body until the answer."""
        before = self.refused()
        body = body_of("a", 6 * MIB)
        with self.server.raw() as first, self.server.raw() as second, \
                self.server.raw() as third:
            first.send(head(len(body)))		# no byte of the body yet
            self.used(6 * MIB)
            second.send(head(3 * MIB, extra=b"Expect: 100-continue\r\n"))
            self.must_be_refused(second.recv_reply())
            second = Raw(self.server.port)
            second.send(head(None))
            self.must_be_refused(second.recv_reply())
            second.sock.close()
            third.send(head(2 * MIB))		# what is left, to the byte
            self.used(self.LIMIT)
            # A byte more is too much, and on a connection that goes on.
            small = body_of("b", 100)
            for worker in self.server.clients_by_worker().values():
                self.must_be_refused(worker.post(RECORDS, small))
                worker.get("/api/v1/health").must(200)
            # Whoever moves no blob is served.
            self.assertEqual(self.c.record("st", "small")["id"], "small")
            self.assertEqual(len(self.c.list("st", limit=2)), 2)
            first.send(body)
            self.assertEqual(first.recv_reply().status, 201)
            self.used(2 * MIB)
            self.c.post(RECORDS, small).must(201)
        self.used(0)			# the third has left
        self.assertEqual(self.refused(), before + 4)

    def test_of_unknown_or_excessive_length(self):
        """They run alone, and then they do run."""
        for size in (None, self.LIMIT + 1):
            with self.server.raw() as r:
                body = body_of("c", 100 if size is None else size)
                r.send(head(size))
                self.used(self.LIMIT)
                self.must_be_refused(self.c.post(RECORDS, body_of("d", 100)))
                r.send(body if size is not None else
                       b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
                self.assertEqual(r.recv_reply().status, 201)
            self.used(0)

    def test_downloads(self):
        """All of it at first, then the size, until the last byte is out."""
        self.assertEqual(self.c.blob("st", "small").must(200).body, b"z")
        for row_id in ("none", "nobody"):
            self.assertEqual(self.c.blob("st", row_id).status, 404)
        self.used(0)
        with self.slow_reader("large") as r:
            self.used(6 * MIB)
            for worker in self.server.clients_by_worker().values():
                self.must_be_refused(worker.blob("st", "small"))
                self.must_be_refused(worker.post(RECORDS,
                                                 body_of("e", 3 * MIB)))
                worker.post(RECORDS, body_of("e", MIB)).must(201)
            reply = r.recv_reply()
            self.assertEqual(len(reply.body), 6 * MIB)
            self.used(0)
            self.assertEqual(self.c.blob("st", "small").must(200).body, b"z")
        self.used(0)			# given back behind the reply
        with self.slow_reader("large") as r:
            self.used(6 * MIB)
        self.used(0)			# it has left
        with self.server.raw() as r:
            r.send(head(self.LIMIT))
            self.used(self.LIMIT)
            reply = self.c.request("HEAD", RECORDS + "/small/blob")
            self.assertEqual(reply.status, 503)
        self.used(0)

    def test_of_a_process_that_died(self):
        workers = self.server.processes("worker")
        with self.server.raw() as r:
            r.send(head(self.LIMIT))
            wait_for("it to be taken", lambda: self.c.metrics()[USED] > 0)
            for pid in workers:
                self.server.kill(pid)
        self.c.close()
        self.server.wait_healthy()
        self.used(0)
        self.c.post(RECORDS, body_of("f", 100)).must(201)

    def test_too_long_on_every_route(self):
        """413 and the envelope, before the body where its length is told."""
        with open(os.path.join(ROOT, "worker/api/route.def")) as f:
            routes = re.findall(
                r'ROUTE\((\w+), "([^"]+)", \w+,\s*(\w+),\s*(\d+)u? << (\d+),',
                f.read())
        self.assertGreaterEqual(len(routes), 2)
        for method, path, plan, base, shift in routes:
            size = (int(base) << int(shift)) + 1
            path = re.sub(r"\{\w+\}", "st", path)
            with self.server.raw() as r:
                r.send(head(size, path).replace(b"POST", method.encode()))
                reply = r.recv_reply()
                self.assertEqual(reply.status, 413, path)
                self.assertEqual(reply.error()[0], "PAYLOAD_TOO_LARGE")
                self.assertTrue(r.closed(), path)
            if plan != "WHOLE":
                continue		# a GiB in chunks takes its time
            with self.server.raw() as r:
                r.send(head(None, path).replace(b"POST", method.encode()) +
                       b"%x\r\n" % size)
                try:
                    r.send(b" " * size)
                except OSError:
                    pass		# it was refused already
                reply = r.recv_reply()
                self.assertEqual(reply.status, 413, path)
                self.assertEqual(reply.error()[0], "PAYLOAD_TOO_LARGE")

    def test_large_payloads_are_told(self):
        """Store, id and size, however the payload came."""
        start = len(self.server.log())
        self.c.append("st", [row("json", binary_payload=b64(b"x" * 1000)),
                             row("less", binary_payload=b64(b"x" * 999))]) \
            .must(201)
        self.c.append_form("st", form([row("part"), row("few")],
                                      [(1, b"x"), (0, b"x" * 1234)])).must(201)
        lines = [x for x in self.server.log(start).splitlines()
                 if "large payload" in x]
        self.assertEqual(len(lines), 2, lines)
        self.assertRegex(lines[0], 'WARN .*store=st id="json" bytes=1000$')
        self.assertRegex(lines[1], 'WARN .*store=st id="part" bytes=1234$')


class Peers(unittest.TestCase):
    def test_connections(self):
        """One too many is told so, counted and closed; the others go on."""
        with Server(workers=1, args=["--connections-max=4"]) as s, \
                s.client() as c:
            c.create("st")

            def connections(want):
                wait_for("%d connections" % want, lambda: c.metrics()[
                    "memwald_connections"] == want)
            connections(1)		# those of the start have left
            others = [s.raw() for _ in range(3)]
            connections(4)
            with s.raw() as r:
                reply = r.recv_reply()
                self.assertEqual(reply.status, 503)
                self.assertEqual(reply.error()[0], "UNAVAILABLE")
                self.assertEqual(reply.headers["Retry-After"], "1")
                self.assertTrue(r.closed())
            self.assertGreaterEqual(
                c.metrics()["memwald_connections_refused_total"], 1)
            c.append("st", [row("a")]).must(201)
            for r in others:
                r.sock.close()
            connections(1)
            with s.client() as more:
                self.assertEqual(len(more.list("st")), 1)

    def test_idle_upload(self):
        """408, the envelope, a metric, and nothing stored (contract 1.1)."""
        body = body_of("a", 300000)
        with Server(workers=1, args=["--request-body-idle-timeout-secs=1"]) \
                as s, s.client() as c:
            c.create("st")
            cuts = (0, 10, len(body) - 1)
            peers = [s.raw() for _ in cuts]
            for r, cut in zip(peers, cuts):
                r.send(head(len(body)) + body[:cut])
            for r in peers:
                reply = r.recv_reply()
                self.assertEqual(reply.status, 408)
                self.assertEqual(reply.error(), (
                    "TIMEOUT", "request body idle timeout"))
                self.assertTrue(r.closed())
                r.sock.close()
            self.assertEqual(
                c.metrics()["http_request_body_timeouts_total"], len(cuts))
            self.assertEqual(c.list("st"), [])


if __name__ == "__main__":
    unittest.main()
