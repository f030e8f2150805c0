"""What containers take away: io_uring, root, a writable root (F.1, K.2)."""

import os
import sys
import tempfile
import unittest

from harness import Server
from rows import row

# Refuses io_uring_setup (425) with an errno, as the default profiles of
# container engines do, and then becomes the server.
SECCOMP = r"""
import ctypes, os, struct, sys
def op(code, jt, jf, k):
    return struct.pack("HBBI", code, jt, jf, k)
program = (op(0x20, 0, 0, 0) + op(0x15, 0, 1, 425)
           + op(0x06, 0, 0, 0x00050000 | int(sys.argv[1]))
           + op(0x06, 0, 0, 0x7fff0000))
text = ctypes.create_string_buffer(program)
class Fprog(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(38, 1, 0, 0, 0) != 0:
    sys.exit("no_new_privs")
fprog = Fprog(4, ctypes.addressof(text))
if libc.prctl(22, 2, ctypes.byref(fprog), 0, 0) != 0:
    sys.exit("seccomp: %d" % ctypes.get_errno())
os.execvp(sys.argv[2], sys.argv[2:])
"""
READ_ONLY = ('mount --bind "$0" "$0" && mount -o remount,ro,bind / && '
             'exec setpriv --reuid=10001 --regid=10001 --clear-groups '
             '--bounding-set=-all --inh-caps=-all --no-new-privs "$@"')


class Sandbox(unittest.TestCase):
    def serves(self, server):
        with server.client() as c:
            c.create("st")
            c.append("st", [row("a", content="x")]).must(201)
            c.append("st", [row("b")], flush=True).must(201)
            self.assertEqual([r["id"] for r in c.list("st")], ["a", "b"])
            c.merge_all("st")
            self.assertEqual(c.record("st", "a")["content"], "x")
            return c.metrics()

    def test_io_uring_is_refused(self):
        for errno in (1, 12, 38, 95):	# EPERM, ENOMEM, ENOSYS, EOPNOTSUPP
            with Server(loop="auto", wrap=[
                    sys.executable, "-c", SECCOMP, str(errno)]) as s:
                metrics = self.serves(s)
                self.assertEqual(metrics[
                    'memwald_processes{role="worker",loop="epoll"}'], 2)
                self.assertIn("epoll", s.log())

    def test_nobody_on_a_read_only_root(self):
        with tempfile.TemporaryDirectory(prefix="memwald-test-") as top:
            os.chmod(top, 0o755)
            data = os.path.join(top, "data")
            os.mkdir(data)
            os.chown(data, 10001, 10001)
            s = Server(data_dir=data, wrap=[
                "unshare", "--mount", "--propagation", "private",
                "/bin/sh", "-c", READ_ONLY, data])
            s.socket = os.path.join(data, "admin.sock")
            with s:
                self.serves(s)
                with open("/proc/%d/status" % s.proc.pid) as f:
                    self.assertIn("CapEff:\t0000000000000000", f.read())

    def test_a_missing_permission_is_named(self):
        with tempfile.TemporaryDirectory(prefix="memwald-test-") as top:
            os.chmod(top, 0o755)
            s = Server(data_dir=os.path.join(top, "data"), wrap=[
                "setpriv", "--reuid=10001", "--regid=10001",
                "--clear-groups"])
            self.addCleanup(s.end)
            s.start(wait=False)
            self.assertEqual(s.proc.wait(30), 1)
            errors = [x for x in s.log().splitlines() if " ERROR " in x]
            self.assertEqual(len(errors), 1, errors)
            self.assertIn("Permission denied", errors[0])
            self.assertIn(os.path.join(top, "data"), errors[0])


if __name__ == "__main__":
    unittest.main()
