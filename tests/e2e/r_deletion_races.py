"""Stores come and go under those who use them (contract 5.3, 6.7).

A deletion that begins while a read or an append is under way ends it with an
answer, not a process; and a store that was created is there for everybody who
asks afterwards, also while others ask all the time for what is not there.
"""

import random
import threading
import time
import unittest

from client import Lost
from harness import LONG, SLOW, Server, wait_for
from rows import row

STORES = "/api/v1/rollouts"
SPAN = 30 if LONG else 5
# And 503 for all: "try again" is an answer while the ground moves.
ALLOWED = {
    "create": {201, 409}, "delete": {204, 404}, "info": {200, 404},
    "append": {201, 400, 404}, "flush": {201, 400, 404},
    "list": {200, 404}, "get": {200, 404}, "merge": {200, 404},
}


def ask(c, op, name, pick):
    base = "%s/%s" % (STORES, name)
    if op == "create":
        return c.post(STORES, {"name": name})
    if op == "delete":
        return c.request("DELETE", base)
    if op in ("append", "flush"):
        rows = [row("i%d" % pick.randrange(200), content="x" * 500)
                for _ in range(5)]
        return c.append(name, rows, flush=op == "flush")
    if op == "list":
        return c.get(base + "/records")
    if op == "get":
        return c.get(base + "/records/i%d" % pick.randrange(200))
    if op == "merge":
        return c.post("/api/v1/internal/merge-wal/" + name)
    return c.get(base)


class DeletionRaces(unittest.TestCase):
    def test_everything_at_once(self):
        wrong, stop = [], time.monotonic() + SPAN

        def client(server, seed):
            pick = random.Random(seed)
            with server.client() as c:
                while time.monotonic() < stop:
                    op = pick.choice(list(ALLOWED))
                    try:
                        reply = ask(c, op, "s%d" % pick.randrange(3), pick)
                    except Lost as e:
                        wrong.append((op, str(e)))
                        continue
                    if reply.status not in ALLOWED[op] | {503}:
                        wrong.append((op, reply.status, reply.body))

        with Server(workers=3, args=[
                "--rollout-flush-interval-secs=1",
                "--rollout-cleanup-interval-secs=1", "--grace-secs=1"]) as s:
            threads = [threading.Thread(target=client, args=(s, k))
                       for k in range(10)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            self.assertEqual(wrong, [])
            with s.client() as c:
                for k in range(3):
                    c.request("DELETE", "%s/s%d" % (STORES, k))
                    c.create("s%d" % k)
                    self.assertEqual(c.list("s%d" % k), [])
            errors = [x for x in s.log().splitlines() if " ERROR " in x]
            self.assertEqual(errors, [])

    def test_what_was_created_is_there(self):
        stop = threading.Event()

        def poll(server):
            with server.client() as c:
                while not stop.is_set():
                    c.get(STORES + "/st/records/a")

        with Server(workers=1) as s, s.client() as c, s.client() as d:
            threads = [threading.Thread(target=poll, args=(s,))
                       for _ in range(4)]
            for t in threads:
                t.start()
            try:
                for _ in range(60 // SLOW):
                    c.create("st")
                    d.get(STORES + "/st").must(200)
                    d.append("st", [row("a")]).must(201)
                    c.request("DELETE", STORES + "/st").must(204)
                    d.get(STORES + "/st").must(404)
            finally:
                stop.set()
                for t in threads:
                    t.join()

    def test_a_late_removal_takes_no_newer_store(self):
        """Two instances remove a store; one of them is slow. Meanwhile it is
        created anew and written to: that one must stay."""
        def anew(c):
            wait_for("the first store to go", lambda: c.request(
                "DELETE", STORES + "/st").status in (204, 404))
            wait_for("the next one", lambda: c.post(
                STORES, {"name": "st"}).status == 201)
            c.append("st", [row("new")]).must(201)
            done.set()

        done = threading.Event()
        with Server(instance_id="one") as one, \
                Server(instance_id="two", data_dir=one.data_dir) as two, \
                one.client() as a, two.client() as b:
            a.create("st")
            b.append("st", [row("old")]).must(201)
            two.fault("store_unregister=hold")
            slow = threading.Thread(
                target=b.request, args=("DELETE", STORES + "/st"))
            slow.start()
            wait_for("the slow one to be held", lambda:
                     "store_unregister=1\n" in two.ctl("fault"))
            fast = threading.Thread(target=anew, args=(a,))
            fast.start()
            done.wait(1)	# as it would be without a lock of the name
            two.fault("store_unregister=off")
            slow.join()
            fast.join()
            self.assertTrue(done.is_set())
            for c in (a, b):
                self.assertEqual([r["id"] for r in c.get(
                    STORES + "/st/records?consistency=strong").must(200)
                    .json()["records"]], ["new"])


if __name__ == "__main__":
    unittest.main()
