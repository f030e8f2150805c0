"""
memwal - what lies under _mem_wal/ of a store, read from the files alone.

A reader of its own (a protobuf is a list of numbered fields), so that a test
sees what another engine would see and not what memwald says about itself.
Names and fields by lance-format 7: binary digits of a position or version are
reversed, the newest manifest is the one with the highest version.
"""

import os
import re
import uuid


def shard_uuid(ordinal):
    """The shard of a writer: UUIDv5 of its name, or of "default"."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, ordinal))


def ordinal(instance_id, slot):
    return instance_id if slot == 0 else "%s#%d" % (instance_id, slot)


def fields(data):
    """(number, value) of each field of a protobuf message; bytes stay."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = varint()
        kind = key & 7
        if kind == 0:
            value = varint()
        elif kind == 2:
            size = varint()
            value, at = data[at:at + size], at + size
            if len(value) != size:
                raise ValueError("cut in field %d" % (key >> 3))
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            value, at = data[at:at + size], at + size
        else:
            raise ValueError("wire type %d" % kind)
        yield key >> 3, value


def reversed_binary(name):
    """The number that 64 reversed binary digits stand for."""
    if len(name) != 64 or set(name) - {"0", "1"}:
        raise ValueError("not 64 binary digits: %s" % name)
    return int(name[::-1], 2)


class Shard:
    """The newest manifest of one shard."""

    def __init__(self, path):
        self.path = path
        self.uuid = os.path.basename(path)
        self.versions = sorted(
            reversed_binary(n[:-len(".binpb")])
            for n in os.listdir(os.path.join(path, "manifest"))
            if n.endswith(".binpb"))
        newest = "{:064b}".format(self.versions[-1])[::-1]
        with open(os.path.join(path, "manifest", newest + ".binpb"),
                  "rb") as f:
            self.message = list(fields(f.read()))
        one = dict(self.message)
        self.version = one.get(1, 0)
        self.epoch = one.get(2, 0)
        self.replay_after = one.get(3, 0)
        self.current_generation = one.get(6, 0)
        self.spec_id = one.get(10, 0)
        self.shard_id = str(uuid.UUID(bytes=dict(fields(one[11]))[1]))
        self.writer = one.get(1000)
        self.generations = {}		# number: directory
        for number, value in self.message:
            if number == 8:
                entry = dict(fields(value))
                self.generations[entry[1]] = entry[2].decode()

    def wal_positions(self):
        folder = os.path.join(self.path, "wal")
        if not os.path.isdir(folder):
            return []
        return sorted(reversed_binary(n[:-len(".arrow")])
                      for n in os.listdir(folder) if n.endswith(".arrow"))

    def wal_path(self, position):
        return os.path.join(self.path, "wal", "{:064b}".format(
            position)[::-1] + ".arrow")


def shards(store_dir):
    """{shard uuid: Shard}"""
    folder = os.path.join(store_dir, "_mem_wal")
    if not os.path.isdir(folder):
        return {}
    found = {}
    for name in sorted(os.listdir(folder)):
        manifests = os.path.join(folder, name, "manifest")
        # A first claim that was killed leaves none, or one without a name.
        if os.path.isdir(manifests) and any(
                n.endswith(".binpb") for n in os.listdir(manifests)):
            found[name] = Shard(os.path.join(folder, name))
    return found


def pending(store_dir):
    """{shard uuid: how many generations wait for a fold}"""
    return {u: len(s.generations) for u, s in shards(store_dir).items()}


def generations_made(store_dir):
    return sum(max(s.current_generation - 1, 0)
               for s in shards(store_dir).values())


def versions(store_dir):
    """Those of the base table that are there."""
    return {2 ** 64 - 1 - int(n.split(".")[0])
            for n in os.listdir(os.path.join(store_dir, "_versions"))
            if re.fullmatch(r"\d{20}\.manifest", n)}


def newest_manifest(store_dir):
    """The bytes of the newest version of the base table."""
    folder = os.path.join(store_dir, "_versions")
    name = min(n for n in os.listdir(folder) if n.endswith(".manifest")
               and len(n) == 20 + len(".manifest"))
    with open(os.path.join(folder, name), "rb") as f:
        return f.read()


def fragments(store_dir):
    """{id: (physical rows, deleted ones, paths below data/)} of the newest
    version of the base table."""
    data = newest_manifest(store_dir)
    at = int.from_bytes(data[-16:-8], "little")
    size = int.from_bytes(data[at:at + 4], "little")
    found = {}
    for number, value in fields(data[at + 4:at + 4 + size]):
        if number != 2:
            continue
        one = list(fields(value))
        single = dict(one)
        found[single.get(1, 0)] = (
            single.get(4, 0), dict(fields(single.get(3, b""))).get(4, 0),
            [dict(fields(f))[1].decode() for n, f in one if n == 2])
    return found


def base_rows(store_dir):
    """Rows that the newest version of the base table holds, masked ones not
    counted: a key that is there twice counts twice."""
    return sum(rows - masked
               for rows, masked, _ in fragments(store_dir).values())


def index_files(store_dir):
    """{path below the table: size} that the newest version names as files of
    its indices."""
    data = newest_manifest(store_dir)

    def section(at):
        size = int.from_bytes(data[at:at + 4], "little")
        return list(fields(data[at + 4:at + 4 + size]))

    manifest = dict(section(int.from_bytes(data[-16:-8], "little")))
    found = {}
    for _, entry in section(manifest[6]) if 6 in manifest else []:
        entry = list(fields(entry))
        name = str(uuid.UUID(bytes=dict(fields(dict(entry)[1]))[1]))
        for number, value in entry:
            if number == 10:
                one = dict(fields(value))
                found["_indices/%s/%s" % (name, one[1].decode())] = one[2]
    return found
