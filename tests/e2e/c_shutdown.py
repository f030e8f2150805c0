"""SIGTERM under load: what was acknowledged stays, what was begun ends."""

import threading
import time
import unittest

from client import Lost
from harness import Server
from rows import row

CLIENTS = 6


class Shutdown(unittest.TestCase):
    def test_appends_and_a_list_under_way(self):
        with Server() as s:
            acked, refused, lists = set(), [], []

            def append(n):
                with s.client() as c:
                    for k in range(100000):
                        try:
                            reply = c.append("st", [row("a%d-%d" % (n, k))],
                                             flush=k % 50 == 49)
                        except Lost:
                            return
                        if reply.status != 201:
                            refused.append(reply.status)
                            return
                        acked.add("a%d-%d" % (n, k))

            def read_slowly():
                with s.raw(timeout=60) as r:
                    r.send(b"GET /api/v1/rollouts/st/records HTTP/1.1\r\n"
                           b"Host: x\r\n\r\n")
                    tail = b""
                    while True:
                        data = r.sock.recv(65536)
                        if not data:
                            break
                        tail = (tail + data)[-7:]
                        time.sleep(0.005)	# load: a slow reader
                    lists.append(tail)

            with s.client() as c:
                c.create("st")
                c.append("st", [row("big%d" % k, content="x" * 10000)
                                for k in range(1000)]).must(201)
            threads = [threading.Thread(target=append, args=(n,))
                       for n in range(CLIENTS)]
            threads.append(threading.Thread(target=read_slowly))
            for t in threads:
                t.start()
            while len(acked) < 50:
                time.sleep(0.01)
            self.assertEqual(s.stop(), 0)
            for t in threads:
                t.join()
            self.assertEqual(set(refused) - {503}, set())
            self.assertEqual(lists, [b"\r\n0\r\n\r\n"])
            s.start()
            with s.client() as c:
                there = {r["id"] for r in c.list("st")}
            self.assertEqual(acked - there, set())


if __name__ == "__main__":
    unittest.main()
