# SPDX-License-Identifier: Apache-2.0
"""The library's verdict on figures that others have measured."""
import unittest

import stoker
from stoker import _native

# A second a step, a tenth of it waited for.
FIGURES = {"steps": 100, "samples": 1600, "batch_size": 16, "samples_per_s": 14.5, "wall": 110, "wait_mean": 0.1,
           "step_time": 1, "step_share": 0.9, "num_workers": -1, "usable_cores": 8, "ranks": 1}


class Judge(unittest.TestCase):
    def test_waits(self):
        self.assertEqual(_native.judge(FIGURES | {"wait_mean": 0.01}, None)["limit"], "step")
        found = _native.judge(FIGURES, None)
        self.assertEqual(found["limit"], "unknown")
        self.assertAlmostEqual(found["lost_share"], 0.1 / 1.1)
        self.assertEqual(found["steps"], 100)

    def test_no_workers(self):
        found = _native.judge(FIGURES | {"num_workers": 0}, None)
        self.assertEqual((found["limit"], found["knob"], found["value"]), ("one core", "num_workers", "7"))

    def test_what_a_trainer_does_beside(self):
        for part, limit in (("transfer_s", "transfer"), ("validation_s", "validation"), ("callbacks_s", "callbacks"),
                            ("checkpoint_s", "checkpoints")):
            self.assertEqual(_native.judge(FIGURES | {part: 50}, None)["limit"], limit)

    def test_of_another_loader(self):
        text = _native.judge(FIGURES | {"num_workers": 2, "cpu_s": 8 * 110}, None)["text"]
        self.assertRegex(text, "^All cores are busy: 100 % of 8 usable cores are in use")  # what its workers did is not known
        for only_ours in ("convert", "cache", "CPU-seconds"):
            self.assertNotIn(only_ours, text)

    def test_beside_those_of_a_loader(self):
        with stoker.Loader("digits:?size=160", batch_size=16) as loader:
            for _ in loader:
                found = _native.judge({"step_time": 3.5}, loader._native)
            self.assertEqual((found["steps"], found["step_time"]), (10, 3.5))
            self.assertEqual(_native.judge({"steps": 20}, loader._native)["steps"], 20)

    def test_what_is_no_figure(self):
        with self.assertRaisesRegex(KeyError, "no figure 'weight'"):
            _native.judge({"weight": 1}, None)
        with self.assertRaisesRegex(TypeError, "loader or None"):
            _native.judge({}, 3)
        with self.assertRaises(TypeError):
            _native.judge({"wall": "long"}, None)
        with self.assertRaises(TypeError):
            _native.judge({1: 1}, None)
        for name, value in (("steps", -1), ("samples", float("nan")), ("batch_size", 1e30), ("ranks", 1 << 32),
                            ("num_workers", float("inf"))):
            with self.assertRaisesRegex(ValueError, name):
                _native.judge(FIGURES | {name: value}, None)

    def test_figures_that_change_while_they_are_read(self):
        class Clears:
            def __float__(self):
                figures.clear()
                self.others = [f"other {i:04}" for i in range(100)]  # where the name was
                return 1.0

        figures = {"".join(("step", "_", "time")): Clears(), "steps": 3}
        self.assertEqual(_native.judge(figures, None)["step_time"], 1)


if __name__ == "__main__":
    unittest.main()
