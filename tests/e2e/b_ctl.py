"""memwaldctl: each command for people and as JSON, wrong words, nobody there.

The server's side is master/admin.def; the exit statuses are that table's.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest

from harness import ROOT, SLOW, Server, alive, build_path, wait_for
from rows import row

DONE, REFUSED, UNREACHABLE, UNHEALTHY, LATE = range(5)


def start(server, *words, **kw):
    return subprocess.Popen(
        [build_path("memwaldctl", server.build),
         "--admin-socket=" + server.socket, *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **kw)


def end(process, timeout=60):
    """(exit status, standard output, standard error)"""
    out, err = process.communicate(timeout=timeout * SLOW)
    return process.returncode, out, err


def ctl(server, *words):
    return end(start(server, *words))


def ask(server, *words):
    """The object of --json; the command must be done."""
    status, out, err = ctl(server, *words, "--json")
    if status != DONE or err:
        raise AssertionError("%s: %d %s %s" % (words, status, out, err))
    return json.loads(out)


class Ctl(unittest.TestCase):
    def hold(self, server, client):
        """A request in flight: no drain ends before its socket is closed."""
        held = server.raw()
        self.addCleanup(held.sock.close)
        held.send(b"POST /api/v1/rollouts/st/records HTTP/1.1\r\n"
                  b"Host: x\r\nContent-Type: application/json\r\n"
                  b"Content-Length: 100\r\n\r\n{")
        wait_for("a request", lambda: client.metrics()[
            "memwald_requests_in_flight"] >= 1)
        return held

    def refused(self, server, part, *words):
        status, out, err = ctl(server, *words)
        self.assertEqual((status, out), (REFUSED, ""), err)
        self.assertTrue(err.startswith("memwaldctl: "), err)
        self.assertIn(part, err)


class Lists(Ctl):
    @classmethod
    def setUpClass(cls):
        cls.s = Server.during(cls.addClassCleanup, workers=2, args=[
            "--rollout-flush-interval-secs=0"])
        cls.s.wait_walked()
        with cls.s.client() as c:
            c.create("st")
            c.append("st", [row("a")], flush=True).must(201)
            c.append("st", [row("b")]).must(201)
            c.post("/api/v1/generic", {"name": "st", "schema": {"columns": [
                ["id", {"type": "string", "nullable": False}]]}}).must(201)
            c.post("/api/v1/generic/st/rows",
                   {"rows": [{"id": "g"}]}).must(201)

    def test_workers(self):
        rows = ask(self.s, "workers")["processes"]
        self.assertEqual([p["role"] for p in rows],
                         ["master", "maintainer", "worker", "worker"])
        self.assertEqual({p["pid"] for p in rows}, set(self.s.pids()))
        status, out, _ = ctl(self.s, "workers")
        self.assertEqual((status, len(out.splitlines())), (DONE, 5))

    def test_stores(self):
        names = {(x["kind"], x["name"])
                 for x in ask(self.s, "stores")["stores"]}
        self.assertEqual(names, {("rollout", "st"), ("generic", "st")})
        one, = ask(self.s, "stores", "st", "--kind=rollout")["stores"]
        self.assertEqual(one["pending_generations"], 1)
        self.assertEqual(one["tail_shards"], 1)
        self.assertEqual(ask(self.s, "stores", "other")["stores"], [])
        out = self.s.ctl("stores", "--kind=generic").splitlines()
        self.assertEqual(len(out), 2)
        self.assertEqual(out[1].split()[:2], ["generic", "st"])

    def test_shards(self):
        rows = ask(self.s, "shards", "st")["shards"]
        self.assertEqual(sum(x["pending_generations"] for x in rows), 1)
        self.assertTrue(all(x["claim_live"] for x in rows), rows)
        self.assertLessEqual({x["ordinal"] for x in rows},
                             {"test", "test#1"})
        self.assertEqual({x["kind"] for x in rows}, {"rollout", "generic"})
        known = {x["shard"] for x in ask(self.s, "ordinals")["ordinals"]}
        self.assertLessEqual({x["shard"] for x in rows}, known)
        self.assertEqual(len(self.s.ctl("shards").splitlines()),
                         1 + len(rows))

    def test_ordinals(self):
        rows = ask(self.s, "ordinals")["ordinals"]
        self.assertEqual([x["name"] for x in rows[:3]],
                         ["test", "test#1", "test#2"])
        self.assertEqual([x["owner_lives"] for x in rows[:3]],
                         [True, True, False])
        self.assertIn("test#1", self.s.ctl("ordinals"))

    def test_jobs(self):
        found = ask(self.s, "jobs")
        self.assertEqual(len(found["lanes"]), 6)
        self.assertEqual({x["queued"] for x in found["lanes"]}, {0})
        self.assertIn("guarded", self.s.ctl("jobs"))

    def test_wrong_words(self):
        for part, words in (
                ("no such command", ["dance"]),
                ("one word too many", ["workers", "2"]),
                ("has no option", ["workers", "--kind=rollout"]),
                ("has no option", ["status", "--chec"]),
                ("is one of rollout|", ["stores", "--kind=roll"]),
                ("takes rollout|", ["stores", "--kind"]),
                ("takes no value", ["stores", "--json=1"]),
                ("given twice", ["stores", "--json", "--json"]),
                ("needs error|warn", ["log-level"]),
                ("error, warn", ["log-level", "loud"]),
                ("or say --all", ["fold"]),
                ("or say --all", ["fold", "st", "--all"]),
                ("no store none", ["fold", "none"]),
                ("no store st", ["fold", "st", "--kind=datagen"]),
                ("no store none", ["seal", "none", "--json"]),
                ("so long a name", ["seal", "x" * 129]),
                ("1 to 86400", ["seal", "st", "--timeout=0"]),
                ("1 to 86400", ["seal", "st", "--timeout=1s"]),
                ("too long", ["seal", "x" * 2000])):
            with self.subTest(words=words):
                self.refused(self.s, part, *words)

    def test_log_level(self):
        self.assertEqual(ctl(self.s, "log-level", "debug")[0], DONE)
        self.assertEqual(ask(self.s, "log-level", "info"), {"level": "info"})

    def test_who_goes_away_is_forgotten(self):
        for _ in range(40):
            c = socket.socket(socket.AF_UNIX)
            c.connect(self.s.socket)
            c.send(b"status --json\n")
            c.close()
        self.assertTrue(ask(self.s, "workers"))


class Work(Ctl):
    """One server for all: its ticker does nothing by itself, and few stores are
    resident at once."""

    @classmethod
    def setUpClass(cls):
        cls.s = Server.during(cls.addClassCleanup, args=[
            "--rollout-flush-interval-secs=0", "--rollout-cache-capacity=8"])
        cls.s.expect_panic = True		# the maintainer is killed
        cls.s.wait_walked()

    def setUp(self):
        self.c = self.s.client()

    def store(self, name, generations):
        self.c.create(name)
        for k in range(generations):
            self.c.append(name, [row("r%d" % k)], flush=True).must(201)

    def test_seal_and_fold(self):
        s = self.s
        for k in range(3):
            self.c.create("s%d" % k)
            self.c.append("s%d" % k, [row("a")]).must(201)
        one, = ask(s, "seal", "s0")["stores"]
        self.assertEqual(
            (one["kind"], one["name"], one["generations"],
             one["pending_generations"], one["tail_bytes"],
             one["result"]), ("rollout", "s0", 1, 1, 0, "done"))
        # Twice is the same as once.
        one, = ask(s, "seal", "s0")["stores"]
        self.assertEqual((one["generations"], one["result"]), (0, "done"))
        status, out, _ = ctl(s, "fold", "s0")
        self.assertEqual(status, DONE)
        self.assertEqual(out.splitlines()[1].split(),
                         ["rollout", "s0", "1", "0", "0", "done"])
        self.assertLessEqual(
            {"s1", "s2"},
            {x["name"] for x in ask(s, "fold", "--all")["stores"]})
        self.assertEqual(ask(s, "fold", "--all"), {"stores": []})
        for k in range(3):
            self.assertEqual(len(self.c.list("s%d" % k)), 1)

    def test_a_store_that_is_not_resident(self):
        for k in range(12):
            self.c.create("n%d" % k)
        self.assertEqual(ask(self.s, "stores", "n0"), {"stores": []})
        one, = ask(self.s, "fold", "n0")["stores"]
        self.assertEqual((one["generations"], one["result"]), (0, "done"))
        self.assertEqual(len(ask(self.s, "stores", "n0")["stores"]), 1)

    def test_progress_jobs_and_deadline(self):
        """While a fold is held: who asks is told, who also asks shares it,
        who gives up is told that it goes on."""
        s = self.s
        self.store("p", 3)
        s.fault("fold_prepare=hold:1")
        first = start(s, "fold", "p")
        self.assertEqual(first.stderr.readline(),
                         "0 of 3 generations, in prepare\n")
        second = start(s, "fold", "p", "--json")
        master, slave = os.openpty()
        third = subprocess.Popen(
            [build_path("memwaldctl"), "--admin-socket", s.socket, "fold",
             "p"], stdout=subprocess.DEVNULL, stderr=slave)
        os.close(slave)
        drawn = b""
        while b" 0/3 generations, in prepare" not in drawn:
            drawn += os.read(master, 1000)
        self.assertTrue(drawn.startswith(b"\r\033[K[" + b"." * 30), drawn)
        jobs = ask(s, "jobs")
        job, = jobs["jobs"]
        self.assertEqual((job["store"], job["holds"], job["phase"]),
                         ("p", "guard", "prepare"))
        self.assertEqual(sum(x["running"] for x in jobs["lanes"]
                             if x["lane"] == "guarded"), 1)
        status, out, err = ctl(s, "fold", "p", "--timeout=1")
        self.assertEqual(status, LATE, err)
        self.assertIn("not done yet", out)
        self.assertIn("goes on", err)
        s.fault("fold_prepare=off")
        self.assertEqual(end(first)[0], DONE)
        status, out, err = end(second)
        self.assertEqual((status, err), (DONE, ""))
        self.assertEqual(json.loads(out)["stores"][0]["result"], "done")
        self.assertEqual(third.wait(60 * SLOW), DONE)
        os.close(master)
        self.assertEqual(len(self.c.list("p")), 3)

    def test_a_failure_is_said(self):
        s = self.s
        self.store("f", 1)
        s.fault("fold_prepare=fail:5")
        status, out, err = ctl(s, "fold", "f", "--json")
        s.fault("fold_prepare=off")
        self.assertEqual(status, REFUSED)
        self.assertIn("1 of 1 stores failed", err)
        self.assertNotEqual(json.loads(out)["stores"][0]["result"], "done")
        self.assertEqual(ask(s, "fold", "f")["stores"][0]["result"], "done")

    def test_the_maintainer_dies(self):
        s = self.s
        self.store("m", 1)
        s.fault("fold_prepare=hold:1")
        asked = start(s, "fold", "m")
        self.assertIn("in prepare", asked.stderr.readline())
        s.fault("fold_prepare=off")
        s.kill(s.processes("maintainer")[0])
        # Dead, or already done with it when it died.
        self.assertIn(end(asked)[0], (REFUSED, DONE))
        wait_for("another maintainer", lambda: s.processes("maintainer"))
        one, = ask(s, "fold", "m")["stores"]
        self.assertEqual((one["pending_generations"], one["result"]),
                         (0, "done"))

    def test_the_maintainer_dies_before_it_knows_the_store(self):
        """Its successor is asked: nobody is told of kinds that do not exist."""
        s = self.s
        self.store("n", 1)
        maintainer, = s.processes("maintainer")
        with socket.socket(socket.AF_UNIX) as c:
            c.settimeout(60 * SLOW)
            c.connect(s.socket)
            os.kill(maintainer, signal.SIGSTOP)
            c.sendall(b"fold n --json\n")
            ask(s, "workers")		# came behind it
            s.kill(maintainer)
            with c.makefile() as answer:
                lines = [line for line in answer
                         if not line.startswith("PROGRESS")]
        self.assertEqual(lines[-1], "OK\n")
        one, = json.loads(lines[1])["stores"]
        self.assertEqual(	# a successor may fold it before it is asked
            (one["kind"], one["pending_generations"], one["result"]),
            ("rollout", 0, "done"))

    def test_the_maintainer_does_not_answer(self):
        s = self.s
        maintainer, = s.processes("maintainer")
        os.kill(maintainer, signal.SIGSTOP)
        try:
            status, out, _ = ctl(s, "fold", "nowhere", "--timeout=1", "--json")
        finally:
            os.kill(maintainer, signal.SIGCONT)
        self.assertEqual((status, json.loads(out)["stores"]), (LATE, []))


class Shutdown(Ctl):
    def gone(self, s, family):
        self.assertEqual([p for p in family if alive(p)], [])
        self.assertEqual(s.proc.wait(60 * SLOW), 0)
        s.killed = True

    def test_waits_until_it_has_ended(self):
        """Two at once, one as JSON; a third finds nobody."""
        with Server(args=["--drain-secs=60"]) as s, s.client() as c:
            c.create("st")
            family = s.pids()
            held = self.hold(s, c)
            first = start(s, "shutdown")
            wait_for("the drain", lambda: "draining" in
                     ask(s, "status")["state"])
            self.refused(s, "draining", "fold", "st")
            self.assertEqual(ask(s, "shutdown", "--no-wait"),
                             {"state": "draining"})
            second = start(s, "shutdown", "--json")
            self.assertIn("processes are gone, draining workers",
                          first.stderr.readline())
            self.assertIsNone(first.poll())
            held.sock.close()
            self.assertEqual(end(second), (DONE, '{"state":"stopped"}\n',
                                           ""))
            self.assertEqual(end(first)[:2], (DONE, "stopped\n"))
            # The last of them may still be on its way into the grave.
            wait_for("the end", lambda: s.proc.poll() is not None)
            self.gone(s, family)
            self.assertEqual(ctl(s, "status")[0], UNREACHABLE)

    def test_who_has_to_be_killed_is_told_of(self):
        with Server(workers=1, args=["--drain-secs=1"]) as s:
            s.expect_panic = True
            family = s.pids()
            s.kill(s.processes("worker")[0], signal.SIGSTOP)
            status, out, err = ctl(s, "shutdown")
            self.assertEqual((status, out), (REFUSED, "stopped\n"), err)
            self.assertRegex(err, "[12] processes did not leave")
            wait_for("the end", lambda: s.proc.poll() is not None)
            self.gone(s, family)

    def test_a_master_that_is_killed_meanwhile(self):
        with Server(args=["--drain-secs=60"]) as s, s.client() as c:
            c.create("st")
            self.hold(s, c)
            asked = start(s, "shutdown")
            wait_for("the drain", lambda: "draining" in
                     ask(s, "status")["state"])
            s.kill_all()
            status, _, err = end(asked)
            self.assertEqual(status, UNREACHABLE)
            self.assertIn("cut off", err)


class Reload(Ctl):
    def test_reload(self):
        with Server() as s:
            path = os.path.join(s.tmp, "memwald.conf")

            def configure(text):
                with open(path, "w") as f:
                    f.write(text)

            self.assertEqual(s.stop(), 0)
            s.args = ["--config=" + path]
            configure("rollout-flush-interval-secs = 0\n")
            s.start()
            s.wait_walked()
            self.assertEqual(ask(s, "reload"), {"options": []})
            with s.client() as c:
                c.create("st")
                c.append("st", [row("a")]).must(201)
            # Options of the maintainer: it seals by itself from now on.
            configure("rollout-flush-interval-secs = 1\nport = 1\n"
                      "log-level = debug\n")
            found = {x["option"]: (x["from"], x["to"], x["state"])
                     for x in ask(s, "reload")["options"]}
            self.assertEqual(found, {
                "rollout-flush-interval-secs": ("0", "1", "changed"),
                "log-level": ("info", "debug", "changed")})
            wait_for("a seal by the ticker", lambda: ask(s, "stores", "st")[
                "stores"][0]["tail_shards"] == 0)
            wait_for("debug lines of the maintainer",
                     lambda: " DEBUG maintainer" in s.log())
            # Of a worker: appends are refused beyond one byte of backlog.
            with s.client() as c:
                c.append("st", [row("b")]).must(201)
                configure("backlog-max-bytes = 1\nlog-level = debug\n"
                          "rollout-flush-interval-secs = 86400\n"
                          "workers-max = 20\n")
                status, out, _ = ctl(s, "reload")
                self.assertEqual(status, DONE)
                self.assertRegex(out, r"workers-max +0 +20 +needs a start")
                wait_for("a refusal", lambda: c.append(
                    "st", [row("c")]).status == 503)
            # A mistake changes nothing, is named, and by the signal as well.
            configure("log-level = loud\n")
            self.refused(s, "'loud' is none of error|", "reload")
            s.kill(s.proc.pid, signal.SIGHUP)
            wait_for("the line of the log",
                     lambda: s.log().count("not read again") == 2)
            configure("log-level = warn\n")
            s.kill(s.proc.pid, signal.SIGHUP)
            wait_for("the signal to be heard", lambda: "option changed "
                     "option=backlog-max-bytes from=1 to=" in s.log())
            with s.client() as c:
                wait_for("appends", lambda: c.append(
                    "st", [row("d")]).status == 201)
            # Who is started later knows it, too; and is told again.
            s.kill(s.processes("worker")[0])
            wait_for("the replacement", lambda: len(
                s.processes("worker")) == 2)
            ask(s, "reload")


class Nobody(unittest.TestCase):
    def run_at(self, path):
        return subprocess.run(
            [build_path("memwaldctl"), "--admin-socket=" + path, "status"],
            capture_output=True, text=True, timeout=60 * SLOW)

    def test_dead_servers_and_odd_ones(self):
        tmp = tempfile.mkdtemp(prefix="memwald-test-")
        self.addCleanup(shutil.rmtree, tmp, True)
        path = os.path.join(tmp, "s")
        self.assertEqual(self.run_at(path).returncode, UNREACHABLE)
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(path)
            done = self.run_at(path)	# nobody listens
            self.assertEqual(done.returncode, UNREACHABLE)
            self.assertIn("no server answers", done.stderr)
            dead.listen()
            for said, want, part in (
                    (b"", UNREACHABLE, "cut off"),
                    (b"BODY 10\n12345", UNREACHABLE, "cut off"),
                    (b"BODY 3\nab\n", UNREACHABLE, "cut off"),
                    (b"BODY 3\nab\nUNHEALTHY\n", UNHEALTHY, ""),
                    (b"LATE\n", LATE, "goes on"),
                    (b"ERROR no\n", REFUSED, "memwaldctl: no"),
                    (b"WELL\n", REFUSED, "another version"),
                    (b"PROGRESS x\nOK\n", DONE, "")):
                with self.subTest(said=said):
                    asked = subprocess.Popen(
                        [build_path("memwaldctl"), "--socket", path,
                         "status"], stdout=subprocess.PIPE,
                        stderr=subprocess.PIPE, text=True)
                    peer, _ = dead.accept()
                    self.assertEqual(peer.recv(100), b"status\n")
                    peer.sendall(said)
                    peer.close()
                    status, out, err = end(asked)
                    self.assertEqual(status, want, err)
                    self.assertIn(part, err)
        done = self.run_at("x" * 200)
        self.assertEqual(done.returncode, REFUSED)
        self.assertIn("longer than 107 bytes", done.stderr)


class Manual(unittest.TestCase):
    def run_ctl(self, *words):
        return subprocess.run([build_path("memwaldctl"), *words],
                              capture_output=True, text=True)

    def test_pages_are_what_the_binaries_print(self):
        for name, binary, flag in (
                ("memwald.8", "memwald", "--help-man"),
                ("memwaldctl.8", "memwaldctl", "--help-man"),
                ("memwaldctl.bash", "memwaldctl", "--completion")):
            with self.subTest(name), \
                    open(os.path.join(ROOT, "ops", name)) as f:
                self.assertEqual(f.read(), subprocess.run(
                    [build_path(binary), flag], capture_output=True,
                    text=True, check=True).stdout, "make man")

    def test_help(self):
        done = self.run_ctl("--help")
        self.assertEqual((done.returncode, done.stderr), (DONE, ""))
        for word in ("fold [STORE]", "--timeout=SECS", "  4  "):
            self.assertIn(word, done.stdout)
        done = self.run_ctl("--version")
        self.assertEqual((done.returncode, done.stdout.split()[0]),
                         (DONE, "memwaldctl"))
        done = self.run_ctl("fold", "--help")
        self.assertEqual(done.returncode, DONE)
        self.assertIn("[--timeout=SECS] [STORE]", done.stdout)
        self.assertEqual(self.run_ctl("dance", "--help").returncode, REFUSED)
        self.assertEqual(self.run_ctl().returncode, REFUSED)
        self.assertEqual(self.run_ctl("--odd", "x").returncode, REFUSED)

    def complete(self, *words):
        """What bash offers for the last word."""
        script = ("source ops/memwaldctl.bash; compopt() { :; }; "
                  "COMP_WORDS=(%s); COMP_CWORD=%d; _memwaldctl; "
                  'printf "%%s\\n" "${COMPREPLY[@]}"' % (
                      " ".join("'%s'" % w for w in words), len(words) - 1))
        done = subprocess.run(["bash", "-c", script], capture_output=True,
                              text=True, cwd=ROOT, check=True)
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def test_completion(self):
        self.assertEqual(self.complete("memwaldctl", "sh"),
                         ["shards", "shutdown"])
        self.assertEqual(self.complete("memwaldctl", "log-level", "w"),
                         ["warn"])
        self.assertEqual(self.complete("memwaldctl", "stores", "--k"),
                         ["--kind="])
        self.assertEqual(
            self.complete("memwaldctl", "stores", "--kind", "=", "g"),
            ["generic"])
        self.assertEqual(self.complete("memwaldctl", "--data-dir", "=", "x",
                                       "jo"), ["jobs"])
        self.assertEqual(self.complete("memwaldctl", "dance", ""), [])


if __name__ == "__main__":
    unittest.main()
