"""A store that is pinned, deleted, or deleted and created anew while a fold or a
seal of it is at work is left alone, whatever step that is at (design 6.6)."""

import os
import threading
import unittest

import memwal
from every_kind import KINDS, hits
from harness import LONG, Server, wait_for

QUIET = ["--rollout-flush-interval-secs=0",
         "--rollout-merge-after-generations=0"]
# While it prepares, and between prepare and commit.
POINTS = ("fold_prepare", "fold_write", "fold_commit")
SOME = {"rollout": ("fold_prepare", "fold_commit"),
        "generic": ("fold_commit",), "datagen": ("fold_prepare",)}


def points(kind):
    return POINTS if LONG else SOME[kind.name]


class Held:
    """Something that is at work in another thread, held at a fault point."""

    def __init__(self, server, point, act):
        self.server, self.point, self.replies = server, point, []
        begun = hits(server, point)
        server.fault("%s=hold:1" % point)
        self.thread = threading.Thread(
            target=lambda: self.replies.append(act()))
        self.thread.start()
        try:
            wait_for("it to be at " + point,
                     lambda: hits(server, point) > begun)
        except BaseException:
            self.end()
            raise

    def end(self):
        """What it answered."""
        self.server.fault("%s=off" % self.point)
        self.thread.join()
        return self.replies[0]


class LeftAlone(unittest.TestCase):
    def held(self, server, point, act, meanwhile):
        h = Held(server, point, act)
        try:
            meanwhile()
        finally:
            reply = h.end()
        return reply

    def fill(self, kind, c):
        """Rows in the base, in a generation; the base's version."""
        kind.create(c)
        kind.append(c, "a").must(201)
        kind.folded(c)
        kind.append(c, "b").must(201)
        return kind.version(c)

    def newest(self, kind, server):
        return memwal.newest_manifest(kind.directory(server))

    def test_pinned_meanwhile(self):
        with Server(workers=2, args=QUIET) as s:
            s.wait_walked()
            a, b = s.clients_by_worker().values()
            for kind in (k() for k in KINDS):
                version = self.fill(kind, a)
                for point in points(kind):
                    pinned = []

                    def pin(kind=kind, version=version, pinned=pinned):
                        kind.checkout(b, version).must(200)
                        pinned.append(self.newest(kind, s))
                    reply = self.held(s, point, lambda kind=kind: kind.fold(a),
                                      pin)
                    self.assertEqual(reply.must(200).json(), {"reclaimed": 0})
                    self.assertEqual(self.newest(kind, s), pinned[0], point)
                    self.assertEqual(set(memwal.pending(
                        kind.directory(s)).values()), {1})
                    self.assertEqual(kind.texts(a), {"a": "1"})
                    self.assertEqual(kind.folded(b), 0)
                    kind.checkout(b, None).must(200)
                    self.assertEqual(kind.texts(a), {"a": "1", "b": "1"})
                self.assertEqual(kind.folded(a), 1)
                self.assertEqual(kind.texts(b), {"a": "1", "b": "1"})
                kind.delete(a).must(204)
            self.quiet(s, a)

    def quiet(self, server, c):
        """A fold that was right to stop has not failed."""
        self.assertNotIn("tick failed", server.log())
        failed = [k for k, v in c.metrics().items() if v > 0 and
                  "rollout_wal_cleanup_total" in k and "failed" in k]
        self.assertEqual(failed, [])

    def test_a_seal_of_a_pinned_one(self):
        with Server(workers=1, args=QUIET) as s, s.client() as a, \
                s.client() as b:
            s.wait_walked()
            for kind in (k() for k in KINDS):
                version = self.fill(kind, a)
                for point in ("seal_write", "seal_commit"):
                    made = memwal.generations_made(kind.directory(s))
                    reply = self.held(
                        s, point, lambda kind=kind: kind.fold(a),
                        lambda kind=kind, version=version:
                        kind.checkout(b, version).must(200))
                    self.assertEqual(reply.must(200).json(), {"reclaimed": 0})
                    self.assertEqual(memwal.generations_made(
                        kind.directory(s)), made)
                    kind.checkout(b, None).must(200)
                self.assertEqual(kind.folded(a), 1)
                self.assertEqual(kind.texts(b), {"a": "1", "b": "1"})
            self.quiet(s, a)

    def test_deleted_and_created_anew_meanwhile(self):
        with Server(workers=2, args=QUIET) as s:
            s.wait_walked()
            a, b = s.clients_by_worker().values()
            for kind in (k() for k in KINDS):
                for point in points(kind):
                    self.fill(kind, a)
                    done = []
                    # It waits for the fold to see the mark and stop.
                    delete = threading.Thread(
                        target=lambda kind=kind, done=done:
                        done.append(kind.delete(b)))

                    def begin(kind=kind, delete=delete):
                        delete.start()
                        wait_for("the mark", lambda: any(
                            store["deleted"]
                            for store in s.status()["stores"]))
                        self.assertTrue(os.path.isdir(kind.directory(s)))
                    reply = self.held(s, point, lambda kind=kind: kind.fold(a),
                                      begin)
                    delete.join()
                    self.assertIn(reply.status, (200, 404))
                    if reply.status == 200:
                        self.assertEqual(reply.json(), {"reclaimed": 0})
                    done[0].must(204)
                    kind.create(b)
                    kind.append(b, "new").must(201)
                    for c in (a, b):
                        self.assertEqual(kind.texts(c), {"new": "1"})
                    self.assertEqual(kind.folded(a), 1)
                    self.assertEqual(kind.texts(b), {"new": "1"})
                    kind.delete(a).must(204)
            self.quiet(s, a)

    def test_a_second_deletion_waits_for_the_fold_as_well(self):
        """It cannot open the store any more, and took it away by itself."""
        with Server(workers=2, args=QUIET) as s:
            s.wait_walked()
            clients = list(s.clients_by_worker().values())
            kind, replies = KINDS[0](), []
            self.fill(kind, clients[0])
            threads = [threading.Thread(
                target=lambda c=c: replies.append(kind.delete(c)))
                for c in (s.client(), clients[0], clients[1])]

            def begin():
                threads[0].start()
                wait_for("the mark", lambda: any(
                    store["deleted"] for store in s.status()["stores"]))
                for t in threads[1:]:
                    t.start()
                # What asks afterwards, through the same workers, is answered.
                for _ in range(3):
                    with s.client() as c:
                        kind.reply(c)
                self.assertTrue(os.path.isdir(kind.directory(s)))
                self.assertEqual(replies, [])
            with s.client() as d:
                self.held(s, "fold_commit", lambda: kind.fold(d), begin)
            for t in threads:
                t.join()
            self.assertIn(204, [r.status for r in replies])
            self.assertLessEqual({r.status for r in replies}, {204, 404, 503})
            self.assertFalse(os.path.exists(kind.directory(s)))
            kind.create(clients[0])
            self.assertEqual(kind.texts(clients[1]), {})

    def test_one_whose_data_is_gone_is_deleted(self):
        with Server(workers=2, args=QUIET) as s:
            s.wait_walked()
            stores = [k() for k in KINDS]
            with s.client() as c:
                for kind in stores:
                    kind.create(c)
            s.kill_all()
            for kind in stores:
                os.rename(kind.directory(s), kind.directory(s) + ".away")
            s.start()
            a, b = s.clients_by_worker().values()
            for kind in stores:
                self.assertEqual(kind.delete(a).status, 204)
                self.assertEqual(kind.delete(b).status, 404)
                kind.create(b)
                kind.append(b, "a").must(201)
                self.assertEqual(kind.texts(a), {"a": "1"})

    def test_another_instance_pins_it(self):
        with Server(instance_id="one", workers=1, args=QUIET) as one, \
                Server(instance_id="two", workers=1, args=QUIET,
                       data_dir=one.data_dir) as two:
            one.wait_walked()
            two.wait_walked()
            a, b = one.client(), two.client()
            for kind in (k() for k in KINDS):
                version = self.fill(kind, a)
                pinned = []

                def pin(kind=kind, version=version, pinned=pinned):
                    kind.checkout(b, version).must(200)
                    pinned.append(self.newest(kind, one))
                for point in ("fold_prepare", "table_commit"):
                    reply = self.held(
                        one, point, lambda kind=kind: kind.fold(a), pin)
                    self.assertEqual(reply.must(200).json(), {"reclaimed": 0})
                    self.assertEqual(self.newest(kind, one), pinned.pop())
                    self.assertEqual(kind.texts(a), {"a": "1"})
                    kind.checkout(b, None).must(200)
                self.assertEqual(kind.folded(a), 1)
                self.assertEqual(kind.texts(b), {"a": "1", "b": "1"})
            self.quiet(one, a)


if __name__ == "__main__":
    unittest.main()
