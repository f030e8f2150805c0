"""Rows of a generic store come back as they were sent, from wherever they lie:
every column type at its edges, with nulls (contract 3.3.3)."""

import unittest

from client import b64
from generic import (BLOBS, EDGES, Generic, ID, column, row,
                     same_everywhere)
from harness import Server

QUIET = ["--rollout-flush-interval-secs=0",
         "--rollout-merge-after-generations=0"]


class Tiers(unittest.TestCase):
    def test_tail_generation_base_restart(self):
        with Server(workers=2, args=QUIET) as s:
            s.wait_walked()
            clients = s.clients_by_worker()
            g = [Generic(c, "st") for c in clients.values()]
            g[0].create()
            g[0].append(EDGES[::2]).must(201)
            g[1].append(EDGES[1::2]).must(201)
            same_everywhere(self, g[0], EDGES)
            same_everywhere(self, g[1], EDGES)
            g[0].flush()
            same_everywhere(self, g[0], EDGES)
            self.assertEqual(g[0].merge_all(), 2)
            same_everywhere(self, g[1], EDGES)
            s.restart()
            with s.client() as c:
                same_everywhere(self, Generic(c, "st"), EDGES)

    def test_whole_rows_replace(self):
        """Newest wins by whole row: nothing of the older one stays."""
        full = [r for r in EDGES if r["id"] == "bytes"][0]
        with Server(workers=2, args=QUIET) as s:
            s.wait_walked()
            clients = s.clients_by_worker()
            g = [Generic(c, "st") for c in clients.values()]
            g[0].create()
            for k, between in enumerate((lambda: None, g[0].flush,
                                         g[0].merge_all)):
                g[k % 2].append([full]).must(201)
                between()
                g[1 - k % 2].append([row("bytes", i=k)]).must(201)
                for x in g:
                    same_everywhere(self, x, [row("bytes", i=k)])
            # Of one request the later row counts.
            g[0].append([full, row("bytes", l=7)]).must(201)
            same_everywhere(self, g[1], [row("bytes", l=7)])

    def test_large_values(self):
        schema = {"columns": [ID, ["text", column("string")],
                              ["blob", column("binary", blob=True)],
                              ["bin", column("binary")],
                              ["blob2", column("binary", blob=True)],
                              ["many", column("list", item=column("int64"))]]}
        types = {name: spec for name, spec in schema["columns"]}
        sent = [row("a", text="\u00e9" * 5000 + "x" * 5000000),
                row("b", blob=b64(bytes(range(256)) * 8000), bin=b64(b"x" * 70),
                    blob2=b64(b"\x00\xff" * 1000000)),
                row("c", many=list(range(20000)), text="", blob=""),
                row("d", bin=b64(b"\x01" * 1500000), blob2="AA==")]
        with Server(workers=1, args=QUIET) as s, s.client() as c:
            s.wait_walked()
            g = Generic(c, "st")
            g.create(schema)
            for r in sent:
                g.append([r]).must(201)
            same_everywhere(self, g, sent, types)
            g.flush()
            same_everywhere(self, g, sent, types)
            g.merge_all()
            s.restart()
            with s.client() as c2:
                same_everywhere(self, Generic(c2, "st"), sent, types)

    def test_a_thousand_columns(self):
        kinds = ["int32", "string", "float64", "bool"]
        columns = [ID] + [["c%d" % k, column(kinds[k % 4])]
                          for k in range(511)] + \
                  [["l%d" % k, column("list", item=column(kinds[k % 4]))]
                   for k in range(512)]
        values = {"int32": 7, "string": "x", "float64": 0.5, "bool": True}
        types = {name: spec for name, spec in columns}

        def full(row_id):
            r = row(row_id)
            for name, spec in columns[1:]:
                one = values[spec.get("item", spec)["type"]]
                r[name] = [one, one] if spec["type"] == "list" else one
            return r

        sent = [full("a"), row("b"), full("c")]
        with Server(workers=1, args=QUIET) as s, s.client() as c:
            s.wait_walked()
            g = Generic(c, "st")
            g.create({"columns": columns})
            g.append(sent[:2]).must(201)
            g.append(sent[2:]).must(201)
            same_everywhere(self, g, sent, types)
            g.flush()
            same_everywhere(self, g, sent, types)
            g.merge_all()
            same_everywhere(self, g, sent, types)
            s.restart()
            with s.client() as c2:
                g = Generic(c2, "st")
                g.append([row("b", c0=1)]).must(201)
                sent[1] = row("b", c0=1)
                same_everywhere(self, g, sent, types)

    def test_blobs_only_where_they_are_named(self):
        with Server(workers=1) as s, s.client() as c:
            g = Generic(c, "st")
            g.create()
            g.append([row("a", blob="AQ==", blob2="Ag==", bin="Aw==")]) \
                .must(201)
            for r in (g.list()[0], g.get("a").json(),
                      g.get_rows(["a"]).json()["rows"][0]):
                self.assertEqual(r, {"id": "a", "bin": "Aw=="})
            self.assertEqual(g.get("a", ",".join(BLOBS)).json(),
                             {"id": "a", "blob": "AQ==", "blob2": "Ag=="})
            self.assertEqual(g.list(columns="blob2"),
                             [{"id": "a", "blob2": "Ag=="}])


if __name__ == "__main__":
    unittest.main()
