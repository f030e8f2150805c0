"""What refuses to start, and how it says so (D.4: where nothing can start)."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest

from harness import SLOW, Server, build_path, free_port, wait_for


def run(*args, env=None, binary="memwald", timeout=30):
    clean = {k: v for k, v in os.environ.items()
             if not k.startswith(("MEMWALD_", "ROLLOUT_", "INSTANCE_ID"))}
    clean.update(env or {})
    return subprocess.run([build_path(binary), *args], env=clean,
                          capture_output=True, text=True,
                          timeout=timeout * SLOW)


class Refusals(unittest.TestCase):
    def setUp(self):
        self.tmp = tempfile.mkdtemp(prefix="memwald-test-")
        self.addCleanup(shutil.rmtree, self.tmp, True)

    def refused(self, part, *args, **kw):
        done = run(*args, **kw)
        self.assertEqual(done.returncode, 1, done.stderr)
        errors = [x for x in done.stderr.splitlines()
                  if x.startswith("memwald:") or " ERROR " in x]
        self.assertEqual(len(errors), 1, done.stderr)
        self.assertIn(part, errors[0])

    def test_options(self):
        self.refused("'--prot' is no option", "--prot", "3")
        self.refused("--port: 70000 is above", "--port=70000")
        self.refused("MEMWALD_WORKERS: 'many'", env={"MEMWALD_WORKERS": "many"})
        self.refused("--config /nonexistent", "--config=/nonexistent")
        self.refused("--workers is more than", "--workers=5",
                     "--workers-max=4", "--data-dir", self.tmp)
        self.refused("instance id", "--instance-id=a#1", "--data-dir", self.tmp)
        self.refused("only local", "--data-dir=s3://bucket/x")
        self.refused("not an IPv4", "--host=nowhere", "--data-dir", self.tmp)

    def test_help(self):
        done = run("--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("--rollout-flush-interval-secs", done.stdout)
        self.assertIn(".TH MEMWALD", run("--help-man").stdout)
        self.assertRegex(run("--version").stdout, r"^memwald \d+\.\d+")
        self.assertIn("status", run("--help", binary="memwaldctl").stdout)

    def test_data_directory(self):
        path = os.path.join(self.tmp, "file")
        open(path, "w").close()
        self.refused("is no directory", "--data-dir", path)
        self.refused(path + "/sub", "--data-dir", path + "/sub")

    def test_second_instance_names_its_own_socket(self):
        with Server() as s:
            port = free_port()
            self.refused("name this one's own with --admin-socket",
                         "--data-dir", s.data_dir, "--instance-id=other",
                         "--port=%d" % port, "--admin-socket", s.socket)
            with Server(data_dir=s.data_dir, instance_id="other") as t:
                self.assertEqual(t.status()["instance_id"], "other")
                self.assertEqual(s.status()["instance_id"], "test")

    def test_identity(self):
        for env, args, want in (
                ({"HOSTNAME": "h1"}, [], "h1"),
                ({"HOSTNAME": "h1"}, ["--instance-id=i1"], "i1"),
                ({"HOSTNAME": "h1", "INSTANCE_ID": "i2"}, [], "i2")):
            with self.subTest(want):
                s = Server(env=env)
                command = [x for x in s.command()
                           if not x.startswith("--instance-id")] + args
                s.command = lambda line=command: line
                with s:
                    self.assertEqual(s.status()["instance_id"], want)

    def test_memory_too_small_for_the_segment(self):
        self.refused("bytes", "--data-dir", self.tmp, "--port=0",
                     "--rollout-cache-capacity=1000000", "--workers=1",
                     "--workers-max=256", timeout=60)

    def test_nothing_can_start(self):
        s = Server(faults="worker_start=fail:5")
        s.start(wait=False)
        self.addCleanup(s.end)
        self.assertEqual(s.proc.wait(30 * SLOW), 1)
        self.assertIn("no worker gets through its start", s.log())
        s.proc = None

    def test_a_stop_is_heard_while_it_waits_for_the_port(self):
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            s = Server(port=other.getsockname()[1])
            s.start(wait=False)
            self.addCleanup(s.end)
            wait_for("the wait", lambda: "waiting for it" in s.log())
            s.kill(s.proc.pid, signal.SIGTERM)
            self.assertEqual(s.proc.wait(5 * SLOW), 0)
            s.proc = None

    def test_ctl_without_a_server(self):
        done = run("--admin-socket", os.path.join(self.tmp, "none"), "status",
                   binary="memwaldctl")
        self.assertEqual(done.returncode, 2)
        self.assertIn("no server answers", done.stderr)
        self.assertEqual(run(binary="memwaldctl").returncode, 1)
        with Server() as s:
            done = run("--socket=" + s.socket, "dance", binary="memwaldctl")
            self.assertEqual(done.returncode, 1)
            self.assertIn("no such command", done.stderr)


if __name__ == "__main__":
    unittest.main()
