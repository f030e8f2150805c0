"""Every read route takes ?version=N: the base table as it was then, which
changes nothing for those who read the present (contract 2.4.5)."""

import os
import random
import threading
import unittest

import events
import generic
from client import b64, quote
from every_kind import KINDS, Generic, Rollout
from harness import LONG, Server
from rows import row

QUIET = ["--rollout-flush-interval-secs=0",
         "--rollout-merge-after-generations=0"]
BAD = ("x", "", "-1", "1.5", "2&version=2", str(2 ** 64))
GONE = (0, 99, 2 ** 64 - 1)


def manifest(kind, server, version):
    return os.path.join(kind.directory(server), "_versions",
                        "%020d.manifest" % (2 ** 64 - 1 - version))


class TimeTravel(unittest.TestCase):
    def test_versions_of_every_kind(self):
        with Server(workers=2, args=QUIET) as s:
            s.wait_walked()
            clients = list(s.clients_by_worker().values())
            c = clients[0]
            for kind in (k() for k in KINDS):
                then = {1: {}, kind.create(c)["version"]: {}}
                now = {}
                for n in range(3):
                    names = ["k%d" % n] if kind.name == "datagen" else \
                        ["k0", "k%d" % n]
                    kind.append(c, *set(names), text=str(n)).must(201)
                    now.update((name, str(n)) for name in names)
                    kind.folded(c)
                    then[kind.version(c)] = dict(now)
                self.assertEqual(len(then), 5)
                kind.append(c, "tail", text="t").must(201)
                now["tail"] = "t"
                for d in clients:
                    for version, texts in then.items():
                        self.assertEqual(kind.texts(d, version), texts)
                        query = "?version=%d" % version
                        self.assertEqual(kind.get(d, "k0", query),
                                         texts.get("k0"))
                        self.assertIsNone(kind.get(d, "tail", query))
                    self.assertEqual(kind.texts(d), now)
                    self.assertEqual(kind.get(d, "tail"), "t")
                    self.refused(kind, d)
                    self.assertEqual(kind.texts(d), now)
                    self.assertNotIn("pinned_version", kind.info(d))

    def refused(self, kind, c):
        for text in BAD:
            reply = kind.reply(c, "?version=" + text)
            self.assertEqual(reply.status, 400, text)
            self.assertIn("'version'", reply.error()[1])
        for version in GONE:
            reply = kind.reply(c, "?version=%d" % version)
            self.assertEqual(reply.status, 404)
            self.assertEqual(reply.error()[0], "NOT_FOUND")
            self.assertIn("no version %d" % version, reply.error()[1])

    def test_every_route(self):
        with Server(workers=1, args=QUIET) as s, s.client() as c:
            s.wait_walked()
            c.create("st")
            c.append("st", [row("a", content="x", binary_payload=b64(b"old")),
                            row("b", reward=1)]).must(201)
            c.merge_all("st")
            path = "/api/v1/rollouts/st/records"
            version = c.get("/api/v1/rollouts/st").must(200).json()["version"]
            c.append("st", [row("a", content="y", binary_payload=b64(b"new")),
                            row("c", reward=1)]).must(201)
            c.merge_all("st")
            self.assertEqual(c.get("%s/a/blob?version=%d" % (
                path, version)).must(200).body, b"old")
            self.assertEqual(c.blob("st", "a").must(200).body, b"new")
            for query, count in (({}, 2), ({"filter": "reward = 1"}, 1),
                                 ({"filter": "id = 'c'"}, 0)):
                self.assertEqual(c.count("st", version=version, **query),
                                 count)
                self.assertEqual(len(c.list("st", version=version, **query)),
                                 count)
            self.assertEqual(c.list("st", version=version, columns="content",
                                    offset=0, limit=1),
                             [{"id": "a", "content": "x"}])
            self.assertEqual(c.list("st", version=version,
                                    consistency="strong")[0]["content"], "x")
            self.assertEqual(c.get("%s/a/blob?version=99" % path).status, 404)
            self.assertEqual(c.get("%s/a?version=99" % path).status, 404)
            self.assertEqual(c.get("%s/count?version=99" % path).status, 404)
            self.datagen(c)
            self.generic(c)

    def datagen(self, c):
        old, new = events.event("7/x:0", 0), events.field(
            "7/x:0", 1, events.blob(b"payload"))
        events.create(c, "st")
        events.append(c, "st", [old]).must(201)
        c.post("/api/v1/internal/merge-wal/st?kind=datagen").must(200)
        path = "/api/v1/datagen/st"
        version = c.get(path).must(200).json()["version"]
        events.append(c, "st", [new]).must(201)
        for query, n in (("?version=%d" % version, 1), ("", 2)):
            self.assertEqual(len(events.of_item(c, "st", "7/x:0", query)), n)
            self.assertEqual(len(events.of_root(c, "st", "7", query)), n)
            blob = "%s/blobs/%s%s" % (path, quote(new["event_id"]), query)
            self.assertEqual(c.get(blob).status, 404 if n == 1 else 200)

    def generic(self, c):
        kind = Generic()
        kind.create(c)
        kind.append(c, "a", "b").must(201)
        kind.folded(c)
        version = kind.version(c)
        kind.append(c, "a", "c", text="2").must(201)
        path = kind.path + "/get-rows?version=%d"
        body = {"ids": ["c", "b", "a"]}
        self.assertEqual(c.post(path % version, body).must(200).json()["rows"],
                         [generic.row("b", label="1"),
                          generic.row("a", label="1")])
        self.assertEqual(c.post(path % 99, body).status, 404)
        self.assertEqual(c.get("%s/rows/count?version=%d" % (
            kind.path, version)).must(200).json(), {"count": 2})

    def test_appends_are_of_the_present(self):
        with Server(workers=1, args=QUIET) as s, s.client() as c:
            for kind in (k() for k in KINDS):
                kind.create(c)
                self.assertEqual(kind.append(
                    c, "a", query="?version=1").status, 501)
                self.assertEqual(kind.texts(c), {})

    def test_many_at_once(self):
        """Each reader gets the version that he asked for, whoever reads what
        beside him, while the store goes on."""
        wrong = []

        def reader(server, kind, then, seed):
            pick = random.Random(seed)
            with server.client() as c:
                for _ in range(200 if LONG else 25):
                    version = pick.choice(list(then) + [None])
                    texts = kind.texts(c, version)
                    if version is None:
                        texts = {k: v for k, v in texts.items()
                                 if not k.startswith("more")}
                        want = then[max(then)]
                    else:
                        want = then[version]
                    if texts != want:
                        wrong.append((version, texts))

        # Nothing stays open between two reads.
        with Server(workers=2, args=QUIET + ["--rollout-cache-bytes=1"]) as s, \
                s.client() as c:
            s.wait_walked()
            kind, then, now = Rollout(), {}, {}
            kind.create(c)
            for n in range(3):
                kind.append(c, "a", "b%d" % n, text=str(n)).must(201)
                now.update({"a": str(n), "b%d" % n: str(n)})
                kind.folded(c)
                then[kind.version(c)] = dict(now)
            threads = [threading.Thread(target=reader, args=(s, kind, then, k))
                       for k in range(6)]
            for t in threads:
                t.start()
            for n in range(5):
                kind.append(c, "more%d" % n).must(201)
                kind.folded(c)
            for t in threads:
                t.join()
            self.assertEqual(wrong, [])

    def test_a_version_that_was_collected(self):
        """Gone is gone at once: also where it is open, also when pinned."""
        with Server(workers=2, args=QUIET) as s:
            s.wait_walked()
            clients = list(s.clients_by_worker().values())
            versions = {}
            for kind in (k() for k in KINDS):
                kind.create(clients[0])
                kind.append(clients[0], "a").must(201)
                kind.folded(clients[0])
                versions[kind] = version = kind.version(clients[0])
                kind.append(clients[0], "b").must(201)
                kind.folded(clients[0])
                kind.checkout(clients[0], version).must(200)
                for c in clients:
                    self.assertEqual(kind.texts(c, version), {"a": "1"})
                os.unlink(manifest(kind, s, version))
                for c in clients:
                    reply = kind.reply(c, "?version=%d" % version)
                    self.assertEqual(reply.status, 404)
                    self.assertIn("no version %d" % version, reply.error()[1])
            s.kill_all()
            s.start()
            clients = list(s.clients_by_worker().values())
            for kind, version in versions.items():
                for c in clients:
                    reply = kind.reply(c)
                    self.assertEqual(reply.status, 404)
                    self.assertIn("no version %d" % version, reply.error()[1])
                self.assertEqual(kind.checkout(clients[0], version).status,
                                 404)
                self.assertEqual(kind.append(clients[0], "c").status, 400)
                kind.checkout(clients[1], None).must(200)
                for c in clients:
                    self.assertEqual(kind.texts(c), {"a": "1", "b": "1"})


if __name__ == "__main__":
    unittest.main()
