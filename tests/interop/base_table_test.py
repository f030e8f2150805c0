#!/usr/bin/env python3
"""LanceDB opens, changes and maintains the base table of a store (check 2)."""

import unittest

import engine
from harness import Server
from rows import arith, row, same_rows

LATE = "2026-06-01T00:00:00Z"


class BaseTable(unittest.TestCase):
    def fill(self, s, rows):
        with s.client() as c:
            c.create("st")
        clients = s.clients_by_worker()
        for k in range(0, len(rows), 16):
            clients[k // 16 % 4].append("st", rows[k:k + 16],
                                        flush=k % 160 == 0).must(201)
        clients[0].merge_all("st")
        for c in clients.values():
            c.close()

    def test_reads(self):
        rows = arith()
        with Server(workers=4) as s:
            self.fill(s, rows)
            count, all_, rewarded, some, columns, indices = engine.run(
                s.store_dir("st"), ["count"], ["rows"],
                ["rows", {"where": "reward = 1 AND role = 'assistant'"}],
                ["rows", {"columns": ["id", "output_tokens", "score"],
                          "where": "id >= 'r-010'", "limit": 10}],
                ["schema"], ["indices"])
            self.assertEqual(count, 832)
            engine.same_table(self, rows, all_)
            engine.same_table(self, [
                r for r in rows if r.get("reward") == 1
                and r["role"] == "assistant"], rewarded)
            self.assertEqual(len(some), 10)
            by_id = {r["id"]: r for r in rows}
            for r in some:
                self.assertEqual(set(r), {"id", "output_tokens", "score"})
                self.assertEqual(r["output_tokens"],
                                 by_id[r["id"]].get("output_tokens"))
            names = [c[0] for c in columns]
            self.assertEqual((names[0], names[-1], len(names)),
                             ("id", "_seq", 37))
            self.assertIsInstance(indices, list)

    def test_its_own_changes(self):
        """add, delete, mergeInsert, optimize; memwald reads and goes on."""
        rows = {r["id"]: r for r in arith()}
        with Server(workers=4) as s:
            path = s.store_dir("st")
            self.fill(s, list(rows.values()))

            def both_see():
                for c in s.clients_by_worker().values():
                    same_rows(self, rows.values(), c.list("st"))
                    c.close()
                engine.same_table(self, rows.values(),
                                  engine.run(path, ["rows"])[0])

            # With a bool: apache-arrow writes a column of nulls only without
            # its bits, which the engine refuses.
            added = row("added", content="by the engine", created_at=LATE,
                        include_in_training=True)
            engine.run(path, ["add", [engine.to_lance(added)]])
            rows["added"] = added
            both_see()

            gone = [i for i, r in rows.items() if r.get("role") == "tool"]
            engine.run(path, ["delete", "role = 'tool'"])
            for i in gone:
                del rows[i]
            both_see()

            changed = [dict(rows["r-000-0-0"], content="changed"),
                       row("upserted", created_at=LATE)]
            engine.run(path, ["upsert", "id", [engine.to_lance(r)
                                               for r in changed]])
            rows.update({r["id"]: r for r in changed})
            both_see()

            engine.run(path, ["optimize"])
            both_see()

            with s.client() as c:
                newer = [dict(rows["added"], content="by memwald"),
                         row("after", created_at=LATE)]
                c.append("st", newer).must(201)
                rows.update({r["id"]: r for r in newer})
                same_rows(self, rows.values(), c.list("st"))
                c.merge_all("st")
            both_see()
            engine.run(path, ["optimize"])
            both_see()
            s.restart()
            both_see()


if __name__ == "__main__":
    unittest.main()
