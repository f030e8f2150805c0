"""Out of descriptors: those who are there are served (field fault D.8).

64 descriptors a process, and more idle connections than that. Appends on a
connection that was there before go on, reads and creates too, the log stays
short, and when the idle ones have left new ones are served.
"""

import socket
import unittest

from harness import SLOW, Server, wait_for
from rows import row

LIMIT = 'ulimit -n 64 && exec "$@"'
IDLE = 500
FEW = 'ulimit -n 256 && exec "$@"'
STORES = 70


class Descriptors(unittest.TestCase):
    def test_idle_connections_do_not_starve_the_log(self):
        with Server(args=["--workers-max=2"],	# each slot has a socket
                    wrap=["/bin/sh", "-c", LIMIT, "sh"]) as s, \
                s.client() as c:
            c.create("st")
            c.append("st", [row("before")]).must(201)
            idle = [socket.create_connection(("127.0.0.1", s.port))
                    for _ in range(IDLE)]
            # Accepting pauses, or they are told so: in either case most of
            # them hold what connections may have.
            wait_for("the limit to be met", lambda: c.metrics()[
                "memwald_connections"] >= 20)
            for k in range(100):
                c.append("st", [row("r%d" % k)], flush=k % 25 == 0).must(201)
            self.assertEqual(len(c.list("st")), 101)
            c.create("more")
            c.append("more", [row("a")]).must(201)
            for sock in idle:
                sock.close()

            def served():
                with s.client() as fresh:
                    return fresh.get("/api/v1/health").status == 200
            wait_for("new connections to be served", served)
            warnings = [x for x in s.log().splitlines()
                        if " WARN " in x or " ERROR " in x]
            self.assertLess(len(warnings), 20, warnings)

    def test_who_comes_too_late_is_told_so(self):
        """Also when stores hold all that they may: an answer, no wait."""
        with Server(workers=1, wrap=["/bin/sh", "-c", FEW, "sh"]) as s, \
                s.client() as c:
            for k in range(STORES):
                c.create("s%d" % k)
                c.append("s%d" % k, [row("a")]).must(201)
            held = []
            try:
                while len(held) < 250:
                    held.append(socket.create_connection(
                        ("127.0.0.1", s.port), 20 * SLOW))
                held[-1].settimeout(20 * SLOW)
                self.assertIn(b" 503 ", held[-1].recv(4096).split(b"\r\n")[0])
                for k in range(STORES):
                    self.assertEqual(len(c.list("s%d" % k)), 1)
            finally:
                for sock in held:
                    sock.close()


if __name__ == "__main__":
    unittest.main()
