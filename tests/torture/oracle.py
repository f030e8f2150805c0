"""
oracle - what must hold after any death or failure (style 12).

A Book knows every row that was ever sent and which of them were acknowledged.
Asked after the trouble, through every worker: each acknowledged row is there,
once; a row that is there was sent, and is whole; a second restart changes
nothing; no process is missing, no lock and no guard is held; what manifests
name exists, and nothing is left that has no name. The base table itself, as
the Lance engine reads it, holds the same rows once all is folded.
"""

import os
import sys
import threading
import time

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(TESTS, "e2e"))
sys.path.insert(0, os.path.join(TESTS, "interop"))

import engine				# noqa: E402
import memwal				# noqa: E402
from client import Lost			# noqa: E402
from harness import locks_held, wait_for	# noqa: E402
from rows import canonical, row		# noqa: E402

TEMP_AGE_SECONDS = 60			# object/delete.c leaves younger ones


def made(row_id):
    """The one row of that id: whole or not is seen by comparing."""
    return row(row_id, content="content of %s " % row_id * 8,
               input_tokens=list(range(len(row_id) * 3)), reward=0.5,
               created_at="2026-01-01T00:00:00Z")


class Book:
    def __init__(self, store):
        self.store = store
        self.lock = threading.Lock()
        self.sent = set()
        self.acked = set()

    def append(self, client, ids, flush=False):
        """True if acknowledged; False after any other answer, or none."""
        with self.lock:
            self.sent.update(ids)
        try:
            reply = client.append(self.store, [made(i) for i in ids],
                                  flush=flush)
        except Lost:
            return False
        if reply.status == 201:
            with self.lock:
                self.acked.update(ids)
            return True
        if reply.status < 500:
            raise AssertionError("append: %d %s" % (
                reply.status, reply.body[:300]))
        return False

    def acknowledged(self):
        with self.lock:
            return set(self.acked)

    def check_list(self, got, acked, form=canonical):
        """One list, against what was acknowledged before it was asked for."""
        ids = [r["id"] for r in got]
        seen = set(ids)
        if len(seen) != len(ids):
            raise AssertionError("twice: %s" % sorted(
                i for i in seen if ids.count(i) > 1)[:10])
        if acked - seen:
            raise AssertionError("acknowledged and gone: %s" % sorted(
                acked - seen)[:10])
        with self.lock:
            invented = seen - self.sent
        if invented:
            raise AssertionError("never sent: %s" % sorted(invented)[:10])
        for r in got:
            if form(r) != canonical(made(r["id"])):
                raise AssertionError("not whole: %s" % r)
        return ids

    def check_page(self, got, acked):
        """Rows in key order, and between its ends nothing is left out."""
        ids = [r["id"] for r in got]
        if ids != sorted(ids):
            raise AssertionError("not in order: %s" % ids[:10])
        self.check_list(got, {i for i in acked if ids and
                              ids[0] <= i <= ids[-1]})

    def check(self, server):
        """Through every worker; all must agree. The ids, in order."""
        answers = []
        for client in server.clients_by_worker().values():
            acked = self.acknowledged()
            answers.append(self.check_list(client.list(self.store), acked))
            client.close()
        if any(a != answers[0] for a in answers):
            raise AssertionError("workers disagree: %s" % [
                len(a) for a in answers])
        with self.lock:
            self.acked.update(answers[0])	# once seen, it must stay
        return answers[0]

    def check_after_restart(self, server):
        """A second restart changes nothing."""
        before = self.check(server)
        server.kill_all()
        server.start()
        if self.check(server) != before:
            raise AssertionError("a restart changed the rows")

    def check_files(self, server):
        folder = server.store_dir(self.store)
        for shard in memwal.shards(folder).values():
            for name in shard.generations.values():
                if not os.path.isdir(os.path.join(shard.path, name)):
                    raise AssertionError("named and absent: %s" % name)
        for name, size in memwal.index_files(folder).items():
            path = os.path.join(folder, name)
            if not os.path.isfile(path) or os.path.getsize(path) != size:
                raise AssertionError("named and not so: %s" % path)

    def check_base(self, server):
        """Folds all there is; then the base table alone has every row."""
        with server.client() as c:
            wait_for("all to be folded", lambda: fold(c, self.store), 30)
        ids = self.check(server)
        pending = memwal.pending(server.store_dir(self.store))
        if any(pending.values()):
            raise AssertionError("folded, and still pending: %s" % pending)
        got = engine.run(server.store_dir(self.store), ["rows"])[0]
        base = self.check_list(got, set(ids), engine.from_lance)
        if sorted(base) != sorted(ids):
            raise AssertionError("only in the base table: %s" % sorted(
                set(base) - set(ids))[:10])


def fold(client, store):
    """True once a forced fold finds nothing to do; 507: a full disk."""
    try:
        reply = client.post("/api/v1/internal/merge-wal/" + store)
    except Lost:
        return False
    if reply.status not in (200, 503, 507):
        raise AssertionError("fold: %d %s" % (reply.status, reply.body[:300]))
    return reply.status == 200 and reply.json()["reclaimed"] == 0


def temporary(server):
    """What killed processes left half made: files without a name yet. Those of
    deleted stores and of generations that no manifest names go with them."""
    return [os.path.join(folder, name)
            for folder, _, names in os.walk(server.data_dir)
            for name in names if name.startswith(".tmp-")
            and "/_trash/" not in folder and "_gen_" not in folder]


def check_temporary(server):
    """Once they are old enough a start removes them."""
    server.kill_all()
    old = time.time() - 2 * TEMP_AGE_SECONDS
    left = temporary(server)
    for path in left:
        os.utime(path, (old, old))
    server.start()
    def gone():
        return not set(left) & set(temporary(server))
    try:
        wait_for("them to go", gone)
    except AssertionError:
        raise AssertionError("left: %s" % temporary(server)) from None


def check_status(server):
    """All processes there and well, nothing held."""
    def clean():
        status = server.status()
        live = [p for p in status["processes"] if p["pid"] > 0]
        guards = [s["name"] for s in status["stores"] if s["guard"]["held"]]
        return (len(live) == server.workers_wanted + 2 and status["clean"]
                and not guards and not locks_held(status))
    try:
        wait_for("a clean status", clean, 10)
    except AssertionError:
        raise AssertionError(server.ctl("status")) from None
    server.ctl("status", "--check")
