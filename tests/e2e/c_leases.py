"""One server of several: its lease, lost and got again (C.5); two with one id
(C.1) or without a name (C.4); whose ordinal a worker writes; shards that no
ordinal explains (design 7)."""

import json
import os
import shutil
import signal
import threading
import time
import unittest
import uuid

import memwal
from client import Lost
from every_kind import KINDS, Rollout, hits
from harness import LONG, Server, wait_for
from rows import row

QUIET = ["--rollout-flush-interval-secs=0",
         "--rollout-merge-after-generations=0"]
ELSEWHERE = {"MEMWALD_BOOT_ID": "another machine"}


def folder(server, *parts):
    return os.path.join(server.data_dir, "_cluster", *parts)


def lease_folder(server, instance="test"):
    return folder(server, "lease", memwal.shard_uuid(instance))


def newest(path):
    """(version, content) of a chain's newest version; (0, None)."""
    names = sorted(n for n in os.listdir(path) if n.endswith(".json")) \
        if os.path.isdir(path) else []
    if not names:
        return 0, None
    with open(os.path.join(path, names[-1])) as f:
        return int(names[-1][:-5]), json.load(f)


def put_next(path, change):
    """Another master's next version: change edits the newest one."""
    version, content = newest(path)
    content["version"] = version + 1
    content["writer"] = str(uuid.uuid4())
    change(content, version + 1)
    name = os.path.join(path, "%020d.json" % (version + 1))
    with open(name + ".new", "x") as f:
        json.dump(content, f)
    os.link(name + ".new", name)
    os.unlink(name + ".new")


class Book:
    """What was acknowledged, by whomever."""

    def __init__(self):
        self.acked = set()
        self.count = 0
        self.lock = threading.Lock()

    def append(self, c, tag="r"):
        """The status; 0 if the connection ended instead."""
        with self.lock:
            self.count += 1
            name = "%s-%d" % (tag, self.count)
        try:
            reply = c.append("st", [row(name)])
        except Lost:
            return 0
        if reply.status == 201:
            with self.lock:
                self.acked.add(name)
        elif reply.status == 503:
            # Whatever the reason, clients are told when to come again.
            assert reply.headers.get("retry-after"), reply.headers
        return reply.status

    def until(self, c, status, tag="r"):
        wait_for("an append answered %d" % status,
                 lambda: self.append(c, tag) == status)

    def check(self, test, c):
        ids = [r["id"] for r in c.list("st", consistency="strong")]
        test.assertEqual(len(ids), len(set(ids)))
        test.assertEqual(self.acked - set(ids), set())


class Leases(unittest.TestCase):
    def is_lost(self, server):
        status = server.status()
        return status["lease"]["state"] == "lost" and any(
            "lease" in p for p in status["problems"])

    def lives_as_before(self, server, family):
        self.assertEqual(server.pids(), family)

    def test_lost_and_got_again(self):
        """The storage takes no lease for longer than its span: no writes, but
        reads; no process ends; and it comes back by itself (C.5)."""
        book = Book()
        with Server(workers=2, lease_secs=1, args=QUIET) as s, \
                s.client() as c:
            c.create("st")
            book.until(c, 201)
            family = s.pids()
            s.fault("put_lease=fail:5")
            book.until(c, 503)
            wait_for("it to be said", lambda: self.is_lost(s))
            book.check(self, c)
            wait_for("the loss to be counted", lambda: c.metrics()[
                "memwald_lease_losses_total"] > 0)
            metrics = c.metrics()
            self.assertEqual(metrics["memwald_lease_held"], 0)
            self.assertGreater(metrics[
                'memwald_lease_refusals_total{kind="rollout"}'], 0)
            self.assertIn("lease ran out", s.log())
            s.fault("put_lease=off")
            book.until(c, 201)
            self.lives_as_before(s, family)
            self.assertGreater(s.status()["lease"]["term"], 1)
            book.check(self, c)

    def test_a_server_that_was_paused(self):
        """Longer than its lease: it writes nothing before it has it again, its
        workers claim their shards anew, and nothing is lost (design 7)."""
        book = Book()
        with Server(workers=2, lease_secs=1, args=QUIET) as s, \
                s.client() as c:
            c.create("st")
            book.until(c, 201)
            term, family = s.status()["lease"]["term"], s.pids()
            for pid in family:
                s.kill(pid, signal.SIGSTOP)
            until = time.monotonic() + 1.2
            wait_for("its lease to run out",
                     lambda: time.monotonic() > until)
            for pid in family:
                s.kill(pid, signal.SIGCONT)
            wait_for("another term", lambda: s.status()["lease"]["term"] >
                     term)
            book.until(c, 201)
            self.lives_as_before(s, family)
            book.check(self, c)

    def test_a_maintainer_that_dies_with_it(self):
        """The lease is the server's: the next one renews it, also where the
        last put or the assignment was cut off by a death."""
        book = Book()
        with Server(workers=1, lease_secs=600, args=QUIET,
                    faults="lease_renew=die:1 assignment_put=die:1") as s, \
                s.client() as c:
            self.assertEqual(hits(s, "assignment_put"), 1)
            c.create("st")
            book.until(c, 201)
            version = newest(lease_folder(s))[0]
            before = s.processes("maintainer")
            s.kill(before[0])
            wait_for("a renewal by the next one", lambda: newest(
                lease_folder(s))[0] > version)
            self.assertEqual(s.status()["lease"]["term"], 1)
            book.until(c, 201)
            book.check(self, c)

    if LONG:
        def test_a_slow_store_of_leases(self):
            """A renewal that takes longer than the lease is none (C.5)."""
            book = Book()
            with Server(workers=1, lease_secs=1, args=QUIET) as s, \
                    s.client() as c:
                c.create("st")
                book.until(c, 201)
                s.fault("put_lease=hold")
                book.until(c, 503)
                s.fault("put_lease=off")
                book.until(c, 201)
                book.check(self, c)

        def test_a_deleted_lease(self):
            """Somebody removes it: it is put again, and nothing else happens."""
            with Server(workers=1, lease_secs=3, args=QUIET) as s, \
                    s.client() as c:
                c.create("st")
                family = s.pids()
                shutil.rmtree(folder(s, "lease"))
                wait_for("a lease", lambda: newest(lease_folder(s))[0] > 0)
                wait_for("an append", lambda: c.append(
                    "st", [row("a")]).status == 201)
                self.lives_as_before(s, family)

        def test_a_start_without_storage_for_it(self):
            """Reads are served, appends begin when the lease is had."""
            with Server(workers=1, args=QUIET) as s:
                with s.client() as c:
                    c.create("st")
                    c.append("st", [row("a")]).must(201)
                self.assertEqual(s.stop(), 0)
                s.faults = "put_lease=fail:28"
                s.start()
                with s.client() as c:
                    self.assertEqual([r["id"] for r in c.list("st")], ["a"])
                    self.assertEqual(c.append("st", [row("b")]).status, 503)
                    s.fault("put_lease=off")
                    wait_for("an append", lambda: c.append(
                        "st", [row("b")]).status == 201)


class OneId(unittest.TestCase):
    """On another machine no lock file tells of the first one: tests remove it,
    and name another boot."""

    def second(self, first, **kw):
        os.unlink(os.path.join(first.data_dir, "instance-test.lock"))
        other = Server(data_dir=first.data_dir, args=QUIET, **kw)
        self.addCleanup(other.end)
        return other

    def test_refused_while_the_first_lives(self):
        book = Book()
        with Server(workers=1, lease_secs=6, args=QUIET) as s, \
                s.client() as c:
            c.create("st")
            other = self.second(s, env=ELSEWHERE)
            other.start(wait=False)
            while other.proc.poll() is None:
                self.assertEqual(book.append(c), 201)
            self.assertEqual(other.proc.wait(), 1)
            other.proc = None
            log = other.log()
            self.assertIn("this instance id is in use", log)
            self.assertIn("127.0.0.1:%d" % s.port, log)
            self.assertNotIn("started worker", log)
            self.assertEqual(s.status()["lease"]["losses"], 0)
            book.check(self, c)

    def test_both_run(self):
        """However it came: one has the lease, the other is fenced and says so,
        and no acknowledged row is lost (C.1)."""
        book = Book()
        enough = 400 if LONG else 60
        with Server(workers=2, lease_secs=3, args=QUIET) as s, \
                s.client() as c:
            c.create("st")
            book.until(c, 201, "one")
            other = self.second(s, workers=2, lease_secs=3)
            family = s.pids()
            stop = threading.Event()

            def load(server, tag):
                with server.client() as mine:
                    while not stop.is_set():
                        book.append(mine, tag)
            threads = [threading.Thread(target=load, args=(s, "one"))]
            threads[0].start()
            try:
                other.start()
                threads.append(threading.Thread(
                    target=load, args=(other, "two")))
                threads[1].start()
                wait_for("the first to lose it", lambda: self.loser(s))
                wait_for("rows of the second", lambda: sum(
                    n.startswith("two") for n in book.acked) >= enough)
            finally:
                stop.set()
                for t in threads:
                    t.join()
            self.assertEqual(other.status()["lease"]["state"], "held")
            self.assertEqual(s.pids(), family)
            self.assertIn("lease lost", s.log())
            self.assertEqual(book.append(c, "one"), 503)
            # The first wrote while the second held the lease, which the missing
            # lock file had it take too early: to shards that the second knew
            # as nobody's. It reads all of them when it claims them.
            for each in other.clients_by_worker().values():
                book.until(each, 201, "two")
            with other.client() as d:
                book.check(self, c)
                book.check(self, d)
            # The second leaves: the first comes back by itself.
            self.assertEqual(other.stop(), 0)
            book.until(c, 201, "one")
            self.assertEqual(s.pids(), family)
            book.check(self, c)
            self.positions_are_written_once(s)

    @staticmethod
    def loser(server):
        lease = server.status()["lease"]
        return lease["state"] == "lost" and lease["losses"] > 0

    def positions_are_written_once(self, server):
        """Links into place: no two entries are one file."""
        for shard in memwal.shards(server.store_dir("st")).values():
            wal = os.path.join(shard.path, "wal")
            files = [os.stat(os.path.join(wal, n)).st_ino
                     for n in os.listdir(wal) if n.endswith(".arrow")]
            self.assertEqual(len(files), len(set(files)))

    if LONG:
        def test_free_at_once_when_the_first_has_left(self):
            with Server(workers=1, args=QUIET) as s:
                with s.client() as c:
                    c.create("st")
                self.assertEqual(s.stop(), 0)
                self.assertEqual(newest(lease_folder(s))[1]["state"], "released")
                other = self.second(s, env=ELSEWHERE)
                other.start()
                self.assertNotIn("state=watched", other.log())
                with other.client() as c:
                    c.append("st", [row("a")]).must(201)
                self.assertEqual(other.stop(), 0)

        def test_free_when_the_first_is_dead(self):
            book = Book()
            with Server(workers=2, lease_secs=2, args=QUIET) as s:
                with s.client() as c:
                    c.create("st")
                    book.until(c, 201)
                s.kill_all()
                other = self.second(s, env=ELSEWHERE)
                other.start()
                self.assertIn("state=watched", other.log())
                with other.client() as c:
                    book.until(c, 201)
                    book.check(self, c)
                self.assertEqual(other.stop(), 0)


class Nameless(unittest.TestCase):
    """Neither --instance-id nor HOSTNAME, and a host called localhost (C.4)."""

    def server(self, **kw):
        s = Server(instance_id="", args=QUIET, wrap=[
            "unshare", "--uts", "/bin/sh", "-c",
            'hostname localhost && exec "$0" "$@"'], **kw)
        s.env["HOSTNAME"] = "localhost"
        self.addCleanup(s.end)
        return s

    def refused(self, server):
        server.start(wait=False)
        self.assertEqual(server.proc.wait(60), 1)
        server.proc = None
        return server.log()

    def test_alone_it_is_the_default(self):
        with self.server() as s, s.client() as c:
            self.assertEqual(s.status()["instance_id"], "default")
            for kind in (k() for k in KINDS):
                kind.create(c)
                kind.append(c, "a").must(201)
                self.assertEqual(
                    set(memwal.shards(kind.directory(s))) -
                    {memwal.shard_uuid("default"),
                     memwal.shard_uuid("default#1")}, set())
            if LONG:	# it waits for the lock file of the first for long
                log = self.refused(self.server(data_dir=s.data_dir))
                self.assertIn("default", log)

    def test_not_beside_another_instance(self):
        with Server(instance_id="named", lease_secs=3, workers=1,
                    args=QUIET) as s, s.client() as c:
            c.create("st")
            log = self.refused(self.server(data_dir=s.data_dir))
            self.assertIn("--instance-id", log)
            self.assertIn("named", log)
            c.append("st", [row("a")]).must(201)


class Ordinals(unittest.TestCase):
    def assignment(self, server):
        return newest(folder(server, "assignment"))

    def by_name(self, server):
        return {o["name"]: o for o in self.assignment(server)[1]["ordinals"]}

    def test_registered_and_kept(self):
        """Each start brings home what is not: nothing, if nothing changed; what
        no worker runs for is orphaned, and comes home with its worker. By hand
        alone nothing else becomes of it."""
        with Server(workers=3, args=QUIET + ["--orphans=manual"]) as s:
            first, content = self.assignment(s)
            self.assertEqual(
                [(o["name"], o["state"], o["instance"], o["worker"],
                  o["shard"]) for o in content["ordinals"]],
                [(memwal.ordinal("test", k), "owned", "test", k,
                  memwal.shard_uuid(memwal.ordinal("test", k)))
                 for k in range(3)])
            s.restart()
            self.assertEqual(self.assignment(s)[0], first)
            s.workers_wanted = 1
            s.restart()
            names = self.by_name(s)
            self.assertEqual([o["state"] for o in names.values()],
                             ["owned", "orphaned", "orphaned"])
            self.assertEqual(names["test#2"]["history"][0]["state"], "owned")
            self.assertEqual([o["state"] for o in s.status()["ordinals"]],
                             ["owned", "orphaned", "orphaned"])
            with s.client() as c:
                self.assertEqual(c.metrics()[
                    'memwald_ordinals{state="orphaned"}'], 2)
            s.workers_wanted = 3
            s.restart()
            self.assertEqual(
                {o["state"] for o in self.by_name(s).values()}, {"owned"})

    def test_several_instances_know_each_other(self):
        with Server(instance_id="one", workers=2, lease_secs=2,
                    args=QUIET) as one, \
                Server(instance_id="two", workers=1, lease_secs=2,
                       data_dir=one.data_dir, args=QUIET) as two:
            wait_for("one to see two", lambda: self.sees(one, "two"))
            wait_for("two to see one", lambda: self.sees(two, "one"))
            for s in (one, two):
                wait_for("all ordinals", lambda s=s: {
                    o["name"] for o in s.status()["ordinals"]} ==
                    {"one", "one#1", "two"})
            two.kill_all()
            wait_for("the dead to be silent", lambda: self.life(
                one, "two") in ("silent", "gone"))
            two.start()
            wait_for("it to live again", lambda: self.sees(one, "two"))
            self.assertEqual(two.stop(), 0)
            wait_for("it to have left", lambda: self.life(one, "two") ==
                     "left")
            self.assertEqual(self.life(one, "two"), "left")

    @staticmethod
    def life(server, instance):
        return {i["id"]: i["life"] for i in
                server.status()["instances"]}.get(instance)

    def sees(self, server, instance):
        return self.life(server, instance) == "lives"

    def move(self, server, name, instance, state="owned"):
        def change(content, version):
            for o in content["ordinals"]:
                if o["name"] == name:
                    o.update(state=state, instance=instance, worker=0,
                             version=version, address="nowhere:1")
        put_next(folder(server, "assignment"), change)

    def test_a_worker_reads_it_before_it_claims(self):
        """The ordinal was given to another, of which this server knows nothing:
        the worker that is started anew claims nothing; the other one does.
        The next start brings it home."""
        kinds = [k("k") for k in KINDS]
        with Server(workers=2, args=QUIET) as s:
            clients = s.clients_by_worker()
            for kind in kinds:
                kind.create(clients[0])
                for k in (0, 1):
                    kind.append(clients[k], "a%d" % k).must(201)
            self.move(s, "test#1", "somebody else")
            pid = s.processes("worker")[1]
            s.kill(pid)
            wait_for("its replacement", lambda: len(
                s.processes("worker")) == 2 and
                pid not in s.processes("worker"))
            clients = s.clients_by_worker()
            for kind in kinds:
                epochs = self.epochs(s, kind)
                reply = kind.append(clients[1], "b1")
                self.assertEqual(reply.status, 503)
                self.assertTrue(reply.headers.get("retry-after"))
                kind.append(clients[0], "b0").must(201)
                self.assertEqual(sorted(kind.texts(clients[1])),
                                 ["a0", "a1", "b0"])
                self.assertEqual(self.epochs(s, kind), epochs)
            problems = s.status()["problems"]
            self.assertTrue(any("test#1" in p for p in problems), problems)
            s.restart()
            clients = s.clients_by_worker()
            for kind in kinds:
                kind.append(clients[1], "c1").must(201)
                self.assertEqual(sorted(kind.texts(clients[0])),
                                 ["a0", "a1", "b0", "c1"])
            history = self.by_name(s)["test#1"]["history"]
            self.assertEqual([h["instance"] for h in history],
                             ["somebody else"])

    @staticmethod
    def epochs(server, kind):
        return {name: shard.epoch for name, shard in
                memwal.shards(kind.directory(server)).items()}

    def test_shards_without_an_ordinal(self):
        """Told of once, for every kind (in the long form), until an ordinal
        explains them."""
        kinds = [k("k") for k in KINDS]
        with Server(instance_id="gone", workers=1, args=QUIET) as s:
            with s.client() as c:
                for kind in kinds:
                    kind.create(c)
                    kind.append(c, "a").must(201)
            self.assertEqual(s.stop(), 0)
            shutil.rmtree(folder(s))
            for only in kinds if LONG else kinds[:1]:
                self.told(s, kinds, only)

    def told(self, s, kinds, only):
        """By a server of its own, with that kind's store alone."""
        for kind in kinds:
            self.hide(s, kind, kind is not only)
        s.instance_id = "new-" + only.name
        s.start()
        s.wait_walked()
        shard = memwal.shard_uuid("gone")
        self.assertEqual(
            [(x["shard"], x["kind"], x["store"])
             for x in s.status()["strays"]], [(shard, only.name, "k")])
        self.assertTrue(any(shard in p for p in s.status()["problems"]))
        with s.client() as c:
            self.assertEqual(c.metrics()["memwald_stray_shards"], 1)
            only.append(c, "b-" + only.name).must(201)
            self.assertEqual(sorted(only.texts(c)), ["a", "b-" + only.name])
            only.folded(c)			# a tick meets it again
        lines = [x for x in s.log(s.log_start).splitlines()
                 if "no ordinal explains" in x]
        self.assertEqual(len(lines), 1, lines)
        self.assertIn(shard, lines[0])
        self.assertEqual(s.stop(), 0)

    @staticmethod
    def hide(server, kind, hidden):
        """From the registry, and from the walk."""
        path = os.path.join(server.data_dir, "_registry", kind.name, "k.json")
        names = (path, path + ".hidden")
        if os.path.exists(names[0 if hidden else 1]):
            os.rename(*(names if hidden else names[::-1]))


if __name__ == "__main__":
    unittest.main()
