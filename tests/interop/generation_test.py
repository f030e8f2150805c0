#!/usr/bin/env python3
"""A generation opens as a table; _mem_wal/ is as documented (check 3).

Names and messages by lance-format 7, read with a protobuf reader of our own.
"""

import os
import struct
import tempfile
import unittest
import uuid

import engine
import memwal
from harness import Server
from rows import arith, kib_row

QUIET = ["--rollout-flush-interval-secs=0",
         "--rollout-merge-after-generations=0"]


def base_manifest(store_dir):
    """Fields of the newest manifest, and of its index section's entries."""
    folder = os.path.join(store_dir, "_versions")
    newest = min(n for n in os.listdir(folder) if n.endswith(".manifest"))
    with open(os.path.join(folder, newest), "rb") as f:
        data = f.read()
    at, minor, major, magic = struct.unpack("<QHH4s", data[-16:])
    if (minor, major, magic) != (0, 2, b"LANC"):
        raise AssertionError("foot of a manifest: %r" % data[-16:])

    def message(offset):
        size, = struct.unpack_from("<I", data, offset)
        return list(memwal.fields(data[offset + 4:offset + 4 + size]))

    manifest = message(at)
    section = [v for n, v in manifest if n == 6]
    entries = [dict(memwal.fields(v)) for n, v in
               (message(section[0]) if section else []) if n == 1]
    return newest, manifest, entries


class Generation(unittest.TestCase):
    def test_it_opens_as_a_table(self):
        rows = arith()
        with Server(workers=2, args=QUIET) as s:
            s.wait_walked()
            clients = s.clients_by_worker()
            clients[0].create("st")
            clients[0].append("st", rows[:300]).must(201)
            # Older duplicates within a generation must not show.
            clients[0].append("st", [dict(r, content="newer")
                                     for r in rows[:5]]).must(201)
            clients[1].append("st", rows[300:]).must(201)
            clients[0].append("st", rows[299:300], flush=True).must(201)
            want = {0: [dict(r, content="newer") for r in rows[:5]]
                    + rows[5:300], 1: rows[300:]}
            shards = memwal.shards(s.store_dir("st"))
            with tempfile.TemporaryDirectory() as folder:
                for slot, expected in want.items():
                    shard = shards[memwal.shard_uuid(
                        memwal.ordinal("test", slot))]
                    name, = shard.generations.values()
                    link = os.path.join(folder, "gen%d.lance" % slot)
                    os.symlink(os.path.join(shard.path, name), link)
                    got, count, where = engine.run(
                        link, ["rows"], ["count"],
                        ["rows", {"where": "id = '%s'" % expected[0]["id"]}])
                    self.assertEqual(count, len(expected))
                    engine.same_table(self, expected, got)
                    engine.same_table(self, expected[:1], where)

    def test_the_tree(self):
        with Server(workers=2, args=QUIET) as s:
            s.wait_walked()
            clients = s.clients_by_worker()
            clients[0].create("st")
            for n in range(3):
                clients[1].append("st", [kib_row("a%d" % n)]).must(201)
                clients[0].append("st", [kib_row("b%d" % n)],
                                  flush=True).must(201)
            shards = memwal.shards(s.store_dir("st"))
            self.assertEqual(set(shards), {
                memwal.shard_uuid("test"), memwal.shard_uuid("test#1")})
            for shard in shards.values():
                self.assertEqual(shard.shard_id, shard.uuid)
                self.assertEqual(shard.spec_id, 1)
                self.assertGreaterEqual(shard.epoch, 1)
                self.assertEqual(len(shard.writer), 16)
                uuid.UUID(bytes=shard.writer)
                self.assertEqual(sorted(shard.generations), [1, 2, 3])
                self.assertEqual(shard.current_generation, 4)
                positions = shard.wal_positions()
                self.assertTrue(positions)
                self.assertGreater(shard.replay_after, 0)
                for number, name in shard.generations.items():
                    self.assertRegex(name, r"^[0-9a-f]{8}_gen_%d$" % number)
                    self.generation_files(os.path.join(shard.path, name))

            clients[0].merge_all("st")
            for shard in memwal.shards(s.store_dir("st")).values():
                self.assertEqual(shard.generations, {})
                self.assertEqual(shard.current_generation, 4)
            self.merged_progress(s, 3)

    def generation_files(self, path):
        self.assertEqual(sorted(os.listdir(path)), sorted(
            {"_versions", "data", "bloom_filter.bin", "_pk_index"}
            | ({"_deletions", "_transactions"} & set(os.listdir(path)))))
        self.assertEqual(os.path.getsize(os.path.join(
            path, "bloom_filter.bin")), 32768)
        self.assertEqual(sorted(os.listdir(os.path.join(path, "_pk_index"))),
                         ["page_data.lance", "page_lookup.lance"])
        versions = [n for n in os.listdir(os.path.join(path, "_versions"))
                    if n.endswith(".manifest")]
        self.assertEqual(versions, ["18446744073709551614.manifest"])

    def merged_progress(self, s, generation):
        _, manifest, entries = base_manifest(s.store_dir("st"))
        one = dict(manifest)
        self.assertEqual(dict(memwal.fields(one[15])),
                         {1: b"lance", 2: b"2.0"})
        index, = [e for e in entries if e[3] == b"__lance_mem_wal"]
        details = dict(memwal.fields(index[6]))
        self.assertTrue(details[1].endswith(b"/lance.table."
                                            b"MemWalIndexDetails"))
        self.assertEqual(index[5], bytes.fromhex("3a30000000000000"))
        merged = {}
        for number, value in memwal.fields(details[2]):
            if number == 9:
                entry = dict(memwal.fields(value))
                shard = dict(memwal.fields(entry[1]))[1]
                merged[str(uuid.UUID(bytes=shard))] = entry[2]
        self.assertEqual(merged, {memwal.shard_uuid("test"): generation,
                                  memwal.shard_uuid("test#1"): generation})


if __name__ == "__main__":
    unittest.main()
