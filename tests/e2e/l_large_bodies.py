"""Bodies beyond one commit, and more of them than the host has memory for.

A request larger than a commit (64 MiB) goes alone; all bodies in flight share
a budget, and what was read of them counts, not only the piece at hand.
"""

import json
import unittest

from harness import Server, wait_for
from rows import row

MIB = 1 << 20
TEXT = "0123456789abcdef" * 16384		# 256 KiB
USED = 'memwald_budget_used{budget="request_bytes"}'


def body_of(count):
    return json.dumps({"records": [row("r%03d" % k, content=TEXT)
                                   for k in range(count)]}).encode()


class LargeBodies(unittest.TestCase):
    def test_larger_than_a_commit(self):
        with Server(workers=1) as s, s.client() as c:
            c.create("st")
            c.append("st", [row("small")]).must(201)
            c.post("/api/v1/rollouts/st/records", body_of(260)).must(201)
            c.append("st", [row("small2")]).must(201)
            self.assertEqual(len(c.list("st")), 262)
            self.assertEqual(c.record("st", "r259")["content"], TEXT)
            self.assertEqual(c.metrics()[USED], 0)

    def test_what_was_read_counts(self):
        body = body_of(64)			# 16 MiB
        head = (b"POST /api/v1/rollouts/st/records HTTP/1.1\r\nHost: x\r\n"
                b"Content-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n" % len(body))
        with Server(workers=1, args=[
                "--request-memory-bytes=%d" % (24 * MIB)]) as s:
            with s.client() as c:
                c.create("st")
                with s.raw() as first, s.raw() as second:
                    first.send(head + body[:-1])
                    wait_for("the first to be charged", lambda: c.metrics()[
                        USED] >= 15 * MIB)
                    second.send(head)
                    for at in range(0, len(body) - 1, MIB):
                        try:
                            second.send(body[at:at + MIB])
                        except OSError:
                            break	# it was refused, and is closed
                    reply = second.recv_reply()
                    self.assertEqual(reply.status, 503)
                    self.assertEqual(reply.headers["Retry-After"], "1")
                    self.assertEqual(c.metrics()[
                        "memwald_request_memory_rejections_total"], 1)
                    first.send(body[-1:])
                    self.assertEqual(first.recv_reply().status, 201)
                wait_for("all to be given back",
                         lambda: c.metrics()[USED] == 0)
                self.assertEqual(len(c.list("st")), 64)
                c.post("/api/v1/rollouts/st/records", body).must(201)


if __name__ == "__main__":
    unittest.main()
