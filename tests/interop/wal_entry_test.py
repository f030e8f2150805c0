#!/usr/bin/env python3
"""apache-arrow reads our WAL entries and files, and we read what it writes."""

import os
import subprocess
import tempfile
import unittest

import engine
from harness import build_path


def ours(*args):
    subprocess.run([build_path("tests/interop/wal_entry"), *args], check=True,
                   timeout=60)


class WalEntry(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)

    def path(self, name):
        return os.path.join(self.dir.name, name)

    def test_apache_arrow_reads_ours(self):
        """A live entry with its zeroes, one put whole, and a file."""
        paths = [self.path(n) for n in ("entry", "stream", "file")]
        ours("write", *paths)
        self.assertEqual(os.path.getsize(paths[0]), 64 << 10)
        engine.node("wal_entry.mjs", "read", *paths)

    def test_we_read_apache_arrow(self):
        paths = [self.path(n) for n in ("stream", "file")]
        engine.node("wal_entry.mjs", "write", *paths)
        ours("read", *paths)


if __name__ == "__main__":
    unittest.main()
