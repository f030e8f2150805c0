"""memwaldctl resize against what is still under way: a decision of the resize
before, a drained worker's slot, an upgrade, a storage that fails."""

import signal
import unittest

import c_resize
from b_ctl import DONE, ask, end, start
from every_kind import hits
from harness import Server, wait_for


class Races(unittest.TestCase):
    all_run = c_resize.Resize.all_run
    workers_of = c_resize.Resize.workers_of

    def served(self, s):
        """By whoever listens: none of many new connections hangs."""
        for _ in range(40):
            with s.client(timeout=10) as c:
                c.get("/api/v1/health").must(200)

    def test_the_slot_of_a_drained_worker_goes(self):
        """And comes back: its socket is somebody's, or nobody's."""
        with Server(workers=3) as s:
            self.all_run(s)
            ask(s, "drain", "2")
            self.served(s)
            ask(s, "resize", "2")
            self.served(s)
            ask(s, "resize", "3")
            self.served(s)
            self.assertEqual(len(s.processes("worker")), 2)
            ask(s, "undrain", "2")
            self.assertEqual(len(s.processes("worker")), 3)
            self.served(s)

    def test_down_and_up_while_the_first_is_decided(self):
        """What the first decided lands when the second has begun: no append
        is refused, and nothing waits for who cares for orphans."""
        with Server(workers=2, args=["--orphans=manual"]) as s, \
                s.client() as c:
            self.all_run(s)
            c.create("st")
            with c_resize.Load(s) as load:
                load.more(20)
                held = hits(s, "assignment_put")
                s.fault("assignment_put=hold:1")
                ask(s, "resize", "1")
                wait_for("that to be put", lambda: hits(
                    s, "assignment_put") > held)
                asked = start(s, "resize", "2")
                wait_for("it to begin", lambda: "from=1 to=2" in s.log())
                load.more(40)
                s.fault("assignment_put=off")
                self.assertEqual(end(asked)[0], DONE)
                load.more(40)
            self.assertEqual(load.failed, [])
            o = c_resize.ordinal(s)
            self.assertEqual((o["state"], o["worker"]), ("owned", 1))

    def test_what_could_not_be_decided_is_forgotten(self):
        """Else the next order, of whomever, would bring it."""
        with Server(workers=3, args=["--orphans=manual"]) as s, \
                s.client() as c:
            self.all_run(s)
            c.create("st")
            with c_resize.Load(s) as load:
                load.more(20)
                s.fault("put_assignment=fail:5")
                ask(s, "resize", "2")
                wait_for("it to fail", lambda: "not brought home" in s.log())
                ask(s, "resize", "3")
                s.fault("put_assignment=off")
                wait_for("a look", lambda: "ordinals are home" in
                         s.log().split("from=2 to=3")[1])
                ask(s, "drain", "0")
                load.more(20)
            self.assertEqual(load.failed, [])
            o = c_resize.ordinal(s, "test#2")
            self.assertEqual((o["state"], o["worker"], o["why"]),
                             ("owned", 2, "home"))

    def test_no_upgrade_meanwhile(self):
        """Who comes has no socket yet that could be handed over."""
        with Server(workers=1, args=["--workers-max=2"]) as s:
            self.all_run(s)
            s.fault("assignment_put=hold:1")
            asked = start(s, "resize", "2")
            wait_for("it to begin", lambda: "from=1 to=2" in s.log())
            wait_for("it to be said", lambda: any(
                "waits for its ordinal" in p for p in s.status()["problems"]))
            s.kill(s.proc.pid, signal.SIGUSR2)
            wait_for("a refusal", lambda: "no upgrade while workers start"
                     in s.log())
            s.fault("assignment_put=off")
            self.assertEqual(end(asked)[0], DONE)
            self.served(s)
            self.assertNotIn("is no listening socket", s.log())


if __name__ == "__main__":
    unittest.main()
