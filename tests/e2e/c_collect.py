#!/usr/bin/env python3
"""What no reader needs any more is deleted, and nothing else (issue 4, 11)."""

import os
import re
import socket
import threading
import unittest

import memwal
from harness import BUILD, LONG, SLOW, Server, wait_for
from rows import row

GRACE = "--grace-secs=1"
TICKS = ["--rollout-flush-interval-secs=1", "--rollout-cleanup-interval-secs=1"]


def tree(path):
    """(objects, bytes on the disk) below path."""
    objects = size = 0
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                st = os.lstat(os.path.join(folder, name))
            except FileNotFoundError:
                continue		# collected meanwhile
            objects += 1
            size += st.st_blocks * 512
    return objects, size


def resident(pid):
    """KiB."""
    with open("/proc/%d/status" % pid) as f:
        for line in f:
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
    return 0


def versions(s, store):
    folder = os.path.join(s.store_dir(store), "_versions")
    return [n for n in os.listdir(folder) if n.endswith(".manifest")]


def generations(s, store):
    """Directories of them, named by a manifest or not."""
    found = []
    for shard in memwal.shards(s.store_dir(store)).values():
        found += [n for n in os.listdir(shard.path) if "_gen_" in n]
    return found


def is_clean(clients):
    """Reads through every worker: an idle one keeps its view for a minute."""
    for c in clients:
        c.count("st")
    return clients[0].metrics()["memwald_stores_garbage"] == 0


def fill(c, store, count, tag):
    """Each flush is a generation."""
    for k in range(count):
        c.append(store, [row("%s-%d" % (tag, k), content="x" * 100)],
                 flush=True).must(201)


class Plateau(unittest.TestCase):
    """B.8: cycles of append, seal and fold. Whenever the store comes to rest it
    has as few objects and bytes as before, and the processes no more memory."""

    CYCLES = 5000 if LONG else 40
    RESTS = 10 if LONG else 2

    def cycle(self, c, k):
        # Eight keys by turns, so that the table itself stays as it is.
        c.append("st", [row("k-%d" % (k % 2 * 4 + i), content="x" * 200)
                        for i in range(4)], flush=True).must(201)
        c.merge("st")

    def look(self, s):
        objects, size = tree(s.store_dir("st"))
        return objects, size, sum(resident(p) for p in s.pids())

    def rest(self, s):
        """What is left once all garbage is gone."""
        clients = list(s.clients_by_worker().values())
        wait_for("the garbage to go", lambda: is_clean(clients), 120)
        return self.look(s)

    def test_plateau(self):
        with Server(workers=2, args=[GRACE] + TICKS) as s, s.client() as c:
            c.create("st")
            rests, part = [], self.CYCLES // self.RESTS
            for n in range(self.RESTS):
                most = (0, 0, 0)
                for k in range(part):
                    self.cycle(c, n * part + k)
                    if k % 25 == 0:
                        c.record("st", "k-0")
                        most = tuple(map(max, most, self.look(s)))
                rests.append(self.rest(s))
                print("\ncycles=%d objects, bytes, KiB: most=%s at rest=%s" % (
                    (n + 1) * part, most, rests[-1]), end="", flush=True)
            half = len(rests) // 2
            first, second = (tuple(map(max, *part)) if len(part) > 1 else
                             part[0] for part in (rests[:half], rests[half:]))
            self.assertLessEqual(second[0], first[0] + 12)
            self.assertLessEqual(second[1], first[1] + (1 << 20))
            # A sanitizer keeps what was freed, to see who uses it.
            if BUILD not in ("san", "tsan"):
                self.assertLessEqual(second[2], first[2] * 1.25 + 16 * 1024)
            self.assertEqual(c.count("st"), 8)
            self.assertFalse(generations(s, "st"))
            self.assertEqual(len(versions(s, "st")), 1)
            self.check_metrics(c.metrics())

    def check_metrics(self, metrics):
        for what in ("generation", "wal", "shard_manifest", "version", "data",
                     "index", "transaction"):
            label = '{what="%s",kind="rollout"}' % what
            self.assertGreaterEqual(
                metrics["memwald_collected_objects_total" + label],
                self.CYCLES // 2, what)
            self.assertGreater(
                metrics["memwald_collected_bytes_total" + label], 0, what)
        self.assertGreater(
            metrics['memwald_collects_total{result="ok",kind="rollout"}'], 1)


class Readers(unittest.TestCase):
    """B.5: nothing goes that a view still read or a pending commit names."""

    def test_slow_list(self):
        """A list that is taken slowly, across folds and collections."""
        rows = [row("r-%05d" % k, content="y" * 2000) for k in range(3000)]
        with Server(workers=2, args=[GRACE] + TICKS) as s, s.client() as c:
            c.create("st")
            for k in range(0, len(rows), 500):
                c.append("st", rows[k:k + 500], flush=True).must(201)
            with s.raw(timeout=120) as slow:
                slow.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
                slow.send(b"GET /api/v1/rollouts/st/records HTTP/1.1\r\n"
                          b"Host: x\r\nConnection: close\r\n\r\n")
                first = slow.sock.recv(1024)
                c.merge_all("st")
                # What the list reads is garbage by now, and stays; the rest of
                # the store goes on, and is collected once the list has ended.
                for k in range(3):
                    c.append("st", [row("r-00000", content=str(k))],
                             flush=True).must(201)
                    c.merge_all("st")
                ticks = ticks_of(s)
                wait_for("ticks", lambda: ticks_of(s) >= ticks + 3, 60)
                data = first
                while True:
                    piece = slow.sock.recv(1 << 16)
                    if not piece:
                        break
                    data += piece
            self.assertIn(b"200 OK", data[:100])
            self.assertEqual(re.findall(rb'"id":"(r-\d+)"', data),
                             [r["id"].encode() for r in rows])
            clients = list(s.clients_by_worker().values())
            wait_for("the garbage to go", lambda: is_clean(clients), 120)
            self.assertEqual(clients[0].count("st"), len(rows))
            self.assertFalse(generations(s, "st"))
            self.assertEqual(len(versions(s, "st")), 1)

    def test_commit_pending(self):
        """The base commit comes long after its files, which are unnamed."""
        with Server(workers=2, args=[GRACE] + TICKS) as s, s.client() as c, \
                s.client() as other:
            c.create("st")
            fill(c, "st", 2, "a")
            c.merge_all("st")
            fill(c, "st", 2, "b")
            s.fault("fold_commit=hold:1")
            t = threading.Thread(target=other.merge_all, args=("st",))
            t.start()
            wait_for("the fold to be held", lambda:
                     "fold_commit=1" in s.ctl("fault").split())
            fill(c, "st", 2, "c")	# sealed beside it
            s.fault("fold_commit=off")
            t.join(60 * SLOW)
            self.assertFalse(t.is_alive())
            self.assertEqual(other.count("st"), 6)
            clients = list(s.clients_by_worker().values())
            wait_for("the garbage to go", lambda: is_clean(clients), 120)
            s.kill_all()
            s.start()
            with s.client() as again:
                self.assertEqual(again.count("st"), 6)


class Hold:
    """The next process that comes to a step of a server is held there."""

    def __init__(self, server, point):
        self.server, self.point = server, point
        self.before = self.hits()
        server.fault(point + "=hold:1")

    def hits(self):
        return int(re.search(r"^%s=(\d+)$" % self.point,
                             self.server.ctl("fault"), re.M).group(1))

    def holds(self):
        return self.hits() > self.before

    def wait(self):
        wait_for("the hold at " + self.point, self.holds, 30)

    def end(self):
        self.server.fault(self.point + "=off")


class Instances(unittest.TestCase):
    """Two of them collect one store."""

    def base(self, a, b, folder):
        """Its only version, and the data files of that, in both instances."""
        a.create("st")
        for k in range(3):
            a.append("st", [row("k%d" % k)], flush=True).must(201)
            a.merge_all("st")
        wait_for("the garbage to go", lambda: is_clean([a]) and
                 is_clean([b]) and len(memwal.versions(folder)) == 1, 60)
        return memwal.versions(folder).pop(), [
            os.path.join(folder, "data", f)
            for _, _, names in memwal.fragments(folder).values()
            for f in names]

    def may_collect(self, s):
        """It comes to where it would delete, unless it waits for the other."""
        ticks = ticks_of(s)
        hold = Hold(s, "collect_file")
        s.fault("collect_version=off")
        wait_for("a collection, or a few ticks", lambda:
                 hold.holds() or ticks_of(s) >= ticks + 3, 30)
        return hold

    def pinned_between(self, one, two, folder, version):
        first = Hold(one, "collect_version")
        first.wait()
        pin = Hold(one, "table_commit")
        replies = []

        def checkout():
            with one.client() as c:
                replies.append(c.post("/api/v1/rollouts/st/checkout",
                                      {"version": version}))
        pinning = threading.Thread(target=checkout)
        pinning.start()
        pin.wait()
        aside = Hold(one, "collect_aside")
        first.end()
        aside.wait()
        self.assertNotIn(version, memwal.versions(folder))
        second = self.may_collect(two)
        pinned = Hold(one, "pin_committed")
        pin.end()
        pinned.wait()
        aside.end()
        wait_for("the version to come back", lambda:
                 version in memwal.versions(folder), 30)
        pinned.end()
        pinning.join()
        second.end()
        wait_for("the other's collection to end", lambda: not any(
            x["guard"]["held"] for x in two.status()["stores"]), 30)
        return replies[0]

    def test_a_pin_between_two_collections(self):
        """One has moved a version aside when the other finds it there, and that
        nothing names it. Then it is pinned and moved back: so it stays."""
        args = [GRACE] + TICKS
        with Server(instance_id="one", workers=1, args=args) as one, \
                Server(instance_id="two", workers=1, args=args,
                       data_dir=one.data_dir) as two, \
                one.client() as a, two.client() as b:
            folder = one.store_dir("st")
            version, files = self.base(a, b, folder)
            for s in (one, two):
                s.fault("collect_version=fail:5")
            a.post("/api/v1/rollouts/st/compact", {}).must(200)
            self.assertEqual(len(memwal.fragments(folder)), 1)
            for c in (a, b):		# an idle worker keeps its view
                c.count("st")
            self.pinned_between(one, two, folder, version).must(200)
            self.assertEqual([f for f in files if not os.path.exists(f)], [])
            for c in (a, b):
                self.assertEqual([r["id"] for r in c.list("st")],
                                 ["k0", "k1", "k2"])


class Abandoned(unittest.TestCase):
    """What a step left that failed or died goes, though the store is idle."""

    def fragment(self, c, key):
        c.append("st", [row(key)], flush=True).must(201)
        c.merge_all("st")

    def named(self, folder):
        return sorted(f for _, _, files in memwal.fragments(folder).values()
                      for f in files)

    def test_compactions(self):
        with Server(workers=1, clock_speed=30, args=[GRACE] + TICKS) as s, \
                s.client() as c:
            s.wait_walked()
            folder = s.store_dir("st")
            c.create("st")
            self.fragment(c, "a")
            self.fragment(c, "b")
            for fault in ("put_base=answer:UNKNOWN", "compact_commit=die:1"):
                wait_for("the garbage to go", lambda: is_clean([c]), 60)
                names = self.named(folder)
                s.fault(fault)
                self.assertGreaterEqual(
                    c.post("/api/v1/rollouts/st/compact", {}).status, 500)
                s.fault(fault.split("=")[0] + "=off")
                self.assertEqual(self.named(folder), names)
                self.assertEqual(len(os.listdir(os.path.join(
                    folder, "data"))), len(names) + 1)
                wait_for("what it left to go", lambda: is_clean([c]) and sorted(
                    os.listdir(os.path.join(folder, "data"))) == names, 60)


def ticks_of(s):
    """Of all stores, since the start."""
    return sum(x["ticks"] for x in s.status()["stores"])


if __name__ == "__main__":
    unittest.main()
