#!/usr/bin/env python3
"""memwald beside its peers, in one run on one machine: ratios, never times.

Each test measures a peer and memwald in turn and prints what it found; it
fails only if something did not work. LONG=1 (make bench) measures long enough
to be quoted; a figure of the short form says that it runs. memwald is the
build that ships; its data lies beside the peer's.
"""

import json
import os
import subprocess
import tempfile
import unittest

from peers import HERE, Nginx, Postgres, load
from harness import LONG, Server
from rows import kib_row, row

SECONDS = 10 if LONG else 2
GENERATIONS = 200 if LONG else 40
FILTERED = 100000 if LONG else 10000
QUIET = ["--rollout-flush-interval-secs=0",
         "--rollout-merge-after-generations=0"]


def show(what, ours, peer, theirs):
    print("%-28s memwald %9.0f/s p99 %7.2f ms | %s %9.0f/s p99 %7.2f ms | "
          "ratio %.2f" % (what, ours["rate"], ours["p99_us"] / 1000, peer,
                          theirs["rate"], theirs["p99_us"] / 1000,
                          ours["rate"] / theirs["rate"]), flush=True)


class Bench(unittest.TestCase):
    def server(self, **kw):
        return Server(build="", workers=0, **kw)

    def test_appends_and_gets_beside_postgresql(self):
        theirs = {}
        with Postgres() as p:
            for clients in (1, 64):
                theirs[clients] = p.insert(clients, SECONDS)
            theirs["get"] = p.select(16, SECONDS)
        with self.server() as s:
            with s.client() as c:
                c.create("st")
            for clients in (1, 64):
                ours = load(s.port, clients, SECONDS, "append", "st",
                            "c%d" % clients)
                show("append 2 KB, %d client%s" % (
                    clients, "s" if clients > 1 else ""), ours, "PostgreSQL",
                    theirs[clients])
            with s.client() as c:
                for k in range(0, 5000, 500):
                    c.append("st", [kib_row("k%d" % i)
                                    for i in range(k, k + 500)]).must(201)
                path = "/api/v1/rollouts/st/records/k{}"
                show("get by key, tail, 16", load(
                    s.port, 16, SECONDS, "get", path, 5000),
                    "PostgreSQL", theirs["get"])
                c.merge_all("st")
                show("get by key, base, 16", load(
                    s.port, 16, SECONDS, "get", path, 5000),
                    "PostgreSQL", theirs["get"])

    def test_health_beside_nginx(self):
        with Nginx() as n:
            theirs = load(n.port, 64, SECONDS, "get", "/", 1)
        with self.server() as s:
            show("health, 64 clients", load(
                s.port, 64, SECONDS, "get", "/api/v1/health", 1), "nginx",
                theirs)

    def test_list_beside_lancedb(self):
        with tempfile.TemporaryDirectory(prefix="memwald-bench-") as folder:
            run = subprocess.run(
                ["node", os.path.join(HERE, "lance_scan.mjs"), folder,
                 str(GENERATIONS), "9"], capture_output=True, text=True,
                timeout=300)
            self.assertEqual(run.returncode, 0, run.stderr)
            theirs = json.loads(run.stdout)
        with Server(build="", workers=1, args=QUIET) as s, s.client() as c:
            c.create("st")
            for k in range(GENERATIONS):
                c.append("st", [kib_row("r%d" % k)], flush=True).must(201)
            path = "/api/v1/rollouts/st/records"
            for what, key in (("generations", "scan_ms"),
                              ("folded rows", "optimized_ms")):
                ours = load(s.port, 1, SECONDS, "get", path, 1)
                print("list of %d one-row %-12s memwald %7.2f ms | LanceDB "
                      "%7.2f ms | ratio %.2f" % (
                          GENERATIONS, what, ours["p50_us"] / 1000,
                          theirs[key], theirs[key] * 1000 / ours["p50_us"]),
                      flush=True)
                self.assertEqual(len(c.list("st")), GENERATIONS)
                c.merge_all("st")

    def test_filter_beside_lancedb(self):
        """Lists of 1 row in 100, by a number, a text and a pattern, from folded
        rows; LanceDB reads the same table."""
        rows, tries = FILTERED, "9" if LONG else "3"
        where = ["reward = 7", "dataset = 'd7'", "content LIKE '%step 7.%'"]
        with Server(build="", workers=1, args=QUIET) as s, s.client() as c:
            c.create("st")
            for k in range(0, rows, 1000):
                c.append("st", [row("r%06d" % i, reward=i % 100,
                                    dataset="d%d" % (i % 100),
                                    content="It follows from step %d. " % (
                                        i % 100) * 8)
                                for i in range(k, k + 1000)]).must(201)
            c.merge_all("st")
            run = subprocess.run(
                ["node", os.path.join(HERE, "lance_where.mjs"), s.data_dir,
                 "st.rollout", tries, *where], capture_output=True, text=True,
                timeout=300)
            self.assertEqual(run.returncode, 0, run.stderr)
            for text, theirs in zip(where, json.loads(run.stdout)):
                self.assertEqual(theirs["rows"], rows // 100)
                self.assertEqual(c.count("st", filter=text), rows // 100)
                ours = load(s.port, 1, SECONDS, "get",
                            "/api/v1/rollouts/st/records?" +
                            c.encode(filter=text), 1)
                print("1%% of %d rows, %-24s memwald %7.2f ms | LanceDB "
                      "%7.2f ms | ratio %.2f" % (
                          rows, text, ours["p50_us"] / 1000, theirs["ms"],
                          theirs["ms"] * 1000 / ours["p50_us"]), flush=True)


if __name__ == "__main__":
    unittest.main()
