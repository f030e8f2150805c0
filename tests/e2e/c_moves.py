"""Ordinals that an operator moves: two who move the same one at the same time;
workers and instances that are taken out, and come back; shards that are adopted
and given up; with the scripts of ops/, run twice, dry, and interrupted."""

import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
import unittest

import memwal
from c_leases import put_next
from client import Lost
from every_kind import KINDS, hits
from harness import LONG, ROOT, SLOW, Server, build_path, wait_for
from rows import row

QUIET = ["--rollout-flush-interval-secs=0",
         "--rollout-merge-after-generations=0"]
ROUNDS = 200 if LONG else 20
DONE, REFUSED, LATE, LOST = 0, 1, 4, 5


def start(server, *words):
    return subprocess.Popen(
        [build_path("memwaldctl"), "--admin-socket=" + server.socket, *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def end(process):
    """(exit status, standard output, standard error)"""
    out, err = process.communicate(timeout=120 * SLOW)
    return process.returncode, out, err


def script(server, name, *words):
    env = dict(os.environ, MEMWALDCTL=build_path("memwaldctl"))
    return subprocess.Popen(
        [os.path.join(ROOT, "ops", name), "--admin-socket=" + server.socket,
         *words], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True)


class Moves(unittest.TestCase):
    """Two instances; before them another wrote, of which nobody knows any
    more: its shards are strays."""

    @classmethod
    def setUpClass(cls):
        cls.kinds = [k("k") for k in KINDS]
        cls.one = Server.during(cls.addClassCleanup, instance_id="gone",
                                workers=1, args=QUIET)
        with cls.one.client() as c:
            for kind in cls.kinds:
                kind.create(c)
                kind.append(c, "left").must(201)
            c.create("st")
        if cls.one.stop() != 0:
            raise AssertionError("did not stop in order")
        shutil.rmtree(os.path.join(cls.one.data_dir, "_cluster"))
        cls.one.instance_id = "one"
        cls.one.workers_wanted = 2
        cls.one.start()
        cls.two = Server.during(cls.addClassCleanup, instance_id="two",
                                data_dir=cls.one.data_dir, args=QUIET)
        for s in (cls.one, cls.two):
            s.wait_walked()

    def ask(self, server, *words, status=DONE):
        got, out, err = end(start(server, *words, "--json"))
        self.assertEqual(got, status, out + err)
        return json.loads(out) if out else err

    def run_script(self, server, name, *words, status=DONE):
        got, out, err = end(script(server, name, *words))
        self.assertEqual(got, status, out + err)
        return out

    def ordinals(self, server):
        return {o["name"]: o for o in self.ask(server, "ordinals")["ordinals"]
                if o["version"] > 0}

    def owner(self, server, name):
        o = self.ordinals(server)[name]
        return memwal.ordinal(o["instance"], o["worker"])

    def chain(self):
        """(version, ordinals by name) of the newest assignment."""
        folder = os.path.join(self.one.data_dir, "_cluster", "assignment")
        with open(os.path.join(folder, sorted(
                n for n in os.listdir(folder) if n.endswith(".json"))[-1])) as f:
            newest = json.load(f)
        return newest["version"], {o["name"]: o for o in newest["ordinals"]}

    # Two who want the same one.

    def test_of_two_one_wins(self):
        """Both decide on the same version: the chain has one more, the winner's,
        and the other says whose it is. A client writes meanwhile, to whom it may:
        what was acknowledged is there, once."""
        acked, stop = [], threading.Event()
        threads = [threading.Thread(target=self.load, args=(s, acked, stop))
                   for s in (self.one, self.two)]
        for t in threads:
            t.start()
        try:
            for k in range(ROUNDS):
                self.contend(k)
            # Home again, its worker writes again.
            self.ask(self.one, "reassign", "one", "one#0")
            count = len(acked)
            wait_for("both to write", lambda: len(acked) > count + 4)
        finally:
            stop.set()
            for t in threads:
                t.join()
        self.assertEqual(self.owner(self.one, "one"), "one")
        for s in (self.one, self.two):
            with s.client() as c:
                ids = [r["id"] for r in c.list("st", consistency="strong")]
            self.assertEqual(len(ids), len(set(ids)))
            self.assertEqual(set(acked) - set(ids), set())
        # Each position was linked once: no two writers ever shared a shard.
        for shard in memwal.shards(self.one.store_dir("st")).values():
            files = [os.stat(shard.wal_path(p)).st_ino
                     for p in shard.wal_positions()]
            self.assertEqual(len(files), len(set(files)))

    @staticmethod
    def load(server, acked, stop):
        k = 0
        with server.client() as c:
            while not stop.is_set():
                k += 1
                name = "%s-%d" % (server.instance_id, k)
                try:
                    if c.append("st", [row(name)]).status == 201:
                        acked.append(name)
                except Lost:
                    continue

    def contend(self, k):
        before, ordinals = self.chain()
        version = ordinals["one"]["version"]
        was = memwal.ordinal(ordinals["one"]["instance"],
                             ordinals["one"]["worker"])
        asked = []
        for s in (self.one, self.two):
            # Never who has it: that one would be done without a decision.
            own = [memwal.ordinal(s.instance_id, w) for w in (0, 1)]
            target = own[own[0] == was]
            asked.append((target, start(
                s, "reassign", "one", target if "#" in target else
                target + "#0", "--if-version=%d" % version, "--json")))
        ended = [(target, *end(p)) for target, p in asked]
        winners = [t for t, status, _, _ in ended if status == DONE]
        self.assertEqual(len(winners), 1, ended)
        losers = [x for x in ended if x[1] == LOST]
        self.assertEqual(len(losers), 1, ended)
        loser = losers[0]
        said = json.loads(loser[2])
        self.assertEqual((said["result"], said["owner"], said["wanted"]),
                         ("lost", winners[0], loser[0]))
        after, ordinals = self.chain()
        self.assertEqual(after, before + 1)
        now = ordinals["one"]
        self.assertEqual((now["version"], memwal.ordinal(
            now["instance"], now["worker"])), (after, winners[0]))

    # What is taken out.

    def test_a_worker_is_taken_out(self):
        """It leaves, its ordinal goes to the other one here; so it is after a
        start; and it comes back. The last one stays."""
        s = self.one
        would = self.ask(s, "drain", "1", "--dry-run")
        self.assertEqual([o["name"] for o in would["ordinals"]], ["one#1"])
        self.assertEqual(self.owner(s, "one#1"), "one#1")
        for _ in range(2):
            moved = self.ask(s, "drain", "1")
            self.assertEqual([(o["name"], o["owner"])
                              for o in moved["ordinals"]], [("one#1", "one")])
        self.assertIn("only worker", self.ask(s, "drain", "0",
                                              status=REFUSED))
        self.assertEqual(len(s.processes("worker")), 1)
        # Who answers for it did so when its socket was no longer shut.
        self.assertNotIn("cannot accept", s.log())
        self.assertEqual([p for p in s.status()["problems"] if "one#1" in p],
                         [])
        s.restart()
        s.wait_walked()
        wait_for("who is drained to leave",
                 lambda: len(s.processes("worker")) == 1)
        self.assertEqual(self.ordinals(s)["one#1"]["drained"], "worker")
        with s.client() as c:
            for k in range(8):		# any connection finds who answers
                c.append("st", [row("w%d" % k)]).must(201)
        self.assertEqual(self.ask(s, "undrain", "1")["result"], "undrained")
        self.assertEqual(len(s.processes("worker")), 2)
        self.assertEqual(self.owner(s, "one#1"), "one#1")
        self.assertEqual(self.ask(s, "undrain", "1")["result"],
                         "was not drained")

    def test_an_instance_is_taken_out(self):
        """Three times, interrupted in the middle of the first: all that it has
        acknowledged is in the base tables then."""
        one, two = self.one, self.two
        # Should it fail: the others want their owners back.
        self.addCleanup(lambda: end(start(one, "undrain", "instance",
                                          "--timeout=60")))
        with one.client() as c:
            for kind in self.kinds:
                kind.append(c, "a", "b").must(201)
        self.run_script(one, "instance-drain", "--dry-run")
        self.run_script(one, "instance-drain", "--timeout=0", status=REFUSED)
        self.assertEqual(self.owner(one, "one"), "one")
        # The rows are left to the other, which does not get on with it.
        one.fault("fold_prepare=fail:5")
        two.fault("fold_prepare=hold")
        first = script(one, "instance-drain")
        for line in first.stderr:
            if "not folded yet" in line:
                break
        os.killpg(first.pid, signal.SIGINT)
        status, _, err = end(first)
        self.assertEqual(status, 130, err)
        self.assertIn("interrupted", err)
        two.fault("fold_prepare=off")
        one.fault("fold_prepare=off")
        self.is_out(one, two)
        for _ in range(2):
            self.assertIn("nothing of them is left",
                          self.run_script(
                              one, "instance-drain", "--timeout=100"))
        # So it stays, without a decision of anybody.
        version = self.ordinals(one)["one"]["version"]
        one.restart()
        one.wait_walked()
        self.is_out(one, two)
        self.assertEqual(self.ordinals(one)["one"]["version"], version)
        self.assertIn("nobody would own", self.ask(
            two, "drain", "instance", status=REFUSED))
        for _ in range(2):
            self.run_script(one, "instance-drain", "--undo",
                            "--timeout=0900")	# no octal number
        with one.client() as c:
            c.get("/api/v1/ready").must(200)
            for kind in self.kinds:
                kind.append(c, "c").must(201)
                self.assertLessEqual({"a", "b", "c"}, set(kind.texts(c)))

    def drain_other(self, verb, other):
        """From here; the other one looks when it is asked something."""
        asked = start(self.one, verb, "instance", "two", "--json")
        while asked.poll() is None:
            if other.proc is not None:
                end(start(other, "reassign", "two", "two", "--dry-run"))
        status, out, err = end(asked)
        self.assertEqual(status, DONE, out + err)
        return json.loads(out)

    def test_another_instance_is_taken_out(self):
        """By one that lives, whether or not it does; twice; and undone."""
        one, two = self.one, self.two
        self.assertIn("no ordinal of an instance", self.ask(
            one, "drain", "instance", "nobody", status=REFUSED))
        self.assertIn("by its own", self.ask(
            one, "drain", "0", "two", status=REFUSED))
        for verb in ("drain", "undrain"):
            self.assertIn("that of a worker", self.ask(
                one, verb, "instance", "two#1", status=REFUSED))
        self.ask(one, "drain", "instance", "two", "--dry-run")
        for _ in range(2):
            moved = self.drain_other("drain", two)
            self.assertLessEqual({"two", "two#1"}, {
                o["name"] for o in moved["ordinals"]})
        self.assertEqual({self.owner(one, n).split("#")[0]
                          for n in ("two", "two#1")}, {"one"})
        with two.client() as c:
            self.assertEqual(c.get("/api/v1/ready").status, 503)
        self.assertIn("nobody would own", self.ask(
            one, "drain", "instance", status=REFUSED))
        self.assertEqual(self.drain_other("undrain", two)["result"],
                         "undrained")
        self.writes(two)
        self.assertEqual(self.drain_other("undrain", two)["result"],
                         "was not drained")
        # One that has left, and comes back: it stays out until it is undone.
        self.assertEqual(two.stop(), 0)
        self.run_script(one, "instance-drain", "--instance=two")
        self.assertEqual({self.owner(one, n).split("#")[0]
                          for n in ("two", "two#1")}, {"one"})
        # Nothing of it is left: it is given up, and comes back all the same.
        for name in ("two", "two#1"):
            self.assertEqual(self.ask(one, "retire", name)["result"],
                             "retired")
        two.start()
        two.wait_walked()
        with two.client() as c:
            self.assertEqual(c.get("/api/v1/ready").status, 503)
        self.drain_other("undrain", two)
        self.writes(two)
        whys = [line.split()[-2:] for line in self.run_script(
            one, "ordinals-list", "--history", "two").splitlines()]
        self.assertEqual(whys[0], ["WHY", "OWNER"])
        whys = [w[0] for w in whys[1:] if w[0] != "home"]
        self.assertEqual((whys[0], whys[-1]), ("retire", "drain"))

    def writes(self, server):
        wait_for("all to be home", lambda: all(
            self.owner(server, memwal.ordinal(server.instance_id, w)) ==
            memwal.ordinal(server.instance_id, w) for w in (0, 1)))
        with server.client() as c:
            wait_for("it to be ready", lambda: c.get(
                "/api/v1/ready").status == 200)
            for kind in self.kinds:
                kind.append(c, "w").must(201)

    def test_to_one_that_owns_nothing(self):
        """It lives and is not drained, so it may have all."""
        one, two = self.one, self.two
        home = {"one": "one#0", "one#1": "one#1",
                "two": "two#0", "two#1": "two#1"}
        for name in ("two", "two#1"):
            self.ask(two, "reassign", name, "one")
        wait_for("one to have all", lambda: {
            self.ordinals(one)[name]["instance"] for name in home} == {"one"})
        self.ask(one, "drain", "instance", "--timeout=60")
        owners = self.chain()[1]
        self.assertEqual({owners[name]["instance"] for name in home}, {"two"})
        self.ask(one, "undrain", "instance", "--timeout=60")
        for name, worker in home.items():
            self.ask(one, "reassign", name, worker)

    def is_out(self, one, two):
        self.assertEqual({self.ordinals(one)[n]["instance"]
                          for n in ("one", "one#1")}, {"two"})
        # A start is not over yet, perhaps, which is told before all else.
        wait_for("one to be drained and two ready", lambda: [
            s.status()["not_ready"] for s in (one, two)] ==
            ["drained by an operator", ""])
        with one.client() as c, two.client() as d:
            self.assertEqual(c.get("/api/v1/ready").status, 503)
            for kind in self.kinds:
                reply = kind.append(c, "no")
                self.assertEqual(reply.status, 503)
                self.assertTrue(reply.headers.get("retry-after"))
                self.assertIn("server is drained", reply.error()[1])
                self.assertLessEqual({"a", "b"}, set(kind.texts(c)))
                self.assertLessEqual({"a", "b"}, set(kind.texts(d)))

    def test_what_nobody_ordered_comes_home(self):
        """Another took it, since it did not see this one's lease: its home, which
        lives, takes it back and writes on. What an operator moves stays."""
        s = self.one

        def move(reason):
            def change(content, version):
                for o in content["ordinals"]:
                    if o["name"] == "one#1":
                        o["history"].insert(0, {k: o[k] for k in (
                            "version", "state", "instance", "worker",
                            "at_ms", "why")})
                        del o["history"][4:]
                        o.update(instance="two", worker=0, version=version,
                                 why=reason)
            put_next(os.path.join(s.data_dir, "_cluster", "assignment"),
                     change)
            # Whoever decides looks first, so it is known here now.
            return self.ask(s, "reassign", "one#1", "two", "--dry-run")

        move("orphan")
        wait_for("it to come home", lambda: self.owner(s, "one#1") == "one#1")
        home = self.chain()[1]["one#1"]
        self.assertEqual((home["why"], home["history"][0]["why"]),
                         ("home", "orphan"))
        with s.clients_by_worker()[1] as c:
            c.append("st", [row("back")]).must(201)
        self.assertEqual(move("command")["result"], "unchanged")
        self.ask(s, "reassign", "one#1", "one#1")
        self.assertEqual([h["why"] for h in
                          self.chain()[1]["one#1"]["history"][:2]],
                         ["command", "home"])

    # What nobody has.

    def test_strays_are_adopted_folded_and_given_up(self):
        s, shard = self.one, memwal.shard_uuid("gone")
        self.assertIn(shard, json.dumps(s.status()["strays"]))
        name = "adopted#" + shard
        self.assertIn("would adopt", self.run_script(
            s, "orphans-adopt", "--dry-run"))
        self.assertNotIn(name, self.ordinals(s))
        for taken in ("two", "new", "new#3"):
            self.assertIn("an instance's own", self.ask(
                s, "adopt", shard, taken, status=REFUSED))
        self.assertEqual(self.run_script(
            s, "orphans-adopt", "nobody", shard, status=REFUSED), "")
        self.run_script(s, "backlog-watch", "--once", status=3)
        s.fault("fold_prepare=hold")
        self.run_script(s, "orphans-adopt")
        self.assertIn("rows are not folded in", self.ask(
            s, "retire", name, status=REFUSED))
        s.fault("fold_prepare=off")
        self.assertIn("without an owner", self.run_script(
            s, "orphans-adopt", shard, name))
        self.assertEqual(self.ordinals(s)[name]["instance"], "one")
        self.assertEqual(s.status()["strays"], [])
        self.assertIn("no store was met", self.ask(
            s, "adopt", memwal.shard_uuid("nobody"), status=REFUSED))
        # Its owner folds it, without being asked.
        wait_for("it to be folded", lambda: self.ask(
            s, "left", name)["left"] == 0)
        self.run_script(s, "ordinal-reassign", "--wait=60", name, "two")
        self.assertEqual(self.ask(s, "retire", name, "--dry-run")["result"],
                         "would retire")
        self.assertEqual(self.ask(s, "retire", name)["result"], "retired")
        self.assertEqual(self.ask(s, "retire", name)["result"], "unchanged")
        listed = self.run_script(s, "ordinals-list", "--left",
                                 "--state=retired").splitlines()
        self.assertEqual(len(listed), 2)
        self.assertRegex(listed[1], "^" + re.escape(name) + " .* 0$")
        with s.client() as c:
            for kind in self.kinds:
                self.assertIn("left", kind.texts(c))
            # Nobody is to ask for ever, not in a store that is pinned either.
            kind, fold = self.kinds[0], "?ordinal=" + name.replace("#", "%23")
            kind.checkout(c, kind.version(c)).must(200)
            for store in ("st", kind.store):
                self.assertEqual(
                    c.post("/api/v1/internal/merge-wal/" + store + fold)
                    .must(200).json(), {"reclaimed": 0})
            kind.checkout(c, None).must(200)

    def test_a_late_claim_that_goes_no_further(self):
        """Than the epoch: who slept before that, and fails behind it, when the
        ordinal is at home again. Its worker, whom nobody fenced, goes on, and
        what it closes under its own epoch is folded all the same."""
        one, two, kind = self.one, self.two, self.kinds[0]
        with two.clients_by_worker()[1] as c:
            kind.append(c, "before").must(201)
            held = hits(one, "claim_epoch")
            one.ctl("fault", "claim_epoch=hold:1", "claim_sentinel=fail:5")
            try:
                self.ask(one, "reassign", "two#1", "one#0")
                wait_for("its claim", lambda: hits(
                    one, "claim_epoch") > held)
                self.ask(two, "reassign", "two#1", "two#1")
                wait_for("its home to write", lambda: kind.append(
                    c, "after").status == 201)
                failed = hits(one, "claim_sentinel")
                one.fault("claim_epoch=off")
                wait_for("the late claim", lambda: hits(
                    one, "claim_sentinel") > failed)
            finally:
                one.ctl("fault", "claim_epoch=off", "claim_sentinel=off")
            wait_for("a fold", lambda: kind.fold(c).status == 200 and
                     {"before", "after"} <= set(kind.texts(
                         c, version=kind.version(c))))

    def test_what_is_not_folded_is_not_given_up(self):
        s = self.two
        with s.client() as c:
            self.kinds[0].append(c, "mine").must(201)
        self.assertIn("its own worker's", self.ask(
            s, "retire", "two", status=REFUSED))
        for words in (["reassign", "two"], ["reassign", "none", "two"],
                      ["reassign", "two", "nobody"],
                      ["reassign", "two", "two#7"], ["drain", "7"],
                      ["retire", "none"], ["left", "none"],
                      ["adopt", "x"]):
            self.ask(s, *words, status=REFUSED)

    def test_what_is_left_is_told_in_time(self):
        """A walk whose deadline passes as it finds a store, for master and
        maintainer are stopped, and one that a damaged store keeps."""
        one, two = self.one, self.two
        self.ask(one, "reassign", "two", "two#0")	# known here, and home
        with two.clients_by_worker()[0] as c:
            c.create("bad")
            wait_for("it to write", lambda: c.append(
                "bad", [row("a")]).status == 201)
        master, maintainer = one.proc.pid, one.processes("maintainer")[0]
        try:
            os.kill(maintainer, signal.SIGSTOP)
            asked = start(one, "left", "two", "--json", "--timeout=1")
            # What it begins its answer with comes behind its question to the
            # maintainer, and its deadline was set before that.
            begun = os.read(asked.stdout.fileno(), 1).decode()
            os.kill(master, signal.SIGSTOP)
            os.kill(maintainer, signal.SIGCONT)
            time.sleep(1)
        finally:
            os.kill(maintainer, signal.SIGCONT)
            os.kill(master, signal.SIGCONT)
        status, out, err = end(asked)
        self.assertEqual(status, LATE, err)
        self.assertEqual(json.loads(begun + out)["ordinal"], "two")
        folder = os.path.join(one.store_dir("bad"), "_mem_wal",
                              memwal.shard_uuid("two"), "manifest")
        were = {}
        for name in os.listdir(folder):
            with open(os.path.join(folder, name), "rb+") as f:
                were[name] = f.read()
                f.seek(0)
                f.write(b"junk")
        try:
            for words in (["ordinal-reassign", "--wait=1", "two", "two"],
                          ["ordinals-list", "--left", "--timeout=1"])[
                              :1 + LONG]:
                status, out, err = end(script(one, *words))
                self.assertEqual(status, LATE, out + err)
                self.assertIn("two: rollout store bad: ", err)
        finally:
            for name, content in were.items():
                with open(os.path.join(folder, name), "wb") as f:
                    f.write(content)


class Orphans(unittest.TestCase):
    """By hand alone: of a worker that does not run any more, and of an instance
    that is gone."""

    run_script = Moves.run_script
    ask = Moves.ask
    ordinals = Moves.ordinals

    def adopt(self, server, *names, by=()):
        """Nothing until that is asked; then those, once, with what they have."""
        would = self.run_script(server, "orphans-adopt", "--dry-run")
        self.assertEqual(would.count("would move"), len(names), would)
        for name in names:
            self.assertIn(name, would)
        self.assertEqual(self.run_script(
            server, "orphans-adopt", *by).count("moved"), len(names))
        self.assertIn("without an owner", self.run_script(
            server, "orphans-adopt"))
        for name in names:
            o = self.ordinals(server)[name]
            self.assertEqual((o["instance"], o["worker"], o["why"]),
                             (server.instance_id, 0, "orphan"))
            wait_for("it to be folded", lambda n=name: self.ask(
                server, "left", n)["left"] == 0)

    def test_they_are_given_an_owner(self):
        settings = {"lease_secs": 2, "args": QUIET + [
            "--orphans=manual", "--orphan-grace-secs=1"]}
        with Server(instance_id="one", workers=2, **settings) as one:
            with one.client() as c:
                c.create("st")
            for worker, c in one.clients_by_worker().items():
                c.append("st", [row("r%d" % worker)]).must(201)
            one.kill_all()
            one.workers_wanted = 1
            one.start()
            wait_for("it to be orphaned", lambda: self.ordinals(
                one)["one#1"]["state"] == "orphaned")
            self.adopt(one, "one#1")
            # Of an instance of which no lease tells.
            put_next(os.path.join(one.data_dir, "_cluster", "assignment"),
                     self.to_a_ghost)
            wait_for("it to be forgotten", lambda: "would move" in
                     self.run_script(one, "orphans-adopt", "--dry-run"))
            self.adopt(one, "one#1", by=[memwal.shard_uuid("one#1")])
            if LONG:
                self.of_an_instance(one, settings)

    @staticmethod
    def to_a_ghost(content, version):
        for o in content["ordinals"]:
            if o["name"] == "one#1":
                o.update(instance="ghost", version=version, why="command")

    def of_an_instance(self, one, settings):
        with Server(instance_id="two", workers=1, data_dir=one.data_dir,
                    **settings) as two, two.client() as c:
            c.append("st", [row("two")]).must(201)
            one.kill_all()
            wait_for("it to be gone", lambda: {
                i["id"]: i["life"] for i in two.status()["instances"]}
                .get("one") == "gone")
            self.adopt(two, "one", "one#1")
            self.assertEqual(sorted(r["id"] for r in c.list("st")),
                             ["r0", "r1", "two"])


if __name__ == "__main__":
    unittest.main()
