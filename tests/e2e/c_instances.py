"""Two servers on one directory: two hosts, each with shards of its own."""

import os
import subprocess
import unittest

from harness import Server, free_port
from rows import row, same_rows


class Instances(unittest.TestCase):
    def refused(self, server, **kw):
        """It must end by itself with status 1: what it said."""
        second = Server(data_dir=server.data_dir, **kw)
        self.addCleanup(second.end)
        second.start(wait=False)
        self.assertEqual(second.proc.wait(60), 1)
        log = second.log()
        second.proc = None
        self.assertEqual(server.proc.poll(), None)
        return log

    def test_the_same_instance_id_is_refused(self):
        with Server(instance_id="one") as s, s.client() as c:
            c.create("st")
            log = self.refused(s, instance_id="one")
            self.assertIn("one", log)
            c.append("st", [row("a")]).must(201)

    def test_the_same_port_is_refused(self):
        with Server(instance_id="one") as s:
            log = self.refused(s, instance_id="two", port=s.port)
            self.assertIn(str(s.port), log)

    def test_a_taken_admin_socket_is_refused(self):
        with Server(instance_id="one") as s:
            second = Server(data_dir=s.data_dir, instance_id="two")
            second.socket = s.socket
            self.addCleanup(second.end)
            second.start(wait=False)
            self.assertEqual(second.proc.wait(60), 1)
            second.proc = None
            self.assertIn("--admin-socket", second.log())
            self.assertTrue(s.status()["processes"])

    def test_rows_of_the_other_after_a_seal(self):
        with Server(instance_id="one", workers=2) as one, \
                Server(instance_id="two", workers=2,
                       data_dir=one.data_dir) as two, \
                one.client() as a, two.client() as b:
            a.create("st")
            sent = [row("from-a"), row("also-a")]
            a.append("st", sent, flush=True).must(201)
            same_rows(self, sent, b.list("st"))
            sent.append(row("from-b"))
            b.append("st", sent[-1:], flush=True).must(201)
            for c in (a, b):
                same_rows(self, sent, c.list("st"))
                self.assertIsNotNone(c.record("st", "from-b"))
            a.merge_all("st")
            b.merge_all("st")
            for c in (a, b):
                same_rows(self, sent, c.list("st"))

    def test_leftovers_of_a_crash_block_nothing(self):
        """Lock file and socket of the dead are taken over (D.6)."""
        with Server() as s:
            for _ in range(5):
                s.kill_all()
                self.assertTrue(os.path.exists(s.socket))
                s.start()
            mode = os.stat(s.socket).st_mode & 0o777
            self.assertEqual(mode, 0o600)

    def test_bad_options_end_with_status_one(self):
        with Server() as s:
            program = s.command()[0]
        for words in (["--port=70000"], ["--nonsense"], ["--workers=x"],
                      ["--instance-id=a#b"], ["--loop=fast"], ["extra"]):
            run = subprocess.run(
                [program, "--port=%d" % free_port(), *words],
                capture_output=True, text=True, timeout=60)
            self.assertEqual(run.returncode, 1, words)
            self.assertIn(words[0].split("=")[0].lstrip("-"), run.stderr)
        run = subprocess.run([program, "--help"], capture_output=True,
                             text=True, timeout=60)
        self.assertEqual(run.returncode, 0)
        self.assertIn("--data-dir", run.stdout)


if __name__ == "__main__":
    unittest.main()
