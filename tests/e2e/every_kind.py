"""
every_kind - the three kinds of stores, for tests that treat them alike: rows
by name, whose text is told apart, read as they are now or at a version.
"""

import zlib

import events
import generic
from client import quote
from rows import row


class Kind:
    """One store; the client is given each time, since any worker may do."""

    def __init__(self, store="st"):
        self.store = store
        self.path = "%s/%s" % (self.stores, store)

    def create(self, c):
        return c.post(self.stores, self.shape()).must(201).json()

    def delete(self, c):
        return c.request("DELETE", self.path)

    def shape(self):
        return {"name": self.store}

    def append(self, c, *names, text="1", query=""):
        return c.post("%s/%s%s" % (self.path, self.rows, query), {
            self.rows: [self.row(name, text) for name in names]})

    def reply(self, c, query=""):
        """Of a list."""
        return c.get(self.list_path() + query)

    def list_path(self):
        return "%s/%s" % (self.path, self.rows)

    def texts(self, c, version=None):
        """{name: text} of all rows."""
        query = "" if version is None else "?version=%d" % version
        return {r[self.key]: r[self.text] for r in
                self.reply(c, query).must(200).json()[self.rows]}

    def fold(self, c):
        return c.post("/api/v1/internal/merge-wal/%s?kind=%s" % (
            self.store, self.name))

    def folded(self, c):
        return self.fold(c).must(200).json()["reclaimed"]

    def info(self, c):
        return c.get(self.path).must(200).json()

    def version(self, c):
        return self.info(c)["version"]

    def checkout(self, c, version):
        return c.post(self.path + "/checkout", {"version": version})

    def directory(self, server):
        return "%s/%s.%s.lance" % (server.data_dir, self.store, self.name)


class Rollout(Kind):
    name = "rollout"
    stores = "/api/v1/rollouts"
    rows = "records"
    key = "id"
    text = "content"

    def row(self, name, text):
        return row(name, content=text)

    def get(self, c, name, query=""):
        """The text of one row, or None."""
        one = c.get("%s/records/%s%s" % (self.path, quote(name), query)) \
            .must(200).json()["record"]
        return None if one is None else one["content"]


class Generic(Kind):
    name = "generic"
    stores = "/api/v1/generic"
    rows = "rows"
    key = "id"
    text = "label"

    def shape(self):
        return {"name": self.store, "schema": {"columns": [
            generic.ID, ["label", generic.column("string")]]}}

    def row(self, name, text):
        return generic.row(name, label=text)

    def get(self, c, name, query=""):
        reply = c.get("%s/rows/%s%s" % (self.path, quote(name), query))
        if reply.status == 404:
            return None
        return reply.must(200).json()["label"]


class Datagen(Kind):
    name = "datagen"
    stores = "/api/v1/datagen"
    rows = "events"
    key = "event_id"
    text = "traceback"

    def row(self, name, text):
        return events.event("5", zlib.crc32(name.encode()),
                            event_id=name, traceback=text)

    def list_path(self):
        return "%s/items/5/events" % self.path

    def get(self, c, name, query=""):
        """Events are read by item or root."""
        found = c.get("%s/roots/5/events%s" % (self.path, query)) \
            .must(200).json()["events"]
        return {e["event_id"]: e["traceback"] for e in found}.get(name)


KINDS = (Rollout, Generic, Datagen)


def hits(server, point):
    """How often a fault point has done something."""
    return int(dict(line.split("=") for line in
                    server.ctl("fault").split())[point])
