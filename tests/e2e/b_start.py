"""Start, status, admin commands and stop of the processes, design 2."""

import os
import signal
import socket
import stat
import subprocess
import unittest

from harness import LOOP, Server, build_path, wait_for


class Start(unittest.TestCase):
    def test_serves_says_so_and_stops(self):
        for sig in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(sig), Server(workers=3) as s:
                with s.client() as c:
                    c.get("/api/v1/health").must(200)
                    metrics = c.get("/metrics").must(200)
                    self.assertEqual(metrics.headers["Content-Type"],
                                     "text/plain; version=0.0.4")
                    self.assertIn(b"\nhttp_requests_total{", metrics.body)
                self.assertEqual(s.stop(sig), 0)
                s.killed = True
                self.assertFalse(os.path.exists(s.socket))

    def test_every_worker_serves(self):
        with Server(workers=4) as s:
            clients = s.clients_by_worker()
            self.assertEqual(sorted(clients), [0, 1, 2, 3])
            for c in clients.values():
                c.close()

    def test_status(self):
        with Server(workers=2) as s:
            status = wait_for("a clean status", lambda: (
                lambda x: x if x["clean"] else None)(s.status()))
            self.assertEqual(status["problems"], [])
            self.assertEqual(status["instance_id"], "test")
            self.assertEqual(status["port"], s.port)
            rows = status["processes"]
            self.assertEqual([p["role"] for p in rows],
                             ["master", "maintainer", "worker", "worker"])
            self.assertEqual([p["state"] for p in rows], ["running"] * 4)
            self.assertEqual({p["pid"] for p in rows}, set(s.pids()))
            loops = {p["loop"] for p in rows[1:]}
            self.assertTrue(loops <= {LOOP} if LOOP == "epoll" else
                            loops <= {"ring", "epoll"}, loops)
            self.assertEqual([o["name"] for o in status["ordinals"]],
                             ["test", "test#1"])
            self.assertEqual([o["owner"] for o in status["ordinals"]], [2, 3])
            self.assertEqual(status["locks"], [])
            s.ctl("status", "--check")
            self.assertIn("clean", s.ctl("status"))
            self.assertIn("maintainer", s.ctl("workers"))
            self.assertIn("PENDING", s.ctl("stores"))
            mode = os.stat(s.socket).st_mode
            self.assertTrue(stat.S_ISSOCK(mode))
            self.assertEqual(stat.S_IMODE(mode), 0o600)

    def test_default_socket_is_in_the_data_directory(self):
        with Server() as s:
            command = [x for x in s.command()
                       if not x.startswith("--admin-socket")]
            self.assertEqual(s.stop(), 0)
            s.command = lambda: command
            s.start()
            run = subprocess.run(
                [build_path("memwaldctl"), "--data-dir", s.data_dir,
                 "status"], capture_output=True, text=True)
            self.assertEqual(run.returncode, 0, run.stderr)

    def test_host_that_others_cannot_reach(self):
        said = "cannot reach this one: give --address"
        with Server() as s:
            command = [x.replace("=127.0.0.1", "=0.0.0.0")
                       for x in s.command()]
            for more, there in (([], True), (["--address=here:3000"], False)):
                self.assertEqual(s.stop(), 0)
                at = len(s.log())
                s.command = lambda: command + more
                s.start()
                self.assertEqual(said in s.log(at), there)

    def test_log_level_reaches_all(self):
        with Server() as s:
            s.ctl("log-level", "debug")
            s.ctl("log-level", "warn")

    def test_shutdown_command(self):
        with Server() as s:
            self.assertEqual(s.ctl("shutdown"), "stopped\n")
            self.assertEqual(s.proc.wait(30), 0)
            s.killed = True

    def test_slow_admin_clients_block_nobody(self):
        with Server() as s:
            slow = []
            for _ in range(4):
                c = socket.socket(socket.AF_UNIX)
                self.addCleanup(c.close)
                c.connect(s.socket)
                c.send(b"stat")
                slow.append(c)
            s.ctl("status", timeout=3)
            for c in slow:
                c.settimeout(20)
                self.assertEqual(c.recv(1), b"")	# cut off

    def test_drain_finishes_what_it_took(self):
        """A connection that waits in a queue is answered, not reset."""
        with Server(workers=2) as s:
            clients = [s.client(timeout=20) for _ in range(32)]
            for c in clients:
                c.get("/api/v1/health").must(200)
            s.kill(s.proc.pid, signal.SIGTERM)
            wait_for("the end", lambda: s.proc.poll() is not None)
            self.assertEqual(s.proc.returncode, 0)
            s.killed = True
            for c in clients:
                c.close()

    def test_file_of_options(self):
        with Server() as s:
            path = os.path.join(s.tmp, "memwald.conf")
            with open(path, "w") as f:
                f.write("# ours\nlog-level = debug\nport = 1\n")
            self.assertEqual(s.stop(), 0)
            s.args = ["--config", path]
            s.start()
            self.assertIn(" DEBUG ", s.log())


if __name__ == "__main__":
    unittest.main()
