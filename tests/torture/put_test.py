#!/usr/bin/env python3
"""Whatever an object store does to a put (field faults A.1, A.2, A.5, B.3,
I.1, I.2): refuses it, times out, stores it and loses the answer, stores it
late, answers "conflict, nothing stored".

The stub in front of the local store (worker/object/stub.h) is told so at run
time; a hold is a put that takes as long as the test wants. In both durability
modes: where commits are appended, WAL entries apart.
"""

import threading
import unittest

from oracle import Book, check_status, fold, made, memwal
from harness import Server, wait_for

MODES = ("append", "put")
# Nothing stored and then; stored, unheard; stored when it is tried again.
PASSING = ("drop:1", "answer:UNKNOWN:1", "late:1", "answer:CONFLICT:2")
NO_TICKER = ["--rollout-flush-interval-secs=0"]
FENCED = "memwald_wal_fenced_total"


def fault(server, point, action):
    """Tells the point; how often it has acted by now."""
    for line in server.ctl("fault", "%s=%s" % (point, action)).splitlines():
        name, _, n = line.partition("=")
        if name == point:
            return int(n)
    raise AssertionError("no fault point %s" % point)


class Puts(unittest.TestCase):
    def server(self, wal, workers=1, **kw):
        return Server(workers=workers, wal=wal, args=NO_TICKER, **kw)

    def in_both(self, body, **kw):
        for wal in MODES:
            with self.subTest(wal=wal), self.server(wal, **kw) as s, \
                    s.client() as c:
                s.wait_walked()
                book = Book("st")
                c.create("st")
                body(s, c, book)
                check_status(s)

    def must_append(self, book, client, *ids, **kw):
        self.assertTrue(book.append(client, list(ids), **kw), ids)

    def gapless(self, server):
        """No position was skipped, and none is there twice."""
        shard, = memwal.shards(server.store_dir("st")).values()
        positions = shard.wal_positions()
        self.assertEqual(positions, list(range(1, len(positions) + 1)))
        return positions

    def armed(self, server, point, action, step):
        """That step passed that point, with that action."""
        before = fault(server, point, action)
        step()
        self.assertGreater(fault(server, point, "off"), before,
                           (point, action))

    def refused(self, c, book, row_id):
        book.sent.add(row_id)
        reply = c.append("st", [made(row_id)])
        self.assertEqual(reply.status, 503, reply.body)
        self.assertIn("Retry-After", reply.headers)

    # I.1 and I.2: what passes is no client's matter.

    def test_wal_entries(self):
        with self.server("put") as s, s.client() as c:
            book = Book("st")
            c.create("st")
            self.must_append(book, c, "first")
            for action in PASSING:
                before = len(self.gapless(s))
                self.armed(s, "put_wal", action, lambda a=action:
                           self.must_append(book, c, "row-" + a))
                self.assertEqual(len(self.gapless(s)), before + 1, action)
            self.assertEqual(book.check(s), sorted(book.sent))
            before = self.gapless(s)
            s.fault("put_wal=fail:5")
            self.refused(c, book, "refused")
            self.assertEqual(self.gapless(s), before)
            s.fault("put_wal=off")
            self.must_append(book, c, "second")
            self.assertEqual(len(self.gapless(s)), len(before) + 1)
            self.assertNotIn("refused", book.check(s))
            self.assertEqual(c.metrics()[FENCED], 0)
            book.check_after_restart(s)

    def test_claims(self):
        def body(s, c, book):
            for k, action in enumerate(PASSING):
                for point in ("put_shard", "put_wal"):
                    pid, = s.processes("worker")
                    s.kill(pid)
                    wait_for("another worker", lambda p=pid:
                             s.processes("worker") not in ([], [p]))

                    def append(k=k, point=point):
                        with s.client() as fresh:
                            return book.append(fresh, ["%d-%s" % (k, point)])
                    self.armed(s, point, action, lambda a=append:
                               self.assertTrue(a()))
            self.gapless(s)
            self.assertEqual(book.check(s), sorted(book.sent))
            with s.client() as fresh:
                self.assertEqual(fresh.metrics()[FENCED], 0)
        self.in_both(body)

    def test_shard_manifests_and_base_versions(self):
        def body(s, c, book):
            for action in PASSING:
                made_before = memwal.generations_made(s.store_dir("st"))
                self.must_append(book, c, "warm-" + action)
                self.armed(s, "put_shard", action, lambda a=action:
                           self.must_append(book, c, "row-" + a, flush=True))
                self.assertEqual(memwal.generations_made(
                    s.store_dir("st")), made_before + 1)
                book.check_files(s)
                self.armed(s, "put_base", action, lambda:
                           self.assertEqual(c.merge("st"), 1))
                self.assertEqual(book.check(s), sorted(book.sent))
            # B.3: after a restart, and as Lance reads the base table.
            book.check_after_restart(s)
            book.check_base(s)
        self.in_both(body)

    def test_the_registry(self):
        with self.server("put") as s, s.client() as c:
            for k, action in enumerate(PASSING):
                name = "st%d" % k
                self.armed(s, "put_registry", action, lambda n=name:
                           c.create(n))
                c.post("/api/v1/rollouts", {"name": name}).must(409)
                self.assertEqual(c.list(name), [])
            s.fault("put_registry=fail:5")
            c.post("/api/v1/rollouts", {"name": "st"}).must(503)
            s.fault("put_registry=off")
            c.create("st")

    # What does not pass is a 503, and then it goes on by itself.

    def test_for_ever(self):
        """Conflicts, and outcomes that cannot be found out. The clock runs
        faster: a put is tried for ten seconds."""
        with self.server("put", clock_speed=10) as s, s.client() as c:
            book = Book("st")
            c.create("st")
            self.must_append(book, c, "first")
            before = self.gapless(s)
            s.fault("put_wal=answer:CONFLICT")
            self.refused(c, book, "conflict")
            self.assertEqual(self.gapless(s), before)
            s.fault("put_wal=answer:UNKNOWN")
            self.refused(c, book, "unknown")
            self.assertEqual(self.gapless(s), before)
            s.fault("put_wal=off")
            self.must_append(book, c, "second")
            self.assertEqual(book.check(s), ["first", "second"])
            self.assertEqual(c.metrics()[FENCED], 0)
            for point, step in (
                    ("put_shard", lambda: c.append(
                        "st", [made("sealed")], flush=True)),
                    ("put_base", lambda: c.post(
                        "/api/v1/internal/merge-wal/st"))):
                s.fault("%s=answer:CONFLICT" % point)
                self.assertEqual(step().status, 503, point)
                s.fault("%s=off" % point)
            self.assertEqual({r["id"] for r in c.list("st")},
                             {"first", "second", "sealed"})
            wait_for("folds", lambda: fold(c, "st"))
            self.assertEqual({r["id"] for r in c.list("st")},
                             {"first", "second", "sealed"})

    def test_an_earlier_commit_lands_late(self):
        """Neither stored nor refused, as far as anybody could see; then it is
        there, where the next commit wants to go."""
        with self.server("put", clock_speed=10) as s, s.client() as c:
            book = Book("st")
            c.create("st")
            self.must_append(book, c, "first")
            before = len(self.gapless(s))
            s.ctl("fault", "put_wal=late", "wal_read_back=fail:5")
            self.assertFalse(book.append(c, ["late"]))
            s.ctl("fault", "put_wal=off", "wal_read_back=off")
            self.must_append(book, c, "second")
            self.assertEqual(len(self.gapless(s)), before + 2)
            self.assertEqual(c.metrics()[FENCED], 0)
            self.assertEqual(book.check(s), ["first", "late", "second"])
            book.check_after_restart(s)

    # A: sealing.

    def test_a_failed_seal_loses_nothing(self):
        """A.1: 500 to every put of the next generation."""
        def body(s, c, book):
            self.must_append(book, c, "warm")
            s.fault("put_generation=fail:5")
            self.assertFalse(book.append(c, ["a"], flush=True))
            self.assertGreater(
                c.metrics()["rollout_flush_errors_total"], 0)
            s.fault("put_generation=off")
            self.must_append(book, c, "a")
            self.must_append(book, c, "b", flush=True)
            book.check_after_restart(s)
            self.assertEqual(book.check(s), ["a", "b", "warm"])
        self.in_both(body)

    def held(self, s, point, step):
        """A thread in that step, once it is held; what it came to."""
        outcome, before = [], fault(s, point, "hold")
        thread = threading.Thread(target=lambda: outcome.append(step()))
        thread.start()
        wait_for("the step to be held", lambda: "%s=%d" % (
            point, before + 1) in s.ctl("fault").splitlines())
        return thread, outcome

    def test_no_answer_before_its_own_entry(self):
        """A.2: also the first append after a seal."""
        for wal in MODES:
            point = "put_wal" if wal == "put" else "wal_rotate"
            with self.subTest(wal=wal), self.server(wal) as s, \
                    s.client() as c:
                book = Book("st")
                c.create("st")
                self.must_append(book, c, "before", flush=True)

                def append(row_id, s=s, book=book):
                    with s.client() as other:
                        return book.append(other, [row_id])
                thread, outcome = self.held(s, point, lambda: append("held"))
                for _ in range(50):	# the worker serves meanwhile
                    self.assertEqual([r["id"] for r in c.list("st")],
                                     ["before"])
                self.assertEqual(outcome, [])
                s.fault("%s=off" % point)
                thread.join()
                self.assertEqual(outcome, [True])
                self.must_append(book, c, "again", flush=True)
                thread, outcome = self.held(s, point, lambda: append("lost"))
                s.kill_all()
                thread.join()
                self.assertEqual(outcome, [False])
                s.start()
                book.check(s)

    def test_rows_stay_while_they_are_sealed(self):
        """A.5: the shard's manifest takes its time."""
        def body(s, c, book):
            ids = ["r%d" % k for k in range(100)]
            clients = s.clients_by_worker()
            self.must_append(book, clients[0], *ids)

            def flush():
                with s.client() as other:
                    return book.append(other, ["r0"], flush=True)
            try:
                thread, outcome = self.held(s, "put_shard", flush)
                for _ in range(20):
                    for client in clients.values():
                        self.assertEqual(
                            len({r["id"] for r in client.list("st")}), 100)
                self.assertEqual(outcome, [])
            finally:
                s.fault("put_shard=off")
            thread.join()
            self.assertEqual(outcome, [True])
            for client in clients.values():
                self.assertEqual(len(client.list("st")), 100)
                client.close()
        self.in_both(body, workers=2)


if __name__ == "__main__":
    unittest.main()
