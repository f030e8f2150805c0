#!/usr/bin/env python3
"""LanceDB reads a table at every moment while memwald folds, compacts and
collects it with a short grace. Versions that are pinned or tagged stay to be
opened there until they are let go; all others go."""

import os
import unittest

import engine
import memwal
from harness import LONG, Server, wait_for
from rows import row

GRACE = 1
ROUNDS = 40 if LONG else 4
PATH = "/api/v1/rollouts/st"
ARGS = ["--grace-secs=%d" % GRACE, "--rollout-flush-interval-secs=1",
        "--rollout-cleanup-interval-secs=1"]


def made(i, text):
    return row(i, content=text, created_at="2026-06-01T00:00:00Z",
               include_in_training=True)


class Collected(unittest.TestCase):
    """One worker, so that every read has it give older views up."""

    def setUp(self):
        self.texts = {}

    def fold(self, c):
        """One row more, and another value of the first. The version."""
        n = len(self.texts)
        self.texts.update({"same": str(n), "k%03d" % n: "of %d" % n})
        c.append("st", [made(i, self.texts[i]) for i in
                        ("same", "k%03d" % n)]).must(201)
        c.merge_all("st")
        return self.version(c)

    def version(self, c):
        return c.get(PATH).must(200).json()["version"]

    def checkout(self, c, version):
        return c.post(PATH + "/checkout", {"version": version})

    def there(self, c):
        """Versions that are, once older views are given up."""
        c.count("st")
        return memwal.versions(self.path)

    def seen(self, lance, *operation):
        """{id: content}"""
        rows = lance.do(*operation, ["rows", {"columns": ["id", "content"]}])
        self.assertEqual(len({r["id"] for r in rows}), len(rows))
        return {r["id"]: r["content"] for r in rows}

    def at(self, lance, version):
        return self.seen(lance, "at", version)

    def pin_the_last_but_one(self, c):
        """(the version, its rows)"""
        while True:
            version, texts = self.version(c), dict(self.texts)
            self.fold(c)
            reply = self.checkout(c, version)
            if reply.status == 200:
                return version, texts
            # This machine was so slow that it went before.
            self.assertEqual(reply.status, 404)

    def turns_of(self, watcher):
        """Never fewer rows, never an older version."""
        answer = watcher.end()
        turns = answer["turns"]
        self.assertEqual(turns, sorted(turns))
        for _, counted, read in turns:
            self.assertEqual(counted, read)
        self.assertEqual([t[1] for t in turns], sorted(t[1] for t in turns))
        self.assertEqual(turns[-1][1], len(self.texts))
        print("\nturns=%d slow=%d versions=%d" % (len(turns), answer["slow"],
              len({t[0] for t in turns})), end="", flush=True)

    def test_read_throughout(self):
        with Server(workers=1, args=ARGS) as s, s.client() as c:
            self.path = s.store_dir("st")
            meet = os.path.join(s.tmp, "meet")
            c.create("st")
            tagged = self.fold(c)
            of_tag = dict(self.texts)
            with engine.Session(self.path) as lance, \
                    engine.Session(self.path) as watcher:
                watcher.begin("watch", meet, GRACE * 1000)
                lance.do("tag", "kept", tagged)
                wait_for("the watcher", lambda: os.path.exists(meet))
                for _ in range(ROUNDS):
                    self.fold(c)
                c.post(PATH + "/compact", {}).must(200)
                pinned, of_pin = self.pin_the_last_but_one(c)
                self.held(s, c, lance, tagged, of_tag, pinned, of_pin)
                self.let_go(c, lance, tagged, of_tag, pinned)
                os.unlink(meet)
                self.turns_of(watcher)

    def held(self, s, c, lance, tagged, of_tag, pinned, of_pin):
        """While it is pinned, across ticks that collect another store."""
        c.create("other")
        c.append("other", [made("a", "a")]).must(201)
        c.merge_all("other")

        def others():
            c.count("other")
            return memwal.versions(s.store_dir("other"))
        wait_for("another store to be collected", lambda: len(others()) == 1)
        self.assertLess({tagged, pinned}, self.there(c))
        self.assertEqual(self.at(lance, pinned), of_pin)
        self.assertEqual(self.at(lance, "kept"), of_tag)
        self.assertEqual(self.at(lance, self.version(c)), self.texts)

    def let_go(self, c, lance, tagged, of_tag, pinned):
        """First the pin; in the long form also the tag, with which is done what
        is done without it (unit/collect_test.c)."""
        self.checkout(c, None).must(200)
        newest = self.version(c)
        wait_for("what was pinned to go", lambda: self.there(c) ==
                 {tagged, newest})
        self.assertTrue(lance.do("gone", pinned))
        self.assertEqual(self.at(lance, tagged), of_tag)
        if not LONG:
            return
        lance.do("untag", "kept")
        newest = self.fold(c)
        wait_for("what was tagged to go", lambda: self.there(c) == {newest})
        self.assertTrue(lance.do("gone", tagged))
        self.assertEqual(self.at(lance, newest), self.texts)


if __name__ == "__main__":
    unittest.main()
