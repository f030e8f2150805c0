#!/usr/bin/env python3
"""Generic stores and LanceDB: every column type, both ways (contract 3.3).

The engine reads what we folded and what we sealed, adds and replaces rows with
nulls in lists, which the API gives as null, and we fold on top of them.
"""

import os
import tempfile
import unittest

import engine
import memwal
from generic import (EDGES, EVERY_TYPE, Generic, TYPES, canonical,
                     column, exact, row, same_everywhere, store_dir)
from harness import Server

QUIET = ["--rollout-flush-interval-secs=0",
         "--rollout-merge-after-generations=0"]
LISTED = ("timestamp", "int64")


def from_lance(r):
    """A row of the engine in the form of generic.canonical."""
    out = {}
    for name, v in r.items():
        if v is None or name == "_seq":
            continue
        spec = TYPES[name]
        item = spec.get("item", spec)["type"]
        if spec["type"] == "list" and item == "timestamp":
            v = [x if x is None else round(x * 1000) for x in v]
        elif spec["type"] == "list" and item == "int64":
            v = [x if x is None else int(x) for x in v]
        elif item in LISTED:
            v = int(v)
        out[name] = v
    return out


# Milliseconds in lists come from the package as floats.
READABLE = [r for r in EDGES if r["id"] not in ("least", "greatest", "times")] \
    + [row("least", i=-2**31, l=-2**63, f=-3.4028234663852886e38,
           d=-1.7976931348623157e308, b=False, t=-2**63,
           l_int64=[-2**63], l_timestamp=[-1000]),
       row("greatest", i=2**31 - 1, l=2**63 - 1, t=2**63 - 1, b=True,
           d=1.7976931348623157e308, l_int64=[2**63 - 1])]


class Both(unittest.TestCase):
    def same_in_engine(self, path, sent):
        got, = engine.run(path, ["rows"])
        self.assertEqual(sorted(r["id"] for r in got),
                         sorted(r["id"] for r in sent))
        want = {r["id"]: exact(canonical(r)) for r in sent}
        for r in got:
            self.assertEqual(exact(from_lance(r)), want[r["id"]])

    def test_what_we_write(self):
        with Server(workers=1, args=QUIET) as s, s.client() as c:
            s.wait_walked()
            g = Generic(c, "st")
            g.create()
            g.append(READABLE[:4]).must(201)
            g.append(READABLE[4:]).must(201)
            g.flush()
            shard, = memwal.shards(store_dir(s, "st")).values()
            name, = shard.generations.values()
            with tempfile.TemporaryDirectory() as folder:
                link = os.path.join(folder, "gen.lance")
                os.symlink(os.path.join(shard.path, name), link)
                self.same_in_engine(link, READABLE)
            g.merge_all()
            path = store_dir(s, "st")
            self.same_in_engine(path, READABLE)
            columns, some, = engine.run(
                path, ["schema"], ["rows", {"where": "i = -2147483648"}])
            self.assertEqual(columns[0][:2], ["id", "Utf8"])
            self.assertEqual(columns[-1][0], "_seq")
            self.assertEqual(len(columns), len(EVERY_TYPE["columns"]) + 1)
            self.assertEqual([r["id"] for r in some], ["least"])

    def test_names_of_columns(self):
        names = ["a b", "\"q\"", "\u00e9", "x" * 256, "I", "select", "a,b"]
        schema = {"columns": [["id", column("string", large=True,
                                            nullable=False)]]
                  + [[n, column("int32")] for n in names]}
        sent = row("a", **{n: k for k, n in enumerate(names)})
        with Server(workers=1, args=QUIET) as s, s.client() as c:
            s.wait_walked()
            g = Generic(c, "st")
            g.create(schema)
            g.append([sent]).must(201)
            g.merge_all()
            self.assertEqual(g.list(), [sent])
            for query in ({}, {"where": "id = 'a'"}):
                got, = engine.run(store_dir(s, "st"), ["rows", query])[0]
                self.assertIsNotNone(got.pop("_seq"))
                self.assertEqual(got, sent)

    def test_what_it_writes(self):
        """Rows with nulls in lists, as no append could make them."""
        with Server(workers=1, args=QUIET) as s, s.client() as c:
            s.wait_walked()
            g = Generic(c, "st")
            g.create()
            g.append([row("ours", b=True, l_int32=[1], label="x"),
                      row("both", b=True, label="older")]).must(201)
            g.merge_all()
            path = store_dir(s, "st")
            # apache-arrow makes bad vectors where one is null: the nulls that
            # the engine writes are those of our rows, when it optimizes.
            vectors = {"emb": [1, 2.5, -3], "wide": [0.5] * 200}
            theirs = [
                row("a", b=True, i=1, l=str(2**63 - 1), f=0.5, d=0.1,
                    t=str(1793520001237000), label="l", text="t",
                    bin="AAEC", blob="/w==", **vectors,
                    l_string=["x", None, ""], l_int32=[None, 1, None],
                    l_int64=["1", None, str(-2**63)],
                    l_float32=[0.5, None], l_float64=[None, 0.1],
                    l_bool=[True, None, False],
                    l_timestamp=["1793520001237000", None],
                    l_binary=["AQ==", None, ""], l_text=[None, "y"]),
                row("b", b=False, l_bool=[None], l_string=[], f=-0.5, **vectors),
                row("c", b=True, **vectors)]
            engine.run(path, ["add", theirs],
                       ["upsert", "id", [row("both", b=False, label="newer",
                                             **vectors)]])
            numbers = ("l", "t")
            want = [row("ours", b=True, l_int32=[1], label="x"),
                    row("both", b=False, label="newer", **vectors)]
            for r in theirs:
                r = dict(r)
                for name in numbers:
                    if name in r:
                        r[name] = int(r[name])
                for name in ("l_int64", "l_timestamp"):
                    if name in r:
                        r[name] = [x if x is None else int(x)
                                   for x in r[name]]
                want.append(r)
            for step in (lambda: None, s.restart):
                step()
                with s.client() as c2:
                    same_everywhere(self, Generic(c2, "st"), want)
            # And on from there: ours replace theirs, theirs stay as they are.
            with s.client() as c2:
                g = Generic(c2, "st")
                g.append([row("b", l_bool=[True])]).must(201)
                want = [r for r in want if r["id"] != "b"] + \
                    [row("b", l_bool=[True])]
                same_everywhere(self, g, want)
                g.merge_all()
                same_everywhere(self, g, want)
                engine.run(path, ["optimize"])
                same_everywhere(self, g, want)


if __name__ == "__main__":
    unittest.main()
