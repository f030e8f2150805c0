#!/usr/bin/env python3
"""LanceDB reads a datagen store's base table: every column of contract 3.2.1,
every kind of value; and memwald reads what the engine adds to it."""

import json
import unittest

import engine
import memwal
from events import (append, canonical, create, edges, event, of_item, payload,
                    same_events, store_dir)
from harness import Server, wait_for

FOLDS = ["--rollout-flush-interval-secs=1", "--rollout-cleanup-interval-secs=1"]
COLUMNS = [
    ("event_id", "Utf8", False), ("item_id", "Utf8", False),
    ("root_item_id", "Utf8", False), ("parent_item_id", "Utf8", True),
    ("item_seq", "Int64", False), ("checkpoint_id", "Utf8", False),
    ("event_type", "Utf8", False), ("step_name", "Utf8", True),
    ("step_kind", "Utf8", True), ("step_index", "Int64", True),
    ("enclosing_step", "Utf8", True), ("selector_step", "Utf8", True),
    ("attempt", "Int32", False), ("run_id", "Utf8", False),
    ("writer_epoch", "Utf8", False), ("field_name", "Utf8", True),
    ("field_type", "Utf8", True), ("codec_version", "Int32", True),
    ("value_kind", "Utf8", True), ("value_i64", "Int64", True),
    ("value_f64", "Float64", True), ("value_bool", "Bool", True),
    ("value_str", "LargeUtf8", True), ("value_json", "LargeUtf8", True),
    ("value_blob", "LargeBinary", True), ("payload_size", "Int64", True),
    ("payload_checksum", "Utf8", True), ("query_tags_json", "LargeUtf8", True),
    ("status", "Utf8", True), ("error_type", "Utf8", True),
    ("error_dump", "LargeUtf8", True), ("traceback", "LargeUtf8", True),
    ("event_ts", "Timestamp<MICROSECOND, UTC>", False),
    ("schema_version", "Int32", False), ("_seq", "Int64", True)]
LONGS = ("item_seq", "step_index", "value_i64", "payload_size", "event_ts")


def stored(e):
    """The columns that an event becomes; those that are null left out."""
    out = canonical(e)
    value = e.get("value")
    out.pop("value", None)
    if value is not None:
        kind = value["kind"]
        column = {"int": "i64", "float": "f64"}.get(kind, kind)
        out["value_kind"] = kind
        if kind == "blob":
            out["value_blob"] = value["bytes"]
            out["payload_size"] = canonical(e)["value"]["size"]
            if "checksum" in value:
                out["payload_checksum"] = value["checksum"]
        elif kind == "json":
            out["value_json"] = value["value"]
        else:
            out["value_" + column] = value["value"]
    if "query_tags" in out:
        out["query_tags_json"] = out.pop("query_tags")
    return out


def from_lance(row):
    out = {k: v for k, v in row.items() if v is not None and k != "_seq"}
    for name in LONGS:
        if name in out:
            out[name] = int(out[name])
    if "value_f64" in out:		# JavaScript prints 2.0 ** 63 as digits
        out["value_f64"] = float(out["value_f64"])
    for name in ("value_json", "query_tags_json"):
        if name in out:
            out[name] = json.loads(out[name])
    return out


class Datagen(unittest.TestCase):
    def same_table(self, sent, got):
        by_id = {r["event_id"]: from_lance(r) for r in got}
        self.assertEqual(len(by_id), len(got))
        self.assertEqual(set(by_id), {e["event_id"] for e in sent})
        for want in map(stored, sent):
            have = by_id[want["event_id"]]
            self.assertEqual({k: str((have.get(k), want.get(k)))[:200]
                              for k in set(have) | set(want)
                              if have.get(k) != want.get(k)}, {})

    def folded(self, s):
        wait_for("the folds", lambda: not any(
            memwal.pending(store_dir(s, "st")).values()) and all(
                shard.current_generation > 1 for shard in
                memwal.shards(store_dir(s, "st")).values()))

    def test_base_table(self):
        sent, payloads = edges()
        full = event("5", 1000, "FAILED", parent_item_id="p", attempt=7,
                     enclosing_step="e", selector_step="", error_dump="d",
                     traceback="t\0", status="failed", field_name="f",
                     event_ts="2026-01-01T00:00:00Z")
        sent.append(full)
        with Server(workers=1, args=FOLDS) as s, s.client() as c:
            path = store_dir(s, "st")
            create(c, "st")
            append(c, "st", sent).must(201)
            self.folded(s)
            columns, got, count, some = engine.run(
                path, ["schema"], ["rows"],
                ["count", "value_kind = 'float' AND value_f64 > 0.05"],
                ["rows", {"where": "value_i64 = 9223372036854775807",
                          "columns": ["event_id", "value_i64"]}])
            self.assertEqual([tuple(x) for x in columns], COLUMNS)
            self.same_table(sent, got)
            self.assertEqual(count, 3)
            self.assertEqual([r["value_i64"] for r in some], [str(2 ** 63 - 1)])

            # The engine moves rows; its own are oldest, and served.
            engine.run(path, ["optimize"])
            same_events(self, sent, of_item(c, "st", "5"))
            newer = dict(sent[0], value={"kind": "str", "value": "newer"})
            append(c, "st", [newer]).must(201)
            same_events(self, [newer] + sent[1:], of_item(c, "st", "5"))
            for event_id, data in payloads.items():
                self.assertTrue(payload(c, "st", event_id).must(200).body
                                == data)


if __name__ == "__main__":
    unittest.main()
