"""A backlog is seen before it hurts, stops appends before reads, and ends by
itself (issue 4, point 10; field faults B.1 and B.9).
"""

import os
import threading
import unittest

from harness import LONG, Server, wait_for
from rows import row

# Scaled down; the long form has the defaults' 300 of 256 and 4096.
WARN, MANY, MOST = (256, 300, 4096) if LONG else (20, 24, 32)
LAST_EIGHTH = MOST - MOST // 8
NO_TICKER = "--rollout-flush-interval-secs=0"
TICKER = "--rollout-flush-interval-secs=1"
KIB_20 = "x" * 20000


def store_status(server):
    return server.status()["stores"][0]


def pressure_is(server, level):
    return lambda: store_status(server)["pressure"] == level


def opened(server):
    """Files of generations that any worker has mapped or open."""
    found = set()
    for pid in server.processes("worker"):
        with open("/proc/%d/maps" % pid) as f:
            found.update(line.split()[-1] for line in f if "_gen_" in line)
        for fd in os.listdir("/proc/%d/fd" % pid):
            try:
                name = os.readlink("/proc/%d/fd/%s" % (pid, fd))
            except FileNotFoundError:
                continue
            if "_gen_" in name:
                found.add(name)
    return found


class Pressure(unittest.TestCase):
    def refused(self, reply):
        reply.must(503)
        self.assertEqual(reply.error()[0], "OVERLOADED")
        self.assertEqual(reply.headers["Retry-After"], "5")
        return reply.error()[1]

    def generations(self, c, begin, end):
        for k in range(begin, end):
            c.append("st", [row("r%04d" % k)], flush=True).must(201)

    def test_generations_pile_up(self):
        limits = ["--rollout-wal-pending-warn-generations=%d" % WARN,
                  "--rollout-wal-pending-max-generations=%d" % MOST]
        with Server(workers=1, args=limits + [
                NO_TICKER, "--rollout-merge-after-generations=0"]) as s:
            s.wait_walked()
            with s.client() as c:
                c.create("st")
                self.generations(c, 0, MANY)
                # All is served, and it is seen.
                self.assertEqual(len(c.list("st")), MANY)
                self.assertIsNotNone(c.record("st", "r0001"))
                values = c.metrics()
                for name in ("memwald_pending_generations{kind=\"rollout\"}",
                             "memwald_store_pending_generations"
                             "{store=\"st.rollout.lance\"}"):
                    self.assertEqual(values[name], MANY, name)
                self.assertEqual(values['memwald_stores_pressed{kind='
                                        '"rollout",level="folds_first"}'], 1)
                self.assertIn("it is folded before others", s.log())
                shard, = store_status(s)["shards"]
                self.assertEqual(shard["pending_generations"], MANY)
                self.assertGreater(shard["pending_bytes"], 0)
                if not LONG:
                    self.fill_up(s, c)
            self.with_a_lower_maximum(s)

    def fill_up(self, s, c):
        """Appends end before reads do."""
        self.generations(c, MANY, LAST_EIGHTH)
        wait_for("the limit to be seen", lambda: c.append(
            "st", [row("late")]).status == 503)
        self.refused(c.append("st", [row("late")]))
        self.assertEqual(store_status(s)["pressure"], "no_appends")
        self.assertFalse(s.status()["clean"])
        self.assertGreaterEqual(len(c.list("st")), LAST_EIGHTH)
        self.assertGreater(c.metrics()[
            'memwald_appends_refused_total{kind="rollout"}'], 0)

    def with_a_lower_maximum(self, s):
        """Reads are refused, and open nothing; then folds go on."""
        s.stop()
        s.args = [TICKER, "--rollout-wal-pending-max-generations=%d" % (
            MANY // 2)]
        s.faults = "fold_write=fail:5"
        s.start()
        with s.client() as c:
            for path in ("records", "records/r0001", "records/count"):
                text = self.refused(c.get("/api/v1/rollouts/st/" + path))
                self.assertTrue(text.startswith(
                    "too many pending WAL generations"), text)
            self.assertEqual(opened(s), set())
            self.refused(c.append("st", [row("late")]))
            self.assertGreaterEqual(c.metrics()[
                'rollout_reads_refused_pending_total'
                '{store="st.rollout.lance"}'], 3)
            s.fault("fold_write=off")
            wait_for("the backlog to be folded", lambda: store_status(s)[
                "pending_generations"] < 8, 60)
            wait_for("reads", lambda: c.get(
                "/api/v1/rollouts/st/records").status == 200)
            wait_for("appends", lambda: c.append(
                "st", [row("late")]).status == 201)
            self.assertGreater(c.count("st"), MANY)
            self.assertEqual(store_status(s)["pressure"], "none")

    def test_another_instances_backlog(self):
        """What one cannot fold does not stop his appends, nor what another has
        folded long ago."""
        limit = ["--rollout-wal-pending-max-generations=%d" % MOST,
                 "--rollout-merge-after-generations=0"]
        with Server(instance_id="one", workers=1,
                    args=limit + [TICKER]) as one, \
                Server(instance_id="two", workers=1, data_dir=one.data_dir,
                       args=limit + [NO_TICKER]) as two, \
                one.client() as a, two.client() as b:
            one.wait_walked()
            two.wait_walked()
            a.create("st")
            self.generations(b, 0, LAST_EIGHTH)
            self.assertEqual(len(a.list("st")), LAST_EIGHTH)
            two.kill_all()
            ticks = store_status(one)["ticks"]
            a.append("st", [row("mine")]).must(201)
            wait_for("a tick", lambda: store_status(one)["ticks"] > ticks)
            a.append("st", [row("again")]).must(201)
            self.assertEqual(len(a.list("st")), LAST_EIGHTH + 2)
            two.start()
            two.wait_walked()
            with two.client() as c:
                c.merge_all("st")
                wait_for("appends by two", lambda:
                         c.append("st", [row("more")]).status == 201)

    def test_seals_and_folds_fail_while_clients_append(self):
        most = 2 << 20
        with Server(workers=2, args=[
                TICKER, "--backlog-max-bytes=%d" % most]) as s:
            s.wait_walked()
            c = s.client()
            c.create("st")
            s.fault("seal_write=fail:5")
            s.fault("fold_write=fail:5")
            sent = 0
            while c.metrics()['memwald_unsealed_bytes{kind="rollout"}'] \
                    < most / 2:
                c.append("st", [row("first-%d" % sent,
                                    content=KIB_20)]).must(201)
                sent += 1
            wait_for("it to be seen", pressure_is(s, "folds_first"))
            counts = []

            def append(k):
                with s.client() as mine:
                    n = 0
                    reply = mine.append("st", [row("%d-0" % k,
                                                   content=KIB_20)])
                    while reply.status == 201:
                        n += 1
                        reply = mine.append("st", [row("%d-%d" % (k, n),
                                                       content=KIB_20)])
                    self.refused(reply)
                    counts.append(n)

            threads = [threading.Thread(target=append, args=(k,))
                       for k in range(6)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            self.assertEqual(len(counts), 6, "another answer than 201 or 503")
            self.refused_until_healed(s, c, sent + sum(counts))

    def refused_until_healed(self, s, c, rows):
        waiting = store_status(s)["tail_bytes"]
        self.assertGreaterEqual(waiting, 2 << 20)
        for _ in range(20):
            self.refused(c.append("st", [row("late")]))
        self.assertEqual(store_status(s)["tail_bytes"], waiting)
        self.assertEqual(len(c.list("st", limit=100000)), rows)
        self.assertGreater(store_status(s)["seal_errors"], 0)
        s.fault("seal_write=off")
        s.fault("fold_write=off")
        wait_for("appends", lambda: c.append(
            "st", [row("late")]).status == 201, 60)
        wait_for("the level", pressure_is(s, "none"))
        self.assertEqual(c.count("st"), rows + 1)

    def test_a_refusal_asks_for_a_tick(self):
        """Where no ticker runs, and below the count trigger."""
        with Server(workers=1, args=[
                NO_TICKER, "--backlog-max-bytes=%d" % (512 << 10)]) as s, \
                s.client() as c:
            s.wait_walked()
            c.create("st")
            rows = 0
            while c.append("st", [row("r%d" % rows,
                                      content=KIB_20)]).status == 201:
                rows += 1
            wait_for("appends", lambda: c.append(
                "st", [row("late")]).status == 201)
            self.assertEqual(c.count("st"), rows + 1)


if __name__ == "__main__":
    unittest.main()
