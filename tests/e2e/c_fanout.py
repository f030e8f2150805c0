"""Ordinals whose owner is gone go to the least loaded worker that lives, and what
lies in their shards is folded without a request, wherever that worker is; they
come home with their owner (design 7)."""

import http.server
import json
import os
import re
import threading
import unittest
import urllib.parse
import uuid

import memwal
from c_leases import QUIET, folder, newest
from c_orphans import Rows, assign, by_worker, every_store, no_generations
from client import Lost
from every_kind import KINDS
from harness import LONG, Server, wait_for


def owners(server):
    """{ordinal: (instance, worker), or its state if nobody's}."""
    return {o["name"]: (o["instance"], o["worker"])
            if o["state"] == "owned" else o["state"]
            for o in newest(
                folder(server, "assignment"))[1]["ordinals"]}


def fold_jobs(server):
    return json.loads(server.ctl("jobs", "--json"))["fold_jobs"]


class Peer:
    """An instance that is none: it has a lease and an address, and answers
    folds as it is told: with a status, or (0) with nothing until then."""

    def __init__(self, server, instance="peer"):
        self.instance = instance
        self.root = server.data_dir
        self.status = 0
        self.wake = threading.Condition()
        self.paths, self.tokens = [], set()
        self.inside = 0
        peer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                peer.answer(self)

            def log_message(self, *args):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.address = "127.0.0.1:%d" % self.http.server_address[1]
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        self.put_lease()

    def end(self):
        self.turn(503)
        self.http.shutdown()
        self.http.server_close()

    def put_lease(self):
        path = os.path.join(self.root, "_cluster", "lease",
                            memwal.shard_uuid(self.instance))
        os.makedirs(path)
        with open(os.path.join(path, "%020d.json" % 1), "x") as f:
            json.dump({"version": 1, "writer": str(uuid.uuid4()),
                       "holder": str(uuid.uuid4()), "state": "held",
                       "instance": self.instance, "address": self.address,
                       "boot": "another machine", "pid": 1,
                       "span_ms": 36000000, "at_ms": 0}, f)

    def turn(self, status):
        with self.wake:
            self.status = status
            self.wake.notify_all()

    def answer(self, request):
        with self.wake:
            self.paths.append(request.path)
            self.tokens.add(request.headers.get("authorization"))
            self.inside += 1
            self.wake.wait_for(lambda: self.status != 0)
            status = self.status
            self.inside -= 1
        body = b'{"reclaimed":1}' if status == 200 else b'{"error":{}}'
        try:
            request.send_response(status)
            request.send_header("content-length", str(len(body)))
            request.end_headers()
            request.wfile.write(body)
        except OSError:
            pass			# it was not waited for


class MasterPeer(unittest.TestCase):
    """Another instance owns an ordinal of ours, and is no help."""

    def with_peer(self, kinds, speed=100):
        """One that has been given an ordinal while the server was down."""
        server = Server.during(self.addCleanup, workers=2, args=QUIET)
        with open(os.path.join(server.tmp, "token"), "w") as f:
            f.write("0123456789abcdef\n")
        server.args = QUIET + ["--internal-token-file=" + f.name]
        clients = by_worker(server)
        for kind in kinds:
            kind.create(clients[0])
            kind.append(clients[1], "row").must(201)
        server.kill_all()
        peer = Peer(server)
        self.addCleanup(peer.end)
        assign(server, {"test#1": (peer.instance, 0)})
        server.workers_wanted = 1
        server.clock_speed = speed
        server.start()
        return server, peer

    def ends(self, server, result):
        try:
            with server.client() as c:
                return c.metrics()[
                    'memwald_fanout_ends_total{result="%s"}' % result]
        except Lost:
            return 0			# its clock runs fast

    def test_hangs_refuses_and_recovers(self):
        kinds = every_store()[:3]
        s, peer = self.with_peer(kinds)
        # Two wait for their answer at most.
        wait_for("folds asked for", lambda: peer.inside >= 2)
        for _ in range(10):
            self.assertLessEqual([j["state"] for j in fold_jobs(s)].count(
                "running"), 2)
        peer.turn(503)
        wait_for("all of them to be given up", lambda: re.search(
            "3 fold jobs failed .* ordinal test#1",
            " ".join(s.status()["problems"])))
        self.assertEqual({(j["kind"], j["store"], j["ordinal"],
                           j["instance"]) for j in fold_jobs(s)},
                         {(k.name, "s0", "test#1", "peer")
                          for k in kinds})
        wait_for("that to be counted", lambda: self.ends(
            s, "given_up") >= 3)
        self.assertEqual({urllib.parse.unquote(p) for p in peer.paths}, {
            "/api/v1/internal/merge-wal/s0?kind=%s&ordinal=test#1" %
            k.name for k in kinds})
        self.assertEqual(peer.tokens, {"Bearer 0123456789abcdef"})
        peer.turn(200)
        wait_for("none that is given up", lambda: self.ends(
            s, "folded") >= 3 and "given up" not in [
            j["state"] for j in fold_jobs(s)])
        self.assertEqual(owners(s), {"test": ("test", 0),
                                     "test#1": ("peer", 0)})

    if LONG:
        def test_ten_thousand_jobs(self):
            """None of them costs the master memory: there is always more to
            do than its table holds, and the peer claims to have done it."""
            def resident():
                with open("/proc/%d/status" % s.proc.pid) as f:
                    return int(re.search(r"VmRSS:\s+(\d+)", f.read())[1])

            kinds = [kind(f"s{i}") for i in range(40) for kind in KINDS]
            s, peer = self.with_peer(kinds, speed=300)
            peer.turn(200)
            wait_for("the first jobs", lambda: self.ends(
                s, "folded") >= 500)
            before = resident()
            wait_for("ten thousand", lambda: self.ends(
                s, "folded") >= 10500, 120)
            self.assertLess(resident() - before, 256)


if __name__ == "__main__":
    unittest.main()
