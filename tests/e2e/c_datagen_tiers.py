"""Values of every kind come back as they were sent from a tail, a generation,
the base table and after restarts; so do payloads, byte by byte (B.7)."""

import unittest

import memwal
from events import (STORES, append, create, edges, event, of_item, of_root,
                    payload, same_events, store_dir)
from harness import Server, wait_for

QUIET = ["--rollout-flush-interval-secs=0"]
SEALS = ["--rollout-flush-interval-secs=1", "--rollout-cleanup-interval-secs=0",
         "--rollout-merge-after-generations=0"]
FOLDS = ["--rollout-flush-interval-secs=1", "--rollout-cleanup-interval-secs=1"]


class Tiers(unittest.TestCase):
    def check(self, s, sent, payloads):
        without = [e["event_id"] for e in sent
                   if e["event_id"] not in payloads]
        for c in s.clients_by_worker().values():
            same_events(self, sent, of_item(c, "st", "5"))
            for event_id in without[:2] + ["absent"]:
                reply = payload(c, "st", event_id).must(404)
                self.assertEqual(reply.error()[0], "NOT_FOUND")
            for event_id, data in payloads.items():
                reply = payload(c, "st", event_id).must(200)
                self.assertEqual(reply.headers["Content-Type"],
                                 "application/octet-stream")
                self.assertEqual(reply.headers["Content-Length"],
                                 str(len(data)))
                self.assertTrue(reply.body == data, event_id)
            c.close()

    def fill(self, s):
        sent, payloads = edges()
        clients = s.clients_by_worker()
        create(clients[0], "st")
        append(clients[0], "st", sent[::2]).must(201)
        append(clients[1], "st", sent[1::2]).must(201)
        return sent, payloads

    def pending(self, s):
        return memwal.pending(store_dir(s, "st"))

    def test_tail_and_replay(self):
        with Server(args=QUIET) as s:
            sent, payloads = self.fill(s)
            self.check(s, sent, payloads)
            self.assertEqual(set(self.pending(s).values()), {0})
            s.kill_all()
            s.start()
            self.check(s, sent, payloads)
            s.wait_walked()
            s.restart()
            self.check(s, sent, payloads)

    def test_generation_and_base(self):
        """The ticker seals and folds stores of this kind, too (C.3)."""
        with Server(args=SEALS) as s:
            s.wait_walked()
            sent, payloads = self.fill(s)
            wait_for("the seals", lambda: sorted(self.pending(s).values())
                     == [1, 1])
            self.check(s, sent, payloads)
            with s.client() as c:
                self.assertGreater(self.ticks(c, "flush", "ok"), 0)
            s.args = FOLDS
            s.restart()
            wait_for("the folds", lambda: not any(self.pending(s).values()))
            self.check(s, sent, payloads)
            with s.client() as c:
                late = event("5", len(sent))
                append(c, "st", [late]).must(201)
                wait_for("the ticker's fold",
                         lambda: self.ticks(c, "cleanup", "merged") > 0)
            self.check(s, sent + [late], payloads)
            s.restart()
            self.check(s, sent + [late], payloads)

    @staticmethod
    def ticks(c, what, result):
        return c.metrics().get('rollout_wal_%s_total{result="%s",'
                               'kind="datagen"}' % (what, result), 0)

    def test_order(self):
        """By (item_seq, event_id), and of a root by item before that; ids with
        slashes in their path, escaped or not."""
        items = ["5", "5/a:0", "5/a:0/b:1", "5/a:10", "5/events", "5/events/x",
                 "50", "5%2Fa:0", "5 +?#&", "\u00e9/\u00e9:0"]
        sent = [event(i, seq, event_id="%s %s %d" % (x, i, seq),
                      root_item_id="5" if i[0] == "5" else i)
                for x in "ba" for i in items for seq in (10, 9, 0)]
        with Server(args=SEALS) as s, s.client() as c:
            create(c, "st")
            for k in range(0, len(sent), 7):
                append(c, "st", sent[k:k + 7]).must(201)

            def order(e):
                return (e["item_id"].encode(), e["item_seq"],
                        e["event_id"].encode())
            for i in items:
                want = sorted((e for e in sent if e["item_id"] == i), key=order)
                same_events(self, want, of_item(c, "st", i))
                if i in ("5/a:0", "5/a:0/b:1", "50", "5/events/x"):
                    got = c.get("%s/st/items/%s/events" % (STORES, i))
                    same_events(self, want, got.must(200).json()["events"])
            same_events(self, sorted((e for e in sent if
                                      e["root_item_id"] == "5"), key=order),
                        of_root(c, "st", "5"))
            self.assertEqual(len(of_root(c, "st", "\u00e9/\u00e9:0")), 6)
            for absent in ("5/", "5/a", "a:0", "x"):
                self.assertEqual(of_item(c, "st", absent), [])
                self.assertEqual(of_root(c, "st", absent), [])
            reply = c.request("HEAD", STORES + "/st/items/5/events").must(200)
            self.assertEqual(reply.body, b"")


if __name__ == "__main__":
    unittest.main()
