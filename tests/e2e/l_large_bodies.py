"""Bodies beyond one commit, and more of them than the host has memory for.

A request larger than a commit (64 MiB) goes alone; all bodies in flight share
a budget, and what was read of them counts, not only the piece at hand. A body
is in memory once, and its payload never again: not in who reads it, seals it,
folds it or recovers it. LONG: bodies of 1 GiB.
"""

import json
import unittest

from client import Lost, b64
from harness import BUILD, LONG, SLOW, Server, wait_for
from rows import row

MIB = 1 << 20
TEXT = "0123456789abcdef" * 16384		# 256 KiB
USED = 'memwald_budget_used{budget="request_bytes"}'
ROWS, COMMITS = "memwald_wal_row_bytes_total", "memwald_wal_commit_bytes_total"


def body_of(count):
    return json.dumps({"records": [row("r%03d" % k, content=TEXT)
                                   for k in range(count)]}).encode()


class LargeBodies(unittest.TestCase):
    def test_larger_than_a_commit(self):
        with Server(workers=1) as s, s.client() as c:
            c.create("st")
            c.append("st", [row("small")]).must(201)
            small = c.metrics()
            self.assertGreater(small[ROWS], 0)
            self.assertLess(small[ROWS], small[COMMITS] / 2)  # no frames
            c.post("/api/v1/rollouts/st/records", body_of(260)).must(201)
            c.append("st", [row("small2")]).must(201)
            self.assertEqual(len(c.list("st")), 262)
            self.assertEqual(c.record("st", "r259")["content"], TEXT)
            large = c.metrics()
            self.assertEqual(large[USED], 0)
            self.assertGreater(large[ROWS], 260 * len(TEXT))
            self.assertLess(large[ROWS], large[COMMITS])

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


# The memory of one body, and of none.

SMALL = 12 * MIB				# less than any of them
BODY = 1024 * MIB if LONG else 34 * MIB if SLOW > 1 else 50 * MIB
PIECE = bytes(range(256)) * (3 * MIB // 256)	# base64 of it is 4 MiB


def peak(pid):
    """The most memory that a process ever had resident, in bytes, but for the
    segment, which all of them share and touch bit by bit."""
    found = {}
    with open("/proc/%d/status" % pid) as f:
        for line in f:
            name, _, value = line.partition(":")
            found[name] = value.split()[:1]
    return (int(found["VmHWM"][0]) - int(found["RssShmem"][0])) * 1024


def reset_peak(pid):
    """From now on: the peak is what is resident."""
    with open("/proc/%d/clear_refs" % pid, "w") as f:
        f.write("5")


class Peaks:
    """How much each process grew since, at its highest."""

    def __init__(self, server):
        self.pids = {"worker %d" % i: pid for i, pid in
                     enumerate(server.processes("worker"))}
        self.pids["maintainer"] = server.processes("maintainer")[0]
        self.again()

    def again(self):
        for pid in self.pids.values():
            reset_peak(pid)
        self.base = {who: peak(pid) for who, pid in self.pids.items()}

    def grown(self, what):
        grown = {who: peak(pid) - self.base[who]
                 for who, pid in self.pids.items()}
        print("%s: %s" % (what, ", ".join(
            "%s +%.1f MiB" % (who, n / MIB) for who, n in grown.items())))
        self.again()
        return grown


def as_json():
    """A payload that fills the limit, and its length."""
    text = b64(PIECE).encode()
    count = (BODY - 1024) // len(text)
    return "application/json", count * len(PIECE), [
        b'{"records":[{"id":"big","rollout_id":"r","binary_payload":"'
    ] + [text] * count + [
        b'"},{"id":"none","rollout_id":"r"},'
        b'{"id":"empty","rollout_id":"r","binary_payload":""}]}']


def as_form():
    count = (BODY - 1024) // len(PIECE)
    return "multipart/form-data; boundary=Q", count * len(PIECE), [
        b'--Q\r\nContent-Disposition: form-data; name="metadata"\r\n\r\n'
        b'{"records":[{"id":"big","rollout_id":"r"},{"id":"none",'
        b'"rollout_id":"r"},{"id":"empty","rollout_id":"r"}]}\r\n'
        b'--Q\r\nContent-Disposition: form-data; name="0"\r\n\r\n'
    ] + [PIECE] * count + [
        b'\r\n--Q\r\nContent-Disposition: form-data; name="2"\r\n\r\n'
        b'\r\n--Q--\r\n']


class OneLargeRow(unittest.TestCase):
    """A payload that fills the limit, from every tier."""

    def send(self, s, body):
        kind, self.size, pieces = body
        with s.raw(timeout=300) as raw:
            raw.send(b"POST /api/v1/rollouts/st/records HTTP/1.1\r\n"
                     b"Host: x\r\nContent-Type: %s\r\n"
                     b"Content-Length: %d\r\n\r\n" % (
                         kind.encode(), sum(map(len, pieces))))
            for piece in pieces:
                raw.send(piece)
            reply = raw.recv_reply()
        self.assertEqual(reply.status, 201, reply.body[:200])

    def read_by_all(self, s):
        """Through each worker, a piece at a time."""
        for client in s.clients_by_worker().values():
            conn = client.conn
            conn.request("GET", "/api/v1/rollouts/st/records/big/blob")
            reply = conn.getresponse()
            self.assertEqual(reply.status, 200)
            self.assertEqual(int(reply.headers["Content-Length"]), self.size)
            left = self.size
            while left > 0:
                piece = reply.read(min(left, len(PIECE)))
                self.assertTrue(piece == PIECE[:len(piece)])
                left -= len(piece)
            self.assertEqual(reply.read(), b"")
            path = "/api/v1/rollouts/st/records/%s/blob"
            self.assertEqual(client.get(path % "empty").must(200).body, b"")
            self.assertEqual(client.get(path % "none").status, 404)
            self.assertEqual([r["id"] for r in client.list("st")][:3],
                             ["big", "empty", "none"])
            client.close()

    def check(self, grown, worker=SMALL):
        if BUILD in ("san", "tsan"):
            return		# their shadow memory and quarantine count, too
        for who, n in grown.items():
            self.assertLess(n, worker if who != "maintainer" else SMALL, who)

    def server(self):
        return Server(workers=2, args=[
            "--request-memory-bytes=%d" % (2 * BODY)])

    def append(self, s, body):
        peaks = Peaks(s)
        self.send(s, body)
        self.check(peaks.grown("append as " + body[0].split(";")[0]),
                   self.size + self.size // 4 + 8 * MIB)

    @staticmethod
    def repeat(what, done, s):
        """A gigabyte may take longer than a request waits."""
        def probe():
            try:
                with s.client() as c:
                    return done(c)
            except (Lost, AssertionError):
                return False
        wait_for("the " + what, probe, 600)

    def test_in_the_memory_of_one(self):
        with self.server() as s:
            with s.client() as c:
                c.create("st")
                c.append("st", [row("z")]).must(201)
            self.append(s, as_json())
            peaks = Peaks(s)
            self.read_by_all(s)
            self.check(peaks.grown("read from the tail"))
            self.repeat("seal", lambda c: c.append(
                "st", [row("y")], flush=True).status == 201, s)
            self.check(peaks.grown("seal"))
            self.read_by_all(s)
            self.check(peaks.grown("read from a generation"))
            self.repeat("fold", lambda c: c.merge("st") == 0, s)
            self.check(peaks.grown("fold"))
            self.read_by_all(s)
            self.check(peaks.grown("read from the base"))
            s.restart()
            self.read_by_all(s)

    def test_recovered_in_the_memory_of_none(self):
        """Whoever claims the shard of the dead looks through its tail."""
        with self.server() as s:
            with s.client() as c:
                c.create("st")
            self.append(s, as_form())
            s.kill_all()
            s.start()
            peaks = Peaks(s)
            self.read_by_all(s)
            with s.client() as c:
                c.append("st", [row("y")]).must(201)
                c.append("st", [row("z")]).must(201)
            self.read_by_all(s)
            self.check(peaks.grown("recovered"))


if __name__ == "__main__":
    unittest.main()
