"""
harness - a memwald of one's own: port, folder, log, processes.

    with Server(workers=4) as s, s.client() as c:
        c.create("st")

Which build and which loop is the environment's choice, so that every scenario
runs on all of them: MEMWALD_TEST_BUILD (faults, san, tsan, or empty for what
ships; default faults), MEMWALD_TEST_LOOP (ring or epoll; default: the server's
own choice) and MEMWALD_TEST_WAL (append, or put: a store that cannot append).

Death:    nothing is left behind: the server has a process group of its own,
          and leaving the with block ends it. Only processes that descend from
          it are ever signalled.
Errors:   leaving the block fails the test if a process panicked, a sanitizer
          reported, the exit status was not 0 or a process stayed, unless the
          test said expect_panic or killed the master itself.
Waiting:  wait_for polls with a deadline. Nothing here sleeps to be safe.
"""

import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from client import Client, Lost, Raw

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
BUILD = os.environ.get("MEMWALD_TEST_BUILD", "faults")
LOOP = os.environ.get("MEMWALD_TEST_LOOP", "")
WAL = os.environ.get("MEMWALD_TEST_WAL", "") or "append"
SLOW = 4 if BUILD in ("san", "tsan") else 1	# deadlines are this much longer
LONG = os.environ.get("LONG", "") not in ("", "0")
# Where a test of deaths, which lose no page, need not wait for a disk.
MEMORY, MEMORY_BYTES = "/dev/shm", 1 << 30
# A shell's background job ignores it, and so would all that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)
BAD_LOG = re.compile(
    r"AddressSanitizer|ThreadSanitizer|LeakSanitizer|runtime error:"
    r"|ERROR .* panic|MUST\(")


def build_path(name, build=None):
    build = BUILD if build is None else build
    return os.path.join(ROOT, "build", build, name)


def wait_for(what, probe, timeout=30.0):
    """The first true answer of probe(); AssertionError after the deadline."""
    deadline = time.monotonic() + timeout * SLOW
    while True:
        answer = probe()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError("waited %gs for %s" % (timeout * SLOW, what))
        time.sleep(0.01)


def free_port():
    # Below the ephemeral range: no client socket of the machine lands there.
    while True:
        port = random.randrange(12000, 32000)
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def has_room(folder):
    try:
        st = os.statvfs(folder)
    except OSError:
        return False
    return st.f_bavail * st.f_frsize >= MEMORY_BYTES


def alive(pid):
    """False also for a zombie: it holds nothing any more."""
    try:
        with open("/proc/%d/stat" % pid) as f:
            return f.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def locks_held(status):
    """What a status page says is held now, guards apart: text for each."""
    return ["%s by %s" % (lock["name"], lock["holder"])
            for lock in status["locks"] if lock["holder"] is not None]


class Server:
    def __init__(self, workers=2, args=(), env=None, data_dir=None,
                 faults="", clock_speed=0, build=None, loop=None, port=None,
                 instance_id="test", wrap=(), wal=None, lease_secs=3600,
                 in_memory=False):
        self.workers_wanted = workers
        self.args = list(args)
        self.env = dict(env or {})
        self.build = BUILD if build is None else build
        self.loop = LOOP if loop is None else loop
        self.wal = WAL if wal is None else wal
        # Not renewed while a test runs, unless it is about that: it may count
        # puts, stop processes, or make the storage fail for long.
        self.lease_secs = lease_secs
        self.faults = faults
        self.clock_speed = clock_speed
        self.instance_id = instance_id
        self.port = port or free_port()
        self.wrap = list(wrap)		# e.g. a shell that sets a limit first
        self.tmp = tempfile.mkdtemp(prefix="memwald-test-",
                                    dir=MEMORY if in_memory and
                                    has_room(MEMORY) else None)
        self.data_dir = data_dir or os.path.join(self.tmp, "data")
        self.socket = os.path.join(self.tmp, "admin.sock")
        self.log_path = os.path.join(self.tmp, "log")
        self.clients = []
        self.proc = None
        self.expect_panic = False
        self.killed = False

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.end()
            raise

    def __exit__(self, kind, value, tb):
        try:
            if kind is None and self.proc is not None and not self.killed:
                status = self.stop()
                if status != 0:
                    raise AssertionError("exit status %d\n%s" % (
                        status, self.log_tail()))
            if kind is None and not self.expect_panic:
                self.check_log()
            if kind is not None:
                print("--- %s: end of the server's log\n%s" % (
                    kind.__name__, self.log_tail()), flush=True)
        finally:
            self.end()

    # Start and end.

    @classmethod
    def during(cls, add_cleanup, **settings):
        """One that has started and ends with a test, or with a class of tests:
        that one's addCleanup or addClassCleanup."""
        server = cls(**settings)
        server.start()
        add_cleanup(server.__exit__, None, None, None)
        return server

    def command(self):
        line = self.wrap + [
            build_path("memwald", self.build),
            "--host=127.0.0.1", "--port=%d" % self.port,
            "--data-dir=%s" % self.data_dir,
            "--workers=%d" % self.workers_wanted,
            "--instance-id=%s" % self.instance_id,
            "--admin-socket=%s" % self.socket,
            "--wal=%s" % self.wal,
            "--worker-header=on",
            "--lease-secs=%d" % self.lease_secs]
        if self.loop:
            line.append("--loop=%s" % self.loop)
        return line + self.args

    def start(self, wait=True):
        env = dict(os.environ, **self.env)
        if self.faults:
            env["MEMWALD_FAULTS"] = self.faults
        if self.clock_speed:
            env["MEMWALD_CLOCK_SPEED"] = str(self.clock_speed)
        # A small segment: each start writes all of it.
        env.setdefault("ROLLOUT_CACHE_CAPACITY", "0" if LONG else "2000")
        env.setdefault("ASAN_OPTIONS", "abort_on_error=1:detect_leaks=0")
        env.setdefault("UBSAN_OPTIONS", "print_stacktrace=1:abort_on_error=1")
        self.killed = False
        with open(self.log_path, "ab") as log:
            self.log_start = log.tell()
            self.proc = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, env=env, start_new_session=True)
        if wait:
            self.wait_healthy()
        return self

    def wait_healthy(self, timeout=20):
        """Until this start answers. The port alone does not tell: a worker of
        a killed master still answers what the kernel had taken. The new master
        says that it starts once all of those are gone."""
        def probe():
            status = self.proc.poll()
            if status is not None:
                raise AssertionError("memwald ended at start, status %d\n%s" % (
                    status, self.log_tail()))
            if " starts instance=" not in self.log(self.log_start):
                return False
            try:
                with self.client(timeout=5) as c:
                    return c.get("/api/v1/health").status == 200
            except Lost:
                return False
        wait_for("health", probe, timeout)

    def wait_walked(self):
        """Until the maintainer has looked at every store, as it does after a
        start, and has begun with what was left in them: for tests of a seal or
        fold that nothing else may anticipate."""
        wait_for("the walk at start", lambda: all(
            line in self.log(self.log_start) for line in
            ("registry walked", "something left are aged")))

    def stop(self, sig=signal.SIGTERM, timeout=30):
        """Asks it to end: its exit status. Every process must be gone."""
        family = self.pids()
        self.proc.send_signal(sig)
        try:
            status = self.proc.wait(timeout * SLOW)
        except subprocess.TimeoutExpired:
            raise AssertionError("still there %gs after signal %d\n%s" % (
                timeout * SLOW, sig, self.log_tail())) from None
        self.proc = None
        left = [p for p in family if alive(p)]
        if left:
            raise AssertionError("left behind: %s" % left)
        return status

    def kill_all(self, master_first=True):
        """SIGKILL to every process at once, and none is left after it."""
        family = self.pids()
        for pid in family if master_first else reversed(family):
            self._signal(pid, signal.SIGKILL)
        self.proc.wait()
        self.proc = None
        self.killed = True
        wait_for("the killed to be gone",
                 lambda: not any(alive(p) for p in family), 5)

    def restart(self):
        """An orderly one; must end with status 0."""
        status = self.stop()
        if status != 0:
            raise AssertionError("exit status %d\n%s" % (
                status, self.log_tail()))
        return self.start()

    def end(self):
        """Whatever happened: no process, file or connection stays."""
        while self.clients:
            self.clients.pop().close()
        if self.proc is not None:
            try:
                os.killpg(os.getpgid(self.proc.pid), signal.SIGKILL)
            except ProcessLookupError:
                pass
            self.proc.wait()
            self.proc = None
        shutil.rmtree(self.tmp, ignore_errors=True)

    # Processes.

    @staticmethod
    def _signal(pid, sig):
        try:
            os.kill(pid, sig)
        except ProcessLookupError:
            pass			# it ended by itself meanwhile

    def pids(self):
        """The master first, then its descendants."""
        found, at = [self.proc.pid], 0
        while at < len(found):
            for task in self._tasks(found[at]):
                found += task
            at += 1
        return found

    @staticmethod
    def _tasks(pid):
        try:
            for tid in os.listdir("/proc/%d/task" % pid):
                with open("/proc/%d/task/%s/children" % (pid, tid)) as f:
                    yield [int(p) for p in f.read().split()]
        except (FileNotFoundError, ProcessLookupError):
            return

    def kill(self, pid, sig=signal.SIGKILL):
        if pid not in self.pids():
            if alive(pid):
                raise AssertionError("%d is none of ours" % pid)
            return			# it was, and ended meanwhile
        self._signal(pid, sig)

    def ctl(self, *words, timeout=20):
        """What memwaldctl prints; AssertionError if it fails."""
        run = subprocess.run(
            [build_path("memwaldctl", self.build),
             "--admin-socket=%s" % self.socket] + list(words),
            capture_output=True, text=True, timeout=timeout * SLOW)
        if run.returncode != 0:
            raise AssertionError("memwaldctl %s: %d %s%s" % (
                " ".join(words), run.returncode, run.stdout, run.stderr))
        return run.stdout

    def status(self):
        return json.loads(self.ctl("status", "--json"))

    def fault(self, spec):
        self.ctl("fault", *spec.split())

    def processes(self, role):
        """Live pids of a role (master, worker, maintainer), by slot."""
        rows = [p for p in self.status()["processes"]
                if p["role"] == role and p["pid"] > 0]
        return [p["pid"] for p in sorted(rows, key=lambda p: p["slot"])
                if alive(p["pid"])]

    # Talking to it.

    def client(self, timeout=60):
        """Closed at the latest when the server's block is left."""
        self.clients.append(Client(self.port, timeout * SLOW))
        return self.clients[-1]

    def raw(self, timeout=10):
        return Raw(self.port, timeout * SLOW)

    def clients_by_worker(self):
        """A connected Client for each worker: {worker: Client}. One that starts
        is waited for."""
        found = {}

        def ask():
            c = self.client()
            worker = c.get("/api/v1/health").must(200).worker
            if worker in found:
                c.close()
            else:
                found[worker] = c
            return len(found) == self.workers_wanted
        wait_for("every worker to answer", ask)
        return found

    # Its log and its folder.

    def log(self, start=0):
        with open(self.log_path, "rb") as f:
            f.seek(start)
            return f.read().decode(errors="replace")

    def log_tail(self, lines=40):
        return "\n".join(self.log().splitlines()[-lines:])

    def check_log(self):
        bad = [x for x in self.log().splitlines() if BAD_LOG.search(x)]
        if bad:
            raise AssertionError("in the log:\n%s" % "\n".join(bad[:10]))

    def store_dir(self, store):
        return os.path.join(self.data_dir, store + ".rollout.lance")
