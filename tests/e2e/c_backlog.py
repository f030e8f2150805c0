"""Constant appends never pile up generations (check 7).

Default options, ten minutes of replaced clock: fewer than 16 pending
generations a shard at the end, and every row there.
"""

import threading
import time
import unittest

import memwal
from harness import LONG, Server, wait_for
from rows import row

SPEED = 10 if LONG else 30		# ten minutes in one, or in 20 s


class Backlog(unittest.TestCase):
    def test_ten_minutes(self):
        with Server(workers=2, clock_speed=SPEED) as s:
            clients = s.clients_by_worker()
            clients[0].create("st")
            until = time.monotonic() + 600 / SPEED
            counts, failures = {}, []

            def append(worker):
                try:
                    n = 0
                    while time.monotonic() < until:
                        clients[worker].append(
                            "st", [row("%d-%d" % (worker, n))]).must(201)
                        n += 1
                        time.sleep(0.005)	# the load, not a wait
                    counts[worker] = n
                except BaseException as e:
                    failures.append(e)

            threads = [threading.Thread(target=append, args=(w,))
                       for w in clients]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            self.assertEqual(failures, [])
            shards = memwal.shards(s.store_dir("st"))
            self.assertEqual(len(shards), 2)
            for shard in shards.values():
                self.assertGreater(shard.current_generation, 8, "not sealed")
                self.assertLess(len(shard.generations), 16)
            self.assertEqual(len(clients[0].list("st")),
                             sum(counts.values()))

    def test_idle_store_is_sealed_and_folded_by_itself(self):
        with Server(workers=2, clock_speed=60) as s:
            with s.client() as c:
                c.create("st")
                c.append("st", [row("a"), row("b")]).must(201)
            # Rows that were folded: a generation was made and none pends.
            wait_for("the forced tick", lambda:
                     memwal.generations_made(s.store_dir("st")) > 0
                     and not any(memwal.pending(
                         s.store_dir("st")).values()), 40)
            with s.client() as c:	# the first was idle for hours
                self.assertEqual(len(c.list("st")), 2)


if __name__ == "__main__":
    unittest.main()
