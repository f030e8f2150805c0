"""Stores of every kind are sealed and folded alike, by the ticker and at start,
and per-kind metrics say so (field fault C.3)."""

import unittest

import memwal
from events import event
from generic import Generic, ID, column, row as generic_row
from harness import Server, wait_for
from rows import row

QUIET = ["--rollout-flush-interval-secs=0",
         "--rollout-merge-after-generations=0"]


def create(c):
    c.create("st")
    c.post("/api/v1/datagen", {"name": "st"}).must(201)
    Generic(c, "st").create({"columns": [ID, ["n", column("int32")]]})


def append(c):
    c.append("st", [row("a")]).must(201)
    c.post("/api/v1/datagen/st/events",
           {"events": [event(event_id="a")]}).must(201)
    Generic(c, "st").append([generic_row("a", n=1)]).must(201)


def paths(s):
    return {kind: "%s/st.%s.lance" % (s.data_dir, kind)
            for kind in ("rollout", "datagen", "generic")}


def folded(path):
    return memwal.generations_made(path) > 0 and \
        not any(memwal.pending(path).values())


class Kinds(unittest.TestCase):
    def counted(self, s):
        """Whether the metrics of every kind have been seen to rise."""
        with s.client() as c:
            values = c.metrics()
        return all(
            any(v > 0 for k, v in values.items() if k.startswith(name + "{")
                and other in k and 'kind="%s"' % kind in k)
            for kind in ("rollout", "datagen", "generic")
            for name, other in (
                ("rollout_wal_flush_total", 'result="ok"'),
                ("rollout_wal_cleanup_total", 'result="merged"'),
                ("rollout_wal_generations_reclaimed_total", "")))

    def test_by_the_ticker(self):
        with Server(workers=2, clock_speed=60) as s:
            s.wait_walked()
            with s.client() as c:
                create(c)
                append(c)
            self.wait_folded(s, 40)
            wait_for("metrics of every kind", lambda: self.counted(s), 40)
            with s.client() as c:	# the first was idle for hours
                self.assertEqual(Generic(c, "st").list(),
                                 [generic_row("a", n=1)])

    def wait_folded(self, s, seconds):
        for kind, path in paths(s).items():
            wait_for("a fold of a %s store" % kind,
                     lambda path=path: folded(path), seconds)

    def test_at_start(self):
        with Server(workers=2, args=QUIET) as s:
            s.wait_walked()
            with s.client() as c:
                create(c)
                append(c)
            # The stores are looked at before anybody could close a tail.
            s.kill_all()
            s.faults = "put_lease=hold"
            s.start(wait=False)
            wait_for("the walk", lambda: "registry walked" in s.log(
                s.log_start))
            s.fault("put_lease=off")
            self.wait_folded(s, 40)
            with s.client() as c:
                self.assertEqual(Generic(c, "st").list(),
                                 [generic_row("a", n=1)])
                self.assertEqual(len(c.list("st")), 1)


if __name__ == "__main__":
    unittest.main()
