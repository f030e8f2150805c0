"""More stores than a small machine keeps open: slots, descriptors, memory.

With three times as many stores as slots and with few descriptors every store
can be written to and read through every worker, also when processes are killed
meanwhile; nothing that was acknowledged is lost and nobody waits for ever. When
every slot is in use the answer is 503, until one is not.

The long form has ten thousand stores, and prints what they take.
"""

import os
import random
import signal
import socket
import threading
import time
import unittest

from client import Lost
from harness import LONG, SLOW, Server, wait_for
from rows import row

TRIES = 200		# of one request; each may wait for a slot before its 503
FEW_FDS = 'ulimit -n %d && exec "$@"'


def patiently(what, ask):
    """Its reply, when that is not a 503 any more."""
    for _ in range(TRIES):
        try:
            reply = ask()
        except Lost:
            continue
        if reply.status != 503:
            return reply
        if not reply.headers["Retry-After"]:
            raise AssertionError("%s: 503 without Retry-After" % what)
        time.sleep(0.05)
    raise AssertionError("%s: never served, last %s" % (what, reply.body))


def in_threads(count, work):
    """work(k) in each of count threads; the first failure is raised."""
    failures = []

    def run(k):
        try:
            work(k)
        except BaseException as e:
            failures.append(e)
    threads = [threading.Thread(target=run, args=(k,)) for k in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failures:
        raise failures[0]


def create(client, name):
    reply = patiently(name, lambda: client.post(
        "/api/v1/rollouts", {"name": name}))
    if reply.status != 409:		# the first try was lost
        reply.must(201)


def ids_of(client, name):
    reply = patiently(name, lambda: client.get(
        "/api/v1/rollouts/%s/records" % name)).must(200)
    return sorted(r["id"] for r in reply.json()["records"])


def store_count(client):
    return len(client.get("/api/v1/rollouts").must(200).json()["stores"])


class MoreThanSlots(unittest.TestCase):
    SLOTS = 8
    ROUNDS = 1

    def test_no_row_is_lost_whoever_dies(self):
        names = ["s%02d" % k for k in range(3 * self.SLOTS)]
        written = {name: [] for name in names}
        half = threading.Event()

        with Server(workers=2, args=[
                "--rollout-cache-capacity=%d" % self.SLOTS,
                "--rollout-flush-interval-secs=1"]) as s:
            with s.client() as c:
                for name in names:
                    create(c, name)

            def work(k):
                rng = random.Random(k)
                with s.client() as c:
                    for n in range(self.ROUNDS):
                        mine = rng.sample(names, len(names))
                        for name in mine:
                            row_id = "%d-%d" % (k, n)
                            patiently(name, lambda: c.append(
                                name, [row(row_id)])).must(201)
                            written[name].append(row_id)
                            if row_id not in ids_of(c, name):
                                raise AssertionError("%s: %s is not there" % (
                                    name, row_id))
                            if name == mine[len(mine) // 2]:
                                half.set()

            def kills():
                half.wait(60 * SLOW)
                for role in ("worker", "maintainer", "worker"):
                    pids = s.processes(role)
                    os.kill(random.choice(pids), signal.SIGKILL)
                    wait_for("a new one", lambda: len(s.processes(role)) ==
                             len(pids) and s.processes(role) != pids)
            killer = threading.Thread(target=kills)
            killer.start()
            try:
                in_threads(4, work)
            finally:
                half.set()
                killer.join()
            with s.client() as c:
                for name in names:
                    self.assertEqual(ids_of(c, name), sorted(written[name]),
                                     name)
                metrics = c.metrics()
                self.assertLessEqual(metrics["rollout_stores_resident"],
                                     self.SLOTS)
                self.assertGreater(
                    metrics["memwald_store_handles_evicted_total"], 0)
                self.assertEqual(store_count(c), len(names))

    def test_every_slot_in_use(self):
        """Lists that nobody takes hold their stores, so the next one gets
        503; when their clients have left it is served."""
        text = "x" * 1000000
        with Server(workers=1, args=["--rollout-cache-capacity=2"]) as s, \
                s.client() as c:
            for name in ("a", "b"):
                c.create(name)
                for k in range(8):
                    c.append(name, [row("r%d" % k, content=text)]).must(201)
            c.create("c")
            slow = []
            for name in ("a", "b"):
                sock = socket.socket()
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
                sock.connect(("127.0.0.1", s.port))
                sock.sendall(b"GET /api/v1/rollouts/%s/records HTTP/1.1\r\n"
                             b"Host: x\r\n\r\n" % name.encode())
                self.assertTrue(sock.recv(100, socket.MSG_PEEK))
                slow.append(sock)
            reply = c.append("c", [row("first")])
            self.assertEqual(reply.status, 503, reply.body)
            self.assertTrue(reply.headers["Retry-After"])
            self.assertEqual(len(c.list("a")), 8)	# who has one goes on
            for sock in slow:
                sock.close()
            patiently("c", lambda: c.append("c", [row("first")])).must(201)
            self.assertEqual(ids_of(c, "c"), ["first"])


def status_of(pid):
    with open("/proc/%d/status" % pid) as f:
        lines = dict(x.split(":", 1) for x in f.read().splitlines())
    with open("/proc/%d/stat" % pid) as f:
        fields = f.read().rsplit(")", 1)[1].split()
    ticks = os.sysconf("SC_CLK_TCK")
    return {"rss": int(lines["VmRSS"].split()[0]) // 1024,
            "anon": int(lines["RssAnon"].split()[0]) // 1024,
            "cpu": (int(fields[11]) + int(fields[12])) / ticks}


class ManyStores(unittest.TestCase):
    """Created, written to, read, sealed, read, and left alone for a minute."""
    STORES = int(os.environ.get("STORES", "10000")) if LONG else 60
    THREADS = 8 if LONG else 4
    IDLE_SECS = 60 if LONG else 0

    def report(self, s, what):
        if not LONG:
            return
        print("\n%s" % what)
        for role in ("master", "maintainer", "worker"):
            for pid in s.processes(role):
                st = status_of(pid)
                print("  %-10s rss=%d MiB anon=%d MiB fds=%d cpu=%.1fs" % (
                    role, st["rss"], st["anon"],
                    len(os.listdir("/proc/%d/fd" % pid)), st["cpu"]),
                    flush=True)

    def each(self, s, what, work):
        """work(client, name) for all of them."""
        names = ["s%05d" % k for k in range(self.STORES)]

        def some(k):
            with s.client() as c:
                for name in names[k::self.THREADS]:
                    work(c, name)
        began = time.monotonic()
        in_threads(self.THREADS, some)
        if LONG:
            print("%-24s %.1f/s" % (what, self.STORES / (
                time.monotonic() - began)), flush=True)
        self.report(s, what)

    def read(self, c, name):
        if ids_of(c, name) != ["r"]:
            raise AssertionError("%s: not its row" % name)

    def idle(self, s):
        before = {p: status_of(p)["cpu"] for role in (
            "master", "maintainer", "worker") for p in s.processes(role)}
        time.sleep(self.IDLE_SECS)
        print("cpu of an idle minute: %s" % ", ".join(
            "%.2fs" % (status_of(p)["cpu"] - t) for p, t in before.items()))
        self.report(s, "after an idle minute")

    def metric(self, s, name):
        with s.client() as c:
            return c.metric(name)

    def run_all(self, s):
        self.report(s, "started")
        self.each(s, "created", create)
        with s.client() as c:
            self.assertEqual(store_count(c), self.STORES)
        self.each(s, "appended to", lambda c, name: patiently(
            name, lambda: c.append(name, [row("r")])).must(201))
        self.each(s, "read", self.read)
        if not LONG:
            return
        wait_for("all to be sealed",
                 lambda: self.metric(s, "memwald_tails") == 0, 1800)
        self.each(s, "sealed, and read again", self.read)
        time.sleep(self.IDLE_SECS)		# until views are idle
        self.idle(s)
        with s.client() as c:
            for k, v in sorted(c.metrics().items()):
                if k.startswith(("memwald_store", "memwald_source_cache",
                                 "memwald_slots", "rollout_store",
                                 "memwald_tail")):
                    print("  %s %d" % (k, v))

    def test_few_descriptors(self):
        limit = 256 if LONG else 90
        with Server(workers=2, wrap=["/bin/sh", "-c", FEW_FDS % limit,
                                     "sh"]) as s:
            self.run_all(s)
            self.assertGreater(self.metric(
                s, "memwald_store_handles_evicted_total"), 0)

    if LONG:
        def test_as_they_come(self):
            with Server(workers=2) as s:
                self.run_all(s)


if __name__ == "__main__":
    unittest.main()
