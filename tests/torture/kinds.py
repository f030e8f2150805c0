"""
kinds - what a test that runs on every kind of store must know of each: where
its stores are, how rows of given ids are appended, which ids are there.
"""

import events
from oracle import fold, made
from client import quote


class Rollout:
    stores = "/api/v1/rollouts"
    rows = "records"

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

    @staticmethod
    def ids(reply):
        return [r["id"] for r in reply.must(200).json()["records"]]

    def fold(self, client):
        """True once nothing is left to fold."""
        return fold(client, self.store)


class Datagen(Rollout):
    stores = "/api/v1/datagen"
    rows = "events"

    def __init__(self, store):
        super().__init__(store)
        # All rows are events of one item: there is no list of a whole store.
        self.list_path = "%s/items/%s/events" % (self.path, quote("5/a:0"))

    def row(self, row_id, text=None):
        return events.event("5/a:0", len(row_id), event_id=row_id,
                            traceback=text or "of %s " % row_id * 8)

    def append(self, client, rows, flush=False):
        return super().append(client, rows)	# the ticker seals

    @staticmethod
    def ids(reply):
        return [e["event_id"] for e in reply.must(200).json()["events"]]

    def fold(self, client):
        return True			# the ticker folds


class Generic(Rollout):
    stores = "/api/v1/generic"
    rows = "rows"

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

    @staticmethod
    def ids(reply):
        return [r["id"] for r in reply.must(200).json()["rows"]]

    def fold(self, client):
        reply = client.post("%s/merge-wal" % self.path)
        return reply.status == 200 and reply.json()["reclaimed"] == 0
