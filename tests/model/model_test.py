"""The protocol's model: clean as designed, and broken by each rule that is left out.

    python3 tests/model/model_test.py            bounded searches, seconds each
    LONG=1 python3 tests/model/model_test.py     larger ones, minutes and 8 GB

Searches are exhaustive within their bounds; one that spin had to cut short, for
memory or depth, counts as failed.
"""

import os
import re
import subprocess
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
LONG = os.environ.get("LONG", "") not in ("", "0")
MEMORY_MB = 8000 if LONG else 1500

# Bounds of a search in which the rules as they are must hold.
CLEAN = [
    "OWNERS=2 WORK=2",
    "OWNERS=1 ROWS=2 MAINTAINERS=2 WORK=2",
    "OWNERS=1 WORK=2 COLLECTS=2 OTHERS=2",
    "OWNERS=1 WORK=2 COLLECTS=1 READS=1",
    "OWNERS=2 DELETES=1 WORK=2",
]
CLEAN_LONG = [
    "OWNERS=2 ROWS=2 WORK=2",
    "OWNERS=2 WORK=2 READS=1",
    "OWNERS=2 WORK=2 COLLECTS=2",
    "OWNERS=2 DELETES=1 WORK=2 READS=1",
]

# A rule that is left out, and bounds in which that loses something.
BROKEN = {
    "NO_SENTINEL": "OWNERS=2 WORK=2",
    "NO_FENCE": "OWNERS=2 WORK=2",
    "NO_SEAL_EPOCH": "OWNERS=2 ROWS=2 WORK=2",
    "NO_LIST": "OWNERS=2 WORK=2 COLLECTS=2",
    "NO_REPROBE": "OWNERS=1 ROWS=2 MAINTAINERS=2 WORK=2",
    "NO_BASE_CHECK": "OWNERS=1 WORK=2 COLLECTS=2 OTHERS=2",
    "ABSOLUTE_DRAIN": "OWNERS=1 ROWS=2 MAINTAINERS=2 WORK=2",
    "NO_SERIAL": "OWNERS=1 WORK=2 COLLECTS=1 READS=1",
    "BY_NAME": "OWNERS=2 DELETES=1 WORK=2",
}


def search(flags):
    """(what is violated or None, states): an exhaustive search."""
    with tempfile.TemporaryDirectory() as folder:
        defines = ["-D" + flag for flag in flags.split()]
        subprocess.run(["spin", *defines, "-a",
                        os.path.join(HERE, "protocol.pml")],
                       cwd=folder, check=True, capture_output=True)
        subprocess.run(["gcc", "-w", "-O1", "-DSAFETY", "-DNOCLAIM",
                        "-DCOLLAPSE", "-DMEMLIM=%d" % MEMORY_MB,
                        "-DVECTORSZ=1024", "-o", "pan", "pan.c"],
                       cwd=folder, check=True)
        text = subprocess.run(["./pan", "-m20000"], cwd=folder, check=True,
                              capture_output=True, text=True).stdout
    states = int(re.search(r"(\d+) states, stored", text).group(1))
    found = re.search(r"^pan:\d+: (.*)", text, re.M)
    if found:
        return found.group(1), states
    if "errors: 0" not in text or "Search not completed" in text:
        raise AssertionError(text)
    return None, states


class Model(unittest.TestCase):
    def test_the_rules_hold(self):
        for flags in CLEAN + (CLEAN_LONG if LONG else []):
            with self.subTest(flags):
                violated, states = search(flags)
                print("holds: %s, %d states" % (flags, states), flush=True)
                self.assertIsNone(violated)
                self.assertGreater(states, 1000)

    def test_each_rule_is_needed(self):
        for rule, flags in BROKEN.items():
            with self.subTest(rule):
                violated, states = search(flags + " " + rule)
                print("%s: %s after %d states" % (rule, violated, states),
                      flush=True)
                self.assertRegex(violated or "", "^assertion violated \\(")


if __name__ == "__main__":
    unittest.main()
