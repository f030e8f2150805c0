"""
kinds - what a test that runs on every kind of store must know of each: where
its stores are, how rows of given ids are appended, which rows are there, and
when two are equal, as the API gives them or as the Lance engine reads them.
"""

import os
import sys
import zlib

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(TESTS, "e2e"))
sys.path.insert(0, os.path.join(TESTS, "interop"))

import engine				# noqa: E402
import events				# noqa: E402
from client import Lost, quote		# noqa: E402
from rows import canonical, row		# noqa: E402


def made(row_id):
    """The one row of that id: whole or not is seen by comparing."""
    return row(row_id, content="content of %s " % row_id * 8,
               input_tokens=list(range(len(row_id) * 3)), reward=0.5,
               created_at="2026-01-01T00:00:00Z")


def fold(client, store):
    """True once a forced fold finds nothing to do; 507: a full disk."""
    return nothing_left(client, "/api/v1/internal/merge-wal/" + store)


def nothing_left(client, path):
    try:
        reply = client.post(path)
    except Lost:
        return False
    if reply.status not in (200, 503, 507):
        raise AssertionError("fold: %d %s" % (reply.status, reply.body[:300]))
    return reply.status == 200 and reply.json()["reclaimed"] == 0


class Rollout:
    name = "rollout"
    stores = "/api/v1/rollouts"
    rows = "records"
    key = "id"
    text = "content"
    aged_by_requests = True		# flush and fold when they are asked to
    compacts = True			# when it is asked to; others by themselves

    def __init__(self, store):
        self.store = store
        self.path = "%s/%s" % (self.stores, store)
        self.list_path = "%s/%s" % (self.path, self.rows)
        self.body = {"name": store}	# of the create

    def row(self, row_id, text=None):
        return made(row_id) if text is None else dict(made(row_id),
                                                      content=text)

    def append(self, client, rows, flush=False):
        return client.post("%s/%s%s" % (
            self.path, self.rows, "?flush=true" if flush else ""),
            {self.rows: rows})

    def list(self, client):
        """All rows, as the API gives them."""
        return client.get(self.list_path).must(200).json()[self.rows]

    @classmethod
    def ids(cls, reply):
        return [r[cls.key] for r in reply.must(200).json()[cls.rows]]

    def fold(self, client):
        """True once nothing is left to fold."""
        return fold(client, self.store)

    @staticmethod
    def form(row_):
        """In which equal rows are equal; of what was sent, too."""
        return canonical(row_)

    @staticmethod
    def from_lance(row_):
        return engine.from_lance(row_)

    def directory(self, server):
        return "%s/%s.%s.lance" % (server.data_dir, self.store, self.name)


class Datagen(Rollout):
    name = "datagen"
    stores = "/api/v1/datagen"
    rows = "events"
    key = "event_id"
    text = "traceback"
    aged_by_requests = False		# the ticker seals and folds
    compacts = False

    def __init__(self, store):
        super().__init__(store)
        # All rows are events of one item: there is no list of a whole store.
        self.list_path = "%s/items/%s/events" % (self.path, quote("5/a:0"))

    def row(self, row_id, text=None):
        # No two events of one item may have the same number in a request.
        seq = zlib.crc32(row_id.encode())
        return events.event("5/a:0", seq, event_id=row_id,
                            event_ts="2026-01-01T00:00:00Z",
                            traceback=text or "of %s " % row_id * 8)

    def append(self, client, rows, flush=False):
        return super().append(client, rows)

    def fold(self, client):
        return True

    @staticmethod
    def form(row_):
        return events.canonical(row_)

    @classmethod
    def from_lance(cls, row_):
        """Which columns hold what is tests/interop/datagen_test.py's matter."""
        return events.canonical(dict(cls("").row(row_["event_id"]),
                                     traceback=row_["traceback"]))


class Generic(Rollout):
    name = "generic"
    stores = "/api/v1/generic"
    rows = "rows"
    text = "text"
    compacts = False

    def __init__(self, store):
        super().__init__(store)
        self.body = {"name": store, "schema": {"columns": [
            ["id", {"type": "string", "nullable": False}],
            ["text", {"type": "string", "large": True}]]}}

    def row(self, row_id, text=None):
        return {"id": row_id, "text": text or "of %s " % row_id * 8}

    def append(self, client, rows, flush=False):
        reply = super().append(client, rows)
        if flush and reply.status == 201:
            client.post("%s/flush" % self.path)
        return reply

    def fold(self, client):
        return nothing_left(client, "%s/merge-wal" % self.path)

    @staticmethod
    def form(row_):
        return dict(row_)

    @staticmethod
    def from_lance(row_):
        return {k: v for k, v in row_.items() if k != "_seq"}
