#!/usr/bin/env python3
"""A fold that is slow, or killed, concerns nobody: field faults B.2 and B.4."""

import threading
import unittest

from oracle import Book, check_status, memwal
from client import Lost
from harness import LONG, Server, wait_for

CLIENTS = 20				# that append, and as many that list
REQUESTS = 30 if LONG else 3		# of each
SLOW_MS = 2000 if LONG else 100		# a generation
NO_TICKER = ["--rollout-flush-interval-secs=0"]


class HeldFold(unittest.TestCase):
    def hits(self, s, point):
        for line in s.ctl("fault").splitlines():
            name, _, n = line.partition("=")
            if name == point:
                return int(n)
        raise AssertionError("no fault point %s" % point)

    def hold(self, s, point):
        before = self.hits(s, point)
        s.fault("%s=hold" % point)
        return lambda: self.hits(s, point) > before

    def in_thread(self, body, *args):
        """Joined by the caller; what it raised is in failures."""
        def guard():
            try:
                body(*args)
            except BaseException as e:
                self.failures.append(e)
        thread = threading.Thread(target=guard)
        thread.start()
        return thread

    # B.2

    def append(self, s, book, name):
        with s.client() as c:
            for n in range(REQUESTS):
                reply = book.kind.append(c, [book.kind.row(
                    "%s-%d" % (name, n))])
                reply.must(201)

    def list(self, s, book):
        with s.client() as c:
            for _ in range(REQUESTS):
                acked = book.acknowledged()
                ids = {r["id"] for r in book.kind.list(c)}
                self.assertEqual(acked - ids, set())

    def crowd(self, s, book, name):
        """Appends and lists of many; ends when each was answered, and well."""
        with book.lock:
            book.sent.update("%s%d-%d" % (name, k, n) for k in range(CLIENTS)
                             for n in range(REQUESTS))
        threads = [self.in_thread(self.append, s, book, "%s%d" % (name, k))
                   for k in range(CLIENTS)]
        threads += [self.in_thread(self.list, s, book)
                    for _ in range(CLIENTS)]
        for t in threads:
            t.join()
        self.assertEqual(self.failures, [])
        with book.lock:
            book.acked.update(i for i in book.sent if i.startswith(name))

    def fold_on(self, s, stop, replies):
        with s.client() as c:
            while not stop.is_set():
                replies.append(c.post("/api/v1/internal/merge-wal/st"))

    def test_slow_reads_of_generations(self):
        """B.2: a fold that waits for its generations holds up nobody, and
        fences nobody."""
        self.failures = []
        book, stop, replies = Book("st"), threading.Event(), []
        with Server(workers=2, args=NO_TICKER) as s:
            s.wait_walked()
            clients = s.clients_by_worker()
            clients[0].create("st")
            for k in range(4):
                self.assertTrue(book.append(clients[k % 2], ["g%d" % k],
                                            flush=True))
            epochs = {u: shard.epoch for u, shard in
                      memwal.shards(s.store_dir("st")).items()}
            self.assertEqual(len(epochs), 2)
            held = self.hold(s, "fold_read")
            folds = self.in_thread(self.fold_on, s, stop, replies)
            try:
                wait_for("the fold to be held", held)
                self.crowd(s, book, "held")
                self.assertEqual(replies, [])	# all that before it went on
                s.fault("fold_read=delay:%d" % SLOW_MS)
                self.crowd(s, book, "slow")
                wait_for("a fold", lambda: replies)
            finally:
                stop.set()
                s.fault("fold_read=off")
                folds.join()
            self.assertEqual(self.failures, [])
            self.assertEqual({r.status for r in replies}, {200})
            self.assertGreaterEqual(sum(r.json()["reclaimed"]
                                        for r in replies), 4)
            book.check(s)
            self.assertEqual({u: shard.epoch for u, shard in memwal.shards(
                s.store_dir("st")).items()}, epochs)
            self.assertEqual(clients[0].metrics()["memwald_wal_fenced_total"],
                             0)
            check_status(s)

    # B.4

    def prepared(self, s):
        """How many folds were."""
        with s.client() as c:
            return c.metrics()['rollout_wal_merge_duration_seconds_count'
                               '{phase="read"}']

    def kill_in_fold(self, s, book, point):
        """The maintainer, held at that point of a fold. How many folds had been
        prepared by then."""
        with s.client() as c:
            for n in range(2):
                self.assertTrue(book.append(c, ["%s-%d" % (point, n)]))
                self.assertTrue(book.append_version(c, "newest", flush=True))
        held = self.hold(s, point)

        def fold():
            try:
                with s.client() as c:
                    self.assertNotEqual(c.post(
                        "/api/v1/internal/merge-wal/st").status, 200)
            except Lost:
                pass
        thread = self.in_thread(fold)
        wait_for("the fold at " + point, held)
        count = self.prepared(s)
        for pid in s.processes("maintainer"):
            s.kill(pid)
        s.fault("%s=off" % point)
        thread.join()
        self.assertEqual(self.failures, [])
        return count

    def test_killed_at_each_step(self):
        """B.4: after the new fragment is written, after the base commit, before
        the manifest drain; what was folded is only drained."""
        self.failures = []
        book = Book("st")
        with Server(workers=1, args=NO_TICKER) as s:
            with s.client() as c:
                c.create("st")
            s.wait_walked()
            for point in ("fold_commit", "table_committed", "fold_drain"):
                count = self.kill_in_fold(s, book, point)
                book.settle(s)
                book.check(s)
                book.check_files(s)
                self.assertEqual(self.prepared(s) - count,
                                 point == "fold_commit", point)
            book.check_after_restart(s)
            book.check_base(s)
            check_status(s)


if __name__ == "__main__":
    unittest.main()
