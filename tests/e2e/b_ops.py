"""Deployment files name what there is: metrics, routes, options, times."""

import json
import os
import re
import subprocess
import tempfile
import unittest

from harness import ROOT, Server, build_path
from rows import row

FUNCTIONS = {"sum", "rate", "increase", "max", "histogram_quantile", "by",
             "label_values"}
SECONDS = {"m": 60, "s": 1, "": 1}


def text_of(name):
    with open(os.path.join(ROOT, "ops", name)) as f:
        return f.read()


def names_in(query):
    """The metrics of a PromQL expression."""
    query = re.sub(r'\{[^}]*\}|\[[^\]]*\]|"[^"]*"', " ", query)
    query = re.sub(r"\bby\s*\([^)]*\)", " ", query)
    return set(re.findall(r"[a-zA-Z_]\w*", query)) - FUNCTIONS


def labels_in(query):
    """(metric, label) for each label that a selector names."""
    return {(name, label) for name, selector in
            re.findall(r"(\w+)\{([^}]*)\}", query)
            for label in re.findall(r"(\w+)\s*[=!]~?", selector)}


def labels_by(query):
    """Labels by which it sums."""
    return {label for words in re.findall(r"\bby\s*\(([^)]*)\)", query)
            for label in re.findall(r"\w+", words)}


def exported(body):
    """{name: labels} of /metrics, as Prometheus would store them."""
    found = {}
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", body, re.M):
        for end in ("_bucket", "_sum", "_count") if kind == "histogram" \
                else ("",):
            found[name + end] = set()
    for name, labels in re.findall(r"^(\w+)\{(.*)\} \S+$", body, re.M):
        found[name] |= set(re.findall(r'(\w+)="', labels))
    return found


class Ops(unittest.TestCase):
    def queries(self):
        rules = re.findall(r"^\s+expr: (.+)$", text_of(
            "prometheus/memwald-alerts.yml"), re.M)
        board = json.loads(text_of("grafana/memwald.json"))
        panels = [t["expr"] for p in board["panels"] for t in p["targets"]]
        lists = [v["query"].split(",")[0] + ")"
                 for v in board["templating"]["list"] if v["type"] == "query"]
        self.assertGreater(len(rules), 10)
        self.assertGreater(len(panels), 20)
        return rules + panels + lists

    def test_every_query_names_an_exported_metric(self):
        with Server() as s, s.client() as c:
            c.create("st")
            c.append("st", [row("a")], flush=True).must(201)
            c.list("st")
            there = exported(c.get("/metrics").must(200).body.decode())
        self.assertIn("memwald_wal_sync_seconds_bucket", there)
        for query in self.queries():
            with self.subTest(query):
                names = names_in(query)
                self.assertTrue(names)
                self.assertEqual(names - set(there) - {"up"}, set())
                for name, label in labels_in(query):
                    self.assertIn(label, there.get(name, set()) |
                                  {"instance", "job"})
                self.assertEqual(labels_by(query) - {"instance", "job"} -
                                 set().union(*(there.get(n, set())
                                               for n in names)), set())

    def test_paths_are_routes_and_flags_are_options(self):
        with open(os.path.join(ROOT, "worker/api/route.def")) as f:
            routes = set(re.findall(r'ROUTE\(\w+, "([^"]+)"', f.read()))
        with open(os.path.join(ROOT, "common/config.def")) as f:
            options = f.read()
        for name, probes in (("kubernetes/memwald.yaml", 4),
                             ("haproxy/haproxy.cfg", 1)):
            paths = re.findall(r"(?:uri |path: )(/[^\s,}]+)", text_of(name))
            self.assertGreaterEqual(len(paths), probes, name)
            self.assertEqual(set(paths) - routes, set(), name)
        for name in ("kubernetes/memwald.yaml", "systemd/memwald.service"):
            text = re.sub(r"(?m)^\s*#.*$", "", text_of(name))
            flags = re.findall(r"--([a-z][a-z-]+)=", text)
            variables = re.findall(r"\b(MEMWALD_\w+)=", text)
            self.assertTrue(flags)
            for word in flags + variables:
                self.assertIn('"%s"' % word, options, name)

    def test_there_is_time_to_drain(self):
        pods = text_of("kubernetes/memwald.yaml")
        need = [int(re.search(pattern, pods).group(1)) for pattern in (
            r'sleep", "(\d+)"', r"drain-delay-secs=(\d+)", r"drain-secs=(\d+)")]
        self.assertGreater(int(re.search(
            r"terminationGracePeriodSeconds: (\d+)", pods).group(1)), sum(need))
        unit = text_of("systemd/memwald.service")
        need = [int(n) for n in re.findall(r"MEMWALD_DRAIN\w*=(\d+)", unit)]
        self.assertEqual(len(need), 2)
        self.assertGreater(int(re.search(
            r"TimeoutStopSec=(\d+)", unit).group(1)), sum(need))

    def test_balancers_close_first(self):
        """Field fault G.8: idle connections to us, against our own limit."""
        with open(os.path.join(ROOT, "common/config.def")) as f:
            ours = int(re.search(r'"MEMWALD_KEEPALIVE_SECS",\s*(\d+),',
                                 f.read()).group(1))
        for name, pattern in (
                ("nginx/memwald.conf", r"keepalive_timeout (\d+)([ms]?)"),
                ("haproxy/haproxy.cfg", r"pool-purge-delay (\d+)([ms]?)")):
            number, unit = re.search(pattern, text_of(name)).groups()
            self.assertLess(int(number) * SECONDS[unit], ours, name)

    def test_a_name_is_one_word(self):
        """Else it would be another instance, or an option, that the server is
        told; nobody is asked: there is no server."""
        env = dict(os.environ, MEMWALDCTL=build_path("memwaldctl"))
        there = os.path.join(ROOT, "ops")
        for words in (
                ["instance-drain", "--instance= "],
                ["instance-drain", "--instance=\t", "--undo"],
                ["instance-drain", "--instance="],
                ["instance-drain", "--instance=--help"],
                ["instance-drain", "--instance=two --dry-run"],
                ["orphans-adopt", "a b"], ["orphans-adopt", ""],
                ["ordinals-list", "--owner=--left"],
                ["ordinal-reassign", "two#1", "one --dry-run"]):
            run = subprocess.run(
                [os.path.join(there, words[0]), "--admin-socket=/nowhere",
                 *words[1:]], env=env, capture_output=True, text=True)
            self.assertEqual((run.returncode, run.stdout), (1, ""), words)
            self.assertIn("is no word", run.stderr)
        for word in ("", " ", "a b", "a\tb", "a\n"):
            run = subprocess.run(
                [build_path("memwaldctl"), "--admin-socket=/nowhere", "drain",
                 "instance", word], capture_output=True, text=True)
            self.assertEqual((run.returncode, run.stdout), (1, ""), word)
            self.assertIn("white space", run.stderr)

    def test_what_is_left_is_late_or_not_told(self):
        """ordinals-list says "in time" of what is late alone, not where it was
        refused, or nobody answered. For memwaldctl there is a script."""
        with tempfile.TemporaryDirectory() as there:
            ctl = os.path.join(there, "memwaldctl")
            with open(ctl, "w") as f:
                f.write("""#!/bin/sh
                    case $2 in
                    left) echo '{"error":"trouble"}' >&2; exit $STATUS ;;
                    *) echo '{"ordinals":[{"name":"one","state":"owned",
                        "instance":"one","worker":0,"version":1,
                        "changed_ms":1,"owner_before":"","drained":""}]}' ;;
                    esac""")
            os.chmod(ctl, 0o755)
            for status in (1, 2, 4):
                run = subprocess.run(
                    [os.path.join(ROOT, "ops/ordinals-list"), "--left",
                     "--admin-socket=/nowhere", "--timeout=0"],
                    env=dict(os.environ, MEMWALDCTL=ctl, STATUS=str(status)),
                    capture_output=True, text=True)
                self.assertEqual(run.returncode, status, run.stderr)
                self.assertIn("trouble", run.stderr)
                self.assertEqual("not known in time of one" in run.stderr,
                                 status == 4, run.stderr)

    def test_the_unit_is_one_and_is_hardened(self):
        with Server() as s:
            path = os.path.join(s.tmp, "memwald.service")
            with open(path, "w") as f:
                f.write(text_of("systemd/memwald.service").replace(
                    "/usr/bin/memwald", build_path("memwald")))
            for words in (["verify", "--man=no"],
                          ["security", "--offline=true", "--threshold=20"]):
                run = subprocess.run(
                    ["systemd-analyze", words[0], *words[1:], path],
                    capture_output=True, text=True)
                self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
                self.assertEqual([x for x in run.stderr.splitlines()
                                  if "memwald.service" in x], [])

    def test_it_is_installed(self):
        """Where a package wants it, and there it runs and finds its own."""
        env = {k: v for k, v in os.environ.items() if "MAKE" not in k}
        with tempfile.TemporaryDirectory() as tmp:
            root = tmp + "/opt/m"
            for _ in range(2):
                subprocess.run(["make", "-s", "install", "DESTDIR=" + tmp,
                                "PREFIX=/opt/m"], cwd=ROOT, env=env, check=True)
            env["PATH"] = root + "/bin:" + env["PATH"]
            for name in ("memwald", "memwaldctl"):
                self.assertTrue(subprocess.run(
                    [name, "--version"], env=env, text=True, check=True,
                    stdout=subprocess.PIPE).stdout.startswith(name + " "))
                self.assertTrue(os.path.exists(
                    root + "/share/man/man8/%s.8" % name))
            scripts = {name for name in os.listdir(os.path.join(ROOT, "ops"))
                       if os.access(os.path.join(ROOT, "ops", name), os.X_OK)
                       and os.path.isfile(os.path.join(ROOT, "ops", name))}
            self.assertEqual(scripts | {"common.bash"},
                             set(os.listdir(root + "/lib/memwald")))
            run = subprocess.run([root + "/lib/memwald/ordinals-list",
                                  "--admin-socket=" + tmp + "/none"], env=env,
                                 capture_output=True, text=True)
            self.assertEqual(run.returncode, 2, run.stderr)	# nobody there
            with open(root + "/lib/systemd/system/memwald.service") as f:
                self.assertIn("ExecStart=/opt/m/bin/memwald ", f.read())
            run = subprocess.run(["systemd-sysusers", "--dry-run", root +
                                  "/lib/sysusers.d/memwald.conf"],
                                 capture_output=True, text=True)
            self.assertEqual(run.returncode, 0, run.stderr)


if __name__ == "__main__":
    unittest.main()
