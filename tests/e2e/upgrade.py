"""
upgrade - a server that is replaced by SIGUSR2, and clients that must not notice.

The new master is the old one's child, and ours once that has ended: we ask the
kernel for that, so that its exit status can be had.
"""

import ctypes
import os
import select
import signal
import subprocess
import time

from client import Client, Lost
from harness import SLOW, wait_for
from load import Clients
from rows import row

PR_SET_CHILD_SUBREAPER = 36


class Adopted:
    """What the harness wants of subprocess.Popen, of a process we inherited."""

    def __init__(self, pid):
        self.pid = pid
        self.returncode = None

    def poll(self):
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid != 0:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout=60):
        deadline = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("memwald", timeout)
            time.sleep(0.005)
        return self.returncode

    def send_signal(self, sig):
        if self.poll() is None:
            os.kill(self.pid, sig)


def inherit_orphans():
    if ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError("prctl")


def master_of(server):
    try:
        return server.processes("master")[0]
    except (AssertionError, IndexError):
        return 0			# nobody answers at this moment


def clean(server):
    return server.status()["clean"]


def all_there(test, server, acked):
    with server.client() as c:
        there = {r["id"] for r in c.list("st")}
    test.assertEqual(acked - there, set())


def adopt(server):
    """The old master has ended: its exit status. server.proc is the new one."""
    old = server.proc
    status = old.wait(60 * SLOW)
    pid = wait_for("the new master", lambda: master_of(server))
    if pid == old.pid:
        raise AssertionError("still the old master")
    server.proc = Adopted(pid)
    return status


def upgrade(server):
    inherit_orphans()
    server.proc.send_signal(signal.SIGUSR2)
    return adopt(server)


class Load(Clients):
    """Clients that append and read at some rate, half of them with a connection
    each time, half with one that they keep; what failed, and how. Like every
    pool of connections they look whether a kept one was closed before they use
    it."""

    def __init__(self, port, store, clients=8, rate=200, query=""):
        super().__init__(clients)
        self.port, self.store, self.query = port, store, query
        self.pause = clients / rate
        self.slowest, self.answers = 0, []

    @staticmethod
    def _drop_if_closed(client):
        if client.conn is not None and select.select(
                [client.conn.sock], [], [], 0)[0]:
            client.close()

    def client(self, n):
        with Client(self.port, 60 * SLOW) as c:
            for name in self.ids(n, self.pause):
                began = time.monotonic()
                try:
                    self._drop_if_closed(c)
                    reply = c.append(self.store, [row(name)])
                    if reply.status == 201:
                        self.acked.add(name)
                        self._drop_if_closed(c)
                        reply = c.get("/api/v1/rollouts/%s/records/%s%s" % (
                            self.store, name, self.query))
                    if reply.status not in (200, 201):
                        self.failed.append((name, reply.status, reply.body))
                    self.answers.append(time.monotonic())
                    self.slowest = max(self.slowest, self.answers[-1] - began)
                except Lost as e:
                    self.failed.append((name, e))
                if n % 2 == 0:
                    c.close()

    def longest_pause(self):
        """Between two answers, whoever got them."""
        times = sorted(self.answers)
        return max(b - a for a, b in zip(times, times[1:]))
