"""
generic - generic stores for tests: every column type, rows at the edges of
each, and what a row must come back as (contract 3.3.3).

canonical() is the form in which a sent row and an answered one are equal: nulls
gone, times whole microseconds, bytes base64, float32 rounded and widened.
"""

import base64
import math
import struct
import urllib.parse

from client import quote
from rows import timestamp

STORES = "/api/v1/generic"
SCALARS = ("string", "int32", "int64", "float32", "float64", "bool",
           "timestamp", "binary")


def column(type_, **members):
    return dict({"type": type_}, **members)


ID = ["id", column("string", nullable=False)]
VECTOR = ["emb", column("vector", dim=3, metric="cosine")]
EVERY_TYPE = {"columns": [
    ["label", column("string")],	# so that "id" is not first
    ID,
    ["text", column("string", large=True)],
    ["i", column("int32")],
    ["l", column("int64")],
    ["f", column("float32")],
    ["d", column("float64")],
    ["b", column("bool")],
    ["t", column("timestamp")],
    ["bin", column("binary")],
    ["blob", column("binary", blob=True)],
    VECTOR,
    ["wide", column("vector", dim=200)],
] + [["l_" + t, column("list", item=column(t))] for t in SCALARS] + [
    ["l_text", column("list", item=column("string", large=True))],
    ["blob2", column("binary", blob=True)],
]}
BLOBS = ("blob", "blob2")
TYPES = {name: spec for name, spec in EVERY_TYPE["columns"]}


def all_bytes():
    return base64.b64encode(bytes(range(256))).decode()


def row(row_id, **columns):
    return dict({"id": row_id}, **columns)


# What is sent, at the edges of each type.
EDGES = [
    row("nulls"),
    row("said", label=None, text=None, i=None, l=None, f=None, d=None, b=None,
        t=None, bin=None, blob=None, emb=None, wide=None, l_string=None,
        l_int32=None, l_bool=None, l_binary=None, blob2=None),
    row("empty", label="", text="", bin="", blob="", l_string=[], l_int32=[],
        l_int64=[], l_float32=[], l_float64=[], l_bool=[], l_timestamp=[],
        l_binary=[], l_text=[]),
    row("least", i=-2**31, l=-2**63, f=-3.4028234663852886e38,
        d=-1.7976931348623157e308, b=False, t=-2**63,
        emb=[-3.4028234663852886e38, 0, 1e-45], l_int32=[-2**31],
        l_int64=[-2**63], l_float32=[-3.4028234663852886e38],
        l_float64=[-1.7976931348623157e308], l_timestamp=[-2**63]),
    row("greatest", i=2**31 - 1, l=2**63 - 1, f=3.4028234663852886e38,
        d=1.7976931348623157e308, b=True, t=2**63 - 1, emb=[1, 2.5, -0.125],
        l_int32=[2**31 - 1], l_int64=[2**63 - 1],
        l_float32=[3.4028234663852886e38], l_timestamp=[2**63 - 1]),
    row("rounded", f=0.1, d=0.1, emb=[0.1, 16777217, 1e-46],
        l_float32=[0.1, 16777217, 1e-46, 1.17549435e-38, 5e-45],
        l_float64=[0.1, 1e-320, 9007199254740993], l=9007199254740993),
    row("numbers", f=1, d=1e3, i=0, l=1491926160718000000),
    row("times", t="2026-11-01T10:00:01.237999123+02:00",
        l_timestamp=["1969-12-31T23:59:59.999999Z", 0,
                     "2026-01-01T00:00:00Z", -1, 1793520001237999]),
    row("texts", label="a\u0000b \u00e9\u4e16\U0001f600 \"\\\n",
        text="x" * 70000, l_string=["", "a", "\u0000", "\u4e16" * 300, "z"],
        l_text=["x" * 5000, "", "y"]),
    row("bytes", bin=all_bytes(), blob=list(range(256)), blob2="AA==",
        l_binary=["", "AQ==", [255, 0], [], all_bytes()]),
    row("lists", l_int32=list(range(-1500, 1500)), l_bool=[True, False] * 77,
        l_float64=[k / 7 for k in range(300)], wide=[k / 3 for k in range(200)],
        l_int64=[2**40 + k for k in range(100)]),
    row("\u00e9 /%?#", label="an id of signs"),
]


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def value(spec, v):
    """One value as it must come back."""
    kind = spec["type"]
    if v is None:
        return None
    if kind in ("float32", "float64"):
        return f32(v) if kind == "float32" else float(v)
    if kind == "timestamp":
        return timestamp(v) if isinstance(v, str) else v
    if kind == "binary":
        return v if isinstance(v, str) else \
            base64.b64encode(bytes(v)).decode()
    if kind == "vector":
        return [f32(x) for x in v]
    if kind == "list":
        return [value(spec["item"], x) for x in v]
    return v


def canonical(r, types=TYPES):
    return {k: value(types[k], v) for k, v in r.items() if v is not None}


def without_blobs(r):
    return {k: v for k, v in r.items() if k not in BLOBS}


def exact(v):
    """So that 1 and 1.0, -0.0 and 0 are the same and NaN is itself."""
    if isinstance(v, float) and math.isnan(v):
        return "NaN"
    if isinstance(v, (list, tuple)):
        return [exact(x) for x in v]
    if isinstance(v, dict):
        return {k: exact(x) for k, x in v.items()}
    return v


class Generic:
    """The generic routes by name, on a client of one's own."""

    def __init__(self, client, store):
        self.client = client
        self.store = store
        self.path = "%s/%s" % (STORES, store)

    def create(self, schema=None, **more):
        return self.client.post(STORES, dict(
            {"name": self.store, "schema": schema or EVERY_TYPE}, **more)) \
            .must(201).json()

    def append(self, rows):
        return self.client.post(self.path + "/rows", {"rows": rows})

    def list(self, **query):
        path = self.path + "/rows"
        if query:
            path += "?" + urllib.parse.urlencode(query)
        return self.client.get(path).must(200).json()["rows"]

    def get(self, row_id, columns=None):
        path = "%s/rows/%s" % (self.path, quote(row_id))
        if columns is not None:
            path += "?columns=" + urllib.parse.quote(columns)
        return self.client.get(path)

    def get_rows(self, ids, columns=None):
        body = {"ids": ids}
        if columns is not None:
            body["columns"] = columns
        return self.client.post(self.path + "/get-rows", body)

    def flush(self):
        self.client.post(self.path + "/flush").must(204)

    def merge(self):
        return self.client.post(self.path + "/merge-wal").must(200) \
            .json()["reclaimed"]

    def merge_all(self):
        total = n = self.merge()
        while n > 0:
            n = self.merge()
            total += n
        return total


def store_dir(server, store):
    return "%s/%s.generic.lance" % (server.data_dir, store)


def same_everywhere(test, g, sent, types=TYPES):
    """List, get and get-rows answer exactly what was sent."""
    want = {r["id"]: exact(canonical(r, types)) for r in sent}
    got = {r["id"]: exact(r) for r in g.list()}
    test.assertEqual(sorted(got), sorted(want))
    for row_id, expected in want.items():
        test.assertEqual(got[row_id], without_blobs(expected), row_id)
        one = g.get(row_id).must(200).json()
        test.assertEqual(exact(one), without_blobs(expected), row_id)
    names = [name for name in types if name != "id"]
    for some in (names, ["blob", "label"]):
        some = [name for name in some if name in types]
        rows = g.get_rows(list(want), some).must(200).json()["rows"]
        test.assertEqual([r["id"] for r in rows], list(want))
        for r in rows:
            test.assertEqual(exact(r), {k: v for k, v in want[r["id"]].items()
                                        if k in some or k == "id"}, r["id"])
