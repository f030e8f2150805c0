#!/usr/bin/env python3
"""A table that memwald has compacted stays LanceDB's as well: read, indexed,
changed and compacted there, also by handles that were opened before."""

import os
import threading
import unittest

import engine
import generic
import memwal
from harness import Server, wait_for
from rows import row, same_rows

LATE = "2026-06-01T00:00:00Z"
QUIET = ["--rollout-flush-interval-secs=0",
         "--rollout-merge-after-generations=0"]
INDEX = "id_idx"


def made(i, **more):
    return row(i, created_at=LATE, include_in_training=True, **more)


class Compacted(unittest.TestCase):
    def begin(self, s, c):
        self.rows = {}
        self.path = s.store_dir("st")
        c.create("st")

    def fold(self, c, *rows):
        c.append("st", rows).must(201)
        c.merge_all("st")
        self.rows.update((r["id"], r) for r in rows)

    def compact(self, c):
        reply = c.post("/api/v1/rollouts/st/compact", {}).must(200).json()
        return reply["fragments_removed"], reply["fragments_added"]

    def both_see(self, s):
        """And the engine uses the index, which has every row."""
        for c in s.clients_by_worker().values():
            same_rows(self, self.rows.values(), c.list("st"))
            c.close()
        some = sorted(self.rows)[::3]
        wheres = ["id = '%s'" % i for i in some]
        got = engine.run(self.path, ["rows"], ["index", INDEX],
                         *[["plan", w] for w in wheres],
                         *[["rows", {"where": w}] for w in wheres])
        engine.same_table(self, self.rows.values(), got[0])
        self.assertEqual((got[1]["type"], got[1]["lacking"]), ("BTREE", 0))
        for n, i in enumerate(some):
            self.assertIn("@%s(BTree)" % INDEX, got[2 + n])
            engine.same_table(self, [self.rows[i]], got[2 + len(some) + n])
        return got[1]

    def test_in_turns(self):
        with Server(workers=2, args=QUIET) as s, s.client() as c:
            self.begin(s, c)
            for n in range(5):
                self.fold(c, made("k%d" % n, input_tokens=[n, 2],
                                  binary_payload="AAEC" if n % 2 else None),
                          made("same", content=str(n)))
            self.assertEqual(self.compact(c), (5, 1))
            self.assertEqual(self.both_see(s)["segments"], 1)
            # The engine changes what was compacted, and compacts itself.
            added = [made("e%d" % n) for n in range(3)]
            changed = made("k2", content="engine's")
            engine.run(self.path, ["add", [engine.to_lance(r) for r in added]],
                       ["upsert", "id", [engine.to_lance(changed)]],
                       ["delete", "id = 'k3'"])
            self.rows.update((r["id"], r) for r in added + [changed])
            del self.rows["k3"]
            self.fold(c, made("e1", content="ours again"), made("n1"))
            # Some of it the fold's tick has put together already.
            self.assertEqual(self.compact(c)[1], 1)
            self.assertEqual(len(memwal.fragments(self.path)), 1)
            self.both_see(s)
            self.fold(c, made("n2"), made("k4", content="more"))
            self.fold(c, made("n3"))
            engine.run(self.path, ["optimize"])
            self.both_see(s)
            self.fold(c, made("n1", content="last"))
            self.assertEqual(self.compact(c)[1], 1)
            self.both_see(s)
            engine.run(self.path, ["delete", "id = 'n2'"], ["optimize"])
            del self.rows["n2"]
            s.restart()
            self.both_see(s)

    def with_a_handle(self, c, *operations):
        """The operations of an engine that opened the table before we
        compacted it."""
        path = os.path.join(os.path.dirname(self.path), "meet")
        answers, failed = [], []

        def run():
            try:
                answers.extend(engine.run(self.path, ["version"],
                                          ["meet", path], *operations))
            except BaseException as e:
                failed.append(e)

        t = threading.Thread(target=run)
        t.start()
        wait_for("the engine", lambda: failed or os.path.exists(path))
        counts = self.compact(c)
        os.unlink(path)
        t.join()
        self.assertEqual(failed, [])
        return counts, answers[2:]

    def test_handles_that_were_opened_before(self):
        with Server(workers=1, args=QUIET) as s, s.client() as c:
            self.begin(s, c)
            for n in range(4):
                self.fold(c, made("k%d" % n), made("m%d" % n))
            counts, (rows, *_) = self.with_a_handle(
                c, ["rows"], ["delete", "id = 'k1'"],
                ["upsert", "id", [engine.to_lance(made("m2", content="x"))]])
            self.assertEqual(counts, (4, 1))
            # It reads its version, and writes upon ours.
            self.assertEqual(len(rows), 8)
            del self.rows["k1"]
            self.rows["m2"] = made("m2", content="x")
            self.fold(c, made("n"))
            self.both_see(s)
            counts, _ = self.with_a_handle(
                c, ["add", [engine.to_lance(made("late"))]], ["optimize"])
            self.assertEqual(counts[1], 1)
            self.rows["late"] = made("late")
            self.fold(c, made("n", content="again"))
            self.both_see(s)

    def test_what_is_the_engines_stays(self):
        """A column that it added; fragments that an index of its own covers."""
        with Server(workers=1, args=QUIET) as s, s.client() as c:
            self.begin(s, c)
            self.fold(c, made("a", content="A"))
            self.fold(c, made("b", content="B"))
            engine.run(self.path, ["add_column", "twice",
                                   "content || content"])
            self.fold(c, made("c"))
            self.assertEqual(self.compact(c), (3, 1))
            files, = memwal.fragments(self.path).values()
            self.assertEqual(len(files[2]), 1)
            got, = engine.run(self.path, ["rows", {"columns": ["id",
                                                               "twice"]}])
            self.assertEqual(sorted((r["id"], r["twice"]) for r in got), [
                ("a", "AA"), ("b", "BB"), ("c", None)])
            same_rows(self, self.rows.values(), c.list("st"))

            engine.run(self.path, ["create_index", "role", "bitmap"])
            self.fold(c, made("d"))
            self.fold(c, made("e"))
            self.assertEqual(self.compact(c), (2, 1))
            self.assertEqual(len(memwal.fragments(self.path)), 2)
            index, = engine.run(self.path, ["index", "role_idx"])
            self.assertEqual((index["rows"], index["lacking"]), (3, 2))
            engine.run(self.path, ["optimize"])
            self.assertEqual(self.compact(c), (0, 0))
            same_rows(self, self.rows.values(), c.list("st"))

    def test_a_generic_store(self):
        with Server(workers=1, args=QUIET) as s, s.client() as c:
            s.wait_walked()
            g = generic.Generic(c, "st")
            g.create({"columns": [generic.ID, generic.VECTOR,
                                  ["n", generic.column("int32")]]})
            sent = [generic.row("k%d" % n, n=n, emb=[n, 0.5, -1])
                    for n in range(8)]
            for r in sent:
                g.append([r]).must(201)
                g.merge_all()
            path = generic.store_dir(s, "st")
            self.assertEqual(len(memwal.fragments(path)), 1)
            where = "id = 'k5'"
            plan, got, index = engine.run(
                path, ["plan", where], ["rows", {
                    "where": where, "columns": ["id", "n", "emb"]}],
                ["index", INDEX])
            self.assertIn("@%s(BTree)" % INDEX, plan)
            self.assertEqual(got, [{"id": "k5", "n": 5,
                                    "emb": [5, 0.5, -1]}])
            self.assertEqual((index["rows"], index["lacking"]), (8, 0))


if __name__ == "__main__":
    unittest.main()
