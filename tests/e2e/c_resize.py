"""memwaldctl resize: workers come and go at run time, under load.

No request fails and no connection is reset, each acknowledged row is read once,
whatever shard it went to, and what the workers that left wrote is folded.
"""

import itertools
import signal
import unittest

from b_ctl import DONE, LATE, REFUSED, ask, ctl, end, start
from client import Lost
from harness import LONG, Server, wait_for
from load import Clients
from rows import row

ROUNDS = (3, 1, 2) if not LONG else (3, 1, 4, 2, 6, 1, 5, 3, 2, 6, 2)


class Load(Clients):
    """Each on new connections and on old."""

    def __init__(self, server):
        super().__init__(4)
        self.server = server

    def client(self, n):
        ids = self.ids(n)
        while not self.over.is_set():
            try:
                with self.server.client() as c:
                    for name in itertools.islice(ids, 5):
                        reply = c.append("st", [row(name)])
                        if reply.status == 201:
                            self.acked.add(name)
                        else:
                            self.failed.append(reply.status)
                        if reply.headers.get("Connection") == "close":
                            break
            except (Lost, OSError) as e:
                self.failed.append(repr(e))


def ordinal(s, name="test#1"):
    return {o["name"]: o for o in ask(s, "ordinals")["ordinals"]}[name]


class Resize(unittest.TestCase):
    def workers_of(self, s):
        return [p for p in ask(s, "workers")["processes"]
                if p["role"] == "worker"]

    def all_run(self, s):
        """Health is answered before all of them have started."""
        wait_for("all workers", lambda: all(
            p["state"] == "running" for p in self.workers_of(s)))

    def test_under_load(self):
        with Server(workers=2, args=["--workers-max=6"]) as s, \
                s.client() as c:
            c.create("st")
            with Load(s) as load:
                for n in ROUNDS:
                    load.more(20)
                    found = ask(s, "resize", str(n))
                    self.assertEqual(found["workers"], n)
                    self.assertEqual(len(self.workers_of(s)), n)
                    s.workers_wanted = n
                    load.more(20)
            self.assertEqual(load.failed, [])
            for client in s.clients_by_worker().values():
                ids = [r["id"] for r in client.list("st")]
                self.assertEqual(sorted(ids), sorted(load.acked))
            wait_for("a clean status", lambda: s.status()["clean"])
            # Also what is in shards whose workers are gone.
            self.assertEqual(ctl(s, "fold", "st")[0], DONE)
            left = ask(s, "shards", "st")["shards"]
            self.assertEqual({(x["pending_generations"], x["tail_bytes"])
                              for x in left}, {(0, 0)})
            self.assertGreater(len(left), 2)
            with s.client() as fresh:
                self.assertEqual(len(fresh.list("st")),
                                 len(load.acked))
                self.assertEqual(fresh.metrics()[
                    'memwald_process_restarts_total{role="worker"}'], 0)

    @staticmethod
    def is_anothers(s):
        wait_for("another to own its ordinal",
                 lambda: ordinal(s)["worker"] == 0)

    def test_who_comes_back_has_its_ordinal(self):
        """It does not serve while another still owns that: its appends would be
        refused."""
        with Server(workers=2, args=["--workers-max=2"]) as s, \
                s.client() as c:
            self.all_run(s)
            c.create("st")
            for away, back in ((("resize", "1"), ("resize", "2")),
                               (("drain", "1"), ("undrain", "1"))):
                with self.subTest(back):
                    ask(s, *away)
                    self.is_anothers(s)
                    s.fault("assignment_put=delay:500:1")
                    with Load(s) as load:
                        load.more(20)
                        ask(s, *back)
                        self.all_run(s)
                        load.more(20)
                    self.assertEqual(load.failed, [])
                    self.assertEqual(len(self.workers_of(s)), 2)

    def test_the_storage_does_not_answer(self):
        """Who comes serves reads meanwhile; who need not come after all is not
        waited for."""
        with Server(workers=3, clock_speed=10) as s, s.client() as c:
            self.all_run(s)
            c.create("st")
            ask(s, "resize", "1")
            self.is_anothers(s)
            with s.client() as first:
                first.append("st", [row("a")]).must(201)
            s.fault("put_assignment=fail:5")
            first = start(s, "resize", "3")
            wait_for("it to begin", lambda: "from=1 to=3" in s.log())
            self.assertEqual(ask(s, "resize", "2")["workers"], 2)
            self.assertEqual(end(first)[0], REFUSED)
            s.workers_wanted = 2
            with s.clients_by_worker()[1] as d:
                self.assertEqual([r["id"] for r in d.list("st")], ["a"])
                self.assertEqual(d.append("st", [row("b")]).status, 503)
                s.fault("put_assignment=off")
                wait_for("appends", lambda: d.append(
                    "st", [row("b")]).status == 201)
            self.assertEqual(len(s.processes("worker")), 2)

    def test_wrong_numbers(self):
        with Server(workers=1, args=["--workers-max=2"]) as s:
            for n in ("0", "3", "-1", "x", "1x", "99999999999", ""):
                with self.subTest(n):
                    status, out, err = ctl(s, "resize", n)
                    self.assertEqual((status, out), (REFUSED, ""))
                    self.assertIn("is empty" if n == "" else
                                  "1 to 2 workers", err)
            # To what it is: nothing happens.
            before = s.pids()
            self.assertEqual(ask(s, "resize", "1"),
                             {"workers": 1, "before": 1})
            self.assertEqual(s.pids(), before)

    def test_two_at_once_and_deadline(self):
        """One that does not get through is overtaken by the next."""
        with Server(workers=2, args=["--workers-max=4",
                                     "--drain-secs=60"]) as s:
            self.all_run(s)
            held = s.raw()
            self.addCleanup(held.sock.close)
            last = self.workers_of(s)[1]["pid"]
            s.fault("worker_start=hold:1")
            first = start(s, "resize", "4")
            wait_for("workers that start", lambda: len(self.workers_of(s))
                     == 4)
            status, out, err = ctl(s, "resize", "3", "--timeout=1")
            self.assertEqual((status, out), (LATE, ""), err)
            status, out, err = end(first)
            self.assertEqual(status, REFUSED)
            self.assertIn("another one came after it, to 3", err)
            s.fault("worker_start=off")
            wait_for("three workers", lambda: [
                p["state"] for p in self.workers_of(s)] == ["running"] * 3)
            self.assertEqual(self.workers_of(s)[1]["pid"], last)

    def test_one_that_dies_on_its_way(self):
        """Connections that wait for a worker that is killed while it leaves
        are answered: it is started once more for them."""
        with Server(workers=2, args=["--workers-max=2"]) as s:
            self.all_run(s)
            pid = self.workers_of(s)[1]["pid"]
            s.kill(pid, signal.SIGSTOP)
            asked = start(s, "resize", "1")
            wait_for("the order", lambda: s.status()["state"] == "running"
                     and "workers change" in s.log())
            s.kill(pid)
            self.assertEqual(end(asked)[0], DONE)
            self.assertEqual(len(self.workers_of(s)), 1)
            with s.client() as c:
                c.get("/api/v1/health").must(200)

    def test_cover_and_leave(self):
        """A worker that looks after an empty slot leaves: the slot's socket
        goes on listening."""
        with Server(workers=3, args=["--workers-max=3"]) as s:
            s.expect_panic = True
            self.all_run(s)
            s.fault("worker_start=fail:5")
            rows = self.workers_of(s)
            s.kill(rows[0]["pid"])
            wait_for("a cover", lambda: "accepts for it slot=2 by="
                     in s.log())
            by = int(s.log().split("accepts for it slot=2 by=")[1][0])
            s.fault("worker_start=off")
            wait_for("the replacement", lambda: all(
                p["state"] == "running" for p in self.workers_of(s)))
            self.assertIn(by, (3, 4))
            self.assertEqual(ctl(s, "resize", "1")[0], DONE)
            s.workers_wanted = 1
            for _ in range(20):
                with s.client() as c:
                    self.assertEqual(c.get("/api/v1/health").must(
                        200).worker, 0)


if __name__ == "__main__":
    unittest.main()
