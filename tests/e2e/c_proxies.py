"""Behind HAProxy and nginx with their shipped configurations: instances are
restarted one after the other, and upgraded, and no client notices (D.2, D.3)."""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest

from client import Client, Lost
from harness import ROOT, SLOW, Server, free_port, wait_for
from upgrade import Load, upgrade


def configured(name, ports, front, changes):
    """The shipped file, with our ports, and what else must be ours."""
    with open(os.path.join(ROOT, "ops", name)) as f:
        text = f.read()
    changes = [("127.0.0.1:3001", "127.0.0.1:%d" % ports[0]),
               ("127.0.0.1:3002", "127.0.0.1:%d" % ports[1]),
               ("127.0.0.1:8080", "127.0.0.1:%d" % front), *changes]
    for old, new in changes:
        if old not in text:
            raise AssertionError("%s: no %s" % (name, old))
        text = text.replace(old, new)
    return text


class Proxy:
    """Runs while its block does."""

    def __init__(self, servers):
        self.tmp = tempfile.mkdtemp(prefix="memwald-test-")
        self.ports = [s.port for s in servers]
        self.port = free_port()
        self.proc = None

    def __enter__(self):
        with open(os.path.join(self.tmp, "log"), "wb") as log:
            self.proc = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, start_new_session=True)
        try:
            wait_for("the proxy", self.answers)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        os.killpg(self.proc.pid, signal.SIGKILL)
        self.proc.wait()
        shutil.rmtree(self.tmp)

    def path(self, name, text=None):
        path = os.path.join(self.tmp, name)
        if text is not None:
            with open(path, "w") as f:
                f.write(text)
        return path

    def answers(self):
        if self.proc.poll() is not None:
            with open(os.path.join(self.tmp, "log")) as f:
                raise AssertionError(f.read())
        try:
            with Client(self.port, 10) as c:
                return c.get("/api/v1/health").status == 200
        except Lost:
            return False

    def sees(self, port, up):
        """Of those that look by themselves: no request goes there any more,
        or some do again."""


class Haproxy(Proxy):
    def command(self):
        self.socket = self.path("stats")
        text = configured("haproxy/haproxy.cfg", self.ports, self.port, [
            ("/run/haproxy/memwald.sock", self.socket),
            ("inter 1s", "inter 100ms"),
            ("maxconn 20000", "maxconn 1000")])
        return ["haproxy", "-db", "-f", self.path("cfg", text)]

    def sees(self, port, up):
        name = "ab"[self.ports.index(port)]
        wait_for("the check of %s" % name, lambda: re.search(
            r"^memwald,%s,(.*,)?%s," % (name, "UP" if up else "DOWN"),
            self.ask("show stat"), re.M))

    def ask(self, words):
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(self.socket)
            s.sendall(words.encode() + b"\n")
            answer = b""
            while True:
                data = s.recv(65536)
                if not data:
                    return answer.decode()
                answer += data


class Nginx(Proxy):
    def command(self):
        text = configured("nginx/memwald.conf", self.ports, self.port, [])
        paths = "".join("%s_temp_path %s;\n" % (kind, self.path(kind))
                        for kind in ("client_body", "proxy", "fastcgi",
                                     "uwsgi", "scgi"))
        return ["/usr/sbin/nginx", "-e", "stderr", "-c", self.path(
            "conf", "daemon off;\nmaster_process off;\npid %s;\nuser root;\n"
            "events { worker_connections 1000; }\nhttp {\naccess_log off;\n%s"
            "%s}\n" % (self.path("pid"), paths, text))]


class Proxies(unittest.TestCase):
    def restart(self, server, proxy):
        """An orderly one, with the delay that its proxy needs."""
        server.proc.send_signal(signal.SIGTERM)
        wait_for("the delay", lambda: "still accepting"
                 in server.log(server.log_start))
        proxy.sees(server.port, up=False)
        server.proc.send_signal(signal.SIGTERM)		# the end of it
        self.assertEqual(server.proc.wait(60 * SLOW), 0)
        server.start()
        proxy.sees(server.port, up=True)

    def through(self, kind):
        with contextlib.ExitStack() as stack:
            first = stack.enter_context(Server(
                instance_id="a", args=["--drain-delay-secs=3600"]))
            second = stack.enter_context(Server(
                instance_id="b", data_dir=first.data_dir,
                args=["--drain-delay-secs=3600"]))
            both = [first, second]
            proxy = stack.enter_context(kind(both))
            with first.client() as c:
                c.create("st")
            for s in both:
                proxy.sees(s.port, up=True)
            with Load(proxy.port, "st",
                      query="?consistency=strong") as load:
                for s in both:
                    load.more()
                    self.restart(s, proxy)
                load.more()
                for s in both:
                    self.assertEqual(upgrade(s), 0)
                load.more()
            self.assertEqual(load.failed, [])
            for s in both:
                s.proc.send_signal(signal.SIGTERM)
                wait_for("the delay", lambda s=s: "still accepting"
                         in s.log()[s.log().rindex("waiting for the old"):])
                s.proc.send_signal(signal.SIGTERM)
                self.assertEqual(s.proc.wait(60 * SLOW), 0)
                s.killed = True
            first.args = second.args = []
            first.start()
            with first.client() as c:
                there = {r["id"] for r in c.list("st")}
            self.assertEqual(load.acked - there, set())

    def test_haproxy(self):
        self.through(Haproxy)

    def test_nginx(self):
        self.through(Nginx)


if __name__ == "__main__":
    unittest.main()
