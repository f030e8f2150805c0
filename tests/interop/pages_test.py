#!/usr/bin/env python3
"""Data files of every type: LanceDB reads ours, we read what it makes of them.

The rows follow from their number, by the formulas of tests/unit/arrow_rows.h,
written here a second time.
"""

import base64
import os
import subprocess
import tempfile
import unittest

import engine
from harness import BUILD, SLOW

TOP = os.path.dirname(os.path.dirname(engine.HERE))
WRITE = os.path.join(TOP, "build", BUILD, "tests", "interop", "pages_write")
COLUMNS = ["b", "i8", "i32", "i64", "u32", "u64", "f", "d", "t", "tz", "s",
           "ls", "x", "lx", "vec", "tags", "steps"]
WIDE = 300 << 10


def signed(value, bits):
    value %= 1 << bits
    return value - (1 << bits) if value >= 1 << (bits - 1) else value


def text(i):
    return "abc"[:i % 4] + str(i)


def binary(data):
    return base64.b64encode(data).decode()


def value(name, i):
    if name == "b":
        return i % 3 == 0
    if name == "i8":
        return signed(i, 8)
    if name == "i32":
        return signed(i * 0x9e3779b9, 32)
    if name == "u32":
        return i * 0x9e3779b9 % (1 << 32)
    if name in ("i64", "t", "tz"):
        return str(signed(i * 0x9e3779b97f4a7c15, 64))
    if name == "u64":
        return str(i * 0x9e3779b97f4a7c15 % (1 << 64))
    if name == "f":
        return i / 2
    if name == "d":
        return i / 3
    if name in ("s", "ls"):
        return text(i)
    if name in ("x", "lx"):
        return binary(text(i).encode())
    if name == "vec":
        return [i, i + 1, i + 2]
    if name == "tags":
        return [None if k == 2 else text(i + k) for k in range(i % 4)]
    return [{"k": text(i + k), "v": None if k == 1 else i + k}
            for k in range(i % 4)]


def row(i):
    out = {name: None if (i + c) % 5 == 3 else value(name, i)
           for c, name in enumerate(COLUMNS)}
    out["id"] = "row-%06d" % i
    out["blob"] = binary(bytes([i % 256]) * (WIDE - i)) if i >= 2000 else None
    return out


WANTED = (list(range(1000)) + list(range(1000, 1080, 4)) +
          [i for i in range(2000, 2030) if (i - 2000) % 3 != 0])


def pages(verb, folder):
    return subprocess.run([WRITE, verb, folder], check=True, text=True,
                          stdout=subprocess.PIPE, timeout=60 * SLOW).stdout


class Pages(unittest.TestCase):
    def see(self, path, wanted):
        rows, count = engine.run(path, ["rows", {}], ["count"])
        self.assertEqual(count, len(wanted))
        by_id = {r["id"]: r for r in rows}
        self.assertEqual(len(by_id), len(wanted))
        for i in wanted:
            got, want = by_id["row-%06d" % i], row(i)
            for name in want:
                self.assertEqual(got[name], want[name], (i, name))

    def test_both_ways(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "pages.lance")
            pages("write", folder)
            self.assertEqual(int(pages("read", folder)), len(WANTED))
            self.see(path, WANTED)
            some, = engine.run(path, ["rows", {
                "where": "id = 'row-000007' or i8 = 2",
                "columns": ["id", "tags", "steps"]}])
            self.assertIn({"id": "row-000007", "tags": row(7)["tags"],
                           "steps": row(7)["steps"]}, some)

            self.assertIn("id_idx", engine.run(path, ["indices"])[0])
            engine.run(path, ["delete", "id < 'row-000100'"])
            left = [i for i in WANTED if i >= 100]
            self.assertEqual(int(pages("read", folder)), len(left))
            engine.node("pages_optimize.mjs", folder, "pages")
            self.assertEqual(int(pages("read", folder)), len(left))
            self.see(path, left)
            # Fragments that a segment covers are not put together with others.
            self.assertEqual(len(os.listdir(os.path.join(path, "data"))), 2)
            self.assertEqual(engine.run(path, ["index", "id_idx"])[0]["lacking"],
                             0)


if __name__ == "__main__":
    unittest.main()
