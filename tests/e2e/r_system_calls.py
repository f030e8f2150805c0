"""What one append asks of the kernel (field fault A.8, design 4).

With --loop=epoll strace sees it: one synced write into an entry that exists,
no name made, then the 201; that is where commits are appended (--wal=append).
Where a name is made, as by every commit that is put, file and folder are
synced before the answer.
"""

import os
import re
import signal
import subprocess
import tempfile
import time
import unittest

from harness import Server, wait_for
from rows import kib_row

NAMES = r"\b(open|openat|creat|rename\w*|link\w*|unlink\w*|mkdir\w*)\("


class SystemCalls(unittest.TestCase):
    def traced(self, server, action):
        """Lines of strace over all of the server during action()."""
        with tempfile.NamedTemporaryFile("r") as out:
            flags = [x for p in server.pids() for x in ("-p", str(p))]
            trace = subprocess.Popen(
                ["strace", "-f", "-y", "-o", out.name, "-e",
                 "trace=%file,write,pwrite64,writev,pwritev,pwritev2,sendmsg,"
                 "sendto,fsync,fdatasync,sync_file_range,fallocate"] + flags,
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            try:
                for _ in server.pids():
                    self.assertIn(b"attached", trace.stderr.readline())
                action()
            finally:
                trace.send_signal(signal.SIGINT)
                trace.communicate()
            return out.read().splitlines()

    def test_an_append_into_an_entry_that_exists(self):
        with Server(workers=1, loop="epoll", wal="append",
                    args=["--rollout-flush-interval-secs=0"]) as s, \
                s.client() as c:
            s.wait_walked()
            c.create("st")
            for k in range(3):
                c.append("st", [kib_row("warm%d" % k)]).must(201)
            lines = self.traced(s, lambda: c.append(
                "st", [kib_row("traced")]).must(201))
            inside = [x for x in lines if s.data_dir in x]
            writes = [x for x in inside if re.search(r"\bp?writev?2?(64)?\(", x)]
            self.assertEqual(len(writes), 1, inside)
            synced = "RWF_DSYNC" in writes[0] or "RWF_SYNC" in writes[0] or any(
                re.search(r"\bf(data)?sync\(.*_mem_wal", x) for x in inside)
            self.assertTrue(synced, inside)
            made = [x for x in inside if re.search(NAMES, x)]
            self.assertEqual(made, [])

    def test_names_are_synced_before_the_answer(self):
        """The first append makes a shard: every new name's folder is synced."""
        with Server(workers=1, loop="epoll",
                    args=["--rollout-flush-interval-secs=0"]) as s, \
                s.client() as c:
            s.wait_walked()
            c.create("st")
            lines = self.traced(s, lambda: c.append(
                "st", [kib_row("first")]).must(201))
            answer = max(i for i, x in enumerate(lines)
                         if "HTTP/1.1 201" in x)
            before = lines[:answer]
            folders = set()
            for x in before:
                m = re.search(r"\b(?:renameat2?|linkat)\(.*?<([^>]*)>, "
                              r"\"([^\"]*)\"[^<]*(?:<([^>]*)>, \"([^\"]*)\")",
                              x)
                if m and s.data_dir in x and " = 0" in x:
                    folders.add(os.path.dirname(
                        os.path.join(m.group(3), m.group(4))))
            synced = set(re.findall(r"\bf(?:data)?sync\(\d+<([^>]*)>",
                                    "\n".join(before)))
            self.assertTrue(synced, "nothing was synced")
            self.assertEqual(folders - synced, set(),
                             "\n".join(x for x in before if s.data_dir in x))


class Silence(unittest.TestCase):
    def test_an_idle_server_does_not_spin(self):
        with Server(workers=2) as s:
            s.wait_walked()

            def ticks():
                total = 0
                for pid in s.pids():
                    with open("/proc/%d/stat" % pid) as f:
                        part = f.read().rsplit(")", 1)[1].split()
                    total += int(part[11]) + int(part[12])
                return total
            before, until = ticks(), time.monotonic() + 1
            wait_for("a second to pass", lambda: time.monotonic() > until)
            self.assertLess(ticks() - before, 20)	# of 100 a second each


if __name__ == "__main__":
    unittest.main()
