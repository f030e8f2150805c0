"""Transport and framework answers, by the contract 1.1, 1.2 and 2.2."""

import unittest

from harness import Server
from rows import row


class Http(unittest.TestCase):
    def setUp(self):
        self.server = Server.during(self.addCleanup)
        self.c = self.server.client()
        self.addCleanup(self.c.close)

    def test_health(self):
        reply = self.c.get("/api/v1/health").must(200)
        self.assertEqual(reply.body, b'{"status":"ok"}')
        self.assertEqual(reply.headers["Content-Type"], "application/json")
        head = self.c.request("HEAD", "/api/v1/health").must(200)
        self.assertEqual(head.body, b"")

    def test_unknown_paths_and_methods(self):
        for path in ("/", "/api/v1", "/api/v1/health/", "/api/v1/rollouts/",
                     "/api/v2/health", "/api/v1/contexts",
                     "/api/v1/rollouts/a/b/c/d", "/a" * 100):
            reply = self.c.get(path)
            self.assertEqual((reply.status, reply.body), (404, b""), path)
        reply = self.c.request("PUT", "/api/v1/rollouts")
        self.assertEqual((reply.status, reply.body), (405, b""))
        self.assertEqual({x.strip() for x in reply.headers[
            "Allow"].split(",")} - {"HEAD"}, {"GET", "POST"})

    def test_body_limits_are_known_before_the_body(self):
        self.c.create("st")
        for path, size in (("/api/v1/rollouts", (2 << 20) + 1),
                           ("/api/v1/rollouts/st/records", (1 << 30) + 1)):
            with self.server.raw() as r:
                r.send(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: "
                       b"application/json\r\nContent-Length: %d\r\n\r\n" % (
                           path.encode(), size))
                reply = r.recv_reply()
                self.assertEqual(reply.status, 413)
                self.assertEqual(reply.error()[0], "PAYLOAD_TOO_LARGE")

    def test_expect_continue(self):
        self.c.create("st")
        head = (b"POST /api/v1/rollouts/%s/records HTTP/1.1\r\nHost: x\r\n"
                b"Content-Type: application/json\r\nContent-Length: %d\r\n"
                b"Expect: %s\r\n\r\n")
        body = b'{"records":[{"id":"a","rollout_id":"t"}]}'
        with self.server.raw() as r:
            r.send(head % (b"st", len(body), b"100-continue"))
            self.assertEqual(r.recv_reply().status, 100)
            r.send(body)
            self.assertEqual(r.recv_reply().status, 201)
        with self.server.raw() as r:		# the body is never asked for
            r.send(head % (b"none", len(body), b"100-continue"))
            self.assertEqual(r.recv_reply().status, 404)
        with self.server.raw() as r:
            r.send(head % (b"st", len(body), b"surprise"))
            self.assertEqual(r.recv_reply().status, 417)

    def test_pipelined(self):
        """As many answers as requests, in order, whatever the cuts (G.3)."""
        self.c.create("st")
        body = b'{"records":[{"id":"a","rollout_id":"t"}]}'
        text = (b"GET /api/v1/rollouts/st HTTP/1.1\r\nHost: x\r\n\r\n"
                b"POST /api/v1/rollouts/st/records HTTP/1.1\r\nHost: x\r\n"
                b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                b"%sGET /api/v1/health HTTP/1.1\r\nHost: x\r\n\r\n" % (
                    len(body), body))
        for cut in [0, *range(1, len(text), 7)]:
            with self.server.raw() as r:
                r.send(text[:cut])
                r.send(text[cut:])
                got = [r.recv_reply() for _ in range(3)]
                self.assertEqual([x.status for x in got], [200, 201, 200], cut)
                self.assertEqual(got[2].body, b'{"status":"ok"}')
        self.assertEqual([r["id"] for r in self.c.list("st")], ["a"])

    def test_smuggled_requests_never_run(self):
        """Ambiguous framing: 400 and close (G.1, G.2)."""
        self.c.create("st")
        self.c.append("st", [row("a")]).must(201)
        hidden = b"DELETE /api/v1/rollouts/st HTTP/1.1\r\nHost: x\r\n\r\n"
        for headers in (
                b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
                b"Transfer-Encoding: identity\r\n",
                b"Transfer-Encoding: gzip, chunked\r\n",
                b"Transfer-Encoding: xchunked\r\n",
                b"Transfer-Encoding : chunked\r\n",
                b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
                b"Content-Length: 5\r\nContent-Length: 6\r\n",
                b"Content-Length: +5\r\n", b"Content-Length: 5,6\r\n",
                b"Content-Length: 0x5\r\n", b"Content-Length: -1\r\n",
                b"X: a\r\n b\r\nContent-Length: 0\r\n",
                b"X: a\0b\r\nContent-Length: 0\r\n",
                b"X: a\nContent-Length: 0\r\n"):
            with self.server.raw() as r:
                r.send(b"POST /api/v1/rollouts HTTP/1.1\r\nHost: x\r\n"
                       b"Content-Type: application/json\r\n" + headers +
                       b"\r\n0\r\n\r\n" + hidden)
                reply = r.recv_reply()
                self.assertIn(reply.status, (400, 501), headers)
                self.assertTrue(r.closed(), headers)
        self.assertEqual([r["id"] for r in self.c.list("st")], ["a"])

    def test_version_and_connection(self):
        with self.server.raw() as r:
            r.send(b"GET /api/v1/health HTTP/1.0\r\n\r\n")
            self.assertEqual(r.recv_reply().status, 200)
            self.assertTrue(r.closed())
        with self.server.raw() as r:
            r.send(b"GET /api/v1/health HTTP/1.1\r\nHost: x\r\n"
                   b"Connection: close\r\n\r\n")
            self.assertEqual(r.recv_reply().status, 200)
            self.assertTrue(r.closed())
        for bad, status in ((b"GET / HTTP/2.0\r\n\r\n", 505),
                            (b"GET /\r\n\r\n", 400), (b"\x16\x03\x01\r\n\r\n", 400),
                            (b"GET / HTTP/1.1\r\n\r\n", 400),
                            (b"GET / HTTP/1.1\r\nHost: x\r\nX: " +
                             b"y" * 100000 + b"\r\n\r\n", 431)):
            with self.server.raw() as r:
                r.send(bad)
                self.assertEqual(r.recv_reply().status, status, bad[:40])
                self.assertTrue(r.closed())


if __name__ == "__main__":
    unittest.main()
