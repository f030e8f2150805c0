"""A strong read sees what another instance has acknowledged and not sealed, and
so does every later read of the same instance (design 5, contract 4.1, A.7)."""

import unittest
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import events
import memwal
from client import Lost
from harness import Server, wait_for
from rows import kib_row, row, same_rows

QUIET = ["--rollout-flush-interval-secs=0",
         "--rollout-merge-after-generations=0"]
STRONG = {"consistency": "strong"}


class Strong(unittest.TestCase):
    def pair(self, workers=2, **more):
        one = self.enterContext(Server(instance_id="one", workers=workers,
                                       args=QUIET, **more))
        two = self.enterContext(Server(instance_id="two", workers=workers,
                                       args=QUIET, data_dir=one.data_dir,
                                       **more))
        one.wait_walked()
        two.wait_walked()
        return one, two

    def test_rows_of_the_other_before_a_seal(self):
        one, two = self.pair()
        with one.client() as a, two.client() as b:
            a.create("st")
            a.append("st", [row("r0", content="old")]).must(201)
            same_rows(self, [row("r0", content="old")],
                      b.list("st", **STRONG))
            # In the same entry, and each is there at once.
            for n in range(1, 20):
                a.append("st", [row("r%d" % n)]).must(201)
                path = "/api/v1/rollouts/st/records/r%d" % n
                self.assertIsNone(b.get(path).must(200).json()["record"])
                self.assertIsNotNone(b.get(path + "?consistency=strong")
                                     .must(200).json()["record"])
                self.assertIsNotNone(b.record("st", "r%d" % n))
            a.append("st", [row("r0", content="new")]).must(201)
            self.assertEqual(b.list("st", **STRONG)[0]["content"], "new")
            self.assertEqual(memwal.pending(one.store_dir("st")),
                             {memwal.shard_uuid(memwal.ordinal(
                                 "one", a.get("/api/v1/health").worker)): 0})
            b.get("/api/v1/rollouts/st/records?consistency=weak").must(400)

    def test_in_every_state(self):
        """Tails that grow, close, are sealed and folded, by both."""
        one, two = self.pair()
        clients = (list(one.clients_by_worker().values()) +
                   list(two.clients_by_worker().values()))
        sent = {}
        clients[0].create("st")
        for n in range(24):
            writer = clients[n * 7 % 4]
            r = kib_row("k%d" % (n % 15))
            r["score"] = float(n)
            sent[r["id"]] = r
            writer.append("st", [r], flush=n % 9 == 8).must(201)
            if n % 13 == 12:
                writer.merge_all("st")
            for c in clients:
                same_rows(self, sent.values(), c.list("st", **STRONG))

    def test_after_the_other_has_gone(self):
        one, two = self.pair(workers=1)
        with one.client() as a, two.client() as b:
            a.create("st")
            a.append("st", [row("kept")]).must(201)
            self.assertEqual(len(b.list("st", **STRONG)), 1)
            a.append("st", [row("last")]).must(201)
            one.kill_all()
            self.assertEqual(len(b.list("st", **STRONG)), 2)
            one.start()
            with one.client() as c:
                self.assertEqual(len(c.list("st")), 2)
                c.append("st", [row("next")]).must(201)
                self.assertEqual(len(b.list("st", **STRONG)), 3)

    def test_without_a_ticker(self):
        """A forced fold seals first, so that others see the rows (A.6)."""
        one, two = self.pair(workers=1)
        self.assertIn("no ticker", one.log())
        with one.client() as a, two.client() as b:
            a.create("st")
            a.append("st", [row("first")]).must(201)
            same_rows(self, [row("first")], b.list("st"))	# the shard is new
            a.append("st", [row("second")]).must(201)
            same_rows(self, [row("first")], b.list("st"))
            self.assertEqual(a.merge("st"), 1)
            same_rows(self, [row("first"), row("second")], b.list("st"))

    def test_a_claim_that_does_not_end(self):
        """An entry that was fenced, and no other yet that records its end: the
        rows in it were acknowledged, whatever becomes of who claims."""
        one, two = self.pair(workers=1, wal="append")
        ids = ["r%d" % n for n in range(6)]
        with one.client() as a, two.client() as b:
            a.create("st")
            a.append("st", [row(r) for r in ids[:3]]).must(201)
            self.assertEqual(len(b.list("st", **STRONG)), 3)
            a.append("st", [row(r) for r in ids[3:]]).must(201)
        one.fault("claim_entry=hold")
        one.kill(one.processes("worker")[0])
        over = Event()
        with ThreadPoolExecutor(1) as pool, two.client() as b:
            more = pool.submit(self.append_more, one, over)
            try:
                wait_for("the claim", lambda: "claim_entry=1" in
                         one.ctl("fault").split())
                for _ in range(2):
                    self.assertEqual([r["id"] for r in b.list("st", **STRONG)],
                                     ids)
                self.assertIsNotNone(b.record("st", ids[-1]))
            finally:
                over.set()
                one.kill_all()		# in the middle of it
            more.result()
            self.assertEqual([r["id"] for r in b.list("st", **STRONG)], ids)
        two.restart()
        with two.client() as b:
            self.assertEqual([r["id"] for r in b.list("st", **STRONG)], ids)
        one.start()
        with one.client() as a, two.client() as b:
            a.append("st", [row("s")]).must(201)
            self.assertEqual([r["id"] for r in b.list("st", **STRONG)],
                             ids + ["s"])

    def append_more(self, server, over):
        """Until one waits in the server: a connection that the killed worker
        had not accepted yet is lost with it, as all are in the end."""
        while not over.wait(0.05):
            try:
                with server.client() as c:
                    if c.append("st", [row("more")]).status == 201:
                        return
            except Lost:
                pass

    def test_rows_that_were_refused_go(self):
        """Written and not synced: the strong read of another instance may see
        them, until the entry's end is recorded."""
        one, two = self.pair(workers=1, wal="append")
        with one.client() as a, two.client() as b:
            a.create("st")
            a.append("st", [row("a", content="1")]).must(201)
            one.fault("wal_sync=fail:5:1")
            a.append("st", [row("a", content="2"), row("b")]).must(503)
            b.list("st", **STRONG)
            a.append("st", [row("c")]).must(201)
            for c in (a, b):
                same_rows(self, [row("a", content="1"), row("c")],
                          c.list("st", **STRONG))

    def test_events_are_there_at_once(self):
        """Datagen reads are strong without being asked (contract 4.2)."""
        one, two = self.pair()
        clients = (list(one.clients_by_worker().values()) +
                   list(two.clients_by_worker().values()))
        events.create(clients[0], "st")
        sent = []
        for n in range(12):
            sent.append(events.field("5", n, events.blob(b"%d" % n)))
            events.append(clients[n * 7 % 4], "st", sent[-1:]).must(201)
            for c in clients:
                events.same_events(self, sent, events.of_item(c, "st", "5"))
                self.assertEqual(events.payload(
                    c, "st", sent[-1]["event_id"]).must(200).body, b"%d" % n)
        self.assertEqual(set(memwal.pending(
            events.store_dir(one, "st")).values()), {0})


if __name__ == "__main__":
    unittest.main()
