"""The README's session, typed as it stands, gives what it shows (check 1)."""

import os
import re
import subprocess
import unittest

from harness import ROOT, Server

MARK = "--next--"


def session():
    """[(command, what it prints)] of the console blocks, one after another."""
    with open(os.path.join(ROOT, "README.md")) as f:
        blocks = re.findall(r"^```console\n(.*?)^```", f.read(), re.M | re.S)
    steps = []
    for line in "".join(blocks).splitlines():
        if line.startswith("$ "):
            steps.append([line[2:], []])
        elif line.startswith("> "):
            steps[-1][0] += "\n" + line[2:]
        else:
            steps[-1][1].append(line)
    return steps


class Readme(unittest.TestCase):
    def test_session(self):
        steps = session()
        self.assertGreater(len(steps), 5)
        with Server() as s:
            s.wait_walked()	# or that may fold just before the session does
            script = "".join("%s\necho; echo %s\n" % (command, MARK)
                             for command, _ in steps)
            run = subprocess.run(
                ["bash", "-eu", "-c",
                 script.replace("127.0.0.1:3000", "127.0.0.1:%d" % s.port)],
                capture_output=True, text=True, timeout=120)
            self.assertEqual(run.returncode, 0, run.stderr)
            printed = run.stdout.replace(s.data_dir, "./data").split(
                MARK + "\n")
        for (command, shown), got in zip(steps, printed):
            self.assertEqual(got.strip(), "\n".join(shown), command)


if __name__ == "__main__":
    unittest.main()
