"""
load - clients that append while a block runs.
"""

import threading

from harness import wait_for


class Clients:
    """Each is a thread, which runs client(n) until it is over. acked: the ids of
    rows that were acknowledged; failed: what must not have happened."""

    def __init__(self, clients):
        self.acked, self.failed = set(), []
        self.over = threading.Event()
        self.threads = [threading.Thread(target=self.client, args=(n,))
                        for n in range(clients)]

    def __enter__(self):
        for t in self.threads:
            t.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        for t in self.threads:
            t.join()

    def ids(self, n, pause=0):
        """Of new rows, until it is over."""
        k = 0
        while not self.over.wait(pause):
            yield "c%d-%d" % (n, k)
            k += 1

    def more(self, count=100):
        before = len(self.acked)
        wait_for("more load", lambda: len(self.acked) >= before + count
                 or self.failed)
