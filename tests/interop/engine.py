"""
engine - the real Lance engine and apache-arrow, for the interop tests.

run(path, op, ...) has lancedb.mjs carry out the operations, a Session one after
the other; the form of rows there is described in it. from_lance and to_lance turn such a row into the
canonical one of rows.py and back.
"""

import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))

from harness import SLOW	# noqa: E402
from rows import canonical	# noqa: E402

LONGS = ("created_at", "payload_size")


def node(script, *args, stdin="", timeout=120):
    """Standard output of a script of this folder."""
    run_ = subprocess.run(
        ["node", os.path.join(HERE, script), *args], input=stdin, text=True,
        capture_output=True, timeout=timeout * SLOW)
    if run_.returncode != 0:
        raise AssertionError("%s: %d\n%s" % (
            script, run_.returncode, run_.stderr[-4000:]))
    return run_.stdout


def run(path, *operations):
    """The answers of the engine to operations on the table at path."""
    return json.loads(node("lancedb.mjs", *named(path),
                           stdin=json.dumps(operations)))


def named(path):
    """Folder and name of the table at path."""
    folder, name = os.path.split(path)
    if not name.endswith(".lance"):
        raise ValueError("not the directory of a table: %s" % path)
    return folder, name[:-len(".lance")]


class Session:
    """One process of the engine for as long as its block. What it complains of
    goes where the test's own errors go."""

    def __init__(self, path):
        self.proc = subprocess.Popen(
            ["node", os.path.join(HERE, "lancedb.mjs"), *named(path), "lines"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, tb):
        if kind is not None:
            self.proc.kill()		# it may be in the middle of something
        self.proc.stdin.close()
        self.proc.stdout.close()
        status = self.proc.wait()
        if kind is None and status != 0:
            raise AssertionError("lancedb.mjs: %d" % status)

    def begin(self, *operation):
        """Its answer is awaited by end()."""
        self.proc.stdin.write(json.dumps(operation) + "\n")
        self.proc.stdin.flush()

    def end(self):
        line = self.proc.stdout.readline()
        if not line:
            raise AssertionError("lancedb.mjs ended: %d" % self.proc.wait())
        return json.loads(line)

    def do(self, *operation):
        self.begin(*operation)
        return self.end()


def from_lance(row):
    out = {k: v for k, v in row.items() if v is not None and k != "_seq"}
    out.pop("binary_payload", None)
    for name in LONGS:
        if name in out:
            out[name] = int(out[name])
    if "metadata" in out:
        out["metadata"] = json.loads(out["metadata"])
    links = [{k: v for k, v in x.items() if v is not None}
             for x in out.pop("relationships", [])]
    if links:
        out["relationships"] = links
    return out


def to_lance(row):
    out = canonical(row)
    if "metadata" in out:
        out["metadata"] = json.dumps(out["metadata"])
    if "binary_payload" in row:
        out["binary_payload"] = row["binary_payload"]
    for name in LONGS:
        if name in out:
            out[name] = str(out[name])
    return out


def same_table(test, sent, got):
    """Every row of sent is in the engine's answer, once, payload and all."""
    want = {r["id"]: r for r in sent}
    test.assertEqual(sorted(r["id"] for r in got), sorted(want))
    for r in got:
        test.assertEqual(from_lance(r), canonical(want[r["id"]]))
        test.assertEqual(r["binary_payload"],
                         want[r["id"]].get("binary_payload"), r["id"])
