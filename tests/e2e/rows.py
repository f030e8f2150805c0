"""
rows - rollout rows for tests, and when two of them are equal.

same_rows() compares what was sent with what came back by the contract 2.4:
defaults filled in, float columns as f32, time stamps as points in time,
absent equal to null, and the payload never among the columns.
"""

import base64
import datetime
import json
import os
import struct

DATA = os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "data")
DEFAULTS = {"sequence_order": 0, "role": "assistant",
            "content_type": "text/plain"}
FLOATS = ("advantage", "reward", "raw_reward", "score")
FLOAT_LISTS = ("output_logprobs", "input_logprobs", "ref_logprobs")


def f32(x):
    return None if x is None else struct.unpack("<f", struct.pack("<f", x))[0]


def timestamp(text):
    """RFC 3339 to microseconds since 1970."""
    if "." in text:				# finer digits than us are cut
        head, rest = text.split(".", 1)
        digits = rest[:len(rest) - len(rest.lstrip("0123456789"))]
        text = head + "." + digits[:6].ljust(6, "0") + rest[len(digits):]
    at = datetime.datetime.fromisoformat(text)
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
    return (at - epoch) // datetime.timedelta(microseconds=1)


def canonical(row):
    """A row in the one form in which equal rows are equal."""
    out = {k: v for k, v in row.items() if v is not None}
    out.pop("binary_payload", None)
    for name, value in DEFAULTS.items():
        out.setdefault(name, value)
    out.setdefault("problem_id", out["rollout_id"])
    for name in FLOATS:
        if name in out:
            out[name] = f32(out[name])
    for name in FLOAT_LISTS:
        if name in out:
            out[name] = [f32(x) for x in out[name]]
    if "created_at" in out:
        out["created_at"] = timestamp(out["created_at"])
    links = []
    for link in out.pop("relationships", []):
        link = {k: v for k, v in link.items() if v is not None}
        if "weight" in link:
            link["weight"] = f32(link["weight"])
        links.append(link)
    if links:
        out["relationships"] = links
    return out


def same_rows(test, sent, got):
    """Every row of sent is in got, once and equal, and got has no other."""
    want = {r["id"]: canonical(r) for r in sent}
    have = [canonical(r) for r in got]
    ids = [r["id"] for r in have]
    test.assertEqual(len(set(ids)), len(ids), "a row twice")
    test.assertEqual(sorted(ids), sorted(want), "missing or foreign ids")
    for row in have:
        expected = want[row["id"]]
        if "created_at" not in expected:	# the server's own time
            row = dict(row)
            del row["created_at"]
        test.assertEqual({k: (row.get(k), expected.get(k))
                          for k in set(row) | set(expected)
                          if row.get(k) != expected.get(k)}, {},
                         "%s: got, expected" % row["id"])


def payload(row):
    return base64.b64decode(row["binary_payload"])


def arith():
    """The 832 rows of the reference data."""
    with open(os.path.join(DATA, "rollouts-arith.jsonl")) as f:
        return [json.loads(line) for line in f]


def row(row_id, **columns):
    return dict({"id": row_id, "rollout_id": "t-" + row_id}, **columns)


def kib_row(row_id, **columns):
    """About 2 KB of JSON, as a generation worker would send."""
    return row(row_id, content="The answer follows from step %s. " % row_id * 12,
               input_tokens=list(range(100000, 100060)),
               output_tokens=list(range(70)),
               output_logprobs=[-0.125 * k for k in range(70)],
               loss_mask=[1] * 70, reward=1.0, **columns)
