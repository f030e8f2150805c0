#!/usr/bin/env python3
"""What filter= gives is what the same text gives as LanceDB's where on the same
base table. Left out are the differences that are meant: an integer compares
exactly with any number (the engine refuses decimals beside integers), -0 is 0,
a name in double quotes is a column, version() is ours."""

import os
import unittest
import urllib.parse

import engine
from harness import Server

TYPES = {"id": {"type": "string", "nullable": False},
         "s": {"type": "string"}, "l": {"type": "string", "large": True},
         "i": {"type": "int64"}, "n": {"type": "int32"},
         "f": {"type": "float32"}, "d": {"type": "float64"},
         "b": {"type": "bool"}, "t": {"type": "timestamp"},
         "x": {"type": "binary"}, "v": {"type": "vector", "dim": 2},
         "tags": {"type": "list", "item": {"type": "string"}},
         "a b": {"type": "int32"}}
DAY = 1767225600000000		# 2026-01-01
ROWS = [
    {"id": "a", "s": "50%", "l": "it's", "i": 9007199254740993, "n": 1,
     "f": 0.1, "d": 0.1, "b": True, "t": 0, "x": "aGk=", "v": [1, 2],
     "tags": ["x"], "a b": 1},
    {"id": "b", "s": "50x", "l": "", "i": 9007199254740992, "n": 2, "f": 0.2,
     "d": 9007199254740992, "b": False, "t": DAY, "x": "", "tags": []},
    {"id": "c", "s": "a_b", "l": "A", "i": -1, "n": 3, "f": -2.5, "d": -1e300,
     "t": DAY + 1500000, "v": [0, 0]},
    {"id": "d", "s": "a\u00e9b", "l": "b", "i": 0, "n": 4, "f": 16777216,
     "d": 1e300, "b": True, "t": -1, "tags": ["y", "z"]},
    {"id": "e", "s": "a\\b", "l": "a\\b", "i": 9223372036854775807, "n": 5,
     "f": 1e10, "d": 4, "b": False, "t": 1},
    {"id": "f"},
    {"id": "g", "s": "", "l": "\u4e16\nx", "i": -9223372036854775808, "n": -5,
     "f": 0.5, "d": 0.5, "t": DAY - 1},
]
WHERE = r"""
n = 3 ; n == 3 ; n != 3 ; n <> 3 ; n < 3 ; n <= 3 ; n > 3 ; n >= 3 ; 3 < n
n = n ; n < i ; f < d ; d < f ; s = l ; s < l ; `a b` = 1 ; n > -1
i = 9007199254740993 ; i = 9007199254740992 ; i > 9007199254740992
i = 9223372036854775807 ; i < -9223372036854775807 ; n IN (1, 3, 9)
n NOT IN (1, 3, 9) ; n BETWEEN 2 AND 4 ; n NOT BETWEEN 2 AND 4
n BETWEEN 4 AND 2 ; s IN ('50%', 'a_b') ; s NOT IN ('50%')
f = 0.1 ; f < 0.1 ; f <= 0.1 ; f > 0.1 ; f IN (0.1, 0.2)
f BETWEEN 0.1 AND 0.2 ; f = 16777217 ; f < 1e39 ; d = 9007199254740993
d = 0.1 ; d > 1e299 ; d <= -1e300 ; s LIKE '50\%' ; s LIKE '50_'
s LIKE 'a_b' ; s LIKE 'a\_b' ; s LIKE 'a\\b' ; s LIKE 'a\b' ; s LIKE '%'
s LIKE '' ; s LIKE '%b' ; s NOT LIKE '5%' ; l LIKE '_\nx' ; l LIKE '%\%'
l LIKE 'a%' ; l = 'it''s' ; b ; NOT b ; b IS TRUE ; b IS NOT TRUE ; b IS FALSE
b IS NOT FALSE ; b = TRUE ; b != true ; b < true ; b IS NULL ; b IS NOT NULL
t = timestamp '2026-01-01' ; t > timestamp '2026-01-01 00:00:00'
t >= timestamp '2026-01-01T00:00:00Z' ; t < timestamp '1970-01-01T00:00:00Z'
t > timestamp '2026-01-01T00:00:00+01:00' ; x IS NULL ; x IS NOT NULL
t = timestamp '2026-01-01 00:00:01.5' ; v IS NULL ; tags IS NOT NULL
n IS NULL ; s > 'a' ; s >= '' ; s < 'a' ; TRUE ; 1 = 1 ; 1 = 2
n > 2 OR b ; n > 2 AND b ; NOT (n > 2 OR b) ; NOT (n > 2 AND b)
n = 1 OR n = 2 AND n = 3 ; (n = 1 OR n = 2) AND n = 2 ; NOT n = 1 AND n < 3
not n in (1, 2) and s is not null ; NOT NOT b ; NOT (n IS NULL)
n > 1 AND (s LIKE '%b' OR l = '') AND NOT b ; b OR NOT b
"""
# Both refuse these.
BAD = ["n", "n =", "nix = 1", "n = 'x'", "s = 1", "t > 5", "x = 'hi'",
       "(n = 1", "s LIKE 5", "n IS TRUE", "n BETWEEN 1", "s = 'x",
       "t > '2026-01-01'"]


class Where(unittest.TestCase):
    def given(self, c, text):
        path = "/api/v1/generic/st/rows?" + urllib.parse.urlencode(
            {"filter": text, "columns": ""})
        return [r["id"] for r in c.get(path).must(200).json()["rows"]]

    def test_same_rows(self):
        where = [w.strip().replace("\\n", "\n")
                 for w in WHERE.replace("\n", ";").split(";") if w.strip()]
        with Server() as s, s.client() as c:
            c.post("/api/v1/generic", {"name": "st", "schema": {
                "columns": list(TYPES.items())}}).must(201)
            c.post("/api/v1/generic/st/rows", {"rows": ROWS}).must(201)
            tail = [self.given(c, w) for w in where]
            c.post("/api/v1/generic/st/merge-wal").must(200)
            ours = [self.given(c, w) for w in where]
            path = os.path.join(s.data_dir, "st.generic.lance")
            theirs = engine.run(path, *(["rows", {
                "where": w, "columns": ["id"]}] for w in where))
            for w, a, b, t in zip(where, ours, tail, theirs):
                t = sorted(r["id"] for r in t)
                self.assertEqual(a, t, w)
                self.assertEqual(b, t, w)
            for w in BAD:
                reply = c.get("/api/v1/generic/st/rows/count?" +
                              urllib.parse.urlencode({"filter": w}))
                self.assertEqual(reply.status, 400, w)
            self.assertEqual(engine.run(path, *(["refuses", w] for w in BAD)),
                             [True] * len(BAD))


if __name__ == "__main__":
    unittest.main()
