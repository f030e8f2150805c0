#!/usr/bin/env python3
"""What a fold does to those who use its store: appends and gets without and
with a fold of 64 MiB running on the same store, in one run.

A round seeds the store with 64 MiB of rows, seals them, and waits: for the
disk, and SETTLE seconds more, since a fold writes as fast as rows came lately,
which the seed would be most of. Then it starts a load that goes on until the
round ends: WITHOUT / 2 seconds without a fold, then for as long as a fold
takes, then WITHOUT / 2 seconds again: a load alone grows slower from second to
second (on some disks p99 by a fourth), which is not the fold's doing. Each
answer belongs to where its request was sent, or due. Percentiles are over the
answers of all rounds, so that one slow second weighs as what it is; beside them
the least and the largest ratio of a round, and p99 after the folds against
before, to see how much of it is chance. At the end, the longest time that a
store's write lock was held. Prints, never asserts a time. `make bench-stall` is
the long form.

Load with "@N" sends N requests a second, whatever is answered; without, each
client sends its next as soon as it may, so that clients, workers and the fold
together have more to do than there are CPUs: what the fold takes of those, the
clients miss. MEMWALD_MAINTAIN_WRITE_RATE sets how fast the fold may write.
"""

import os
import re
import threading
import time
import unittest

from peers import Load
from harness import LONG, Server
from rows import kib_row

FOLD_BYTES = (64 if LONG else 8) << 20
ROUNDS = 3 if LONG else 1
WARM = 0.5 if LONG else 0.1	# seconds of each round that do not count
SETTLE = 12 if LONG else 0
WITHOUT = 8 if LONG else 0.5
LOADS = ([("append", n) for n in (
    "1", "16", "64", "1@1000", "16@500", "64@500", "16@1000", "64@1000",
    "16@4000", "64@4000")] +
    [("get", n) for n in ("1", "16", "64", "16@4000", "64@4000")]) if LONG else (
        [("append", "16@1000"), ("get", "16@1000")])
KEYS = 500
HOLDS = "memwald_lock_hold_seconds_bucket"
ROW_BYTES = 2048
QUIET = ["--rollout-flush-interval-secs=0",
         "--rollout-merge-after-generations=0"]


def percentile(latencies, share):
    return latencies[min(len(latencies) - 1, int(len(latencies) * share))]


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

    def load(self, server, store, what, clients, tag):
        if what == "append":
            return Load(server.port, clients, "append", store, tag)
        path = "/api/v1/rollouts/%s/records/k{}" % store
        return Load(server.port, clients, "get", path, KEYS)

    def round(self, server, c, store, what, clients, number):
        """The sorted latencies of a round: before a fold, after it and beside
        it; how long that took."""
        self.seed(c, store, number)
        os.sync()
        time.sleep(SETTLE)
        fold = Fold(server, store)
        with self.load(server, store, what, clients, "w%d" % number) as running:
            time.sleep(WARM + WITHOUT / 2)
            fold_at = time.monotonic()
            fold.start()
            fold.join()
            time.sleep(WITHOUT / 2)
        self.assertGreaterEqual(fold.reclaimed, 1)
        return (running.between(fold_at - WITHOUT / 2, fold_at),
                running.between(fold.ended, fold.ended + WITHOUT / 2),
                running.between(fold_at, fold.ended), fold.ended - fold_at)

    def show(self, what, clients, rounds):
        text = "%-6s %-8s" % (what, clients)
        before, after, during = [sorted(us for r in rounds for us in r[k])
                                 for k in range(3)]
        without = sorted(before + after)
        for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1)):
            a, b = percentile(without, share), percentile(during, share)
            text += " | %s %7.2f -> %7.2f ms ratio %5.2f" % (
                name, a / 1000, b / 1000, b / a)
            if name == "p99":
                of_rounds = [percentile(r[2], share) / percentile(
                    sorted(r[0] + r[1]), share) for r in rounds]
                text += " (%.2f to %.2f; after to before %.2f)" % (
                    min(of_rounds), max(of_rounds), percentile(
                        after, share) / percentile(before, share))
        seconds = sum(r[3] for r in rounds)
        print("%s | %.0f -> %.0f/s, %d folds of %.1f s, %.1f MiB/s" % (
            text, len(without) / (WITHOUT * len(rounds)), len(during) / seconds,
            len(rounds), seconds / len(rounds),
            (FOLD_BYTES >> 20) * len(rounds) / seconds), flush=True)

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
                store = "%s-%s" % (what, clients.replace("@", "-at-"))
                c.create(store)
                c.append(store, [kib_row("k%d" % i)
                                 for i in range(KEYS)]).must(201)
                self.show(what, clients, [
                    self.round(s, c, store, what, clients, number)
                    for number in range(ROUNDS)])
                c.request("DELETE", "/api/v1/rollouts/" + store).must(204)
            self.show_longest_hold(c)


if __name__ == "__main__":
    unittest.main()
