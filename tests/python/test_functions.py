# SPDX-License-Identifier: Apache-2.0
"""What a loader says of itself, and the functions of the command. NumPy alone is needed."""
import time
import unittest

import stoker


class AtWork(unittest.TestCase):
    """Loader.stats() and Loader.verdict()."""

    def loop(self, loader, seconds):
        for _ in loader:
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                time.sleep(seconds)

    def test_a_slow_step_is_the_limit(self):
        with stoker.Loader("digits:?size=640", batch_size=16, num_workers=1) as loader:
            self.loop(loader, 0.005)
            verdict = loader.verdict()
        self.assertEqual((verdict.limit, verdict.steps, verdict.knob), ("step", 40, None))
        self.assertGreaterEqual(verdict.step_time, 0.005)
        self.assertGreater(verdict.step_share, 0.5)
        self.assertIn("The step is the limit", str(verdict))
        self.assertEqual(repr(verdict), verdict.text)
        self.assertIn("<b>step</b>", verdict._repr_html_())

    def test_slow_samples_are(self):
        with stoker.Loader("synthetic:?size=320&cpu=500us", batch_size=16, num_workers=0) as loader:
            self.loop(loader, 0.0001)
            verdict = loader.verdict()
            self.assertEqual((verdict.limit, verdict.knob, verdict.steps), ("one core", "num_workers", 20))
            self.assertGreater(verdict.lost_share, 0.5)
            self.assertGreaterEqual(verdict.wait_mean, 0.008)
            stats = loader.stats()
            self.assertEqual((stats.batches, stats.workers, stats.bad_samples), (20, 0, 0))
            self.assertGreaterEqual(stats.wait_s, 0.16)
            self.assertAlmostEqual(sum(stats.waits_s.values()), stats.wait_s, delta=0.02 * stats.wait_s)

    def test_idle_time_behind_a_loop_is_not_its_step(self):
        for early in (False, True):
            with stoker.Loader("digits:?size=64", batch_size=8, num_workers=1) as loader:
                for batch in loader:
                    if early:
                        break
                ended = vars(loader.verdict())
                time.sleep(0.05)
                self.assertEqual(vars(loader.verdict()), ended)
            self.assertEqual(vars(loader.verdict()), ended)  # closed

    def test_the_loop_that_runs(self):
        with stoker.Loader("digits:?size=64", batch_size=8) as loader:
            verdict = loader.verdict()
            self.assertEqual((verdict.limit, verdict.steps, verdict.gain), ("unknown", 0, 1))
            left = iter(loader)
            next(left)
            running = iter(loader)
            for _ in range(3):
                next(running)
            del left  # of another loop: it does not end this one's measuring
            next(running)
            self.assertEqual(loader.verdict().steps, 4)

    def test_shown(self):
        with stoker.Loader("digits:?size=64", batch_size=8) as loader:
            for _ in loader:
                pass
            stats = loader.stats()
        self.assertEqual(repr(stats).splitlines()[0].split(), ["batches", "8"])
        self.assertRegex(stats._repr_html_(), "<table>.*<td[^>]*>batches</td><td[^>]*>8</td>.*</table>")
        self.assertEqual(stats, type(stats)(vars(stats)))


if __name__ == "__main__":
    unittest.main()
