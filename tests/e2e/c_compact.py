"""Compaction of base tables (point 11 of issue 4): small fragments become one,
deleted rows go, and what is read is the same before, meanwhile and after."""

import base64
import os
import threading
import unittest

import events
import generic
import memwal
from harness import Server, wait_for
from rows import row, same_rows

QUIET = ["--rollout-flush-interval-secs=0",
         "--rollout-merge-after-generations=0"]
PATH = "/api/v1/rollouts/st/compact"
MANY = 8			# fragments that are put together by themselves


def compact(c, **body):
    return c.post(PATH, body)


def counts(reply):
    reply = reply.must(200).json()
    return tuple(reply[name] for name in (
        "fragments_removed", "fragments_added", "files_removed",
        "files_added"))


def stats(c):
    return c.get(PATH + "/stats").must(200).json()


class Table(unittest.TestCase):
    def setUp(self):
        self.rows = {}

    def fold(self, c, *rows):
        """One fragment more."""
        c.append("st", rows).must(201)
        c.merge_all("st")
        self.rows.update((r["id"], r) for r in rows)

    def held(self, server, point, begin, meanwhile):
        """meanwhile() runs while begin() is held at the point."""
        answers = []
        server.fault(point + "=hold:1")
        t = threading.Thread(target=lambda: answers.append(begin()))
        t.start()
        try:
            wait_for("the hold at " + point, lambda:
                     self.guarded(server))
            meanwhile()
        finally:
            server.fault(point + "=off")
            t.join()
        return answers[0]

    @staticmethod
    def guarded(server):
        return any(x["guard"]["held"] and x["guard"]["phase"] in (
            "compact", "base_commit") for x in server.status()["stores"])

    def same(self, *servers):
        """Lists, gets, payloads, through every worker."""
        for s in servers:
            for c in s.clients_by_worker().values():
                same_rows(self, self.rows.values(), c.list("st"))
                for i, r in self.rows.items():
                    self.assertEqual(c.record("st", i)["id"], i)
                    want = r.get("binary_payload")
                    reply = c.blob("st", i)
                    self.assertEqual(reply.status, 404 if want is None
                                     else 200)
                    if want is not None:
                        self.assertEqual(
                            base64.b64encode(reply.body).decode(), want, i)
                c.close()


class Compact(Table):
    def test_asked_for(self):
        long = base64.b64encode(os.urandom(1500000)).decode()
        with Server(workers=2, args=QUIET) as s, s.client() as c:
            path = s.store_dir("st")
            c.create("st")
            self.assertEqual(stats(c), {
                "total_fragments": 0, "is_compacting": False,
                "total_compactions": 0})
            self.assertEqual(counts(compact(c)), (0, 0, 0, 0))
            self.fold(c, row("b", content="1", input_tokens=[1, 2]),
                      row("d", binary_payload=long, reward=1),
                      *[row("f%d" % n) for n in range(4)])
            self.fold(c, row("a", binary_payload=""), row("c"))
            self.fold(c, row("b", content="2"), row("e", binary_payload="AA=="))
            self.fold(c, row("0", output_logprobs=[None, 0.5],
                             relationships=[{"target_id": "a",
                                             "relation": "r"}]))
            self.same(s)
            self.assertEqual(stats(c)["total_fragments"], 4)
            old = set(memwal.fragments(path))
            self.assertEqual(counts(compact(c)), (4, 1, 5, 1))
            (number, (rows, deleted, _)), = memwal.fragments(path).items()
            self.assertNotIn(number, old)
            self.assertEqual((rows, deleted), (10, 0))
            self.same(s)
            after = stats(c)
            self.assertEqual(after.pop("last_compaction")[-1], "Z")
            self.assertEqual(after, {
                "total_fragments": 1, "is_compacting": False,
                "total_compactions": 1})
            self.assertEqual(counts(compact(c)), (0, 0, 0, 0))
            self.assertEqual(c.metrics()[
                'rollout_compactions_total{result="success"}'], 3)
            # What moved is replaced where it is now, and found after a start.
            self.fold(c, row("d", content="without"), row("g"))
            self.assertEqual(memwal.fragments(path)[number][1], 1)
            self.same(s)
            self.assertEqual(counts(compact(c, target_rows_per_fragment=5,
                                            materialize_deletions=False)),
                             (0, 0, 0, 0))
            self.assertEqual(counts(compact(c, target_rows_per_fragment=5)),
                             (1, 1, 2, 1))
            s.restart()
            self.same(s)

    def test_by_itself_every_kind(self):
        sent, happened = [], []
        with Server(workers=2, args=QUIET) as s, s.client() as c:
            s.wait_walked()
            c.create("st")
            events.create(c, "st")
            g = generic.Generic(c, "st")
            g.create()
            for n in range(MANY):
                # The last round replaces some of the first.
                self.fold(c, row("k%d" % (n % (MANY - 1)), reward=n),
                          row("x%d" % n))
                some = [dict(r, id="%s%d" % (r["id"], n))
                        for r in generic.EDGES]
                g.append(some).must(201)
                g.merge_all()
                sent += some
                some = [events.event(seq=2 * n), events.field(
                    "5", 2 * n + 1, events.blob(bytes(range(256)) * 5))]
                events.append(c, "st", some).must(201)
                c.post("/api/v1/internal/merge-wal/st?kind=datagen").must(200)
                happened += some
            for kind, count in (("rollout", 2 * MANY - 1),
                                ("generic", len(sent)),
                                ("datagen", len(happened))):
                (held, deleted, _), = memwal.fragments("%s/st.%s.lance" % (
                    s.data_dir, kind)).values()
                self.assertEqual((held, deleted), (count, 0), kind)
            self.assertEqual(c.metrics()[
                'rollout_compactions_total{result="success"}'], 3)
            s.restart()
            self.same(s)
            with s.client() as c:
                generic.same_everywhere(self, generic.Generic(c, "st"), sent)
                events.same_events(self, events.by_seq(happened),
                                   events.of_item(c, "st", "5"))
                for e in happened:
                    if "value" in e:
                        self.assertEqual(
                            events.payload(c, "st", e["event_id"])
                            .must(200).body,
                            base64.b64decode(e["value"]["bytes"]))

    def test_refused(self):
        with Server(workers=1, args=QUIET) as s, s.client() as c:
            c.create("st")
            self.fold(c, row("a"))
            self.fold(c, row("b"))
            self.assertEqual(c.post(PATH).status, 415)
            for body in ({"target_rows_per_fragment": 0},
                         {"target_rows_per_fragment": "1"}, [],
                         {"materialize_deletions": 1}):
                self.assertIn(c.post(PATH, body).status, (400, 422), body)
            self.assertEqual(
                c.post("/api/v1/rollouts/no/compact", {}).status, 404)
            self.assertEqual(
                c.get("/api/v1/rollouts/no/compact/stats").status, 404)
            version = c.get("/api/v1/rollouts/st").must(200).json()["version"]
            pin = "/api/v1/rollouts/st/checkout"
            c.post(pin, {"version": version}).must(200)
            reply = compact(c)
            self.assertEqual(reply.status, 400)
            self.assertIn(str(version), reply.error()[1])
            c.post(pin, {"version": None}).must(200)
            self.assertEqual(len(memwal.fragments(s.store_dir("st"))), 2)
            self.assertEqual(counts(compact(c))[:2], (2, 1))

    def test_one_at_a_time(self):
        """Meanwhile appends, reads and seals go on."""
        with Server(workers=1, args=QUIET) as s, s.client() as c:
            c.create("st")
            for n in range(3):
                self.fold(c, row("a%d" % n))

            def meanwhile():
                wait_for("the compaction", lambda: stats(c)["is_compacting"])
                reply = compact(c)
                self.assertEqual(reply.status, 409)
                self.assertEqual(reply.error(), (
                    "COMPACTION_IN_PROGRESS",
                    "Compaction already in progress"))
                c.append("st", [row("b")], flush=True).must(201)
                self.rows["b"] = row("b")
                self.same(s)
            with s.client() as other:
                first = self.held(s, "compact_prepare",
                                  lambda: compact(other), meanwhile)
            self.assertEqual(counts(first), (3, 1, 3, 1))
            self.same(s)
            c.merge_all("st")
            self.same(s)

    def test_a_store_that_goes(self):
        """Deleted while it is compacted: left alone, and made anew at once."""
        with Server(workers=1, args=QUIET) as s, s.client() as c:
            c.create("st")
            for n in range(2):
                self.fold(c, row("a%d" % n))
            gone = []

            def meanwhile():
                wait_for("the compaction", lambda: stats(c)["is_compacting"])
                with s.client() as third:
                    d = threading.Thread(target=lambda: gone.append(
                        third.request("DELETE", "/api/v1/rollouts/st")))
                    d.start()
                    wait_for("the mark", lambda: any(
                        x["deleted"] for x in s.status()["stores"]))
                    s.fault("compact_commit=off")
                    d.join()
            with s.client() as other:
                reply = self.held(s, "compact_commit",
                                  lambda: compact(other), meanwhile)
            self.assertEqual(gone[0].status, 204)
            self.assertIn(reply.status, (200, 404, 503))
            c.create("st")
            self.rows = {}
            self.fold(c, row("new"))
            self.same(s)


class TwoInstances(Table):
    """One of two is held up between two steps while the other one goes on."""

    def pair(self):
        one = Server.during(self.addCleanup, instance_id="one", workers=1,
                            args=QUIET)
        two = Server.during(self.addCleanup, instance_id="two", workers=1,
                            args=QUIET, data_dir=one.data_dir)
        a = one.client()
        one.wait_walked()
        two.wait_walked()
        a.create("st")
        for n in range(4):
            self.fold(a, row("k%d" % n), row("m%d" % n, content="old"))
        return one, two, a, two.client()

    def test_a_fold_that_was_prepared_before(self):
        one, two, a, b = self.pair()
        changed = [row("m1", content="new"), row("k9")]
        a.append("st", changed, flush=True).must(201)
        self.held(one, "fold_commit", lambda: a.merge("st"),
                  lambda: self.assertEqual(counts(compact(b))[:2], (4, 1)))
        self.rows.update((r["id"], r) for r in changed)
        self.same(one, two)
        # Replaced where it had moved to, so it is there once.
        self.assertEqual(sorted(x[:2] for x in memwal.fragments(
            one.store_dir("st")).values()), [(2, 0), (8, 1)])

    def test_a_fold_while_it_commits(self):
        for point in ("compact_commit", "table_commit"):
            with self.subTest(point=point):
                self.rows = {}
                one, two, a, b = self.pair()
                changed = [row("m%d" % n, content="new") for n in (0, 3)]
                b.append("st", changed, flush=True).must(201)
                reply = self.held(one, point, lambda: compact(a),
                                  lambda: b.merge("st"))
                self.rows.update((r["id"], r) for r in changed)
                self.assertEqual(reply.status, 200)
                self.same(one, two)
                left = memwal.fragments(one.store_dir("st")).values()
                self.assertEqual(sum(x[0] - x[1] for x in left), 8)

    def test_both_at_once(self):
        one, two, a, b = self.pair()
        reply = self.held(one, "compact_commit", lambda: compact(a),
                          lambda: compact(b).must(200))
        # The first gave up, or found nothing to do any more.
        self.assertIn(reply.status, (200, 503))
        self.assertEqual([x[:2] for x in memwal.fragments(
            one.store_dir("st")).values()], [(8, 0)])
        self.same(one, two)


if __name__ == "__main__":
    unittest.main()
