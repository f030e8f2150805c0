"""Deaths and their order: field faults D.1, D.2, D.4, D.5, D.6 and E.1."""

import contextlib
import os
import random
import signal
import socket
import threading
import time
import unittest

from client import Lost
from harness import LONG, SLOW, Server, alive, wait_for
from rows import row


def state_of(pid):
    with open("/proc/%d/stat" % pid) as f:
        return f.read().rsplit(")", 1)[1].split()[0]


def clean(server):
    status = server.status()
    return status if status["clean"] else None


def replaced(server, pid):
    """Clean again, and without that process."""
    status = clean(server)
    return status and pid not in [p["pid"] for p in status["processes"]]


class Kill(unittest.TestCase):
    def test_a_killed_child_is_replaced(self):
        with Server(workers=2) as s:
            wait_for("start", lambda: clean(s))
            for role in ("worker", "maintainer"):
                pid = s.processes(role)[0]
                s.kill(pid)
                wait_for("another " + role, lambda p=pid: replaced(s, p), 5)
            restarts = [p["restarts"] for p in s.status()["processes"]]
            self.assertEqual(restarts, [0, 1, 1, 0])
            with s.client() as c:
                c.get("/api/v1/health").must(200)

    def test_queued_connections_are_answered_after_a_death(self):
        with Server(workers=1) as s:
            pid = s.processes("worker")[0]
            s.kill(pid, signal.SIGSTOP)
            wait_for("it to stop", lambda: state_of(pid) == "T")
            with contextlib.ExitStack() as stack:
                raws = [stack.enter_context(s.raw(timeout=20))
                        for _ in range(16)]
                for r in raws:
                    r.send(b"GET /api/v1/health HTTP/1.1\r\nHost: x\r\n\r\n")
                s.kill(pid)
                for r in raws:
                    self.assertEqual(r.recv_reply().status, 200)

    def test_a_stopped_child_is_replaced(self):
        """And one that is busy all the time, with a slow upload and a large list
        to a slow reader, is not."""
        body = b'{"name":"late"' + b" " * 500000 + b"}"
        rows = 24
        with Server(workers=2) as s:
            wait_for("start", lambda: clean(s))
            with s.client() as c:
                c.create("st")
                for k in range(rows):
                    c.append("st", [row("big%d" % k, content="x" * (1 << 20))])
            with s.raw(timeout=60) as r, contextlib.ExitStack() as stack:
                busy = self.worker_of(r)
                reader = self.raw_of(s, stack, busy)
                reader.send(b"GET /api/v1/rollouts/st/records HTTP/1.1\r\n"
                            b"Host: x\r\nConnection: close\r\n\r\n")
                r.send(b"POST /api/v1/rollouts HTTP/1.1\r\nHost: x\r\n"
                       b"Content-Type: application/json\r\n"
                       b"Content-Length: %d\r\n\r\n" % len(body))
                sent, read = 0, []

                def some_more():
                    nonlocal sent
                    r.send(body[sent:sent + 500])
                    sent += 500
                    read.append(reader.sock.recv(4096))
                    return replaced(s, pid)
                family = s.processes("worker")
                pid = family[1 - busy]
                s.kill(pid, signal.SIGSTOP)
                wait_for("a replacement", some_more, 20)
                self.assertFalse(alive(pid))
                self.assertIn("stands still", s.log())
                self.assertEqual(s.processes("worker")[busy], family[busy])
                r.send(body[sent:])
                self.assertEqual(r.recv_reply().status, 201)
                while read[-1]:
                    read.append(reader.sock.recv(1 << 20))
                self.assertEqual(b"".join(read).count(b'"id":"big'), rows)

    @staticmethod
    def worker_of(raw):
        raw.send(b"GET /api/v1/health HTTP/1.1\r\nHost: x\r\n\r\n")
        return int(raw.recv_reply().headers["X-Memwald-Worker"])

    def raw_of(self, server, stack, worker):
        """A connection to that worker."""
        while True:
            raw = stack.enter_context(server.raw(timeout=60))
            if self.worker_of(raw) == worker:
                return raw

    def test_children_leave_with_their_master(self):
        for stopped in (False, True):
            with self.subTest(stopped=stopped), Server(workers=3) as s:
                wait_for("start", lambda: clean(s))
                family = s.pids()
                with s.client() as c:
                    c.get("/api/v1/health").must(200)
                    if stopped:
                        s.kill(s.processes("worker")[0], signal.SIGSTOP)
                    begin = time.monotonic()
                    s.kill(s.proc.pid)
                    s.proc.wait()
                    wait_for("all to leave",
                             lambda: not any(alive(p) for p in family), 3)
                    took = time.monotonic() - begin
                self.assertLess(took, 2.5 * SLOW)
                s.start()

    def test_a_restart_at_once_works(self):
        with Server(workers=2) as s:
            for _ in range(5):
                s.kill(s.proc.pid)
                s.proc.wait()
                s.start()
            wait_for("clean", lambda: clean(s))

    def test_a_stop_resets_no_connection(self):
        """What the kernel took is answered; who comes later is refused."""
        with Server(workers=2) as s:
            outcomes, stop = [], threading.Event()

            def connect():
                while not stop.is_set():
                    outcomes.append(one_request(s.port))

            threads = [threading.Thread(target=connect) for _ in range(4)]
            for t in threads:
                t.start()
            try:
                wait_for("load", lambda: len(outcomes) > 200)
                s.kill(s.proc.pid, signal.SIGTERM)
                self.assertEqual(s.proc.wait(30 * SLOW), 0)
            finally:
                stop.set()
                for t in threads:
                    t.join()
            s.killed = True
            self.assertLessEqual(set(outcomes), {"200", "503", "refused"})

    def test_leftovers_of_a_crash(self):
        with Server(workers=2) as s:
            lock = os.path.join(s.data_dir, "instance-test.lock")
            before = None
            for i in range(50 if LONG else 10):
                s.kill_all(master_first=i % 2 == 0)
                with open(lock, "w") as f:
                    f.write("pid=%d id=test\n" % (1 if i % 2 else os.getpid()))
                self.assertTrue(os.path.exists(s.socket))
                s.start()
                names = sorted(os.listdir(s.data_dir))
                # A kill in the middle of a put leaves one unfinished file,
                # which a start removes once it is a minute old.
                after = [n for n in names if not n.startswith(".tmp-")]
                self.assertLessEqual(len(names) - len(after), 2 * i + 4, names)
                self.assertIn(before, (None, after))
                before = after
            s.ctl("shutdown")
            self.assertEqual(s.proc.wait(30), 0)

    def test_random_kills(self):
        """Every request ends within 2 s while the master lives."""
        seconds = 60 if LONG else 6
        with Server(workers=3) as s:
            wait_for("start", lambda: clean(s))
            end = time.monotonic() + seconds
            next_kill = 0
            worst = 0
            while time.monotonic() < end:
                if time.monotonic() > next_kill:
                    pid = random.choice(s.pids()[1:] or [0])
                    if pid:
                        s._signal(pid, signal.SIGKILL)
                    next_kill = time.monotonic() + 0.2
                began = time.monotonic()
                try:
                    with s.client(timeout=10) as c:
                        c.get("/api/v1/health").must(200)
                except Lost:
                    pass
                worst = max(worst, time.monotonic() - began)
            self.assertLess(worst, 2 * SLOW)
            wait_for("clean", lambda: clean(s), 10)

    def test_a_worker_that_cannot_start_is_throttled(self):
        with Server(workers=2) as s:
            wait_for("start", lambda: clean(s))
            by_worker = s.clients_by_worker()
            by_worker[0].create("st")
            by_worker[0].append("st", [row("a")]).must(201)
            mark = len(s.log().splitlines())
            s.fault("worker_start=fail:5")
            pid = s.processes("worker")[0]
            s.kill(pid)
            time.sleep(3)		# the span in which starts are counted
            lines = s.log().splitlines()[mark:]
            starts = [x for x in lines if " started worker/0 " in x]
            self.assertGreater(len(starts), 1)
            self.assertLess(len(starts), 9)
            self.assertLess(len(lines), 80)
            self.assertFalse(s.status()["clean"])
            # The other worker answers for it meanwhile.
            for _ in range(30):
                with s.client(timeout=5) as c:
                    self.assertEqual(c.get("/api/v1/health").worker, 1)
            # Nobody closes its tail, so no fold may say that it has it all. Who
            # appends has nothing to do with that.
            by_worker[1].append("st", [row("b")], flush=True).must(201)
            refused = by_worker[1].post("/api/v1/internal/merge-wal/st")
            self.assertEqual(refused.status, 503)
            s.fault("worker_start=off")
            wait_for("clean", lambda: clean(s), 20)
            self.assertGreaterEqual(by_worker[1].merge("st"), 1)
            wait_for("worker 0 to answer", lambda: worker_of(s) == 0)

    def test_a_death_in_the_middle_of_a_command(self):
        """Worker 1 dies when it is told to accept for worker 0."""
        with Server(workers=2) as s:
            wait_for("start", lambda: clean(s))
            first, second = s.processes("worker")
            s.fault("worker_mail=die:1")
            s.fault("worker_start=fail:5:3")
            s.kill(first)
            wait_for("both to be replaced", lambda: replaced(s, second), 20)
            self.assertNotIn(first, s.pids())


def one_request(port):
    with socket.socket() as c:
        c.settimeout(20)
        try:
            c.connect(("127.0.0.1", port))
        except ConnectionRefusedError:
            return "refused"
        try:
            c.sendall(b"GET /api/v1/health HTTP/1.1\r\nHost: x\r\n\r\n")
            return c.recv(4096)[9:12].decode() or "end without a reply"
        except OSError as e:
            return repr(e)


def worker_of(server):
    with server.client() as c:
        return c.get("/api/v1/health").must(200).worker


if __name__ == "__main__":
    unittest.main()
