"""
oracle - what must hold after any death or failure (style 12).

A Book knows every row that was ever sent and which of them were acknowledged.
Asked after the trouble, through every worker: each acknowledged row is there,
once, with its newest value; a row that is there was sent, and is whole; a
second restart changes nothing; no process is missing, no lock and no guard is
held; what manifests name exists, and nothing is left that has no name. The base
table itself, as the Lance engine reads it, holds the same rows once all is
folded. Stores are of any kind (kinds.py).
"""

import os
import threading
import time

from kinds import Rollout, fold, made	# made: for those who send rows
import engine
import memwal
from client import Lost
from harness import locks_held, wait_for

TEMP_AGE_SECONDS = 60			# object/delete.c leaves younger ones


class Book:
    def __init__(self, store, kind=Rollout):
        self.store = store
        self.kind = kind(store)
        self.lock = threading.Lock()
        self.sent = set()
        self.acked = set()
        self.versions = {}		# id: [sent, acknowledged], from 1 on

    def send(self, client, rows, flush):
        """True if acknowledged; False after any other answer, or none."""
        try:
            reply = self.kind.append(client, rows, flush=flush)
        except Lost:
            return False
        if reply.status != 201 and reply.status < 500:
            raise AssertionError("append: %d %s" % (
                reply.status, reply.body[:300]))
        return reply.status == 201

    def append(self, client, ids, flush=False):
        with self.lock:
            self.sent.update(ids)
        done = self.send(client, [self.kind.row(i) for i in ids], flush)
        if done:
            with self.lock:
                self.acked.update(ids)
        return done

    def append_version(self, client, row_id, flush=False):
        """The next value of one row. One at a time: of two that are under way
        together either may win."""
        with self.lock:
            version = self.versions.setdefault(row_id, [0, 0])
            version[0] += 1
            self.sent.add(row_id)
        done = self.send(client, [self.kind.row(row_id, self.text_of(
            row_id, version[0]))], flush)
        if done:
            with self.lock:
                version[1] = version[0]
                self.acked.add(row_id)
        return done

    @staticmethod
    def text_of(row_id, version):
        return "%d is the version of %s" % (version, row_id)

    def acknowledged(self):
        with self.lock:
            return set(self.acked)

    def check_row(self, r, form):
        """Whole, and no older than what was acknowledged of it."""
        row_id, text = r[self.kind.key], None
        with self.lock:
            version = list(self.versions.get(row_id, ()))
        if version:
            text = r[self.kind.text]
            shown = int(text.split()[0])
            if not version[1] <= shown <= version[0]:
                raise AssertionError("%s is of version %d, acknowledged %d, "
                                     "sent %d" % (row_id, shown, version[1],
                                                  version[0]))
            text = self.text_of(row_id, shown)
        if form(r) != self.kind.form(self.kind.row(row_id, text)):
            raise AssertionError("not whole: %s" % r)

    def check_list(self, got, acked, form=None):
        """One list, against what was acknowledged before it was asked for; of
        rows with versions nothing is sent meanwhile."""
        ids = [r[self.kind.key] for r in got]
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
            self.check_row(r, form or self.kind.form)
        return ids

    def check_page(self, got, acked):
        """Rows in key order, and between its ends nothing is left out."""
        ids = [r[self.kind.key] for r in got]
        if ids != sorted(ids):
            raise AssertionError("not in order: %s" % ids[:10])
        self.check_list(got, {i for i in acked if ids and
                              ids[0] <= i <= ids[-1]})

    def check(self, server):
        """Through every worker; all must agree. The ids, in order."""
        answers, ids = [], []
        for client in server.clients_by_worker().values():
            acked = self.acknowledged()
            answers.append(self.kind.list(client))
            ids = self.check_list(answers[-1], acked)
            client.close()
        if any(a != answers[0] for a in answers):
            raise AssertionError("workers disagree: %s" % [
                len(a) for a in answers])
        self.note(answers[0])
        return ids

    def note(self, rows):
        """What was seen by all must stay."""
        with self.lock:
            for r in rows:
                row_id = r[self.kind.key]
                self.acked.add(row_id)
                if row_id in self.versions:
                    self.versions[row_id][1] = int(
                        r[self.kind.text].split()[0])

    def check_after_restart(self, server):
        """A second restart changes nothing."""
        before = self.check(server)
        server.kill_all()
        server.start()
        if self.check(server) != before:
            raise AssertionError("a restart changed the rows")

    def check_files(self, server):
        folder = self.kind.directory(server)
        for shard in memwal.shards(folder).values():
            for name in shard.generations.values():
                if not os.path.isdir(os.path.join(shard.path, name)):
                    raise AssertionError("named and absent: %s" % name)
        for name, size in memwal.index_files(folder).items():
            path = os.path.join(folder, name)
            if not os.path.isfile(path) or os.path.getsize(path) != size:
                raise AssertionError("named and not so: %s" % path)

    def check_collected(self, server):
        """Until no garbage is left. What is there then the newest versions
        name; without a grace and without readers of older ones."""
        folder = self.kind.directory(server)
        clients = server.clients_by_worker().values()

        def clean():
            for client in clients:	# an idle one keeps its view
                self.kind.list(client)
            with server.client() as c:
                self.kind.fold(c)
                return c.metrics()["memwald_stores_garbage"] == 0
        wait_for("the garbage to go", clean, 30)
        data = [f for _, _, files in memwal.fragments(folder).values()
                for f in files]
        left = {"data": sorted(data), "_versions": 1, "_collect": 0}
        seen = {}
        for name in left:
            path = os.path.join(folder, name)
            names = [n for n in os.listdir(path) if not n.startswith(
                (".tmp-", ".lock", "latest"))] if os.path.isdir(path) else []
            seen[name] = sorted(names) if name == "data" else len(names)
        for shard in memwal.shards(folder).values():
            left[shard.path], seen[shard.path] = 0, len([
                n for n in os.listdir(shard.path) if "_gen_" in n])
        if seen != left:
            raise AssertionError("left of a collection: %s, and not %s" % (
                seen, left))
        for client in clients:
            client.close()

    def settle(self, server):
        """Until nothing is left to seal or fold."""
        with server.client() as c:
            wait_for("all to be folded", lambda: self.kind.fold(c), 30)
        if not self.kind.aged_by_requests:
            wait_for("the ticker to fold all", lambda: self.aged(server), 30)

    def aged(self, server):
        one, = [s for s in server.status()["stores"]
                if (s["kind"], s["name"]) == (self.kind.name, self.store)]
        return one["tail_shards"] == 0 and not any(
            memwal.pending(self.kind.directory(server)).values())

    def check_base(self, server):
        """Folds all there is; then the base table alone has every row."""
        folder = self.kind.directory(server)
        self.settle(server)
        ids = self.check(server)
        pending = memwal.pending(folder)
        if any(pending.values()):
            raise AssertionError("folded, and still pending: %s" % pending)
        got = engine.run(folder, ["rows"])[0]
        base = self.check_list(got, set(ids), self.kind.from_lance)
        if sorted(base) != sorted(ids):
            raise AssertionError("only in the base table: %s" % sorted(
                set(base) - set(ids))[:10])


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
