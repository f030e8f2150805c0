"""Ordinals whose worker is gone, and what was moved here from elsewhere: their
tails are claimed and sealed and their shards folded until they are empty, by
whoever owns them now (design 7, C.2, C.3)."""

import json
import os
import signal
import threading
import unittest

import memwal
from c_leases import QUIET, folder, put_next
from client import Lost, quote
from every_kind import KINDS, hits
from harness import LONG, Server, wait_for

MANUAL = QUIET + ["--orphans=manual"]
STORES = 10 if LONG else 1


def by_worker(server):
    clients = server.clients_by_worker()
    return [clients[k] for k in sorted(clients)]


def every_store():
    return [k("s%d" % i) for i in range(STORES) for k in KINDS]


def assign(server, owners, **more):
    """As the master of another instance would: {ordinal: (instance, worker)}"""
    def change(content, version):
        for o in content["ordinals"]:
            if o["name"] in owners:
                instance, worker = owners[o["name"]]
                o["history"].insert(0, {k: o[k] for k in (
                    "version", "state", "instance", "worker", "at_ms")})
                del o["history"][4:]
                o.update(state="owned", instance=instance, worker=worker,
                         version=version, **more)
    put_next(folder(server, "assignment"), change)


def fold(c, kind, ordinal, **kw):
    """The job that a master sends for one ordinal and store."""
    return c.post("/api/v1/internal/merge-wal/%s?kind=%s&ordinal=%s" % (
        kind.store, kind.name, quote(ordinal)), **kw)


def folded(c, kind, ordinal):
    """Sent again until it succeeds, as a master does: how many that was."""
    count = 0

    def done():
        nonlocal count
        reply = fold(c, kind, ordinal)
        if reply.status == 200:
            count += reply.json()["reclaimed"]
        else:
            assert reply.status == 503, reply.body
            assert reply.headers.get("retry-after")
        return reply.status == 200
    wait_for("%s of %s" % (ordinal, kind.store), done)
    return count


class Rows:
    """What was acknowledged, by store."""

    def __init__(self, kinds):
        self.kinds = kinds
        self.want = {kind.path: {} for kind in kinds}

    def append(self, c, kind, name, text):
        kind.append(c, name, text=text).must(201)
        self.want[kind.path][name] = text

    def spread(self, clients, seal, same=False):
        """In each store, which is made, rows of each worker that gets one of
        the clients, before and behind a seal."""
        for kind in self.kinds:
            kind.create(clients[0])
        for n in range(2):
            for kind in self.kinds:
                for k, c in enumerate(clients):
                    self.append(c, kind, "r%d-%d" % (n, k), "1")
                    if same:
                        self.append(c, kind, "same", "%d.%d" % (n, k))
            if n == 0:
                seal()

    def check(self, test, c):
        for kind in self.kinds:
            rows = kind.reply(c).must(200).json()[kind.rows]
            test.assertEqual(len(rows), len(self.want[kind.path]))
            test.assertEqual(kind.texts(c), self.want[kind.path])

    def in_base(self, test, c):
        """Nothing is left anywhere else."""
        for kind in self.kinds:
            test.assertEqual(kind.texts(c, version=kind.version(c)),
                             self.want[kind.path])


def no_generations(server, kinds, ordinals):
    """Rows show in the base before their generations are drained."""
    shards = [memwal.shard_uuid(ordinal) for ordinal in ordinals]
    for kind in kinds:
        wait_for("the drain of %s" % kind.path, lambda kind=kind: not any(
            memwal.shards(kind.directory(server))[s].generations
            for s in shards))


class ExecOrphans(unittest.TestCase):
    def interrupted(self, server, kind, owners):
        """A job whose worker is killed in the middle of its claim, and whose
        maintainer before its commit."""
        def job():
            try:
                with server.client() as c:
                    fold(c, kind, "test#2")
            except Lost:
                pass			# with the worker that was asked
        points = [("claim_entry", "worker")]
        if server.wal != "put":		# else the start has folded all
            points.append(("fold_commit", "maintainer"))
        for point, _ in points:
            server.fault(point + "=hold")
        assign(server, owners)
        t = threading.Thread(target=job)
        t.start()
        for point, role in points:
            wait_for("it to be held at " + point,
                     lambda p=point: hits(server, p) > 0)
            for pid in server.processes(role):
                server.kill(pid)
            server.fault(point + "=off")
        t.join()

    def test_fewer_workers_and_back(self):
        kinds = every_store()
        rows = Rows(kinds)
        with Server(workers=4, args=MANUAL) as s:
            clients = by_worker(s)
            rows.spread(clients, lambda: s.ctl("seal", "--all"), same=True)
            s.kill_all()
            s.workers_wanted = 2
            s.start()
            c = s.client()
            rows.check(self, c)
            # Nobody's: whoever is asked may not claim.
            self.assertEqual(fold(c, kinds[0], "test#2").status, 503)
            pinned = kinds[-1]
            pinned.checkout(c, pinned.version(c)).must(200)
            self.interrupted(s, kinds[0], {
                "test#2": ("test", 1), "test#3": ("test", 0)})
            s.wait_healthy()
            c = s.client()
            # Left alone, and so not said to be empty. (An entry that was put
            # whole was sealed without its owner, and folded at the start.)
            for ordinal in ("test#2", "test#3"):
                if s.wal != "put":
                    self.assertEqual(fold(c, pinned, ordinal).status, 503)
            pinned.checkout(c, None).must(200)
            for kind in kinds:
                for ordinal in ("test#2", "test#3"):
                    folded(c, kind, ordinal)
            no_generations(s, kinds, ("test#2", "test#3"))
            before = self.epochs(s, kinds)
            for kind in kinds:
                for ordinal in ("test#2", "test#3"):
                    self.assertEqual(folded(c, kind, ordinal), 0)
            self.assertEqual(self.epochs(s, kinds), before)
            rows.check(self, c)
            # The other two shards are as any: then all of it is in the base.
            for kind in kinds:
                kind.folded(c)
            rows.in_base(self, c)
            s.workers_wanted = 4
            s.restart()
            clients = by_worker(s)
            for kind in kinds:
                for k, c in enumerate(clients):
                    rows.append(c, kind, "back-%d" % k, "2")
                    rows.append(c, kind, "same", "3.%d" % k)
            rows.check(self, clients[0])

    @staticmethod
    def epochs(server, kinds):
        return {(kind.path, name): shard.epoch for kind in kinds
                for name, shard in
                memwal.shards(kind.directory(server)).items()}


class ExecMovedIn(unittest.TestCase):
    """What another instance had is given to this one."""

    def test_backlog_of_the_dead(self):
        """Too many generations to be read at all: folded here, they are."""
        kinds = every_store()
        rows = Rows(kinds)
        limit = ["--rollout-wal-pending-max-generations=4",
                 "--merge-idle-timeout-secs=1"]
        with Server(instance_id="one", workers=2, args=MANUAL) as one:
            clients = by_worker(one)
            for kind in kinds:
                kind.create(clients[0])
            for n in range(3):
                for kind in kinds:
                    for k, c in enumerate(clients):
                        rows.append(c, kind, "r%d-%d" % (n, k), "1")
                one.ctl("seal", "--all")
            for kind in kinds:
                rows.append(clients[1], kind, "tail", "1")
            one.kill_all()
            with Server(instance_id="two", workers=1, args=MANUAL + limit,
                        data_dir=one.data_dir) as two, two.client() as c:
                for kind in kinds:
                    self.assertEqual(kind.reply(c).status, 503)
                assign(two, {"one": ("two", 0), "one#1": ("two", 0)})
                # One that makes no step is told of, before the route gives up.
                two.fault("fold_read=hold")
                self.assertIn("process that was asked", fold(
                    c, kinds[0], "one").must(503).json()["error"]["message"])
                two.fault("fold_read=off")
                for kind in kinds:
                    for ordinal in ("one", "one#1"):
                        folded(c, kind, ordinal)
                no_generations(two, kinds, ("one", "one#1"))
                rows.check(self, c)
                rows.in_base(self, c)
                for kind in kinds:
                    rows.append(c, kind, "more", "1")
                rows.check(self, c)

    def test_owner_that_was_asleep(self):
        """It is fenced, loses nothing, and sees what became of its rows."""
        kinds = every_store()
        rows = Rows(kinds)
        with Server(instance_id="one", workers=1, args=MANUAL) as one, \
                one.client() as c:
            for kind in kinds:
                kind.create(c)
                rows.append(c, kind, "a", "1")
            family = one.pids()
            with Server(instance_id="two", workers=1, args=MANUAL,
                        data_dir=one.data_dir) as two, two.client() as d:
                for kind in kinds:
                    rows.append(d, kind, "b", "1")
                for pid in family:
                    one.kill(pid, signal.SIGSTOP)
                try:
                    assign(two, {"one": ("two", 0)})
                    for kind in kinds:
                        folded(d, kind, "one")
                    rows.check(self, d)
                finally:
                    for pid in family:
                        one.kill(pid, signal.SIGCONT)
                for kind in kinds:
                    reply = kind.append(c, "lost")
                    self.assertEqual(reply.status, 503)
                    self.assertTrue(reply.headers.get("retry-after"))
                    self.assertEqual(
                        fold(c, kind, "one").status, 503)
                    rows.append(d, kind, "a", "2")
                    d.post("/api/v1/internal/merge-wal/%s?kind=%s" % (
                        kind.store, kind.name)).must(200)
                rows.check(self, c)
                rows.check(self, d)
                self.assertEqual(one.pids(), family)


    def test_owner_that_slept_while_it_was_retired(self):
        """In the middle of a commit, or between asking whose its ordinal is and
        its claim: it acknowledges nothing that nobody would fold any more."""
        kind = KINDS[0]()
        rows = Rows([kind])
        with Server(instance_id="one", workers=1, args=MANUAL) as one, \
                Server(instance_id="two", workers=1, args=MANUAL,
                       data_dir=one.data_dir) as two, two.client() as d:
            with one.client() as c:
                kind.create(c)
                rows.append(c, kind, "a", "1")
                kind.folded(c)
            self.refused_asleep(one, kind, "wal_write", lambda: (
                assign(two, {"one": ("two", 0)}, drained=2),
                two.ctl("retire", "one")))
            rows.check(self, d)
            # Its own again; until its worker has no claim that stands.
            one.ctl("undrain", "instance")
            with one.client() as c:
                wait_for("its home to have it again", lambda: kind.append(
                    c, "b", text="1").status == 201)
                rows.want[kind.path]["b"] = "1"
            worker = one.processes("worker")
            one.kill(worker[0])
            wait_for("another worker",
                     lambda: one.processes("worker") not in ([], worker))
            self.refused_asleep(one, kind, "claim_epoch", lambda: (
                assign(two, {"one": ("two", 0)}, drained=2),
                folded(d, kind, "one"),
                two.ctl("retire", "one")))
            rows.check(self, d)
            rows.in_base(self, d)
            no_generations(two, [kind], ("one",))
            self.assertEqual(json.loads(two.ctl(
                "left", "one", "--json"))["left"], 0)

    def refused_asleep(self, server, kind, point, meanwhile):
        """An append that is held at a fault point."""
        statuses = []

        def append():
            with server.client() as c:
                statuses.append(kind.append(c, "lost").status)

        before = hits(server, point)
        server.fault(point + "=hold:1")
        t = threading.Thread(target=append)
        t.start()
        try:
            wait_for("it to be held at " + point,
                     lambda: hits(server, point) > before)
            meanwhile()
        finally:
            server.fault(point + "=off")
            t.join()
        self.assertEqual(statuses, [503])


class ExecInternal(unittest.TestCase):
    """What masters of other servers ask, and who may (contract 2.7)."""

    routes = (("POST", "/api/v1/internal/merge-wal/none"),
              ("GET", "/api/v1/internal/merge-executor"),
              ("POST", "/api/v1/internal/merge-executor/start"),
              ("POST", "/api/v1/internal/merge-executor/cancel"))
    may = (404, 200, 503, 503)

    def statuses(self, c, **headers):
        return tuple(c.request(method, path, headers={
            k.replace("_", "-"): v for k, v in headers.items()}).status
            for method, path in self.routes)

    def test_capability(self):
        """Every worker says the same, and a master makes nothing of it."""
        with Server(workers=2, args=QUIET + [
                "--workers-max=8", "--merge-execution-timeout-secs=1800",
                "--merge-drain-targets=st,generic:other"]) as s:
            told = [c.get("/api/v1/internal/merge-executor").must(200).json()
                    for c in by_worker(s)]
            self.assertEqual(told[0], told[1])
            self.assertEqual(len(told[0].pop("instance")), 36)
            self.assertEqual(told[0], {
                "protocol": 2, "timeout_secs": 1800,
                "queue_timeout_secs": 600, "idle_timeout_secs": 600,
                "progress_protocol": 1, "owned_targets": [],
                "drain_targets": ["st", "generic:other"]})
            with s.client() as c:
                for path in ("start", "cancel"):
                    reply = c.post("/api/v1/internal/merge-executor/" + path,
                                   {"id": "x"}).must(503)
                    self.assertEqual(reply.json()["error"]["code"],
                                     "OVERLOADED")
                reply = c.post("/api/v1/internal/rollout-append/st")
                self.assertEqual((reply.status, reply.body), (404, b""))
                reply = c.post("/api/v1/internal/merge-wal/none").must(404)
                self.assertEqual(reply.json()["error"]["code"], "NOT_FOUND")
                for query in ("kind=none", "ordinal=", "ordinal=" + "x" * 280):
                    c.post("/api/v1/internal/merge-wal/none?" + query) \
                        .must(400)
                c.create("st")
                c.create("other")
                for body in (None, {}, {"anything": 1}):
                    self.assertEqual(c.post(
                        "/api/v1/internal/merge-wal/other", body).must(200)
                        .json(), {"reclaimed": 0})
                # Handed over: but not what its ordinal's owner must fold.
                self.assertIn("handed over", c.post(
                    "/api/v1/internal/merge-wal/st").must(503)
                    .json()["error"]["message"])
                # Not without a shard of that ordinal, but without such a one.
                for name in ("nobody", "test%237"):	# never ran
                    self.assertIn("none of that name", c.post(
                        "/api/v1/internal/merge-wal/st?ordinal=" + name)
                        .must(400).json()["error"]["message"])
                self.assertEqual(c.post(
                    "/api/v1/internal/merge-wal/st?ordinal=test").must(200)
                    .json(), {"reclaimed": 0})
                # Without a secret: who is on this machine.
                self.assertEqual(self.statuses(c), self.may)
                self.assertEqual(
                    self.statuses(c, X_Forwarded_For="10.0.0.1"), (403,) * 4)

    def test_with_a_secret(self):
        token = "t0p-secret-of-all-instances"
        s = Server(workers=1)
        path = os.path.join(s.tmp, "token")
        with open(path, "w") as f:
            f.write(token + "\nand a comment\n")
        s.args = QUIET + ["--internal-token-file=" + path]
        with s:
            with s.client() as c:
                self.assertEqual(self.statuses(c), (401,) * 4)
                reply = c.get("/api/v1/internal/merge-executor")
                self.assertEqual(reply.headers["www-authenticate"], "Bearer")
                self.assertEqual(reply.json()["error"]["code"],
                                 "UNAUTHORIZED")
                self.assertEqual(
                    self.statuses(c, Authorization="Basic " + token),
                    (401,) * 4)
                for wrong in (token[:-1], token + "x", token[:-1] + "x", ""):
                    self.assertEqual(
                        self.statuses(c, Authorization="Bearer " + wrong),
                        (401 if wrong == "" else 403,) * 4, wrong)
                self.assertEqual(
                    self.statuses(c, Authorization="bearer " + token,
                                  X_Forwarded_For="10.0.0.1"), self.may)
            self.assertNotIn(token, s.log() + json.dumps(s.status()))

    def test_no_start_with_a_bad_option(self):
        texts = (None, "", "short\n", "with blanks in the token\n")
        s = Server(workers=1)
        self.addCleanup(s.end)
        path = os.path.join(s.tmp, "token")
        s.args = QUIET + ["--internal-token-file=" + path]
        for text in texts if LONG else texts[2:3]:
            if text is not None:
                with open(path, "w") as f:
                    f.write(text)
            s.start(wait=False)
            self.assertEqual(s.proc.wait(60), 1)
            s.proc = None
            self.assertIn("--internal-token-file " + path,
                          s.log(s.log_start))
        s.args = QUIET + ["--merge-owned-targets=st"]
        s.start(wait=False)
        self.assertEqual(s.proc.wait(60), 1)
        s.proc = None
        self.assertIn("--merge-owned-targets", s.log(s.log_start))


if __name__ == "__main__":
    unittest.main()
