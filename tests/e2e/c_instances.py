"""Two servers on one directory: two hosts, each with shards of its own."""

import os
import subprocess
import threading
import time
import unittest
from itertools import product

import events
import generic
import memwal
from harness import LONG, Server, free_port, wait_for
from rows import row, same_rows


class Instances(unittest.TestCase):
    def refused(self, server, **kw):
        """It must end by itself with status 1: what it said."""
        second = Server(data_dir=server.data_dir, **kw)
        self.addCleanup(second.end)
        second.start(wait=False)
        self.assertEqual(second.proc.wait(60), 1)
        log = second.log()
        second.proc = None
        self.assertEqual(server.proc.poll(), None)
        return log

    def test_the_same_instance_id_is_refused(self):
        with Server(instance_id="one") as s, s.client() as c:
            c.create("st")
            log = self.refused(s, instance_id="one")
            self.assertIn("one", log)
            c.append("st", [row("a")]).must(201)

    def test_the_same_port_is_refused(self):
        with Server(instance_id="one") as s:
            log = self.refused(s, instance_id="two", port=s.port)
            self.assertIn(str(s.port), log)

    def test_a_taken_admin_socket_is_refused(self):
        with Server(instance_id="one") as s:
            second = Server(data_dir=s.data_dir, instance_id="two")
            second.socket = s.socket
            self.addCleanup(second.end)
            second.start(wait=False)
            self.assertEqual(second.proc.wait(60), 1)
            second.proc = None
            self.assertIn("--admin-socket", second.log())
            self.assertTrue(s.status()["processes"])

    def test_rows_of_the_other_after_a_seal(self):
        """At once with ?flush=true (A.7)."""
        with Server(instance_id="one", workers=2) as one, \
                Server(instance_id="two", workers=2,
                       data_dir=one.data_dir) as two, \
                one.client() as a, two.client() as b:
            a.create("st")
            sent = [row("from-a"), row("also-a")]
            a.append("st", sent, flush=True).must(201)
            same_rows(self, sent, b.list("st"))
            sent.append(row("from-b"))
            b.append("st", sent[-1:], flush=True).must(201)
            for c in (a, b):
                same_rows(self, sent, c.list("st"))
                self.assertIsNotNone(c.record("st", "from-b"))
            a.merge_all("st")
            b.merge_all("st")
            for c in (a, b):
                same_rows(self, sent, c.list("st"))

    def test_a_first_claim_seen_half_done(self):
        """Its folder was there before its first manifest, which then must be
        looked for: nothing else tells of it."""
        with Server(instance_id="one", workers=1) as one, \
                Server(instance_id="two", workers=1,
                       data_dir=one.data_dir) as two, \
                one.client() as a, two.client() as b:
            a.create("st")
            self.assertEqual(b.list("st"), [])
            logs = os.path.join(one.store_dir("st"), "_mem_wal")
            two.fault("object_link=hold:1")	# of its first manifest
            replies = []
            thread = threading.Thread(target=lambda: replies.append(
                b.append("st", [row("r")], flush=True).status))
            thread.start()
            try:
                wait_for("a shard's folder", lambda: os.path.isdir(logs) and
                         os.listdir(logs))
                # Until the folder's time is old enough to be believed.
                until = time.monotonic() + 0.5
                while time.monotonic() < until:
                    self.assertEqual(a.list("st"), [])
            finally:
                two.fault("object_link=off")
                thread.join()
            self.assertEqual(replies, [201])
            self.assertEqual([r["id"] for r in a.list("st")], ["r"])

    def test_the_next_version_is_gone(self):
        """Of what the other has done since, collection leaves the newest: half
        the grace later that is found by listing."""
        quiet = ["--rollout-flush-interval-secs=0",
                 "--rollout-merge-after-generations=0"]
        with Server(instance_id="one", args=quiet) as one, \
                Server(instance_id="two", args=quiet + ["--grace-secs=4"],
                       data_dir=one.data_dir, workers=1) as two, \
                one.client() as a, two.client() as b:
            one.wait_walked()
            two.wait_walked()
            a.create("st")
            sent = [row("r0")]
            a.append("st", sent, flush=True).must(201)
            a.merge_all("st")
            same_rows(self, sent, b.list("st"))
            # Until it believes the view that it has.
            wait_for("a hit", lambda: self.hit(b, "st"))
            seen = set(self.versions(one.store_dir("st")))
            for k in range(1, 4):
                sent.append(row("r%d" % k))
                a.append("st", sent[-1:], flush=True).must(201)
                a.merge_all("st")
            made = [p for p in self.versions(one.store_dir("st"))
                    if p not in seen]
            newest = {os.path.dirname(p): p for p in made}
            for path in set(made) - set(newest.values()):
                os.unlink(path)
            wait_for("the other to look", lambda: len(b.list("st")) == 4)
            same_rows(self, sent, b.list("st"))

    @staticmethod
    def hit(c, store):
        def hits():
            return c.metrics()["memwald_source_cache_hits_total"]
        before = hits()
        c.list(store)
        return hits() > before

    @staticmethod
    def versions(store_dir):
        """Manifests of the base and of each shard, oldest first."""
        base = os.path.join(store_dir, "_versions")
        found = [os.path.join(base, n) for n in sorted(
            os.listdir(base), reverse=True) if n.endswith(".manifest")]
        for shard in memwal.shards(store_dir).values():
            found += [os.path.join(shard.path, "manifest",
                                   "{:064b}".format(v)[::-1] + ".binpb")
                      for v in shard.versions]
        return found

    def test_leftovers_of_a_crash_block_nothing(self):
        """Lock file and socket of the dead are taken over (D.6)."""
        with Server() as s:
            for _ in range(5):
                s.kill_all()
                self.assertTrue(os.path.exists(s.socket))
                s.start()
            mode = os.stat(s.socket).st_mode & 0o777
            self.assertEqual(mode, 0o600)

    def test_bad_options_end_with_status_one(self):
        with Server() as s:
            program = s.command()[0]
        for words in (["--port=70000"], ["--nonsense"], ["--workers=x"],
                      ["--instance-id=a#b"], ["--loop=fast"], ["extra"]):
            run = subprocess.run(
                [program, "--port=%d" % free_port(), *words],
                capture_output=True, text=True, timeout=60)
            self.assertEqual(run.returncode, 1, words)
            self.assertIn(words[0].split("=")[0].lstrip("-"), run.stderr)
        run = subprocess.run([program, "--help"], capture_output=True,
                             text=True, timeout=60)
        self.assertEqual(run.returncode, 0)
        self.assertIn("--data-dir", run.stdout)


class Rollouts:
    suffix = "rollout"

    @staticmethod
    def create(c, anew):
        return c.post("/api/v1/rollouts", {"name": "x"})

    @staticmethod
    def delete(c):
        return c.request("DELETE", "/api/v1/rollouts/x")

    @staticmethod
    def append(c, name):
        return c.append("x", [row(name)])

    @staticmethod
    def names(c):
        return {r["id"] for r in c.list("x", consistency="strong")}

    @staticmethod
    def fold(c):
        return c.post("/api/v1/internal/merge-wal/x")


class Generic:
    """Another schema each time."""
    suffix = "generic"

    @staticmethod
    def create(c, anew):
        column = ["w" if anew else "v",
                  generic.column("string" if anew else "int64")]
        return c.post("/api/v1/generic", {
            "name": "x", "schema": {"columns": [generic.ID, column]}})

    @staticmethod
    def delete(c):
        return c.request("DELETE", "/api/v1/generic/x")

    @staticmethod
    def append(c, name):
        """Of the store that is there."""
        value = {"v": 1} if name.startswith("old") else {"w": "text"}
        return c.post("/api/v1/generic/x/rows",
                      {"rows": [generic.row(name, **value)]})

    @staticmethod
    def names(c):
        return {r["id"] for r in generic.Generic(c, "x").list(
            consistency="strong")}

    @staticmethod
    def fold(c):
        return c.post("/api/v1/generic/x/merge-wal")


class Datagen:
    suffix = "datagen"

    @staticmethod
    def create(c, anew):
        return c.post("/api/v1/datagen", {"name": "x"})

    @staticmethod
    def delete(c):
        return c.request("DELETE", "/api/v1/datagen/x")

    @staticmethod
    def append(c, name):
        return events.append(c, "x", [events.event("5", event_id=name)])

    @staticmethod
    def names(c):
        return {e["event_id"] for e in events.of_item(
            c, "x", "5", "?consistency=strong")}

    @staticmethod
    def fold(c):
        return c.post("/api/v1/internal/merge-wal/x")


KINDS = (Rollouts, Generic, Datagen)


class Anew(unittest.TestCase):
    """One deletes a store and creates it anew; the other had it open. What it
    acknowledges from then on is in the new one, what it reads is of that."""

    @staticmethod
    def pair(add_cleanup, secs):
        args = ["--rollout-merge-after-generations=0",
                "--rollout-flush-interval-secs=%d" % secs,
                "--rollout-cleanup-interval-secs=%d" % secs]
        one = Server.during(add_cleanup, instance_id="one", args=args)
        two = Server.during(add_cleanup, instance_id="two", args=args,
                            data_dir=one.data_dir)
        one.wait_walked()
        two.wait_walked()
        return one, two

    @classmethod
    def setUpClass(cls):
        """Where nothing is done that nobody asks for."""
        cls.one, cls.two = cls.pair(cls.addClassCleanup, 0)

    def tearDown(self):
        with self.one.client() as c:
            for kind in KINDS:
                kind.delete(c)

    def agree(self, kind, clients, names):
        """Every client sees exactly these, whatever it knew before."""
        for c in clients:
            self.assertEqual(kind.names(c), set(names), kind.suffix)

    @staticmethod
    def anew(kind, a):
        kind.delete(a).must(204)
        kind.create(a, True).must(201)
        kind.append(a, "new").must(201)

    def known_to_all(self, kind, a, others):
        kind.create(a, False).must(201)
        kind.append(a, "old").must(201)
        names = {"old"}
        for k, b in enumerate(others):
            self.assertEqual(kind.names(b), names)
            kind.append(b, "old%d" % k).must(201)
            names.add("old%d" % k)

    def test_everybody_is_in_the_new_one(self):
        one, two = self.one, self.two
        a, b = one.client(), list(two.clients_by_worker().values())
        for kind in KINDS:
            self.known_to_all(kind, a, b)
            self.anew(kind, a)
            # At once, one by one: each worker finds out by itself.
            names = {"new"}
            for k, c in enumerate(b):
                kind.append(c, "late%d" % k).must(201)
                names.add("late%d" % k)
                self.agree(kind, [c, a], names)
            self.agree(kind, [a, *b], names)
            for c in (a, b[0]):
                kind.fold(c).must(200)
            self.agree(kind, [a, *b], names)
        for server in (two, one):
            server.restart()
            for kind in KINDS:
                self.agree(kind, [one.client(), two.client()], names)

    def test_everybody_finds_it_gone(self):
        a, b = self.one.client(), list(self.two.clients_by_worker().values())
        for kind in KINDS:
            self.known_to_all(kind, a, b)
            kind.delete(a).must(204)
            for c in b:
                kind.append(c, "late").must(404)
                kind.fold(c).must(404)
                kind.delete(c).must(404)
        # Created by the one that was left behind: then the other learns.
        for kind in KINDS:
            kind.create(b[0], True).must(201)
            self.agree(kind, [*b, a], [])

    def test_an_append_under_way_is_not_acknowledged(self):
        """Its rows lie where the deletion took them."""
        a, b = self.one.client(), self.two.client()
        # Into an entry that is open, into a new one, and by a first claim.
        points = ("wal_sync", "wal_rotate", "claim_epoch")
        for kind, point in product(KINDS, points) if LONG else \
                zip(KINDS, points):
            with self.subTest(kind=kind.suffix, point=point):
                kind.create(a, False).must(201)
                kind.append(a, "old").must(201)
                self.assertEqual(kind.names(b), {"old"})
                if point == "wal_sync":
                    kind.append(b, "old1").must(201)
                reply = self.held(
                    self.two, point, lambda: kind.append(b, "old2"),
                    lambda: self.anew(kind, a))
                self.assertEqual(reply.status, 503, reply.body)
                self.agree(kind, [a, b], ["new"])
                kind.append(b, "late").must(201)
                self.agree(kind, [a, b], ["new", "late"])
                kind.delete(a).must(204)

    @staticmethod
    def hits(server, point):
        return int(dict(line.split("=") for line in
                        server.ctl("fault").split())[point])

    def held(self, server, point, act, meanwhile):
        """What act() answers, if meanwhile() is done while it is at point."""
        replies, begun = [], self.hits(server, point)
        server.fault("%s=hold:1" % point)
        thread = threading.Thread(target=lambda: replies.append(act()))
        thread.start()
        try:
            wait_for("it to be held",
                     lambda: self.hits(server, point) > begun)
            meanwhile()
        finally:
            server.fault("%s=off" % point)
            thread.join()
        return replies[0]

    def test_the_maintainer_lets_go_of_it(self):
        """The other's ticks seal and fold nothing into the new one, and its
        slot is free again."""
        one, two = self.pair(self.addCleanup, 1)
        a, b = one.client(), two.client()
        for kind in KINDS:
            self.known_to_all(kind, a, [b])
            self.anew(kind, a)
        for kind in KINDS:
            self.agree(kind, [a], ["new"])
        wait_for("the old slots to go", lambda: not any(
            s["dirty"] for s in two.status()["stores"]))
        for kind in KINDS:
            kind.append(b, "late").must(201)
            self.agree(kind, [a, b], ["new", "late"])
        for server in (one, two):
            self.assertNotIn("tick failed", server.log())


if __name__ == "__main__":
    unittest.main()
