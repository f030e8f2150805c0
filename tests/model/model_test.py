"""The protocol's models: clean as designed, and broken by each rule that is left out.

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

# A model and its bounds, in which the rules as they are must hold.
CLEAN = [
    ("protocol", "OWNERS=2 WORK=2"),
    ("protocol", "OWNERS=1 WORK=2 COLLECTS=1 READS=1"),
    ("protocol", "OWNERS=2 DELETES=1 WORK=2"),
    ("store", "WORK=3"),
    ("store", "KEYS=2 SEALED=1 SECOND=1 ROWS=0 WORK=1 READS=1"),
    ("store", "SHARDS=1 SECOND=1 WORK=2"),
    ("store", "SEALED=1 MAINTAINERS=2 WORK=2"),
    ("store", "SEALED=1 WORK=2 COMPACTS=1 PINS=1 READS=1"),
    ("names", "ROWS=1"),
    ("chain", "COLLECTS=1 LATE=0"),
    ("guests", "DIES=1 OPS=1"),
    ("guests", "RETIRES=1 ROWS=1"),
    ("guests", "LEASES=1 OPS=0"),
]
CLEAN_LONG = [
    ("protocol", "OWNERS=1 WORK=2 COLLECTS=2 OTHERS=2"),
    ("protocol", "OWNERS=1 ROWS=2 MAINTAINERS=2 WORK=2"),
    ("store", "KEYS=2 WORK=2 READS=1"),
    ("protocol", "OWNERS=2 ROWS=2 WORK=2"),
    ("protocol", "OWNERS=2 WORK=2 READS=1"),
    ("protocol", "OWNERS=2 WORK=2 COLLECTS=2"),
    ("protocol", "OWNERS=2 DELETES=1 WORK=2 READS=1"),
    ("store", "SECOND=1 WORK=2"),
    ("store", "MAINTAINERS=2 WORK=2"),
    ("store", "SHARDS=1 SECOND=1 WORK=2 ROWS=2"),
    ("store", "SHARDS=1 SECOND=1 WORK=2 COLLECTS=1"),
    ("names", "ROWS=2"),
    ("chain", "COLLECTS=2 LATE=1"),
    ("guests", "DIES=1 OPS=2"),
    ("guests", "GUESTS=2 OPS=3"),
    ("guests", "RETIRES=1 OPS=2 DIES=1 ROWS=1"),
    ("guests", "LEASES=1 OPS=1 DIES=1 ROWS=1"),
]

# A rule that is left out, and bounds in which that loses something.
BROKEN = {
    "NO_SENTINEL": ("protocol", "OWNERS=2 WORK=2"),
    "NO_FENCE": ("protocol", "OWNERS=2 WORK=2"),
    "NO_SEAL_EPOCH": ("protocol", "OWNERS=2 ROWS=2 WORK=2"),
    "NO_LIST": ("protocol", "OWNERS=2 WORK=2 COLLECTS=2"),
    "NO_BASE_CHECK": ("protocol", "OWNERS=1 WORK=2 COLLECTS=2 OTHERS=2"),
    "ABSOLUTE_DRAIN": ("protocol", "OWNERS=1 ROWS=2 MAINTAINERS=2 WORK=2"),
    "NO_SERIAL": ("protocol", "OWNERS=1 WORK=2 COLLECTS=1 READS=1"),
    "BY_NAME": ("protocol", "OWNERS=2 DELETES=1 WORK=2"),
    "LATE_IS_OURS": ("store", "ROWS=2 WORK=1"),
    "NO_REPROBE": ("store", "SEALED=1 MAINTAINERS=2 WORK=2"),
    "NO_SEQ": ("store", "SEALED=1 MAINTAINERS=2 WORK=2"),
    "NO_REMAP": ("store", "SEALED=1 WORK=2 COMPACTS=1"),
    "PIN_ASKED_BEFORE": ("store", "SEALED=1 WORK=2 PINS=1"),
    "NO_BASE_TOO": ("store", "KEYS=2 SEALED=1 SECOND=1 ROWS=0 WORK=1 READS=1"),
    "BASE_FIRST": ("store", "SEALED=1 WORK=1 READS=1"),
    "LOOK_EXISTS": ("names", "ROWS=2 DELETERS=1"),
    "NO_NAME_LOCK": ("names", "ROWS=1"),
    "NO_GUEST_EPOCH": ("guests", "DIES=1 OPS=1 NO_CHECK_AGAIN"),
    "NO_RETIRE_FENCE": ("guests", "RETIRES=1 ROWS=1"),
    "NO_CHECK_AGAIN": ("guests", "RETIRES=1 ROWS=1"),
    "NO_HOME_EPOCH": ("guests", "DIES=1 OPS=2"),
    "NO_TAKE_BACK": ("guests", "LEASES=1 OPS=0"),
    "NO_CHAIN_LIST": ("chain", "COLLECTS=1 LATE=0"),
}


def search(model, flags):
    """(what is violated or None, states): an exhaustive search."""
    with tempfile.TemporaryDirectory() as folder:
        defines = ["-D" + flag for flag in flags.split()]
        subprocess.run(["spin", *defines, "-a",
                        os.path.join(HERE, model + ".pml")],
                       cwd=folder, check=True, capture_output=True)
        subprocess.run(["gcc", "-w", "-O2" if LONG else "-O0",
                        "-DSAFETY", "-DNOCLAIM",
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
        for model, flags in CLEAN + (CLEAN_LONG if LONG else []):
            with self.subTest(model, flags=flags):
                violated, states = search(model, flags)
                print("holds: %s, %s, %d states" % (model, flags, states),
                      flush=True)
                self.assertIsNone(violated)
                self.assertGreater(states, 1000)

    def test_each_rule_is_needed(self):
        for rule, (model, flags) in BROKEN.items():
            with self.subTest(rule):
                violated, states = search(model, flags + " " + rule)
                print("%s: %s after %d states" % (rule, violated, states),
                      flush=True)
                self.assertRegex(violated or "", "^assertion violated ")


if __name__ == "__main__":
    unittest.main()
