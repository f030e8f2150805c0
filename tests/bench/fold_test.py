#!/usr/bin/env python3
"""What a fold of few rows reads of a large base table: bytes, no times.

The server is started anew and the page cache gives up the base's files, so that
what lies in the cache after the fold is what the fold has read, the kernel's
read-ahead included (fincore of util-linux counts it). Half of the new rows
replace keys of the base, spread over all of it.
"""

import glob
import json
import os
import subprocess
import unittest

from peers import HERE			# noqa: F401  (finds the harness)
from harness import LONG, Server
from rows import row

BASE = 1000000 if LONG else 20000
NEW = 1000 if LONG else 20
BATCH = 5000
TEXT = "The answer follows from the step before it. " * 8
QUIET = ["--rollout-flush-interval-secs=0",
         "--rollout-merge-after-generations=0"]


def files_of_the_base(folder):
    """Data, deletions and indexes; not the logs and generations."""
    return [f for part in ("data", "_deletions", "_indices", "_versions")
            for f in glob.glob(os.path.join(folder, part, "**"),
                               recursive=True) if os.path.isfile(f)]


def forget(files):
    for name in files:
        fd = os.open(name, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def cached(files):
    """{file: bytes of it in the page cache}."""
    out = subprocess.run(["fincore", "--json", "--bytes", *files],
                         capture_output=True, text=True, check=True).stdout
    return {f["file"]: int(f["res"]) for f in json.loads(out)["fincore"]}


class FewIntoMany(unittest.TestCase):
    def seed(self, c):
        for k in range(0, BASE, BATCH):
            c.append("st", [row("k%07d" % i, content=TEXT, reward=1.0)
                            for i in range(k, k + BATCH)],
                     flush=True).must(201)
            if k % (20 * BATCH) == 0:
                c.merge_all("st")
        c.merge_all("st")

    def test_bytes_read(self):
        with Server(build="", workers=1, args=QUIET) as s:
            with s.client(timeout=300) as c:
                c.create("st")
                self.seed(c)
            s.restart()
            s.wait_walked()
            folder = s.store_dir("st")
            files = files_of_the_base(folder)
            with s.client(timeout=300) as c:
                step = BASE // (NEW // 2)
                rows = [row("k%07d" % (i * step), content="newer")
                        for i in range(NEW // 2)]
                rows += [row("n%07d" % i, content="new")
                         for i in range(NEW - len(rows))]
                c.append("st", rows, flush=True).must(201)
                forget(files)
                before = sum(cached(files).values())
                self.assertEqual(c.merge_all("st"), 1)
                after = sum(cached(files).values())
                self.assertEqual(c.count("st"), BASE + NEW - NEW // 2)
            total = sum(os.path.getsize(f) for f in files)
            print("fold of %d rows into %d: base %.1f MiB in %d files, read "
                  "%.1f MiB of it (%.1f %%)" % (
                      NEW, BASE, total / 2**20, len(files),
                      (after - before) / 2**20,
                      100 * (after - before) / total), flush=True)
            if before > total / 2:
                print("the folder's file system keeps its files in memory: "
                      "the figure means nothing here", flush=True)


if __name__ == "__main__":
    unittest.main()
