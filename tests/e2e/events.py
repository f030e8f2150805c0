"""
events - datagen events for tests, the routes that take and give them, and when
two of them are equal.

same_events() compares what was sent with what came back by the contract 2.5.1:
defaults filled in, time stamps as points in time, absent equal to null, and of a
blob its size and checksum without its bytes.
"""

import base64
import json
import uuid

from client import b64, quote
from rows import timestamp

STORES = "/api/v1/datagen"


def event_id(item, checkpoint, ordinal):
    """As the published client makes them (contract 3.2.2)."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, "%s\0%s\0%d" % (
        item, checkpoint, ordinal)))


def event(item="5", seq=0, event_type="ITEM_CREATED", **members):
    """A good event, with what its type needs."""
    e = {"event_id": event_id(item, "c\0%s" % event_type, seq),
         "item_id": item, "root_item_id": item.split("/")[0],
         "item_seq": seq, "checkpoint_id": "c\0%d" % seq,
         "event_type": event_type, "run_id": "r1", "writer_epoch": "w1",
         "schema_version": 2}
    if event_type not in ("ITEM_CREATED", "TERMINAL"):
        e.update(step_name="solve", step_kind="leaf", step_index=0)
    if event_type.startswith("FIELD_"):
        e.update(field_name="score", field_type="int", codec_version=1,
                 value={"kind": "int", "value": 9})
    if event_type == "FAILED":
        e["error_type"] = "ValueError"
    if event_type == "TERMINAL":
        e["status"] = "completed"
    e.update(members)
    return e


def field(item, seq, value, **members):
    return event(item, seq, "FIELD_SET", value=value, **members)


def blob(data, **members):
    return dict({"kind": "blob", "bytes": b64(data)}, **members)


def canonical(e):
    """An event in the one form in which equal ones are equal."""
    out = {k: v for k, v in e.items() if v is not None}
    out.setdefault("attempt", 0)
    if "event_ts" in out:
        out["event_ts"] = timestamp(out["event_ts"])
    value = out.get("value")
    if value is not None:
        value = {k: v for k, v in value.items()
                 if v is not None or (k, value["kind"]) == ("value", "json")}
        if value["kind"] == "blob":
            data = value.pop("bytes", None)
            if data is not None:
                value.setdefault("size", len(base64.b64decode(data)))
        if value["kind"] == "float":
            value["value"] = float(value["value"])
        out["value"] = value
    return out


def same_events(test, sent, got):
    """Exactly the events of sent, equal and in this order."""
    test.assertEqual([e["event_id"] for e in got],
                     [e["event_id"] for e in sent])
    for want, have in zip(sent, got):
        want, have = canonical(want), canonical(have)
        test.assertIn("event_ts", have)
        want.setdefault("event_ts", have["event_ts"])	# the server's time
        test.assertEqual(have, want)
        # JSON of it, so that True is not 1 and 1.0 not 1.
        test.assertEqual(json.dumps(have, sort_keys=True),
                         json.dumps(want, sort_keys=True))


def by_seq(events):
    return sorted(events, key=lambda e: (e["item_seq"],
                                         e["event_id"].encode()))


def by_item(events):
    return sorted(events, key=lambda e: (
        e["item_id"].encode(), e["item_seq"], e["event_id"].encode()))


# The routes.

def create(c, store):
    return c.post(STORES, {"name": store}).must(201).json()


def append(c, store, events, query=""):
    return c.post("%s/%s/events%s" % (STORES, store, query),
                  {"events": events})


def of_item(c, store, item, query=""):
    return c.get("%s/%s/items/%s/events%s" % (
        STORES, store, quote(item), query)).must(200).json()["events"]


def of_root(c, store, root, query=""):
    return c.get("%s/%s/roots/%s/events%s" % (
        STORES, store, quote(root), query)).must(200).json()["events"]


def payload(c, store, id_):
    return c.get("%s/%s/blobs/%s" % (STORES, store, quote(id_)))


def store_dir(server, store):
    return "%s/%s.datagen.lance" % (server.data_dir, store)


def edges(item="5"):
    """An event for every edge of every kind of value, and their payloads: by
    event id, the bytes."""
    long = "0123456789abcdef\u00e9" * (5 * 2 ** 20 // 18)
    values = [{"kind": "int", "value": v} for v in (
        0, -1, 2 ** 63 - 1, -2 ** 63, 2 ** 53 + 1)]
    values += [{"kind": "float", "value": v} for v in (
        0.0, -0.0, 0.1, 5e-324, -1.7976931348623157e308, 2.0 ** 63, 1 / 3)]
    values += [{"kind": "bool", "value": v} for v in (True, False)]
    values += [{"kind": "str", "value": v} for v in (
        "", "\0", "a\0b\0", "\u007f\u0080\ud7ff\ue000\uffff\U0010ffff", long)]
    values += [{"kind": "json", "value": v} for v in (
        None, True, 0, -1.5, "", "\0", [], {}, {"": [None, {"\0": 2 ** 60}]},
        [long[:100000]])]
    values += [blob(b""), blob(b"\0"), blob(bytes(range(256)) * 4096,
                                            checksum="sha256:\0"),
               blob(bytes(range(255, -1, -1)), checksum="", size=256)]
    sent = [field(item, n, v, event_ts="2026-01-01T00:00:00.00000%dZ" % (n % 10),
                  query_tags={"n": n}) for n, v in enumerate(values)]
    payloads = {e["event_id"]: base64.b64decode(e["value"]["bytes"])
                for e in sent if e["value"]["kind"] == "blob"}
    return sent, payloads
