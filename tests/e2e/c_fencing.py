"""A seal that finds another epoch than the one its entry was closed under is an
error, in log, metric and answer, and loses nothing; a fold carries the epoch of
the day over and succeeds, whoever has claimed the shard meanwhile (design 6.5)."""

import threading
import unittest

import memwal
from every_kind import KINDS, hits
from harness import Server, wait_for

QUIET = ["--rollout-flush-interval-secs=0",
         "--rollout-merge-after-generations=0"]
FENCED = ('rollout_flush_duration_seconds_count{outcome="fenced"}',
          "rollout_flush_errors_total")


class Fencing(unittest.TestCase):
    def setUp(self):
        self.server = Server.during(self.addCleanup, workers=2, args=QUIET)
        self.server.wait_walked()

    def shard(self, kind, worker):
        name = memwal.shard_uuid(memwal.ordinal("test", worker))
        return memwal.shards(kind.directory(self.server))[name]

    def reclaim(self, kind, worker, row):
        """That worker dies, and its replacement claims the shard: a client of
        it."""
        s = self.server
        epoch = self.shard(kind, worker).epoch
        pid = s.processes("worker")[worker]
        s.kill(pid)
        wait_for("another worker", lambda: len(s.processes("worker")) == 2
                 and pid not in s.processes("worker"))

        def append():
            c = s.clients_by_worker()[worker]
            return c if kind.append(c, row).status == 201 else None
        c = wait_for("an append", append)
        self.assertGreater(self.shard(kind, worker).epoch, epoch)
        return c

    def ask(self, point, act, meanwhile, passes=0):
        """What act answers, if meanwhile happens while it is at that point."""
        s, replies = self.server, []
        begun = hits(s, point)
        s.fault("%s=hold:1%s" % (point, "@%d" % passes if passes else ""))
        thread = threading.Thread(target=lambda: replies.append(act()))
        thread.start()
        try:
            wait_for("it to be at " + point, lambda: hits(s, point) > begun)
            meanwhile()
        finally:
            s.fault("%s=off" % point)
            thread.join()
        return replies[0]

    def ways(self, kind):
        """How a seal is asked for, and of how many shards before worker 1's
        there is something to seal."""
        yield kind.fold, 0
        if kind.name == "rollout":
            yield lambda c: kind.append(c, "with", query="?flush=true"), 1
        if kind.name == "generic":
            yield lambda c: c.post(kind.path + "/flush"), 0

    def fenced(self, kind, n, way, passes):
        """Worker 1's closed entry is sealed for a client of worker 0, while
        the next owner of its shard claims it."""
        s = self.server
        clients = s.clients_by_worker()
        rows = {"old%d" % n: "1", "new%d" % n: "1"}
        kind.append(clients[1], "old%d" % n).must(201)
        before = clients[0].metrics()
        failed = 'rollout_wal_flush_total{result="failed",kind="%s"}' % \
            kind.name
        made = self.shard(kind, 1).current_generation
        start = len(s.log())
        reply = self.ask("seal_commit", lambda: way(clients[0]),
                         lambda: self.reclaim(kind, 1, "new%d" % n), passes)
        self.assertEqual(reply.status, 503, reply.body)
        self.assertEqual(reply.error()[0], "UNAVAILABLE")
        self.assertEqual(self.shard(kind, 1).current_generation, made)
        after = clients[0].metrics()
        for name in FENCED + (failed,):
            self.assertEqual(after[name], before.get(name, 0) + 1, name)
        lines = [x for x in s.log()[start:].splitlines()
                 if "tick failed" in x]
        self.assertEqual(len(lines), 1, lines)
        for word in ("FENCED", "phase=seal", "store=%s" % kind.store):
            self.assertIn(word, lines[0])
        return rows

    def test_a_seal_that_was_fenced(self):
        for kind in (k() for k in KINDS):
            rows = {}
            with self.server.client() as c:
                kind.create(c)
            for n, (way, passes) in enumerate(self.ways(kind)):
                rows.update(self.fenced(kind, n, way, passes))
                with self.server.client() as c:
                    # The row that came with it is durable all the same.
                    self.assertEqual({k: v for k, v in kind.texts(c).items()
                                      if k != "with"}, rows)
            with self.server.client() as c:
                self.assertGreater(kind.folded(c), 0)
                self.assertEqual({k: v for k, v in kind.texts(c).items()
                                  if k != "with"}, rows)
                at = kind.version(c)
                self.assertEqual({k for k in kind.texts(c, at)
                                  if k != "with"}, set(rows))

    def test_a_fold_goes_on(self):
        for kind in (k() for k in KINDS):
            clients = self.server.clients_by_worker()
            kind.create(clients[0])
            rows = {}
            for point in ("fold_prepare", "fold_commit", "fold_drain",
                          "shard_commit"):
                row = "of-" + point
                clients = self.server.clients_by_worker()
                kind.append(clients[1], row).must(201)
                rows.update({row: "1", "new-" + row: "1"})
                # The first change of the shard is that of its seal.
                reply = self.ask(
                    point, lambda c=clients[0]: kind.fold(c),
                    lambda row=row: self.reclaim(kind, 1, "new-" + row),
                    passes=int(point == "shard_commit"))
                self.assertEqual(reply.must(200).json(), {"reclaimed": 1})
                epoch = self.shard(kind, 1).epoch
                self.assertEqual(self.shard(kind, 1).generations, {})
                with self.server.client() as c:
                    self.assertEqual(kind.texts(c), rows)
                    self.assertEqual(kind.folded(c), 1)
                self.assertEqual(self.shard(kind, 1).epoch, epoch)
            with self.server.client() as c:
                self.assertEqual(kind.texts(c, kind.version(c)), rows)


if __name__ == "__main__":
    unittest.main()
