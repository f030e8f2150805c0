"""Every rule for events (contract 2.5.1, 3.2.1): what breaks one is a 400 that
names row and field, and nothing of its batch is written; what keeps them comes
back as it was sent, defaults filled in."""

import unittest

from events import (append, blob, by_seq, create, event, field, of_item,
                    same_events)
from harness import Server

PATH = "/api/v1/datagen/st/events"
FIELDS = ("FIELD_SET", "FIELD_APPEND")
STEPS = FIELDS + ("STEP_STARTED", "STEP_COMPLETED", "FAILED")
ALL = STEPS + ("ITEM_CREATED", "TERMINAL")

# Members of event_type's events, and the field that the message must name.
BAD = [("ITEM_CREATED", {name: bad}, name)
       for name in ("event_id", "item_id", "root_item_id", "checkpoint_id",
                    "event_type", "run_id", "writer_epoch")
       for bad in (None, "", 7, ["x"], True)]
BAD += [("ITEM_CREATED", {name: bad}, name)
        for name in ("parent_item_id", "step_name", "step_kind",
                     "enclosing_step", "selector_step", "field_name",
                     "field_type", "status", "error_type", "error_dump",
                     "traceback", "event_ts") for bad in (7, {}, False)]
BAD += [("ITEM_CREATED", {name: bad}, name)
        for name, least, most in (
            ("item_seq", 0, 2 ** 63 - 1), ("schema_version", 1, 2 ** 31 - 1),
            ("attempt", 0, 2 ** 31 - 1), ("step_index", -2 ** 63, 2 ** 63 - 1),
            ("codec_version", -2 ** 31, 2 ** 31 - 1))
        for bad in (least - 1, most + 1, 1.0, 1.5, "1", True)]
BAD += [("ITEM_CREATED", {name: None}, name)
        for name in ("item_seq", "schema_version", "attempt")]
BAD += [("ITEM_CREATED", {"event_type": "item_created"}, "event_type"),
        ("ITEM_CREATED", {"event_type": "STEP"}, "event_type"),
        ("ITEM_CREATED", {"step_kind": "Leaf"}, "step_kind"),
        ("ITEM_CREATED", {"step_kind": ""}, "step_kind"),
        ("ITEM_CREATED", {"status": "done"}, "status"),
        ("ITEM_CREATED", {"event_id": "a\0b"}, "event_id"),
        ("ITEM_CREATED", {"item_id": "a\0b"}, "item_id"),
        ("ITEM_CREATED", {"event_id": "x" * 4097}, "event_id"),
        ("ITEM_CREATED", {"event_ts": "2026-01-01T00:00:00"}, "event_ts"),
        ("ITEM_CREATED", {"event_ts": "9999-12-31T23:59:60Z"}, "event_ts"),
        ("ITEM_CREATED", {"query_tags": {"n": [10 ** 309]}}, "query_tags")]
# What the types need.
BAD += [(t, {name: bad}, name) for t in STEPS
        for name, bad in (("step_name", None), ("step_name", ""),
                          ("step_kind", None), ("step_index", None))]
BAD += [(t, {name: bad}, name) for t in FIELDS
        for name, bad in (("field_name", None), ("field_name", ""),
                          ("field_type", None), ("field_type", ""),
                          ("codec_version", None), ("value", None))]
BAD += [("FAILED", {"error_type": bad}, "error_type") for bad in (None, "")]
BAD += [("TERMINAL", {"status": bad}, "status")
        for bad in (None, "running", "failed")]
# Values.
BAD += [("FIELD_SET", {"value": bad}, name) for bad, name in (
    (7, "value"), ([], "value"), ({}, "kind"), ({"kind": None}, "kind"),
    ({"kind": "string", "value": "x"}, "kind"),
    ({"kind": "int"}, "value.value"),
    ({"kind": "int", "value": None}, "value.value"),
    ({"kind": "int", "value": 1.0}, "value.value"),
    ({"kind": "int", "value": 2 ** 63}, "value.value"),
    ({"kind": "int", "value": -2 ** 63 - 1}, "value.value"),
    ({"kind": "int", "value": "1"}, "value.value"),
    ({"kind": "float", "value": "1"}, "value.value"),
    ({"kind": "float", "value": None}, "value.value"),
    ({"kind": "bool", "value": 1}, "value.value"),
    ({"kind": "str", "value": 1}, "value.value"),
    ({"kind": "json"}, "value.value"),
    ({"kind": "json", "value": [{"a": -10 ** 309}]}, "value"),
    ({"kind": "blob"}, "bytes"), ({"kind": "blob", "bytes": None}, "bytes"),
    ({"kind": "blob", "bytes": "QQ"}, "bytes"),
    (blob(b"abc", size=2), "size"), (blob(b"abc", size="3"), "size"),
    (blob(b"abc", value="abc"), "value.value"),
    (blob(b"abc", checksum=7), "checksum"),
    ({"kind": "str", "value": "", "bytes": ""}, "bytes"))]

GOOD = [("ITEM_CREATED", {}),
        ("ITEM_CREATED", {"attempt": 2 ** 31 - 1, "item_seq": 2 ** 63 - 1,
                          "schema_version": 2 ** 31 - 1, "step_index": -2 ** 63,
                          "codec_version": -2 ** 31}),
        ("ITEM_CREATED", {"query_tags": {"n": 9007199254740993, "a": [None]}}),
        ("ITEM_CREATED", {"query_tags": "text"}),
        ("ITEM_CREATED", {"query_tags": None, "parent_item_id": "p",
                          "status": None, "value": None, "step_name": None}),
        ("ITEM_CREATED", {"event_ts": "2026-01-01T10:00:00.123456789+02:00"}),
        ("ITEM_CREATED", {"status": "running", "error_dump": "",
                          "traceback": "nul \0 kept"}),
        ("STEP_STARTED", {"enclosing_step": "", "selector_step": "s"}),
        ("STEP_COMPLETED", {}), ("FAILED", {"error_dump": "d"}),
        ("TERMINAL", {}), ("TERMINAL", {"status": "filtered"})]
GOOD += [("STEP_STARTED", {"step_kind": k}) for k in (
    "root", "leaf", "sequence", "loop", "map_reduce", "branch", "sub_pipeline",
    "conditional", "router")]
GOOD += [("FIELD_APPEND", {"value": v}) for v in (
    {"kind": "int", "value": -2 ** 63}, {"kind": "float", "value": 3},
    {"kind": "float", "value": -1.5e-300}, {"kind": "bool", "value": False},
    {"kind": "str", "value": ""}, {"kind": "json", "value": None},
    {"kind": "json", "value": {"k": [1.5, "\0"]}}, blob(b"", checksum=""),
    blob(b"abc", size=3), {"kind": "int", "value": 0, "bytes": None})]


class Rules(unittest.TestCase):
    def setUp(self):
        self.server = Server.during(self.addCleanup)
        self.c = self.server.client()
        self.addCleanup(self.c.close)
        create(self.c, "st")
        append(self.c, "st", [event("before")]).must(201)

    def refused(self, events, *names, query=""):
        reply = append(self.c, "st", events, query)
        with self.subTest(names, events=events):
            self.assertEqual(reply.status, 400, reply.body)
            code, message = reply.error()
            self.assertEqual(code, "INVALID_REQUEST")
            for name in names:
                self.assertIn(name, message)

    def nothing_was_written(self):
        for item in ("5", "6", "bad"):
            self.assertEqual(of_item(self.c, "st", item), [])
        self.assertEqual(len(of_item(self.c, "st", "before")), 1)

    def test_bad_events(self):
        for event_type, members, name in BAD:
            bad = event("bad", 2, event_type)
            bad.update(members)
            self.refused([event("5", 0), event("5", 1), bad, event("5", 3)],
                         "events[2].", name)
        for name in ("event_id", "item_id", "root_item_id", "item_seq",
                     "checkpoint_id", "event_type", "run_id", "writer_epoch",
                     "schema_version"):
            bad = event("bad", 1)
            del bad[name]
            self.refused([event("5", 0), bad], "events[1]." + name)
        self.nothing_was_written()

    def test_good_events(self):
        sent = []
        for n, (event_type, members) in enumerate(GOOD):
            e = dict(event("5", n, event_type), **members)
            sent.append(e)
            reply = append(self.c, "st", [e]).must(201).json()
            self.assertEqual(set(reply), {"version", "count"})
            self.assertEqual(reply["count"], 1)
        same_events(self, by_seq(sent), of_item(self.c, "st", "5"))
        # Unknown names are skipped, wherever they are.
        e = event("6", 0, "FIELD_SET", novel={"x": []})
        e["value"]["novel"] = 1
        self.assertEqual(append(self.c, "st", [e]).must(201).json()["ignored"],
                         ["value.novel", "novel"])

    def test_bodies(self):
        for body, status in (
                (b"", 400), (b"{", 400), (b'{"events":[]}', 400),
                (b'{"events":[{}]}', 400), (b'{"events":[{}]} x', 400),
                (b"[]", 422), (b"null", 422), (b"{}", 422),
                (b'{"events":null}', 422), (b'{"events":{}}', 422),
                (b'{"events":[1]}', 422), (b'{"records":[]}', 422)):
            reply = self.c.post(PATH, body)
            with self.subTest(body):
                self.assertEqual(reply.status, status, reply.body)
                self.assertEqual(reply.error()[0], "INVALID_REQUEST")
        good = b'{"events":[]}'
        for media, status in (("text/plain", 415),
                              ("multipart/form-data; boundary=x", 415),
                              ("application/x+json", 400),
                              ("application/json; charset=utf-8", 400)):
            self.assertEqual(self.c.post(PATH, good, headers={
                "Content-Type": media}).status, status, media)
        self.nothing_was_written()

    def test_one_request(self):
        """Events of a request against each other."""
        same = event("5", 0, event_ts="2026-01-01T00:00:00Z")
        self.refused([same, event("6", 0), dict(same, attempt=1)],
                     "events[2].event_id", "events[0]")
        self.refused([same, event("6", 0), dict(same, query_tags=None,
                                                traceback="")],
                     "events[2].event_id", "events[0]")
        self.refused([same, event("5", 1), dict(same, event_id="other")],
                     "events[2].item_seq", "events[0]")
        self.nothing_was_written()
        reply = append(self.c, "st", [same, event("5", 1),
                                      dict(same, query_tags=None)])
        self.assertEqual(reply.must(201).json()["count"], 3)
        # Against one that is stored it is accepted (contract 9, 11).
        append(self.c, "st", [dict(same, event_id="other")]).must(201)
        self.assertEqual([e["item_seq"] for e in of_item(self.c, "st", "5")],
                         [0, 0, 1])

    def checkpoint(self, **changed):
        """A good one; changed: members of its second field event."""
        return [field("5", 1, {"kind": "int", "value": 1}, checkpoint_id="k"),
                dict(event("5", 2, "FIELD_APPEND"), **dict(
                    {"checkpoint_id": "k"}, **changed)),
                event("5", 3, "STEP_COMPLETED", checkpoint_id="k")]

    def test_checkpoints(self):
        query = "?checkpoint=true"
        for name, other in (("item_id", "6"), ("checkpoint_id", "l"),
                            ("run_id", "r2"), ("writer_epoch", "w2"),
                            ("attempt", 1), ("step_name", "other"),
                            ("step_index", 1), ("step_kind", "loop"),
                            ("enclosing_step", "e"), ("selector_step", "")):
            self.refused(self.checkpoint(**{name: other}), "events[1]." + name,
                         query=query)
        for more, name in (
                ([event("5", 4, checkpoint_id="k")], "events[3].event_type"),
                ([event("5", 4, "TERMINAL", checkpoint_id="k")],
                 "events[3].event_type"),
                ([event("5", 4, "STEP_STARTED", checkpoint_id="k")],
                 "events[3].event_type"),
                ([event("5", 4, "FAILED", checkpoint_id="k")],
                 "events[3].event_type"),
                ([event("5", 4, "STEP_COMPLETED", checkpoint_id="k")],
                 "events[3].event_type")):
            self.refused(self.checkpoint() + more, name, query=query)
        self.refused(self.checkpoint()[:2], "STEP_COMPLETED", query=query)
        self.nothing_was_written()
        for q in ("?checkpoint=yes", "?checkpoint=True", "?checkpoint=1",
                  "?checkpoint=", "?checkpoint",
                  "?checkpoint=true&checkpoint=true"):
            self.refused(self.checkpoint(), "checkpoint", query=q)
        self.nothing_was_written()
        append(self.c, "st", self.checkpoint(), query).must(201)
        same_events(self, self.checkpoint(), of_item(self.c, "st", "5"))
        # Without it these rules do not hold.
        append(self.c, "st", self.checkpoint(run_id="r2")[:2],
               "?checkpoint=false").must(201)

    def test_retries(self):
        """The same batch again changes nothing; other content wins."""
        sent = [dict(e, event_ts="2026-01-01T00:00:00Z")
                for e in self.checkpoint()]
        for client in self.server.clients_by_worker().values():
            for _ in range(2):
                append(client, "st", sent, "?checkpoint=true").must(201)
                same_events(self, sent, of_item(self.c, "st", "5"))
        newer = dict(sent[0], value={"kind": "str", "value": "newer"})
        append(self.c, "st", [newer]).must(201)
        same_events(self, [newer] + sent[1:], of_item(self.c, "st", "5"))
        # An event may move to another item; then it is there alone.
        moved = dict(newer, item_id="6")
        append(self.c, "st", [moved]).must(201)
        same_events(self, sent[1:], of_item(self.c, "st", "5"))
        same_events(self, [moved], of_item(self.c, "st", "6"))

    def test_longer_than_a_window(self):
        """A batch that comes in pieces is refused as a whole, too."""
        long = [event("5", n, traceback="x" * 3000) for n in range(200)]
        self.refused(long + [event("bad", 0, item_seq=-1)],
                     "events[200].item_seq")
        self.refused(long + [dict(long[7], event_id="other")],
                     "events[200].item_seq")
        self.nothing_was_written()
        append(self.c, "st", long).must(201)
        same_events(self, long, of_item(self.c, "st", "5"))

    def test_too_long(self):
        with self.server.raw() as r:
            r.send(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: "
                   b"application/json\r\nExpect: 100-continue\r\n"
                   b"Content-Length: %d\r\n\r\n" % (
                       PATH.encode(), (256 << 20) + 1))
            reply = r.recv_reply()
            self.assertEqual(reply.status, 413)
            self.assertEqual(reply.error()[0], "PAYLOAD_TOO_LARGE")


if __name__ == "__main__":
    unittest.main()
