"""The program replaced while it serves: SIGUSR2 (design 8)."""

import os
import signal
import unittest

from harness import LONG, Server, alive, wait_for
from upgrade import (Load, adopt, all_there, clean, inherit_orphans, upgrade)


class Upgrade(unittest.TestCase):
    def test_no_request_fails(self):
        with Server() as s:
            s.wait_walked()
            with s.client() as c:
                c.create("st")
            with Load(s.port, "st") as load:
                for _ in range(10 if LONG else 3):
                    old = s.pids()
                    load.more()
                    self.assertEqual(upgrade(s), 0)
                    self.assertFalse([p for p in old if alive(p)])
                    with s.client() as c:
                        c.get("/api/v1/ready").must(200)
                load.more()
            self.assertEqual(load.failed, [])
            print("upgrade under 200 requests/s: no request took longer than "
                  "%d ms, no longer pause between two answers than %d ms" % (
                      load.slowest * 1000, load.longest_pause() * 1000))
            all_there(self, s, load.acked)
            with open(os.path.join(s.data_dir, "instance-test.lock")) as f:
                self.assertEqual(f.read(), "pid=%d id=test\n" % s.proc.pid)
            wait_for("clean", lambda: clean(s))
            self.assertEqual([p["restarts"] for p in s.status()["processes"]],
                             [0] * 4)

    def test_who_does_not_end_is_cut_off(self):
        """After --drain-secs, in which all goes on: an upload is answered, and
        nobody has to be killed for it."""
        with Server(args=["--drain-secs=1"]) as s:
            inherit_orphans()
            with s.client() as c:
                c.create("st")
            with s.raw(timeout=60) as r:
                r.send(b"POST /api/v1/rollouts HTTP/1.1\r\nHost: x\r\n"
                       b"Content-Type: application/json\r\n"
                       b"Content-Length: 100\r\n\r\n{")
                s.proc.send_signal(signal.SIGUSR2)
                reply = r.recv_reply()
                self.assertEqual(reply.status, 503)
                self.assertEqual(reply.headers["Retry-After"], "1")
            self.assertEqual(adopt(s), 0)
            self.assertIn("are cut off by the upgrade", s.log())
            self.assertNotIn("killing worker", s.log())


if __name__ == "__main__":
    unittest.main()
