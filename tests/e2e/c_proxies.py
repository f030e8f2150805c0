"""Behind HAProxy and nginx with their shipped configurations: instances are
restarted one after the other, and upgraded, and no client notices (D.2, D.3); of
three one is killed for good: who was inside it asks again, no row is lost, and the
others fold them (C.2)."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

import memwal
from c_leases import QUIET
from client import Client, Lost
from harness import LONG, ROOT, SLOW, Server, free_port, wait_for
from load import Clients
from rows import row
from upgrade import Load, upgrade


def configured(name, ports, front, changes):
    """The shipped file, with our ports, and what else must be ours."""
    with open(os.path.join(ROOT, "ops", name)) as f:
        text = f.read()
    changes = [("127.0.0.1:8080", "127.0.0.1:%d" % front),
               *changes,
               ("127.0.0.1:3001", "127.0.0.1:%d" % ports[0]),
               ("127.0.0.1:3002", "127.0.0.1:%d" % ports[1])]
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
    store = "through-haproxy"

    def command(self):
        self.socket = self.path("stats")
        text = configured("haproxy/haproxy.cfg", self.ports, self.port, [
            ("/run/haproxy/memwald.sock", self.socket),
            ("inter 1s", "inter 100ms"),
            ("maxconn 20000", "maxconn 1000"),
            ("\tserver b 127.0.0.1:3002\n", "\tserver b 127.0.0.1:3002\n" +
             "".join("\tserver %s 127.0.0.1:%d\n" % more
                     for more in zip("cd", self.ports[2:])))])
        return ["haproxy", "-db", "-f", self.path("cfg", text)]

    def sees(self, port, up):
        name = "abcd"[self.ports.index(port)]
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
    store = "through-nginx"

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
    """Both before the same two servers at the same time: each has its load."""

    def restart(self, server, proxies):
        """An orderly one, with the delay that its proxies need."""
        server.proc.send_signal(signal.SIGTERM)
        wait_for("the delay", lambda: "still accepting"
                 in server.log(server.log_start))
        for p in proxies:
            p.sees(server.port, up=False)
        server.proc.send_signal(signal.SIGTERM)		# the end of it
        self.assertEqual(server.proc.wait(60 * SLOW), 0)
        server.start()
        for p in proxies:
            p.sees(server.port, up=True)

    def stop(self, server):
        server.proc.send_signal(signal.SIGTERM)
        wait_for("the delay", lambda: "still accepting" in server.log()[
            server.log().rindex("waiting for the old"):])
        server.proc.send_signal(signal.SIGTERM)
        self.assertEqual(server.proc.wait(60 * SLOW), 0)
        server.killed = True

    def through(self, both, proxies):
        """What was acknowledged through each of them."""
        with contextlib.ExitStack() as stack:
            loads = [stack.enter_context(Load(
                p.port, p.store, clients=4, rate=60,
                query="?consistency=strong")) for p in proxies]
            for _ in range(5 if LONG else 1):
                for s in both:
                    for load in loads:
                        load.more(25)
                    self.restart(s, proxies)
                for s in both:
                    for load in loads:
                        load.more(25)
                    self.assertEqual(upgrade(s), 0)
                for load in loads:
                    load.more(25)
        for load in loads:
            self.assertEqual(load.failed, [])
        return [load.acked for load in loads]

    def is_closed(self, server, proxy):
        """Internal routes, which the server answers to its own machine."""
        with server.client() as c:
            c.get("/api/v1/internal/merge-executor").must(200)
        for part in ("internal", "%69nternal"):
            with Client(proxy.port, 10) as c:
                self.assertIn(c.get("/api/v1/%s/merge-executor" % part).status,
                              (403, 404))

    def test_no_client_notices(self):
        with contextlib.ExitStack() as stack:
            first = stack.enter_context(Server(
                instance_id="a", args=["--drain-delay-secs=3600"]))
            second = stack.enter_context(Server(
                instance_id="b", data_dir=first.data_dir,
                args=["--drain-delay-secs=3600"]))
            both = [first, second]
            proxies = [stack.enter_context(kind(both))
                       for kind in (Haproxy, Nginx)]
            with first.client() as c:
                for p in proxies:
                    c.create(p.store)
            for s in both:
                for p in proxies:
                    p.sees(s.port, up=True)
            for p in proxies:
                self.is_closed(first, p)
            acked = self.through(both, proxies)
            for s in both:
                self.stop(s)
            first.args = second.args = []
            first.start()
            with first.client() as c:
                for p, rows in zip(proxies, acked):
                    there = {r["id"] for r in c.list(p.store)}
                    self.assertEqual(rows - there, set())


class Stubborn(Clients):
    """Clients that append, and read what was acknowledged, over connections that
    they keep. Who gets no whole answer, or is told to come again, sends the same
    row again, as a row's id lets him; what he got instead is in repeated."""

    def __init__(self, port, store, clients):
        super().__init__(clients)
        self.port, self.store = port, store
        self.repeated = []

    def until_done(self, n, what, action, good):
        """Its reply: again until it is done. Everybody has one request under
        way; of which client, and when each that failed had begun."""
        deadline = time.monotonic() + 60 * SLOW
        while True:
            began = time.monotonic()
            try:
                reply = action()
                if reply.status == good:
                    return reply
                failure = (reply.status, reply.body)
                waits = reply.status == 503 and b"lease" in reply.body
            except Lost as e:
                failure, waits = e, False
            if not waits:		# else it was not taken, and he was told
                self.repeated.append((n, began, what, failure))
            if began > deadline:
                self.failed.append((what, failure))
                return None
            time.sleep(0.05)

    def client(self, n):
        with Client(self.port, 60 * SLOW) as c:
            for name in self.ids(n, pause=0.02):
                if self.until_done(n, "append " + name, lambda: c.append(
                        self.store, [row(name)]), 201) is None:
                    return
                self.acked.add(name)
                reply = self.until_done(n, "get " + name, lambda: c.get(
                    "/api/v1/rollouts/%s/records/%s?consistency=strong" % (
                        self.store, name)), 200)
                if reply is None or reply.json()["record"] is None:
                    self.failed.append((name, "was acknowledged and is gone"))
                    return


class Death(unittest.TestCase):
    """Of three on one directory behind HAProxy one is killed, and never comes
    back."""

    def left(self, server, ordinal):
        return json.loads(server.ctl("left", ordinal, "--json"))["left"]

    def strong(self, port, store):
        with Client(port, 60 * SLOW) as c:
            return [r["id"] for r in c.list(store, consistency="strong")]

    def is_refused(self, port):
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", port)) != 0

    def kill(self, gone, proxy):
        """When nobody could have sent anything to it any more."""
        gone.kill_all()
        wait_for("its port to be free", lambda: self.is_refused(gone.port))
        proxy.sees(gone.port, up=False)
        return time.monotonic()

    def test_one_of_three_is_killed(self):
        args = [*QUIET, "--orphan-grace-secs=1"]
        clients, count = (16, 2000) if LONG else (6, 60)
        with contextlib.ExitStack() as stack:
            first = stack.enter_context(Server(
                instance_id="a", workers=1, lease_secs=4, args=args))
            second, gone = [stack.enter_context(Server(
                instance_id=name, workers=1, lease_secs=span, args=args,
                data_dir=first.data_dir)) for name, span in (("b", 4),
                                                             ("gone", 1))]
            all_three = (first, second, gone)
            proxy = stack.enter_context(Haproxy(all_three))
            for s in all_three:
                proxy.sees(s.port, up=True)
            with first.client() as c:
                c.create(proxy.store)
            with Stubborn(proxy.port, proxy.store, clients) as load:
                load.more(count)
                gone.ctl("seal", "--all")
                load.more(count)
                dead = self.kill(gone, proxy)
                # It has left a generation and a tail: both are served.
                self.assertGreater(self.left(first, "gone"), 0)
                acked = set(load.acked)
                for s in (proxy, first, second):
                    self.assertEqual(
                        acked - set(self.strong(s.port, proxy.store)), set())
                load.more(count)
                wait_for("others to fold what it has left",
                         lambda: self.left(first, "gone") == 0)
                print("folded %.1f s after the death, %d requests failed in "
                      "it" % (time.monotonic() - dead, len(load.repeated)))
                load.more(count)
            self.assertEqual(load.failed, [])
            # Who was inside it, once; and nobody since then.
            self.assertEqual([f for f in load.repeated if f[1] > dead], [])
            who = [f[0] for f in load.repeated]
            self.assertEqual(len(who), len(set(who)), load.repeated)
            self.only_once(first, second, load.acked)

    def only_once(self, first, second, acked):
        """Everything that was sent is acknowledged by now."""
        store = Haproxy.store
        for s in (first, second):
            self.assertEqual(sorted(self.strong(s.port, store)),
                             sorted(acked))
        for s in (first, second):
            with s.client() as c:
                c.merge_all(store)
        shard = memwal.shards(first.store_dir(store))[
            memwal.shard_uuid("gone")]
        self.assertEqual(shard.generations, {})
        with second.client() as c:
            version = c.get("/api/v1/rollouts/" + store).must(200).json()[
                "version"]
            self.assertEqual(sorted(r["id"] for r in c.list(
                store, version=version)), sorted(acked))


if __name__ == "__main__":
    unittest.main()
