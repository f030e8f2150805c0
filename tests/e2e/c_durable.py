"""No 201 before the row's own bytes are stable (field fault A.2)."""

import threading
import time
import unittest

from client import Lost
from harness import Server
from rows import row


class Durable(unittest.TestCase):
    def test_acknowledged_after_its_own_sync(self):
        with Server(workers=1) as s, s.client() as c:
            c.create("st")
            for flush in (False, True):		# also the first after a seal
                c.append("st", [row("before-%s" % flush)],
                         flush=flush).must(201)
                # The first after a seal is put with its entry.
                point = "wal_rotate" if flush else "wal_sync"
                s.fault("%s=delay:1500" % point)
                started = time.monotonic()
                c.append("st", [row("slow-%s" % flush)]).must(201)
                self.assertGreaterEqual(time.monotonic() - started, 1.4)
                s.fault("%s=off" % point)

    def test_killed_before_the_sync_nothing_was_acknowledged(self):
        for point in ("wal_write", "wal_sync", "wal_publish"):
            with Server(workers=1) as s:
                with s.client() as c:
                    c.create("st")
                    c.append("st", [row("before")]).must(201)
                s.fault("%s=delay:20000:1" % point)
                outcome = []

                def append(s=s, outcome=outcome):
                    try:
                        with s.client() as c:
                            outcome.append(c.append("st", [row("x")]).status)
                    except Lost:
                        outcome.append("lost")

                thread = threading.Thread(target=append)
                thread.start()
                threading.Event().wait(0.3)
                s.kill_all()
                thread.join()
                self.assertEqual(outcome, ["lost"], point)
                s.start()
                with s.client() as c:
                    got = [r["id"] for r in c.list("st")]
                    self.assertIn(got, (["before"], ["before", "x"]), point)
                    c.append("st", [row("x")]).must(201)
                    self.assertEqual([r["id"] for r in c.list("st")],
                                     ["before", "x"])


if __name__ == "__main__":
    unittest.main()
