#!/usr/bin/env python3
"""The BTREE over the key that folds keep is used by LanceDB, and LanceDB's is
used by memwald; both answer the same with it and without."""

import glob
import os
import shutil
import unittest

import engine
import generic
from harness import Server
from rows import row, same_rows

LATE = "2026-06-01T00:00:00Z"
QUIET = ["--rollout-flush-interval-secs=0",
         "--rollout-merge-after-generations=0"]
INDEX = "id_idx"


def key(n):
    return "k%06d" % n


def made(n, **more):
    return row(key(n), created_at=LATE, include_in_training=True, **more)


class BaseIndex(unittest.TestCase):
    def fold(self, c, rows):
        for k in range(0, len(rows), 500):
            c.append("st", rows[k:k + 500]).must(201)
        c.merge_all("st")
        for r in rows:
            self.rows[r["id"]] = r

    def both_see(self, s):
        """Gets, a list; the engine's rows, by the index and without it. What
        the engine says of the index."""
        ids = sorted(self.rows)
        some = ids[::max(1, len(ids) // 7)] + ids[-1:]
        absent = ["", "k", key(999999), some[0] + "-"]
        path = s.store_dir("st")
        for c in s.clients_by_worker().values():
            same_rows(self, self.rows.values(), c.list("st"))
            for i in some:
                self.assertEqual(c.get("/api/v1/rollouts/st/records/" + i)
                                 .must(200).json()["record"]["id"], i)
            for i in absent[1:]:
                self.assertIsNone(c.get("/api/v1/rollouts/st/records/" + i)
                                  .must(200).json()["record"])
            c.close()
        equal = "id = '%s'"
        listed = "id IN (%s)" % ", ".join("'%s'" % i for i in some + absent)
        ranged = "id >= '%s' AND id < '%s'" % (some[1], some[3])
        wheres = [equal % i for i in some + absent] + [listed, ranged]
        got = engine.run(path, *[["plan", w] for w in wheres],
                         *[["rows", {"where": w}] for w in wheres], ["rows"],
                         ["index", INDEX])
        for w, plan in zip(wheres, got):
            self.assertIn("@%s(BTree)" % INDEX, plan, w)
        index = got.pop()
        got = got[len(wheres):]
        for i, answer in zip(some, got):
            engine.same_table(self, [self.rows[i]], answer)
        for answer in got[len(some):len(some) + len(absent)]:
            self.assertEqual(answer, [])
        engine.same_table(self, [self.rows[i] for i in set(some)], got[-3])
        engine.same_table(self, [self.rows[i] for i in ids
                                 if some[1] <= i < some[3]], got[-2])
        engine.same_table(self, self.rows.values(), got[-1])
        return index

    def test_both_change_the_table(self):
        self.rows = {}
        with Server(workers=2, args=QUIET) as s, s.client() as c:
            path = s.store_dir("st")
            c.create("st")
            # Over 4096 keys, so that the engine has several pages to look up.
            self.fold(c, [made(n) for n in range(4500)])
            # A small fold writes a small segment and leaves the large one. The
            # engine deletes most, so that all goes faster.
            had = set(os.listdir(os.path.join(path, "_indices")))
            self.fold(c, [made(n, content="again")
                          for n in range(4490, 4510)])
            new, = set(os.listdir(os.path.join(path, "_indices"))) - had
            new = os.path.join(path, "_indices", new, "page_data.lance")
            self.assertLess(os.path.getsize(new), 4000)
            engine.run(path, ["delete", "id >= '%s' AND id < '%s'" % (
                key(100), key(4000))])
            for n in range(100, 4000):
                del self.rows[key(n)]
            self.assertEqual(self.both_see(s), {
                "type": "BTREE", "rows": 610, "lacking": 0, "segments": 2})

            added = [made(n) for n in range(6000, 6010)]
            changed = [made(4200, content="changed"), made(7000)]
            engine.run(path, ["add", [engine.to_lance(r) for r in added]],
                       ["upsert", "id", [engine.to_lance(r)
                                         for r in changed]])
            self.rows.update({r["id"]: r for r in added + changed})
            for each in s.clients_by_worker().values():
                same_rows(self, self.rows.values(), each.list("st"))
                each.close()
            # The next fold covers what the engine added.
            self.fold(c, [made(6005, content="by memwald")])
            self.assertEqual(self.both_see(s)["lacking"], 0)

            engine.run(path, ["delete", "id < '%s'" % key(20)],
                       ["add", [engine.to_lance(made(0))]], ["optimize"])
            for n in range(20):
                del self.rows[key(n)]
            self.rows[key(0)] = made(0)
            self.assertEqual(self.both_see(s)["lacking"], 0)
            self.fold(c, [made(n, content="last") for n in (30, 4200, 8000)])
            s.restart()
            self.assertEqual(self.both_see(s)["lacking"], 0)

    def test_many_folds_keep_few_segments(self):
        """And the engine compacts: fragments of one segment are put together,
        and the segments stay usable."""
        self.rows = {}
        with Server(workers=1, args=QUIET) as s, s.client() as c:
            c.create("st")
            for k in range(21):
                self.fold(c, [made(n) for n in range(10 * k, 10 * k + 11)])
            index, _ = engine.run(s.store_dir("st"), ["index", INDEX],
                                  ["optimize"])
            self.assertEqual((index["rows"], index["lacking"]), (211, 0))
            self.assertLess(index["segments"], 6)
            self.fold(c, [made(5, content="changed"), made(300)])
            self.both_see(s)

    def test_a_generic_store(self):
        with Server(workers=1, args=QUIET) as s, s.client() as c:
            s.wait_walked()
            g = generic.Generic(c, "st")
            g.create({"columns": [generic.ID,
                                  ["n", generic.column("int32")]]})
            for n in range(3):
                g.append([generic.row(key(n), n=n)]).must(201)
                g.merge_all()
            where = "id = '%s'" % key(1)
            plan, got, index = engine.run(
                generic.store_dir(s, "st"), ["plan", where],
                ["rows", {"where": where, "columns": ["id", "n"]}],
                ["index", INDEX])
            self.assertIn("@%s(BTree)" % INDEX, plan)
            self.assertEqual(got, [{"id": key(1), "n": 1}])
            self.assertEqual((index["rows"], index["lacking"]), (3, 0))

    def test_indices_of_others(self):
        """One that the engine made is kept and used; one of another type that
        has the name is left alone."""
        self.rows = {}
        with Server(workers=1, args=QUIET) as s, s.client() as c:
            path = s.store_dir("st")
            c.create("st")
            self.fold(c, [made(n) for n in range(20)])
            engine.run(path, ["drop_index", INDEX],
                       ["create_index", "id", "btree"],
                       ["create_index", "role", "bitmap"])
            self.fold(c, [made(n, content="changed") for n in range(10, 30)])
            names, = engine.run(path, ["indices"])
            self.assertEqual(names.count(INDEX), 1)
            self.assertIn("role_idx", names)
            self.assertEqual(self.both_see(s)["lacking"], 0)

            engine.run(path, ["drop_index", INDEX],
                       ["create_index", "id", "bitmap"])
            self.fold(c, [made(n, content="again") for n in range(15, 40)])
            got = engine.run(path, ["rows"], ["rows", {
                "where": "id = '%s'" % key(20)}], ["index", INDEX])
            self.assertEqual(got[2]["type"], "BITMAP")
            engine.same_table(self, self.rows.values(), got[0])
            engine.same_table(self, [self.rows[key(20)]], got[1])
            same_rows(self, self.rows.values(), c.list("st"))

    def test_files_damaged_or_gone(self):
        """memwald answers right all the same, and the next fold mends it."""
        self.rows = {}
        with Server(workers=2, args=QUIET) as s, s.client() as c:
            path = s.store_dir("st")
            c.create("st")
            for what in ("page_data.lance", "page_lookup.lance", "both",
                         "swapped"):
                with self.subTest(what=what):
                    self.fold(c, [made(n, content=what)
                                  for n in range(30, 60)])
                    old = max(glob.glob(path + "/_indices/*"),
                              key=os.path.getmtime)
                    self.fold(c, [made(n, content=what) for n in range(20)])
                    new = max(glob.glob(path + "/_indices/*"),
                              key=os.path.getmtime)
                    if what == "both":
                        shutil.rmtree(new)
                    elif what == "swapped":
                        shutil.rmtree(new)
                        shutil.copytree(old, new)
                    else:
                        with open(os.path.join(new, what), "r+b") as f:
                            f.seek(10)
                            f.write(b"\x7f")
                    s.restart()
                    for each in s.clients_by_worker().values():
                        same_rows(self, self.rows.values(), each.list("st"))
                        for i in self.rows:
                            self.assertIsNotNone(each.get(
                                "/api/v1/rollouts/st/records/" + i).must(
                                    200).json()["record"])
                        each.close()
                    c.close()
            self.fold(c, [made(100, content="last")])
            self.assertEqual(self.both_see(s)["lacking"], 0)


if __name__ == "__main__":
    unittest.main()
