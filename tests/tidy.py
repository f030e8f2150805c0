#!/usr/bin/env python3
"""
tidy - the rules of the tree that a script can see (style 3 and 12).

Each rule is a test: includes point down; a foreign library is included by one
.c only and by no header; every header has its guard and its contract; every
row of a table is used; scripts are clean for shellcheck; no test is skipped;
nothing of one machine, of a registry or of unfinished work is in the tree.
"""

import os
import re
import shutil
import subprocess
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# Folder: the folders right below it. Who may include what follows from it.
BELOW = {
    "common": (),
    "shm": ("common",),
    "worker/object": ("shm",),
    "worker/arrow": ("common",),
    "worker/lance": ("worker/object", "worker/arrow"),
    "worker/store": ("worker/lance",),
    "worker/maintain": ("worker/store",),
    "worker/http": ("shm",),
    "worker/api": ("worker/http", "worker/maintain"),
    "worker": ("worker/api",),
    "master": ("worker",),
    "ops": ("master",),
    "tests": ("ops",),
}
# Of what is below them these see a part only.
ONLY = {"master": {"master", "worker", "shm", "common"},
        "ops": {"ops", "master", "shm", "common"}}

# A library and its headers.
FOREIGN = {
    "liburing": r"liburing",
    "cJSON": r"cjson/",
    "libuuid": r"uuid/",
    "xxhash": r"xxhash\.h|xxh3\.h",
    "CRoaring": r"roaring/",
    "zstd": r"zstd",
    "protobuf-c": r"protobuf-c/",
    "fast_float": r"fast_float/|charconv",
    "libcurl": r"curl/",
    "libcrypto": r"openssl/",
}
SYSTEM = re.compile(
    r"(sys|linux|netinet|arpa|net|asm)/|"
    r"(assert|ctype|dirent|endian|errno|fcntl|float|inttypes|limits|locale|"
    r"math|poll|pthread|sched|setjmp|signal|spawn|stdalign|stdarg|stdatomic|"
    r"stdbool|stddef|stdint|stdio|stdlib|string|strings|syscall|termios|time|"
    r"unistd|malloc|getopt|netdb|ucontext|execinfo|immintrin|fnmatch|ftw|"
    r"threads|search)\.h$|(cstring|cstdint|cstddef|cmath|system_error|limits|"
    r"string_view|cerrno|cstdio|cstdlib)$")


def tracked(*patterns):
    run = subprocess.run(["git", "ls-files", "--cached", "--others",
                          "--exclude-standard", *patterns], cwd=ROOT,
                         capture_output=True, text=True, check=True)
    return [p for p in run.stdout.splitlines()
            if os.path.isfile(os.path.join(ROOT, p))]


def text_of(path):
    with open(os.path.join(ROOT, path), errors="replace") as f:
        return f.read()


def lines_of(path):
    return enumerate(text_of(path).splitlines(), 1)


def folder_of(path):
    """The longest folder of the table that path lies in."""
    parts = path.split("/")[:-1]
    while parts and "/".join(parts) not in BELOW:
        parts.pop()
    return "/".join(parts)


def reachable(folder):
    seen, todo = set(), [folder]
    while todo:
        at = todo.pop()
        if at not in seen:
            seen.add(at)
            todo += BELOW[at]
    return seen & ONLY[folder] if folder in ONLY else seen


def includes():
    """(file, line, how, header) of every include in the tree."""
    for path in tracked("*.c", "*.h", "*.cc"):
        for n, line in lines_of(path):
            m = re.match(r'\s*#\s*include\s+([<"])([^>"]+)[>"]', line)
            if m:
                yield path, n, m.group(1), m.group(2)


class Tidy(unittest.TestCase):
    def none(self, found, what):
        self.assertEqual([], list(found), what)

    def test_includes_point_down(self):
        bad = []
        for path, n, how, header in includes():
            if how != '"' or header.endswith(".pb-c.h"):
                continue
            source, target = folder_of(path), folder_of(header)
            if source == "tests":
                continue
            if not target or target not in reachable(source):
                bad.append("%s:%d includes %s" % (path, n, header))
        self.none(bad, "an include points up")

    def test_one_file_for_each_library(self):
        users = {}
        for path, _, how, header in includes():
            if path.startswith("tests/"):
                continue
            for name, pattern in FOREIGN.items():
                if how == "<" and re.match(pattern, header):
                    users.setdefault(name, set()).add(path)
        self.none(("%s: %s" % (name, ", ".join(sorted(files)))
                   for name, files in sorted(users.items())
                   if len(files) > 1 or any(f.endswith(".h") for f in files)),
                  "a library belongs to one .c file")

    def test_generated_messages_stay_inside(self):
        helper = "worker/lance/proto_bytes.h"	# of those files alone
        self.none(("%s:%d: %s" % (path, n, header)
                   for path, n, _, header in includes()
                   if (header.endswith(".pb-c.h") or header == helper)
                   and path != helper
                   and (not path.startswith(("worker/lance/", "tests/"))
                        or path.endswith(".h"))),
                  "protobuf types belong to the files of worker/lance")

    def test_every_library_is_in_the_table(self):
        known = list(FOREIGN.values())
        self.none(("%s:%d: %s" % (path, n, header)
                   for path, n, how, header in includes()
                   if how == "<" and not path.startswith("tests/")
                   and not SYSTEM.match(header)
                   and not any(re.match(p, header) for p in known)),
                  "name its library in FOREIGN")

    def test_headers_have_guard_and_contract(self):
        bad = []
        for path in tracked("*.h"):
            name = os.path.basename(path)[:-2]
            body = text_of(path)
            if "#ifndef MEMWALD_" not in body:
                bad.append("%s: no guard" % path)
            if not path.startswith("tests/") and not re.search(
                    r"/\*\n \* %s - " % re.escape(name), body):
                bad.append('%s: no comment "%s - what it is"' % (path, name))
        self.none(bad, "a header is a contract")

    def test_every_fault_point_is_placed(self):
        code = "\n".join(text_of(p) for p in tracked("*.c")
                         if not p.startswith("tests/"))
        points = re.findall(r"^FAULT_POINT\((\w+)", text_of(
            "common/fault.def"), re.M)
        self.assertTrue(points)
        self.none((p for p in points if not re.search(
            r"FAULT(_HERE)?\(%s\)|FAULT_%s\b" % (p, p), code)),
            "nobody stops at it")

    def test_every_fault_point_is_passed(self):
        """In the cross product of tests/torture, or elsewhere with a reason."""
        sys.path.insert(0, os.path.join(ROOT, "tests", "torture"))
        import fault_points
        points = re.findall(r"^FAULT_POINT\((\w+)", text_of(
            "common/fault.def"), re.M)
        for act in ("die", "fail"):
            passed = {name[len("test_"):]
                      for case in fault_points.cases(act, [act]).values()
                      for name in vars(case) if name.startswith("test_")}
            self.assertEqual(sorted(points), sorted(
                passed | set(fault_points.NOT_PASSED)), act)
        self.none((point for point, (_, test) in
                   fault_points.NOT_PASSED.items()
                   if point not in text_of("tests/%s/%s" % (
                       "torture" if test.endswith(".py") else "unit", test))),
                  "its test does not name it")

    def test_every_option_is_read_and_documented(self):
        rows = re.findall(r'^OPTION_(?:NUMBER\(\w+|LIVE\(\w+|TEXT\()[,\s]*(\w+),\s*'
                          r'"([\w-]+)"', text_of("common/config.def"), re.M)
        self.assertTrue(rows)
        code = "\n".join(text_of(p) for p in tracked("*.c")
                         if not p.startswith(("tests/", "common/config")))
        manual = text_of("ops/memwald.8").replace("\\-", "-")
        self.none((name for name, _ in rows if not re.search(
            r"(->|\.|CONFIG_NOW\([^()]*?,\s*)%s\b" % name, code)),
            "nobody reads this option")
        live = re.findall(r"^OPTION_LIVE\(\w+, (\w+)",
                          text_of("common/config.def"), re.M)
        self.none(("%s:%d" % (p, n) for p in tracked("worker/*.[ch]")
                   for n, line in lines_of(p)
                   if re.search(r"(->|\.)(%s)\b" % "|".join(live), line)),
                  "a live option is read with CONFIG_NOW")
        self.none((flag for _, flag in rows if "--" + flag + " "
                   not in manual), "not in the manual: make man")

    def test_every_command_is_documented(self):
        table = text_of("master/admin.def")
        plain = re.sub(r"#ifdef MEMWALD_FAULTS.*?#endif", "", table,
                       flags=re.S)
        commands = re.findall(r'^ADMIN\(\w+,\s*(\w+),\s*"([\w-]+)",\s*'
                              r'"([^"]*)",\s*([^"]*?),\s*(?:ANY|RUN),', plain,
                              re.M)
        options = re.findall(r'^ADMIN_OPTION\((\w+),\s*"([\w-]+)",\s*'
                             r'"([^"]*)"', plain, re.M)
        exits = re.findall(r"^ADMIN_EXIT\(\w+,\s*(\d+)", plain, re.M)
        self.assertEqual(len(commands), len(re.findall(r"^ADMIN\(", plain,
                                                       re.M)))
        self.assertTrue(commands and options and exits)
        manual = text_of("ops/memwaldctl.8").replace("\\-", "-")
        manual = re.sub(r"\\f[BIR]", "", manual)
        complete = text_of("ops/memwaldctl.bash")
        code = text_of("master/command.c") + "".join(
            text_of(p) for p in tracked("master/*.c"))
        want_page, want_words = [], []
        for function, name, operands, bits in commands:
            has = [(o, v) for symbol, o, v in options
                   if symbol == "JSON" or "O(%s)" % symbol in bits]
            want_page.append(".TP\n%s%s%s\n" % (name, "".join(
                " [--%s%s]" % (o, v and "=" + v) for o, v in has),
                operands and " " + operands))
            want_words.append("\t%s)\n\t\toptions='--help%s'" % (
                name, "".join(" --%s%s" % (o, v and "=") for o, v in has)))
            self.assertIn("\ncommand_%s(" % function, code)
        want_page += [".TP\n--%s%s\n" % (o, v and "=" + v)
                      for _, o, v in options]
        want_page += [".TP\n%s\n" % x for x in exits]
        want_words += [" %s" % name for _, name, _, _ in commands[1:]]
        self.none((x for x in want_page if x not in manual),
                  "not in the manual: make man")
        self.none((x for x in want_words if x not in complete),
                  "not in the completion: make man")
        self.none((x for _, x, _ in options if not re.search(
            r"ADMIN_OPTION_" + x.upper().replace("-", "_"), code)),
            "nobody reads this option")

    def test_shell_scripts(self):
        self.assertTrue(shutil.which("shellcheck"), "shellcheck is missing")
        scripts = [p for p in tracked() if p.endswith((".sh", ".bash"))
                   or (os.access(os.path.join(ROOT, p), os.X_OK)
                       and text_of(p).startswith(("#!/bin/sh", "#!/bin/bash",
                                                  "#!/usr/bin/env bash")))]
        run = subprocess.run(["shellcheck", *scripts], cwd=ROOT,
                             capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stdout)

    def test_python_compiles(self):
        for path in tracked("*.py") + ["tests/run"]:
            with self.subTest(path):
                compile(text_of(path), path, "exec")

    def test_nothing_is_skipped(self):
        pattern = re.compile(r"unittest\.ski" + r"p|self\.skip" + r"Test|"
                             r"\bskip" + r"\(\);")
        self.none(("%s:%d" % (p, n) for p in tracked("tests/*.py",
                                                     "tests/*.c")
                   for n, line in lines_of(p) if pattern.search(line)),
                  "a test that is skipped says nothing")

    def test_field_faults(self):
        """Every row of A, B, C and D has tests that name it."""
        rows = dict(re.findall(r"^\| ([ABCD]\.\d) \|.*\| ([^|]*) \|$",
                               text_of("tests/README.md"), re.M))
        self.assertEqual(sorted(rows), ["A.%d" % n for n in range(1, 9)] +
                         ["B.%d" % n for n in range(1, 10)] +
                         ["C.%d" % n for n in range(1, 6)] +
                         ["D.%d" % n for n in range(1, 9)])
        for row, named in rows.items():
            files = re.findall(r"`([\w/.]+)`", named)
            self.assertTrue(files, row)
            self.none((f for f in files if not re.search(
                r"\b%s\b" % re.escape(row), text_of("tests/" + f))),
                "does not name " + row)

    def test_no_foreign_words(self):
        # Spelt in pieces, or this file would find itself.
        words = re.compile("|".join((
            "TO" + "DO", "FIX" + "ME", r"\bXX" + r"X\b",
            r"registry\.npm" + "js", r"(deb|ftp)\.deb" + r"ian\.",
            r"(^|[\s\"'(=])/wor" + r"k/", r"(^|[\s\"'(=])/ro" + "ot/",
            "/tmp/bash" + "_jobs", r"for n" + r"ow[,. ]")))
        bad = []
        for path in tracked():
            if path.startswith("tests/data/"):
                continue
            bad += ["%s:%d: %s" % (path, n, line.strip()[:60])
                    for n, line in lines_of(path) if words.search(line)]
        self.none(bad, "not for the tree")


if __name__ == "__main__":
    unittest.main()
