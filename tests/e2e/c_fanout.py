"""Ordinals whose owner is gone go to the least loaded worker that lives, and what
lies in their shards is folded without a request, wherever that worker is; they
come home with their owner (design 7, C.2)."""

import http.server
import json
import os
import re
import signal
import threading
import time
import unittest
import urllib.parse
import uuid

import memwal
from c_leases import QUIET, folder, newest
from c_orphans import Rows, assign, by_worker, every_store, no_generations
from client import Lost
from every_kind import KINDS, hits
from harness import LONG, SLOW, Server, wait_for


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


def moved_are_folded(server, c, rows, ordinals, wrote):
    """Without a request: what those ordinals' workers wrote is in the base, and
    their shards are empty."""
    def missing():
        return [kind.path for kind in rows.kinds if not
                wrote <= set(kind.texts(c, version=kind.version(c)))]
    wait_for("what %s wrote to be in the base" % (ordinals,),
             lambda: not missing())
    wait_for("the jobs to end", lambda: not fold_jobs(server))
    no_generations(server, rows.kinds, ordinals)


class MasterRestart(unittest.TestCase):
    def test_fewer_workers_and_back(self):
        """By hand alone nothing is moved; else all is folded, also if the
        server is killed meanwhile; and it comes home."""
        kinds = every_store()
        rows = Rows(kinds)
        with Server(workers=4, args=QUIET + ["--orphans=manual"]) as s:
            # Of others there is but a tail.
            rows.spread(by_worker(s), lambda: s.ctl(
                "seal", kinds[0].store, "--kind=rollout"))
            s.kill_all()
            s.workers_wanted = 2
            s.args += ["--merge-queue-timeout-secs=2",
                       "--merge-execution-timeout-secs=2"]
            s.clock_speed = 4
            s.start()
            wait_for("it to be said", lambda: re.search(
                "2 ordinals whose owner is gone", " ".join(
                    s.status()["problems"])))
            self.assertEqual(owners(s), {
                "test": ("test", 0), "test#1": ("test", 1),
                "test#2": "orphaned", "test#3": "orphaned"})
            self.assertEqual(fold_jobs(s), [])
            rows.check(self, s.client())
            self.held_up(s)
            s.kill_all()
            s.clock_speed = 0
            # In the middle: after the first job, or before, or among others.
            s.args = QUIET
            s.start()
            wait_for("the first job", lambda: "fold job ended" in s.log())
            s.kill_all()
            s.start()
            c = s.client()
            rows.check(self, c)
            moved_are_folded(s, c, rows, ("test#2", "test#3"), {
                "r%d-%d" % (n, k) for n in range(2) for k in (2, 3)})
            rows.check(self, c)
            now = owners(s)
            self.assertEqual({now["test#2"], now["test#3"]},
                             {("test", 0), ("test", 1)})
            if LONG:
                # What is not wrong stays as it is.
                version = newest(folder(s, "assignment"))[0]
                s.kill_all()
                s.start()
                self.assertEqual(newest(folder(s, "assignment"))[0], version)
            s.workers_wanted = 4
            s.restart()
            self.assertEqual(owners(s), {
                memwal.ordinal("test", k): ("test", k) for k in range(4)})
            for kind in kinds:
                for k, c in enumerate(by_worker(s)):
                    rows.append(c, kind, "back-%d" % k, "2")
            rows.check(self, s.client())


    def held_up(self, s):
        """A job that does not get on fails at its deadline, and so does its run
        as soon as it looks."""
        s.ctl("fold", "--all")		# what else would be held
        s.fault("fold_read=hold")
        s.ctl("reassign", "test#2", "test#0")
        wait_for("a job to fail", lambda: re.search(
            "fold job failed.*error=TIMED_OUT", s.log(s.log_start)))
        held_until = os.path.getsize(s.log_path)
        s.fault("fold_read=off")
        wait_for("its run to end", lambda: "time limit of a tick"
                 in s.log(held_until))


class MasterGone(unittest.TestCase):
    def test_one_of_three_for_good(self):
        """Its rows, tail included, are served by the others at once, and one of
        them folds them after the grace."""
        kinds = every_store()
        rows = Rows(kinds)
        args = QUIET + ["--orphan-grace-secs=1"]
        with Server(instance_id="one", workers=1, lease_secs=2,
                    args=args) as one, \
                Server(instance_id="two", workers=1, lease_secs=2, args=args,
                       data_dir=one.data_dir) as two, \
                Server(instance_id="gone", workers=2, lease_secs=2, args=args,
                       data_dir=one.data_dir) as gone:
            clients = by_worker(gone)
            for kind in kinds:
                kind.create(clients[0])
                for k, c in enumerate(clients):
                    self.append(rows, c, kind, "r-%d" % k)
            gone.ctl("seal", "--all")
            for kind in kinds:
                for k, c in enumerate(clients):
                    self.append(rows, c, kind, "t-%d" % k)
            gone.kill_all()
            for s in (one, two):
                with s.client() as c:
                    for kind in kinds:
                        self.assertEqual(
                            set(self.strong(c, kind)),
                            set(rows.want[kind.path]))
            wait_for("others to have what it owned, beside their own", lambda: (
                lambda o: o["one"] == ("one", 0) and o["two"] == ("two", 0)
                and {o["gone"][0], o["gone#1"][0]} <= {"one", "two"})(
                    owners(one)))
            with one.client() as c:
                wait_for("all to be in the base", lambda: all(
                    kind.texts(c, version=kind.version(c)) ==
                    rows.want[kind.path] for kind in kinds))
                rows.check(self, c)
            no_generations(one, kinds, ("gone", "gone#1"))
            with two.client() as c:
                for kind in kinds:
                    self.assertEqual(set(self.strong(c, kind)),
                                     set(rows.want[kind.path]))
            self.paused(one, two, kinds, rows)

    def paused(self, one, two, kinds, rows):
        """One that is stopped past its lease, in the middle of a commit: the
        other takes over what it has and folds it. Awake it writes nothing
        before it has its lease again, then it is as before."""
        with two.client() as c:
            for kind in kinds:
                self.append(rows, c, kind, "p")
        family = two.pids()
        statuses = []
        asleep = threading.Thread(target=lambda: statuses.append(
            kinds[0].append(two.client(), "lost").status))
        two.fault("wal_write=hold:1")
        asleep.start()
        wait_for("a commit to be held", lambda: hits(two, "wal_write") > 0)
        two.fault("lease_renew=hold")
        try:
            for pid in family:
                two.kill(pid, signal.SIGSTOP)
            try:
                wait_for("it to be taken over", lambda: set(
                    owners(one).values()) == {("one", 0)})
                with one.client() as c:
                    wait_for("all to be in the base", lambda: all(
                        kind.texts(c, version=kind.version(c)) ==
                        rows.want[kind.path] for kind in kinds))
                no_generations(one, kinds, ("two",))
            finally:
                for pid in family:
                    os.kill(pid, signal.SIGCONT)
            two.fault("wal_write=off")
            asleep.join()
            self.assertEqual(statuses, [503])
            with two.client() as c:
                for kind in kinds:
                    reply = kind.append(c, "lost")
                    self.assertEqual(reply.status, 503)
                    self.assertTrue(reply.headers.get("retry-after"))
                self.assertEqual(c.get("/api/v1/ready").status, 503)
        finally:
            two.fault("lease_renew=off")
            asleep.join()
        with two.client() as c:
            for kind in kinds:
                self.append(rows, c, kind, "q")
            wait_for("it to be ready",
                     lambda: c.get("/api/v1/ready").status == 200)
        self.assertEqual(two.pids(), family)
        self.assertEqual(owners(one)["two"], ("two", 0))
        for s in (one, two):
            with s.client() as c:
                for kind in kinds:
                    self.exactly(c, kind, rows)

    @staticmethod
    def append(rows, c, kind, name):
        """Its lease is short: on a busy machine it may be lost for a moment."""
        wait_for("an append", lambda: kind.append(c, name).status == 201)
        rows.want[kind.path][name] = "1"

    @staticmethod
    def strong(c, kind):
        return [r[kind.key] for r in kind.reply(
            c, "?consistency=strong").must(200).json()[kind.rows]]

    def exactly(self, c, kind, rows):
        found = kind.reply(c, "?consistency=strong").must(200).json()[kind.rows]
        self.assertEqual(len(found), len(rows.want[kind.path]))
        self.assertEqual({r[kind.key]: r[kind.text] for r in found},
                         rows.want[kind.path])


class MasterTwo(unittest.TestCase):
    """Two servers, each with its own master; one has given its ordinal to the
    other, who does not know it yet, and is told so by the first fold job."""

    def token(self, server, text):
        path = os.path.join(server.tmp, "token")
        with open(path, "w") as f:
            f.write(text + "\n")
        server.args = QUIET + ["--internal-token-file=" + path]

    def test_folds_over_http(self):
        """With another secret nothing is done, and the reason is shown; one that
        dies in the middle is asked again."""
        kinds = every_store()[:3]
        rows = Rows(kinds)
        one = Server(instance_id="one", workers=1, clock_speed=20)
        two = Server(instance_id="two", workers=1, data_dir=one.data_dir)
        self.addCleanup(two.end)
        self.token(one, "0123456789abcdef")
        self.token(two, "0123456789abcdeg")
        with one, one.client() as c:
            for kind in kinds:
                kind.create(c)
                rows.append(c, kind, "a", "1")
            one.ctl("seal", "--all")
            for kind in kinds:
                rows.append(c, kind, "b", "1")
            two.start()
            one.ctl("reassign", "one", "two#0")
            wait_for("its refusal", lambda: "it does not take our secret"
                     in one.log())
            self.assertEqual({(j["ordinal"], j["instance"])
                              for j in fold_jobs(one)}, {("one", "two")})
            before = self.epochs(one, kinds)
            self.assertEqual(two.stop(), 0)
            self.token(two, "0123456789abcdef")
            two.faults = "fold_prepare=hold"
            two.start()
            wait_for("a fold that was asked for to be held", lambda: hits(
                two, "fold_prepare") > 0 and "running" in [
                j["state"] for j in fold_jobs(one)])
            failed = self.tries(one)
            two.kill_all()
            wait_for("a job to fail", lambda: self.tries(one) > failed)
            two.faults = ""
            two.start()
            # The other connection may have been idle for too long.
            with one.client() as c, two.client() as d:
                moved_are_folded(one, c, rows, ("one",), {"a", "b"})
                rows.check(self, d)
                rows.in_base(self, d)
            self.assertIn("fold job ended result=folded", one.log())
            after = self.epochs(one, kinds)
            self.assertEqual([k for k in before if after[k] <= before[k]], [])
            self.assertEqual(two.stop(), 0)
            two.check_log()

    @staticmethod
    def tries(server):
        """Of all jobs together: one that was given up fails silently."""
        return sum(j["failures"] for j in fold_jobs(server))

    @staticmethod
    def epochs(server, kinds):
        return {kind.path: memwal.shards(kind.directory(server))[
            memwal.shard_uuid("one")].epoch for kind in kinds}


class MasterPeer(unittest.TestCase):
    """Another instance owns an ordinal of ours, and is no help."""

    def with_peer(self, kinds, speed=100, lease_secs=3600):
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
        server.lease_secs = lease_secs
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

    def test_without_a_lease_nothing_is_asked_for(self):
        """Who lost it may not know any more who owns what (field faults C.5)."""
        s, peer = self.with_peer(every_store()[:1], lease_secs=2)
        peer.turn(503)
        wait_for("a fold asked for again", lambda: len(peer.paths) > 6)
        s.fault("put_lease=fail:5")
        wait_for("the lease to be lost", lambda: s.status()["lease"][
            "state"] != "held")
        asked = len(peer.paths)
        # Given up it was asked for each 0.6 to 1.2 s.
        time.sleep(1.5 * SLOW)
        self.assertLessEqual(len(peer.paths), asked + 1)	# under way
        self.assertEqual(len(s.processes("worker")), 1)
        s.fault("put_lease=off")
        wait_for("folds asked for", lambda: len(peer.paths) > asked + 3)

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
