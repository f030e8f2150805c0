"""Filters against an oracle: random rows in base, generations and tails, with
older versions of many keys below newer ones. A row whose older version matches
and whose newest does not must not come; counts and pages agree."""

import random
import unittest

from harness import LONG, Server
from rows import f32, row

ROUNDS = 60 if LONG else 12
WORDS = ["", "a", "ab", "b", "it's", "\u00e9", "50%", "a_b"]


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


def like(text, pattern):
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(like(text[k:], pattern[1:]) for k in range(len(text) + 1))
    return bool(text) and pattern[0] in ("_", text[0]) and \
        like(text[1:], pattern[1:])


def both(a, b):
    return False if a is False or b is False else \
        None if a is None or b is None else True


def negated(a):
    return None if a is None else not a


class Maker:
    """Random conditions: a text, and a function of a row: True, False, None."""

    def __init__(self, rng):
        self.rng = rng

    def number(self):
        column, literals = self.rng.choice((
            ("reward", (0.1, 0.5, -1, 0, 2)),
            ("sequence_order", (0, 1, 2, 2.5, -1)),
            ("payload_size", (9007199254740993, 9007199254740992, 0, 5))))
        a, b = self.rng.choice(literals), self.rng.choice(literals)
        if column == "reward":
            def get(r):
                return None if r.get(column) is None else f32(r[column])
            near = f32
        else:
            def get(r):
                return r.get(column, 0 if column == "sequence_order" else None)

            def near(x):
                return x
        kind = self.rng.randrange(4)
        if kind == 0:
            op, ok = self.rng.choice((
                ("=", lambda x, y: x == y), ("!=", lambda x, y: x != y),
                ("<", lambda x, y: x < y), (">=", lambda x, y: x >= y)))
            return "%s %s %s" % (column, op, a), lambda r: \
                None if get(r) is None else ok(get(r), near(a))
        if kind == 1:
            return "%s IN (%s, %s)" % (column, a, b), lambda r: \
                None if get(r) is None else get(r) in (near(a), near(b))
        if kind == 2:
            return "%s NOT BETWEEN %s AND %s" % (column, a, b), lambda r: \
                None if get(r) is None else not near(a) <= get(r) <= near(b)
        return "%s IS NULL" % column, lambda r: get(r) is None

    def text(self):
        column = self.rng.choice(("rollout_id", "dataset", "content"))
        word = self.rng.choice(WORDS)
        kind = self.rng.randrange(4)
        if kind == 0:
            return "%s = %s" % (column, quoted(word)), lambda r: \
                None if r.get(column) is None else r[column] == word
        if kind == 1:
            return "%s > %s" % (column, quoted(word)), lambda r: \
                None if r.get(column) is None else \
                r[column].encode() > word.encode()
        if kind == 2:
            pattern = self.rng.choice(("%a%", "_", "a%", "%", "__", "%_b"))
            return "%s LIKE %s" % (column, quoted(pattern)), lambda r: \
                None if r.get(column) is None else like(r[column], pattern)
        return "%s IS NOT NULL" % column, lambda r: r.get(column) is not None

    def truth(self):
        if self.rng.randrange(2):
            return "include_in_training", lambda r: \
                r.get("include_in_training")
        return "include_in_training IS NOT TRUE", lambda r: \
            r.get("include_in_training") is not True

    def any(self, depth=3):
        kind = self.rng.randrange(7 if depth else 3)
        if kind < 3:
            return (self.number, self.text, self.truth)[kind]()
        a, f = self.any(depth - 1)
        if kind == 3:
            return "NOT (%s)" % a, lambda r: negated(f(r))
        b, g = self.any(depth - 1)
        if kind < 6:
            return "(%s) AND (%s)" % (a, b), lambda r: both(f(r), g(r))
        return "(%s) OR (%s)" % (a, b), lambda r: \
            negated(both(negated(f(r)), negated(g(r))))


class Filter(unittest.TestCase):
    def random_row(self, key):
        r, rng = row(key), self.rng
        r["rollout_id"] = rng.choice(WORDS)
        for name, values in (("dataset", WORDS), ("content", WORDS),
                             ("reward", (0.1, 0.5, -1.0, 0.0)),
                             ("sequence_order", (0, 1, 2, 3)),
                             ("payload_size", (9007199254740993,
                                               9007199254740992, 5)),
                             ("include_in_training", (True, False))):
            if rng.randrange(3):
                r[name] = rng.choice(values)
        return r

    def see(self, c, where):
        make = Maker(self.rng)
        for _ in range(ROUNDS):
            text, ok = make.any()
            want = [k for k in sorted(self.rows) if ok(self.rows[k])]
            got = [r["id"] for r in c.list("st", filter=text)]
            self.assertEqual(got, want, (where, text))
            self.assertEqual(c.count("st", filter=text), len(want),
                             (where, text))
            offset = self.rng.randrange(len(want) + 2)
            limit = self.rng.randrange(5)
            got = c.list("st", filter=text, offset=offset, limit=limit,
                         columns="reward")
            self.assertEqual([r["id"] for r in got],
                             want[offset:offset + limit], (where, text))

    def test_newest_row_of_each_key_counts(self):
        self.rng = random.Random(7)
        keys = ["k%03d" % k for k in range(300)]
        self.rows = {}
        with Server(workers=2) as s:
            clients = list(s.clients_by_worker().values())
            clients[0].create("st")
            for step in range(8):
                c = clients[step % 2]
                some = self.rng.sample(keys, 120)
                rows = [self.random_row(k) for k in some]
                for r in rows:
                    self.rows[r["id"]] = r
                c.append("st", rows, flush=step in (2, 5)).must(201)
                if step == 3:
                    c.merge_all("st")
                self.see(clients[(step + 1) % 2], "step %d" % step)
            clients[0].merge_all("st")
            self.see(clients[1], "folded")
            s.restart()
            with s.client() as c:
                self.see(c, "after a restart")


if __name__ == "__main__":
    unittest.main()
