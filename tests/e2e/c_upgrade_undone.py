"""Upgrades (SIGUSR2) that do not come to their end: whoever ends, cannot start or
is stopped meanwhile, somebody serves and no row is lost (design 8, D.1)."""

import os
import signal
import socket
import threading
import unittest

from b_ctl import DONE, end, start
from every_kind import hits
from harness import LONG, Server, build_path, wait_for
from rows import row
from upgrade import (Adopted, Load, adopt, all_there, clean, inherit_orphans,
                     master_of, upgrade)


class Installed(Server):
    """Started by a name of its own, which tests point elsewhere."""

    def command(self):
        program = os.path.join(self.tmp, "memwald")
        if not os.path.lexists(program):
            self.install(build_path("memwald", self.build))
        line = super().command()
        return line[:len(self.wrap)] + [program] + line[len(self.wrap) + 1:]

    def install(self, target):
        os.symlink(target, os.path.join(self.tmp, "new"))
        os.rename(os.path.join(self.tmp, "new"),
                  os.path.join(self.tmp, "memwald"))

    def install_script(self, text):
        path = os.path.join(self.tmp, "script")
        with open(path, "w") as f:
            f.write("#!/bin/sh\n" + text)
        os.chmod(path, 0o755)
        self.install(path)

    def signal_and_wait(self, text):
        start = len(self.log())
        self.proc.send_signal(signal.SIGUSR2)
        wait_for(text, lambda: text in self.log()[start:])

    def fails_to_upgrade(self, text):
        start = len(self.log())
        self.signal_and_wait(text)
        wait_for("it to go on", lambda: "before it took over, going on"
                 in self.log()[start:])


class Undone(unittest.TestCase):
    def test_a_new_one_that_cannot_start_changes_nothing(self):
        with Installed() as s:
            wait_for("clean", lambda: clean(s))
            family = s.pids()
            s.install(os.path.join(s.tmp, "nothing"))
            s.fails_to_upgrade("cannot execute the program")
            s.install_script("exit 3\n")
            s.fails_to_upgrade("ended before it took over, going on")
            # Of another time: its agreement has another version.
            s.install_script(
                "MEMWALD_TAKE_OVER=\"9 ${MEMWALD_TAKE_OVER#* }\" exec %s "
                "\"$@\"\n" % build_path("memwald"))
            s.fails_to_upgrade("cannot take over from")
            # Other options than ours.
            s.install_script("exec %s $(echo \"$@\" | sed "
                             "s/instance-id=test/instance-id=other/)\n" %
                             build_path("memwald"))
            s.fails_to_upgrade("an upgrade keeps --data-dir and --instance-id")
            # Twice; the first one never gets through its start.
            s.install_script("exec sleep 600\n")
            s.signal_and_wait("upgrade begins")
            wait_for("it to run", lambda: len(s.pids()) > len(family))
            s.signal_and_wait("under way already")
            extra = set(s.pids()) - set(family)
            self.assertEqual(len(extra), 1)
            s.kill(extra.pop())
            wait_for("that to be seen", lambda: s.log().count(
                "ended before it took over, going on") >= 5)
            self.assertEqual(s.pids(), family)
            s.install(build_path("memwald"))
            self.assertEqual(upgrade(s), 0)
            wait_for("clean", lambda: clean(s))

    def test_one_that_knows_nothing_of_upgrades(self):
        """It waits for the lock in vain, and is stopped with the server."""
        with Installed() as s:
            s.install_script("unset MEMWALD_TAKE_OVER; exec %s \"$@\"\n" %
                             build_path("memwald"))
            s.signal_and_wait("instance id is in use")
            with s.client() as c:
                c.get("/api/v1/health").must(200)
            if LONG:
                wait_for("the end", lambda: "going on" in s.log())

    def test_the_new_one_dies_while_it_waits(self):
        """While an upload and a fold are waited for, and all goes on."""
        body = b'{"name":"late"}'
        with Server() as s:
            inherit_orphans()
            s.wait_walked()
            with s.client() as c:
                c.create("st")
                c.append("st", [row("a")], flush=True).must(201)
            s.fault("fold_prepare=hold:1")
            with s.raw(timeout=60) as r, Load(s.port, "st") as load:
                r.send(b"POST /api/v1/rollouts HTTP/1.1\r\nHost: x\r\n"
                       b"Content-Type: application/json\r\n"
                       b"Content-Length: %d\r\n\r\n%s" % (
                           len(body), body[:4]))
                asked = start(s, "fold", "st")
                self.assertIn("in prepare", asked.stderr.readline())
                s.proc.send_signal(signal.SIGUSR2)
                wait_for("the hand-over", lambda: "handing over, still "
                         "accepting" in s.log())
                load.more(250)		# more than a second of it
                r.send(body[4:])
                self.assertEqual(r.recv_reply().status, 201)
                self.assertEqual(s.status()["state"],
                                 "handing over, still accepting")
                self.kill_new(s)
                wait_for("it to go on", lambda: "going on" in s.log())
                s.fault("fold_prepare=off")
                self.assertEqual(end(asked)[0], DONE)
                load.more()
            self.assertEqual(load.failed, [])
            wait_for("clean", lambda: clean(s))
            self.assertEqual(master_of(s), s.proc.pid)
            all_there(self, s, load.acked)
            self.assertEqual(upgrade(s), 0)

    @staticmethod
    def kill_new(server):
        new = server.log().split("the new master is loaded pid=")[-1]
        server.kill(int(new.split()[0]))

    def test_the_new_one_dies_late(self):
        """While the workers leave, and one of them has a handler that is not
        done."""
        with Server(args=["--drain-secs=1"]) as s:
            inherit_orphans()
            with s.client() as c:
                c.create("st")
            s.fault("claim_epoch=hold:1")
            appended = []
            with s.client() as held:
                t = threading.Thread(target=lambda: appended.append(
                    held.append("st", [row("a")]).status))
                t.start()
                wait_for("the claim", lambda: hits(s, "claim_epoch") == 1)
                s.proc.send_signal(signal.SIGUSR2)
                wait_for("the workers to leave",
                         lambda: "the workers leave" in s.log())
                self.kill_new(s)
                wait_for("it to go on", lambda: "going on" in s.log())
                s.fault("claim_epoch=off")
                t.join()
            self.assertEqual(appended, [201])
            wait_for("clean", lambda: clean(s))
            self.assertEqual(upgrade(s), 0)

    def test_the_old_one_dies_meanwhile(self):
        with Server(env={"MEMWALD_FAULTS": "takeover_loaded=delay:1500"}) as s:
            inherit_orphans()
            with s.client() as c:
                c.create("st")
                for k in range(20):
                    c.append("st", [row("r%d" % k)]).must(201)
            start = len(s.log())
            s.proc.send_signal(signal.SIGUSR2)
            wait_for("its workers", lambda: s.log()[start:].count(
                " attached pid=") >= 2)
            s.proc.send_signal(signal.SIGKILL)
            adopt(s)
            wait_for("clean", lambda: clean(s))
            all_there(self, s, {"r%d" % k for k in range(20)})

    def test_a_stop_meanwhile_stops_both(self):
        with Server(env={"MEMWALD_FAULTS": "takeover_loaded=delay:1000"}) as s:
            inherit_orphans()
            start = len(s.log())
            s.proc.send_signal(signal.SIGUSR2)
            wait_for("its start", lambda: " starts instance="
                     in s.log()[start:])
            new = [p for p in s.pids() if "upgrade begins, a new master "
                   "loads pid=%d " % p in s.log()]
            s.proc.send_signal(signal.SIGTERM)
            self.assertEqual(s.proc.wait(60), 0)
            s.killed = True
            self.assertEqual(Adopted(new[0]).wait(), 0)
            self.assertFalse(os.path.exists(s.socket))

    def test_the_service_manager_is_told(self):
        with Server() as s, socket.socket(
                socket.AF_UNIX, socket.SOCK_DGRAM) as told:
            self.assertEqual(s.stop(), 0)
            path = os.path.join(s.tmp, "notify")
            told.bind(path)
            told.settimeout(60)
            s.env["NOTIFY_SOCKET"] = path
            s.start()
            self.assertEqual(told.recv(100), b"READY=1")
            upgrade(s)
            self.assertEqual(told.recv(100), b"MAINPID=%d" % s.proc.pid)
            self.assertEqual(told.recv(100), b"READY=1")
            self.assertEqual(s.stop(), 0)
            s.killed = True
            self.assertEqual(told.recv(100), b"STOPPING=1")


if __name__ == "__main__":
    unittest.main()
