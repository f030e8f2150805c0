#!/usr/bin/env python3
"""What a fold does to those who use its store: appends and gets without and
with a fold of 64 MiB running on the same store, in one run.

A round seeds the store with 64 MiB of rows, seals them, measures some windows of
load, starts the fold and measures windows of the same load until it ends; only
those that ended before it did count. The ratios are of the medians over the
windows. At the end, the longest time that a store's write lock was held. Prints,
never asserts a time. `make bench-stall` is the long form.

Load with "@N" sends N requests a second, whatever is answered; without, each
client sends its next as soon as it may, so that clients, workers and the fold
together have more to do than there are CPUs: what the fold takes of those, the
clients miss.
"""

import re
import statistics
import threading
import time
import unittest

from peers import load
from harness import LONG, Server
from rows import kib_row

FOLD_BYTES = (64 if LONG else 8) << 20
ROUNDS = 3 if LONG else 1
WINDOW = 1.0 if LONG else 0.2
WITHOUT = 4 if LONG else 1	# windows before each fold
LOADS = ([("append", n) for n in (
    "1", "16", "64", "1@1000", "16@500", "64@500", "16@1000", "64@1000",
    "16@4000", "64@4000")] +
    [("get", n) for n in ("1", "16", "64", "16@4000")]) if LONG else (
        [("append", "16@1000"), ("get", "16@1000")])
KEYS = 500
HOLDS = "memwald_lock_hold_seconds_bucket"
ROW_BYTES = 2048
QUIET = ["--rollout-flush-interval-secs=0",
         "--rollout-merge-after-generations=0"]


class Fold(threading.Thread):
    """One merge-wal, and when it was answered."""
    def __init__(self, server, store):
        super().__init__()
        self.server, self.store = server, store
        self.ended = None

    def run(self):
        with self.server.client(timeout=300) as c:
            self.reclaimed = c.merge(self.store)
        self.ended = time.monotonic()


class Stall(unittest.TestCase):
    def seed(self, c, store, tag):
        """New rows in generations, and nothing else that waits for a fold."""
        c.merge_all(store)
        count = FOLD_BYTES // ROW_BYTES
        for k in range(0, count, 512):
            rows = [kib_row("s%d-%d" % (tag, i)) for i in range(k, min(
                k + 512, count))]
            c.append(store, rows, flush=k + 512 >= count).must(201)

    def window(self, server, store, what, clients, tag):
        if what == "append":
            return load(server.port, clients, WINDOW, "append", store, tag)
        path = "/api/v1/rollouts/%s/records/k{}" % store
        return load(server.port, clients, WINDOW, "get", path, KEYS)

    def round(self, server, c, store, what, clients, number):
        self.seed(c, store, number)
        without = [self.window(server, store, what, clients, "b%d-%d" % (
            number, k)) for k in range(WITHOUT)]
        fold = Fold(server, store)
        fold.start()
        during = []
        while fold.ended is None:
            begun = time.monotonic()
            seen = self.window(server, store, what, clients,
                               "f%d-%d" % (number, len(during)))
            seen["ended"] = begun + WINDOW
            during.append(seen)
        fold.join()
        self.assertGreaterEqual(fold.reclaimed, 1)
        return without, [w for w in during if w["ended"] <= fold.ended]

    def show(self, what, clients, without, during):
        def middle(windows, name):
            return statistics.median(w[name] for w in windows)
        text = "%-6s %-8s" % (what, clients)
        for name in ("p50_us", "p99_us", "max_us"):
            a, b = middle(without, name), middle(during, name)
            text += " | %s %8.2f -> %8.2f ms ratio %5.2f" % (
                name[:-3], a / 1000, b / 1000, b / a)
        print("%s | %.0f -> %.0f/s, %d windows" % (
            text, middle(without, "rate"), middle(during, "rate"),
            len(during)), flush=True)

    def holds(self, c):
        """The write locks of stores held so far: {bound in s: how many}."""
        found = {}
        for name, value in c.metrics().items():
            m = re.fullmatch(HOLDS + r'\{.*lock="store_slot".*le="(.+)"\}', name)
            if m:
                found[float(m.group(1))] = value
        return found

    def show_longest_hold(self, c):
        """The bucket of the longest hold, of all processes, the folds' too."""
        holds = self.holds(c)
        total = holds[float("inf")]
        self.assertGreater(total, 0)
        bound = min(b for b, n in holds.items() if n == total)
        print("write lock of a store held %d times, the longest at most %s s; "
              "longer than 1 ms: %d" % (total, bound, total - max(
                  n for b, n in holds.items() if b <= 0.001)), flush=True)

    def test_beside_a_fold(self):
        with Server(build="", workers=0, args=QUIET) as s, \
                s.client(timeout=300) as c:
            for what, clients in LOADS:
                without, during = [], []
                store = "%s-%s" % (what, clients.replace("@", "-at-"))
                c.create(store)
                c.append(store, [kib_row("k%d" % i)
                                 for i in range(KEYS)]).must(201)
                for number in range(ROUNDS):
                    a, b = self.round(s, c, store, what, clients, number)
                    without += a
                    during += b
                c.request("DELETE", "/api/v1/rollouts/" + store).must(204)
                if not during:
                    print("%-6s %-8s: the fold ended within one window" % (
                        what, clients), flush=True)
                    continue
                self.show(what, clients, without, during)
            self.show_longest_hold(c)


if __name__ == "__main__":
    unittest.main()
