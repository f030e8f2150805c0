"""A failed seal is a seal failure and a failed fold a fold failure: in the log,
in metrics and in the status; the next tick still runs (issue 4, point 9).
"""

import unittest

import memwal
from harness import Server, wait_for
from rows import row

SEAL = "rollout_wal_flush_total"
FOLD = "rollout_wal_cleanup_total"


def series(name, result, kind="rollout"):
    """The metric's series; without kind that of the route."""
    return '%s{result="%s"%s}' % (
        name, result, ',kind="%s"' % kind if kind else "")


class Errors(unittest.TestCase):
    def status(self, s):
        return s.status()["stores"][0]

    def counts(self, c):
        """{what: how often it failed}, each counted in its own place."""
        values = c.metrics()
        return {
            "seal": values[series(SEAL, "failed")],
            "flush": values["rollout_flush_errors_total"],
            "fold": values[series(FOLD, "failed")],
            "read": values['rollout_wal_merge_errors_total{phase="read"}'],
            "timeouts": values[series(SEAL, "timeout")]
            + values[series(FOLD, "timeout")],
        }

    def test_the_tickers(self):
        """A tick a second, each of them forced."""
        with Server(workers=1, args=[
                "--rollout-flush-interval-secs=1",
                "--rollout-cleanup-interval-secs=1"]) as s:
            s.wait_walked()
            c = s.client()
            c.create("st")
            none = self.counts(c)
            self.assertEqual(set(none.values()), {0})
            s.fault("seal_write=fail:5")
            c.append("st", [row("a")]).must(201)
            wait_for("two ticks to fail", lambda: self.counts(c)["seal"] >= 2)
            failed = self.counts(c)
            self.assertEqual(failed["fold"], 0)
            self.assertEqual(failed["read"], 0)
            self.assertGreaterEqual(failed["flush"], 2)
            wait_for("the status", lambda: self.status(s)["seal_errors"] >= 2)
            self.assertEqual(self.status(s)["fold_errors"], 0)
            self.assertEqual(self.status(s)["last_error_phase"], "seal")
            self.assertIn("store=st phase=seal", s.log())

            # Folds go wrong instead; seals go on.
            s.fault("fold_prepare=fail:5")
            s.fault("seal_write=off")
            wait_for("two folds to fail", lambda: self.counts(c)["fold"] >= 2)
            failed = self.counts(c)
            self.assertGreaterEqual(failed["read"], 2)
            self.assertGreater(c.metrics()[series(SEAL, "ok")], 0)
            self.assertGreaterEqual(self.status(s)["fold_errors"], 2)
            self.assertEqual(self.status(s)["last_error_phase"], "prepare")
            self.assertIn("store=st phase=prepare", s.log())
            seals = self.status(s)["seal_errors"]
            c.append("st", [row("b")]).must(201)
            wait_for("it to be sealed", lambda: memwal.generations_made(
                s.store_dir("st")) >= 2)
            self.assertEqual(self.status(s)["seal_errors"], seals)

            s.fault("fold_prepare=off")
            wait_for("the fold", lambda: not any(memwal.pending(
                s.store_dir("st")).values()))
            wait_for("it to be counted", lambda:
                     c.metrics()[series(FOLD, "merged")] > 0)
            self.assertEqual([r["id"] for r in c.list("st")], ["a", "b"])
            self.assertEqual(self.counts(c)["timeouts"], 0)
            wait_for("a clean status", lambda:
                     self.status(s)["errors_in_row"] == 0)

    def test_the_route(self):
        """Counted without kind; who asked is told which of the two it was."""
        with Server(workers=1,
                    args=["--rollout-flush-interval-secs=0"]) as s:
            s.wait_walked()
            c = s.client()
            c.create("st")
            c.append("st", [row("a")]).must(201)
            route = "/api/v1/internal/merge-wal/st"
            s.fault("seal_write=fail:5")
            self.assertGreaterEqual(c.post(route).status, 500)
            values = c.metrics()
            self.assertEqual(values[series(SEAL, "failed")], 1)
            for kind in ("rollout", ""):
                self.assertEqual(values[series(FOLD, "failed", kind)], 0)
            s.fault("seal_write=off")
            s.fault("fold_commit=fail:5")
            self.assertGreaterEqual(c.post(route).status, 500)
            values = c.metrics()
            self.assertEqual(values[series(SEAL, "failed")], 1)
            self.assertGreater(values[series(FOLD, "failed", "")], 0)
            self.assertGreater(values[
                'rollout_wal_merge_errors_total{phase="append"}'], 0)
            s.fault("fold_commit=off")
            # The run after the one that failed may have done it already.
            c.merge_all("st")
            self.assertEqual(c.merge("st"), 0)
            values = c.metrics()
            self.assertEqual(values[series(FOLD, "merged", "")], 1)
            self.assertGreater(values[series(FOLD, "noop", "")], 0)
            self.assertEqual(values[
                "rollout_wal_generations_reclaimed_total"], 1)
            for phase in ("seal", "read", "delete_keys", "append", "drain"):
                self.assertGreater(values[
                    'rollout_wal_merge_duration_seconds_count{phase="%s"}'
                    % phase], 0, phase)
            for name in ("rollout_wal_merge_lock_wait_seconds_count",
                         "rollout_wal_merge_slot_wait_seconds_count",
                         "rollout_merge_budget_wait_seconds_count"):
                self.assertGreater(values[name], 0, name)


if __name__ == "__main__":
    unittest.main()
