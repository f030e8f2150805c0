"""One scrape is the whole server; counters never fall (field fault D.7)."""

import unittest

from harness import Server, wait_for
from rows import row

APPENDED = "rollout_records_appended_total"


class Metrics(unittest.TestCase):
    def test_sums_over_workers_and_deaths(self):
        with Server(workers=3) as s:
            clients = s.clients_by_worker()
            clients[0].create("st")
            rows = 0
            for n in range(10):
                for c in clients.values():
                    c.append("st", [row("%d-%d" % (n, k))
                                    for k in range(2)]).must(201)
                    rows += 2
                for c in clients.values():
                    self.assertEqual(c.metrics()[APPENDED], rows)
            s.kill(s.processes("worker")[1])
            wait_for("the replacement",
                     lambda: len(s.processes("worker")) == 3)
            clients = s.clients_by_worker()
            for c in clients.values():
                self.assertEqual(c.metrics()[APPENDED], rows)

    def test_what_is_asked_for_is_counted(self):
        with Server(workers=1) as s, s.client() as c:
            c.create("st")
            c.append("st", [row("a")]).must(201)
            before = c.metrics()
            c.merge("st")
            c.list("st")
            after = c.metrics()
            for name, more in (
                    ("rollout_wal_merge_request_duration_seconds_count", 1),
                    ("rollout_store_cache_hits_total", 2)):
                self.assertEqual(after.get(name, 0),
                                 before.get(name, 0) + more, name)
            self.assertGreater(after["rollout_store_cache_misses_total"], 0)

    def test_text(self):
        with Server() as s, s.client() as c:
            c.create("st")
            c.append("st", [row("a")], flush=True).must(201)
            c.list("st")
            reply = c.get("/metrics").must(200)
            self.assertEqual(reply.headers["Content-Type"].split(";")[0],
                             "text/plain")
            self.assertIn("version=0.0.4", reply.headers["Content-Type"])
            values = c.metrics()
            path = "/api/v1/rollouts/{name}/records"
            self.assertEqual(values[
                'http_requests_total{method="POST",path="%s",status="201"}'
                % path], 1)
            self.assertEqual(values['rollout_appends_total{flush="true"}'], 1)
            for name in ("rollout_stores_resident", "process_open_fds",
                         "process_resident_memory_bytes"):
                self.assertGreater(values[name], 0)
            # How long the view's swaps kept readers out (issue 4, point 4).
            held = 'memwald_lock_hold_seconds_%s{lock="store_slot"%s}'
            self.assertGreater(values[held % ("count", "")], 0)
            self.assertEqual(values[held % ("bucket", ',le="+Inf"')],
                             values[held % ("count", "")])
            self.assertIn(held % ("bucket", ',le="0.001"'), values)


if __name__ == "__main__":
    unittest.main()
