"""A store that nothing has written to since its last clean tick costs nothing:
no tick wants it, forced or not, so there is no run, no lock and no I/O.

The long form does it with 10,000 of them (STORES) and prints what an idle minute
with a tick a second costs the maintainer, beside one without a store.
"""

import os
import threading
import time
import unittest

from harness import LONG, Server, wait_for
from rows import row

STORES = int(os.environ.get("STORES", "10000")) if LONG else 40
THREADS = 4
IDLE_SECS = 60
ROUNDS = 6			# of ticks that are looked at


def cpu_ms(pid):
    """What all threads of a process have used."""
    total = 0
    for task in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/schedstat" % (pid, task)) as f:
            total += int(f.read().split()[0])
    return total / 1e6


class Idle(unittest.TestCase):
    def make(self, s):
        def some(k):
            with s.client() as c:
                for n in range(k, STORES, THREADS):
                    c.create("s%05d" % n)
                    c.append("s%05d" % n, [row("a")]).must(201)

        threads = [threading.Thread(target=some, args=(k,))
                   for k in range(THREADS)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()

    def runs(self, s):
        """How many runs of stores there were."""
        with s.client() as c:
            return sum(v for k, v in c.metrics().items() if k.startswith(
                "memwald_tick_duration_seconds_count"))

    def clean(self, s):
        with s.client() as c:
            values = c.metrics()
        return values["memwald_stores_dirty"] == 0 and not any(
            v for k, v in values.items()
            if k.startswith(("memwald_tails", "memwald_pending_generations{")))

    def ticks(self, s):
        return s.log().count("tick kind=rollout")

    def quiet(self, s):
        """The last run may not have been counted yet: then the next rounds."""
        runs, ticks = self.runs(s), self.ticks(s)
        wait_for("more ticks", lambda: self.ticks(s) >= ticks + ROUNDS)
        return self.runs(s) == runs

    def spent(self, s):
        pid = s.processes("maintainer")[0]
        before = cpu_ms(pid)
        time.sleep(IDLE_SECS)
        return cpu_ms(pid) - before

    def test_clean_stores(self):
        with Server(workers=1, clock_speed=0 if LONG else 4, args=[
                "--rollout-flush-interval-secs=1",
                "--rollout-cleanup-interval-secs=2"]) as s:
            if LONG:
                print("\nno store: %.0f ms CPU in an idle minute" %
                      self.spent(s))
            self.make(s)
            wait_for("all to be sealed and folded", lambda: self.clean(s),
                     1800 if LONG else 60)
            if LONG:
                print("%d stores: %.0f ms" % (STORES, self.spent(s)))
            s.ctl("log-level", "debug")
            wait_for("a tick", lambda: self.ticks(s) > 0)
            wait_for("ticks, forced ones among them, without a run",
                     lambda: self.quiet(s))


if __name__ == "__main__":
    unittest.main()
