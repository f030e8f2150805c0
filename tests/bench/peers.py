"""
peers - what memwald is measured against, on the same machine and disk.

Postgres is a cluster of its own in a temporary folder (fsync on, its other
settings the defaults but for the socket), Nginx a server that answers
`return 200`. Both end with their with block. load() runs load.c.

Lifetime: PostgreSQL refuses root, so its programs run as the user postgres
there, and as whoever we are elsewhere.
"""

import glob
import array
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "interop"))

from harness import build_path, free_port, wait_for	# noqa: E402
from rows import kib_row				# noqa: E402

BINARIES = "/usr/lib/postgresql/15/bin"
TABLE = "CREATE TABLE r (id text PRIMARY KEY, doc jsonb); CREATE SEQUENCE s;"
INSERT = "INSERT INTO r VALUES ('k' || nextval('s'), '%s'::jsonb);\n"
SELECT = "\\set k random(1, %d)\nSELECT doc FROM r WHERE id = 'k' || :k;\n"


def load_command(*args):
    return [build_path("tests/bench/load", ""), *[str(a) for a in args]]


def load_result(status, said, complaint):
    """What load.c measured: rate, p50_us, p99_us, max_us, requests. All of
    these were answered."""
    if status != 0:
        raise AssertionError("load: %d %s" % (status, complaint))
    result = json.loads(said)
    if result["errors"]:
        raise AssertionError("load: %d of %d requests failed" % (
            result["errors"], result["requests"]))
    return result


def load(port, connections, seconds, *what):
    run = subprocess.run(load_command(port, connections, seconds, *what),
                         capture_output=True, text=True, timeout=seconds + 60)
    return load_result(run.returncode, run.stdout, run.stderr)


class Load:
    """load.c, running for as long as the context does, and what it traced."""
    LONGEST = 600

    def __init__(self, port, connections, *what):
        self.trace = tempfile.NamedTemporaryFile(prefix="memwald-trace-")
        self.process = subprocess.Popen(
            load_command(port, connections, self.LONGEST, *what,
                         self.trace.name),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.process.terminate()
        said, complaint = self.process.communicate(timeout=60)
        numbers = array.array("Q", self.trace.read())
        self.trace.close()
        if kind is not None:
            return
        load_result(self.process.returncode, said, complaint)
        self.sent_ns, self.us = numbers[::2], numbers[1::2]

    def between(self, begun, ended):
        """Sorted latencies (us) of what was sent between two times of
        time.monotonic()."""
        return sorted(us for at, us in zip(self.sent_ns, self.us)
                      if begun <= at / 1e9 < ended)


class Postgres:
    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="memwald-bench-")
        self.port = free_port()
        self.user = []
        if os.geteuid() == 0:
            shutil.chown(self.folder, "postgres")
            self.user = ["runuser", "-u", "postgres", "--"]
        self.data = os.path.join(self.folder, "data")
        self.pid_file = os.path.join(self.data, "postmaster.pid")
        try:
            self.tool("initdb", "-D", self.data, "-A", "trust", "-U", "bench")
            self.tool("pg_ctl", "-D", self.data, "-w", "-l",
                      os.path.join(self.folder, "log"), "-o",
                      "-p %d -k %s -c listen_addresses=127.0.0.1" % (
                          self.port, self.folder), "start")
            self.sql(TABLE)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if os.path.exists(self.pid_file):
            self.tool("pg_ctl", "-D", self.data, "-m", "immediate", "-w",
                      "stop")
        shutil.rmtree(self.folder, ignore_errors=True)

    def tool(self, name, *args):
        """Its output; a file takes it, since a server that pg_ctl started
        would keep a pipe open for ever."""
        with tempfile.TemporaryFile("w+") as out:
            status = subprocess.run(
                self.user + [os.path.join(BINARIES, name), *args],
                stdout=out, stderr=subprocess.STDOUT, timeout=300,
                cwd=self.folder).returncode
            out.seek(0)
            text = out.read()
        if status != 0:
            raise AssertionError("%s: %d %s" % (name, status, text))
        return text

    def address(self):
        return ["-h", "127.0.0.1", "-p", str(self.port), "-U", "bench",
                "postgres"]

    def sql(self, text):
        return self.tool("psql", *self.address(), "-qAtc", text)

    def pgbench(self, clients, seconds, script):
        path = os.path.join(self.folder, "script")
        with open(path, "w") as f:
            f.write(script)
        os.chmod(path, 0o644)
        log = os.path.join(self.folder, "tx")
        for longer in (1, 4, 16):
            text = self.tool("pgbench", "-n", "-M", "prepared", "-c",
                             str(clients), "-j", str(min(clients, 2)), "-T",
                             str(seconds * longer), "-f", path, "-l",
                             "--log-prefix=" + log, *self.address())
            if "tps = " in text:	# else a busy machine did not even begin
                break
        rate = float(text.split("tps = ")[1].split()[0])
        times = []
        for name in glob.glob(log + ".*"):
            with open(name) as f:
                times += [int(line.split()[2]) for line in f]
            os.unlink(name)
        times.sort()
        return {"rate": rate, "p50_us": times[len(times) // 2],
                "p99_us": times[len(times) * 99 // 100],
                "max_us": times[-1], "requests": len(times)}

    def insert(self, clients, seconds):
        return self.pgbench(clients, seconds, INSERT % json.dumps(
            kib_row("x")).replace("'", "''"))

    def select(self, clients, seconds):
        keys = int(self.sql("SELECT max(substr(id, 2)::int) FROM r"))
        return self.pgbench(clients, seconds, SELECT % keys)


class Nginx:
    CONF = """
worker_processes auto;
daemon off;
error_log stderr;
pid %(folder)s/pid;
events { worker_connections 1024; }
http {
    access_log off;
    keepalive_requests 1000000000;
    client_body_temp_path %(folder)s;
    proxy_temp_path %(folder)s;
    fastcgi_temp_path %(folder)s;
    uwsgi_temp_path %(folder)s;
    scgi_temp_path %(folder)s;
    server {
        listen 127.0.0.1:%(port)d reuseport;
        location / { return 200 '{"status":"ok"}'; }
    }
}
"""

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="memwald-bench-")
        self.port = free_port()
        path = os.path.join(self.folder, "conf")
        with open(path, "w") as f:
            f.write(self.CONF % {"folder": self.folder, "port": self.port})
        self.proc = subprocess.Popen(
            ["/usr/sbin/nginx", "-e", "stderr", "-c", path],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for("nginx", lambda: os.path.exists(os.path.join(
            self.folder, "pid")), 10)
        return self

    def __exit__(self, *_):
        self.proc.send_signal(signal.SIGTERM)
        self.proc.wait(30)
        shutil.rmtree(self.folder, ignore_errors=True)
