"""
fault_points - each fault point times {die, fail, delay, hold, stop}, then the
oracle (style 12). A test file an action, so that they run beside each other.

A workload passes the points: two workers append, a flush seals, a fold runs, a
compaction, and a collection that need not wait (no grace); a store is pinned
and released, another one made and deleted. One point at a time is armed, and
must have acted; what is refused or lost is sent again once it is off. While a
step of the maintainer is held every worker goes on. Folders are in memory: who
dies here loses nothing that was written.

LONG=1: all points, on every kind of store, in both ways to be durable, each
action with a store of its own, a restart and the base table. The short form
has all points on rollout stores; of other kinds, and where commits are put
whole, a share.
"""

import os
import re
import threading
import time
import unittest

from oracle import Book, check_status, check_temporary
from client import Lost
from harness import LONG, ROOT, Server, wait_for
from kinds import Datagen, Generic, Rollout

# Nobody passes these here: why not, and who does (tidy.py looks there).
NOT_PASSED = {
    "shm_assign": ("no assignment changes yet", "shm_ordinal_table_test.c"),
    "shm_repair": ("it may be the master's, with whom all dies",
                   "shm_mutex_test.c"),
    "assignment_put": ("no assignment changes here", "assignment_test.c"),
    "put_assignment": ("no assignment changes here", "assignment_test.c"),
    "fold_report": ("no ordinal has moved here", "moved_test.py"),
    "pending_look": ("no ordinal has moved here", "moved_test.py"),
    "remote_ask": ("no other instance is asked", "moved_test.py"),
    "remote_answer": ("no other instance is asked", "moved_test.py"),
    "takeover_loaded": ("of an upgrade alone", "takeover_test.c"),
}
# What only those pass whose outcome is unknown.
WITH = {"wal_read_back": "put_wal=answer:UNKNOWN:1"}
# Where commits are put whole, alone.
ONLY_PUT = {"wal_read_back", "put_wal"}
# What only those pass who load a store that another server left.
AT_LOAD = {"reload_listed", "reload_commit"}
# What only those pass who start.
AT_START = {"worker_start": "worker", "maintainer_start": "maintainer",
            "lease_look": "maintainer", "lease_renew": "maintainer",
            "put_lease": "maintainer"}
# What only those pass who meet a shard of another instance.
BESIDE = {"shm_record"}
# What only old files are for, as the clock tells: there it runs so much faster.
AGED, SPEED = {"collect_abandoned"}, 30
# Who dies there leaves such files.
ABANDONING = ("seal_commit", "fold_commit", "compact_commit")
# Between two rounds, where a ticker has the store aged.
LOOKS = 25
# Steps of the maintainer, which no worker waits for.
AGING = ("seal_", "fold_", "compact_", "collect_")
# Where commits are put whole, these steps are others.
WAL_STEPS = ("wal_", "claim_", "put_wal", "object_put", "reload_commit")
ACTS = ("die", "fail", "delay", "hold", "stop")
# Whoever is stopped is dead after seconds: the short form stops these.
STOPPED = ("wal_publish", "fold_commit", "shm_writing")
# After a death there the base table is read in any case (B.4).
JUDGED_WHOLE = ("seal_commit", "fold_commit", "fold_drain", "fold_publish",
                "table_committed", "compact_commit", "collect_file")


def points():
    with open(os.path.join(ROOT, "common", "fault.def")) as f:
        return [p for p in re.findall(r"^FAULT_POINT\((\w+)", f.read(), re.M)
                if p not in NOT_PASSED]


def tag_of(action):
    return re.sub(r"[^a-z0-9]+", "-", action)


class FaultPoints(unittest.TestCase):
    kind = Rollout
    wal = "append"
    act = "die"
    speed = 0
    pins = True

    @classmethod
    def setUpClass(cls):
        every = 0 if cls.kind.aged_by_requests else 1
        cls.server = Server(workers=2, wal=cls.wal, in_memory=True,
                            clock_speed=cls.speed, args=[
            "--grace-secs=0",
            "--rollout-flush-interval-secs=%d" % every,
            "--rollout-cleanup-interval-secs=%d" % every])
        cls.server.start()

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__(None, None, None)

    @staticmethod
    def some(action, *args):
        """Its answer, or None if there was none."""
        try:
            return action(*args)
        except Lost:
            return None

    def until_done(self, what, action):
        """The client's part: again, until it is done or a deadline passed."""
        return wait_for(what, lambda: self.some(action), 20)

    def all_there(self):
        s = self.server
        wait_for("all processes", lambda: len(s.processes("worker")) == 2 and
                 s.processes("maintainer") and s.status()["clean"], 20)

    def kill(self, role):
        for pid in self.server.processes(role):
            self.server.kill(pid)

    def hits(self, point):
        return int(re.search(r"^%s=(\d+)$" % point,
                             self.server.ctl("fault"), re.M).group(1))

    def append(self, book, client, tag, n):
        book.append(client, ["%s-%d-%d" % (tag, n, i) for i in range(2)])
        return book.append_version(client, "newest")

    def one_round(self, book, tag, n):
        """Whatever its steps answer."""
        other = self.kind("other-" + book.store)
        with self.server.client() as a, self.server.client() as b:
            self.append(book, a, tag + "-a", n)
            self.append(book, b, tag + "-b", n)
            book.append(a, ["%s-f%d" % (tag, n)], flush=True)
            self.some(book.kind.fold, b)
            if book.kind.compacts:
                self.some(a.post, book.kind.path + "/compact", {})
            if self.pins:
                self.pin_and_release(book.kind.path, b, a)
            self.some(a.post, other.stores, other.body)
            self.some(b.request, "DELETE", other.path)

    def pin_and_release(self, path, one, another):
        pin = path + "/checkout"
        info = self.some(one.get, path)
        if info is not None and info.status == 200:
            self.some(one.post, pin, {"version": info.json()["version"]})
        self.until_done("a release", lambda: another.post(
            pin, {"version": None}).status == 200)

    def workload(self, book, tag, enough):
        """Two rounds, so that also the second commit, entry and generation of
        a shard are passed, and what the first left half done. More, where a
        ticker is what has it aged, or the one who was needed died."""
        n = 0

        def again():
            nonlocal n
            self.one_round(book, tag, n)
            n += 1
            if n < 2:
                return False
            for _ in range(1 if book.kind.aged_by_requests else LOOKS):
                if enough():
                    return True
                time.sleep(0.02)
            return False
        wait_for("%s to act" % book.store, again, 20)

    def arm(self, book, point, action):
        """How often it had acted before."""
        s = self.server
        if point in AT_LOAD:
            with s.client() as c:
                self.append(book, c, tag_of(action), 0)
            s.kill_all()
            s.faults = "%s=%s" % (point, action)
            s.start()
            s.faults = ""
            return 0
        if action.startswith("stop") or point.startswith("shm_"):
            s.expect_panic = True	# of who waits for a lock that is held
        before = self.hits(point)
        s.ctl("fault", "%s=%s" % (point, action), *(
            [WITH[point]] if point in WITH else []))
        if point in AT_START:
            self.kill(AT_START[point])
        return before

    def do(self, book, point, action):
        """Armed, passed, acted, disarmed; and work goes on."""
        s = self.server
        tag = tag_of(action)
        if point.startswith("claim_"):
            self.kill("worker")		# else the shards are claimed
            self.all_there()
        self.get_ready(book, point, tag)
        before = self.arm(book, point, action)
        must = "@" not in action
        self.pass_it(book, point, tag, lambda: not must or
                     self.hits(point) > before)
        s.ctl("fault", point + "=off", *(
            [WITH[point].split("=")[0] + "=off"] if point in WITH else []))
        self.all_there()

        def append():
            with s.client() as c:
                return book.append(c, [tag + "-late"], flush=True)
        self.until_done("an append", append)

    def get_ready(self, book, point, tag):
        if point in AGED:
            self.server.ctl("fault", *(p + "=die:1" for p in ABANDONING))
            before = self.hits(ABANDONING[0])
            self.workload(book, tag + "-before", lambda:
                          self.hits(ABANDONING[0]) > before)
            self.server.ctl("fault", *(p + "=off" for p in ABANDONING))

    def pass_it(self, book, point, tag, acted):
        if point in BESIDE:
            self.meet_another(book, tag)
        self.workload(book, tag, acted)

    def meet_another(self, book, tag):
        """An instance that leaves nothing unfolded behind."""
        s = self.server
        with Server(workers=1, wal=self.wal, in_memory=True, args=s.args[1:],
                    data_dir=s.data_dir, instance_id="beside-" + tag) as two:
            with two.client() as c:
                self.assertTrue(book.append(c, [tag + "-beside"], flush=True))
            book.settle(two)
        with s.client() as c:
            self.some(c.get, book.kind.list_path)

    def judge(self, book, point, whole):
        s = self.server
        book.check(s)
        self.until_done("folds", lambda: book.settle(s) or True)
        book.check(s)
        # Where a ticker folds, what lost a race against a pin stays a minute.
        if point.startswith("collect_") and book.kind.aged_by_requests:
            book.check_collected(s)
        book.check_files(s)
        if whole:
            book.check_after_restart(s)
            book.check_base(s)
        check_status(s)

    def drop(self, book):
        """What a create left that died before it registered is adopted by the
        next one of that name, and goes with it."""
        def is_one_of(wanted, *args):
            with self.server.client() as c:
                return c.request(*args).status in wanted
        for kind in (self.kind("other-" + book.store), book.kind):
            self.until_done("a create", lambda k=kind: is_one_of(
                (201, 409), "POST", k.stores, k.body))
            self.until_done("a delete", lambda k=kind: is_one_of(
                (204, 404), "DELETE", k.path))

    def run_on_one_store(self, point, actions):
        book = Book("%s-%s" % (point, tag_of(actions[0])), self.kind)
        with self.server.client() as c:
            c.post(book.kind.stores, book.kind.body).must(201)
        for action in actions:
            with self.subTest(action=action):
                self.do(book, point, action)
        self.judge(book, point, LONG or (self.act == "die" and
                                  self.kind is Rollout and
                                  point in JUDGED_WHOLE))
        self.drop(book)

    def test_zz_nothing_is_left(self):
        check_temporary(self.server)
        with self.server.client() as c:
            stores = c.get(self.kind.stores).must(200).json()["stores"]
            self.assertEqual(stores, [])
        left = [n for n in os.listdir(self.server.data_dir)
                if n.endswith(".lance")]
        self.assertEqual(left, [])


class Held(FaultPoints):
    """A step is held for as long as the test wants."""

    def get_ready(self, book, point, tag):
        super().get_ready(book, point, tag)
        # Those that go on would be told that it is pinned.
        self.pins = not point.startswith(AGING)
        self.clients = self.server.clients_by_worker() \
            if point.startswith(AGING) else {}

    def pass_it(self, book, point, tag, acted):
        failures = []

        def work():
            try:
                FaultPoints.pass_it(self, book, point, tag, acted)
            except BaseException as e:
                failures.append(e)
        thread = threading.Thread(target=work)
        thread.start()
        try:
            wait_for("%s to be held" % point, lambda: acted() or failures, 20)
            for worker, client in self.clients.items():
                self.goes_on(book, worker, client)
        finally:
            self.server.fault(point + "=off")
            thread.join()
        if failures:
            raise failures[0]

    def goes_on(self, book, worker, client):
        """It appends and reads: nothing that is held concerns it."""
        self.assertTrue(book.append(client, ["held-%d" % worker]))
        acked = book.acknowledged()
        ids = [r[book.kind.key] for r in book.kind.list(client)]
        self.assertEqual(len(ids), len(set(ids)))
        self.assertEqual(acked - set(ids), set())
        client.close()


def share(kind, wal, act):
    """The points of one test case. All kinds share all code but their columns,
    so the short form takes a part of those points."""
    names = [p for p in points() if wal == "put" or p not in ONLY_PUT]
    if LONG:
        return names
    if act == "stop":
        return STOPPED if (kind, wal) == (Rollout, "append") else ()
    if kind is not Rollout:
        names = [p for p in names if p not in AGED | BESIDE and
                 not p.startswith("compact_")]
        first = ACTS.index(act) + 4 * (kind is Generic)
        return names[first::8] if wal == "append" else ()
    if wal == "put":
        return [p for p in names if p.startswith(WAL_STEPS)
                and act in ("die", "fail")]
    return [p for p in names if act != "hold" or
            not p.startswith(("shm_", "object_"))]


def test_of(point, groups):
    def test(self):
        for group in groups:
            self.run_on_one_store(point, group)
    return test


def cases(act, actions, longer=()):
    """{name: test case} of each kind and way to be durable, a test a point."""
    base = Held if act == "hold" else FaultPoints
    made = {}
    for kind in (Rollout, Generic, Datagen):
        groups = [actions] if not LONG else \
            [[a] for a in (*actions, *(longer if kind is Rollout else ()))]
        for wal in ("append", "put"):
            for aged in (False, True):
                names = [p for p in share(kind, wal, act)
                         if (p in AGED) == aged]
                if not names:
                    continue
                case = type("%s_%s%s" % (kind.__name__, wal, "_aged" * aged),
                            (base,), {"kind": kind, "wal": wal, "act": act,
                                      "speed": SPEED * aged})
                for point in names:
                    setattr(case, "test_" + point, test_of(point, groups))
                made[case.__name__] = case
    return made
