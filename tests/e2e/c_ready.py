"""Readiness and draining, as a balancer sees them: field fault D.3.

/api/v1/ready fails first, all else goes on for the drain delay, replies end
their connections, the end is orderly and in time; also as PID 1.
"""

import contextlib
import os
import signal
import subprocess
import threading
import unittest

from client import Lost
from harness import SLOW, Server, alive, wait_for
from rows import row

HEAD = b"GET /api/v1/health HTTP/1.1\r\nHost: x\r\n\r\n"


def ready(server):
    """(200, "") or (503, why not)."""
    with server.client() as c:
        reply = c.get("/api/v1/ready")
        return (reply.status, "" if reply.status == 200 else
                reply.error()[1])


class Ready(unittest.TestCase):
    def test_not_before_the_registry_is_walked(self):
        with Server(faults="maintainer_start=hold") as s:
            self.assertEqual(ready(s), (503, "not ready: starting"))
            with s.client() as c:
                c.get("/api/v1/health").must(200)
                reply = c.request("HEAD", "/api/v1/ready").must(503)
                self.assertEqual(reply.headers["Retry-After"], "1")
                self.assertEqual(reply.body, b"")
            s.fault("maintainer_start=off")
            wait_for("ready", lambda: ready(s) == (200, ""))
            with s.client() as c:
                self.assertEqual(c.get("/api/v1/ready").json(),
                                 {"status": "ready"})
            # Another maintainer walks beside a server that serves.
            s.kill(s.processes("maintainer")[0])
            self.assertEqual(ready(s), (200, ""))

    def test_serves_for_the_drain_delay(self):
        with Server(args=["--drain-delay-secs=3600"]) as s:
            s.wait_walked()
            acked, errors, over = set(), [], threading.Event()

            def append(n):
                with s.client() as c:
                    for k in range(100000):
                        name = "%d-%d" % (n, k)
                        try:
                            reply = c.append("st", [row(name)])
                        except Lost as e:
                            if not over.is_set():
                                errors.append(e)
                            return
                        if reply.status == 201:
                            acked.add(name)
                        elif not over.is_set() or reply.status != 503:
                            errors.append(reply.body)

            with s.client() as c:
                c.create("st")
            idle = s.raw(timeout=60)
            self.addCleanup(idle.sock.close)
            idle.send(HEAD)
            self.assertNotIn("Connection", idle.recv_reply().headers)
            threads = [threading.Thread(target=append, args=(n,))
                       for n in range(4)]
            for t in threads:
                t.start()
            try:
                wait_for("load", lambda: len(acked) > 50)
                s.kill(s.proc.pid, signal.SIGTERM)
                wait_for("readiness to fail",
                         lambda: ready(s) == (503, "not ready: draining"))
                before = len(acked)
                wait_for("more load", lambda: len(acked) > before + 100)
                for _ in range(20):
                    with s.client() as c:
                        reply = c.get("/api/v1/health").must(200)
                        self.assertEqual(reply.headers["Connection"], "close")
                self.assertIn("still accepting", s.status()["state"])
                over.set()
                s.kill(s.proc.pid, signal.SIGTERM)
                self.assertEqual(s.proc.wait(60 * SLOW), 0)
            finally:
                over.set()
                for t in threads:
                    t.join()
            self.assertTrue(idle.closed())
            self.assertEqual(errors, [])
            s.args = []
            s.start()
            with s.client() as c:
                there = {r["id"] for r in c.list("st")}
            self.assertEqual(acked - there, set())

    def test_a_delay_ends_and_so_does_the_drain(self):
        """With an upload that never ends, by the deadline."""
        with Server(args=["--drain-delay-secs=1", "--drain-secs=1"]) as s:
            with s.raw(timeout=60) as r:
                r.send(b"POST /api/v1/rollouts HTTP/1.1\r\nHost: x\r\n"
                       b"Content-Type: application/json\r\n"
                       b"Content-Length: 100\r\n\r\n{")
                wait_for("it to be taken", lambda: requests_begun(s) > 0)
                self.assertEqual(s.stop(), 0)
            s.killed = True

    def test_as_the_first_process_of_a_container(self):
        with contextlib.ExitStack() as stack:
            s = stack.enter_context(Server(wrap=[
                "unshare", "--pid", "--fork", "--mount-proc"],
                args=["--drain-delay-secs=1"]))
            first = s.pids()[1]
            with open("/proc/%d/status" % first) as f:
                self.assertRegex(f.read(), r"\nNSpid:\t%d\t1\n" % first)
            # One that outlives its parent becomes the first process's own.
            subprocess.run(["nsenter", "--target", str(first), "--pid", "sh",
                            "-c", "sleep 0.2 & true"], check=True)
            wait_for("it to end and be reaped", lambda: not orphans(first))
            wait_for("the walk", lambda: ready(s) == (200, ""))
            os.kill(first, signal.SIGTERM)
            wait_for("readiness to fail", lambda: gone_or_draining(s))
            self.assertEqual(s.proc.wait(60 * SLOW), 0)
            s.killed = True
            self.assertFalse(alive(first))


def requests_begun(server):
    with server.client() as c:
        return c.metric("memwald_requests_in_flight")


def orphans(first):
    """Children of that process that are not ours: by name."""
    found = []
    with open("/proc/%d/task/%d/children" % (first, first)) as f:
        for pid in f.read().split():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                with open("/proc/%s/comm" % pid) as comm:
                    found.append(comm.read().strip())
    return [name for name in found if not name.startswith("memwald")]


def gone_or_draining(server):
    try:
        return ready(server)[0] == 503
    except Lost:
        return server.proc.poll() is not None


if __name__ == "__main__":
    unittest.main()
