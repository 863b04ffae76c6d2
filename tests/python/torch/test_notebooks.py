# SPDX-License-Identifier: Apache-2.0
"""The notebooks of examples/python are those of their script, were run without an error, and run."""
import contextlib
import io
import json
import os
import sys
import tempfile
import unittest
from pathlib import Path
from unittest.mock import MagicMock

FOLDER = Path(__file__).resolve().parents[3] / "examples/python"
sys.path.insert(0, str(FOLDER))
import make_notebooks  # noqa: E402


class Notebooks(unittest.TestCase):
    def cells(self, name):
        return json.loads((FOLDER / f"{name}.ipynb").read_text())["cells"]

    def test_they_are_those_of_the_script(self):
        self.assertEqual({path.stem for path in FOLDER.glob("*.ipynb")}, set(make_notebooks.NOTEBOOKS))
        for name, texts in make_notebooks.NOTEBOOKS.items():
            self.assertEqual(["".join(cell["source"]) for cell in self.cells(name)], texts)

    def test_they_were_run(self):
        for name in make_notebooks.NOTEBOOKS:
            code = [cell for cell in self.cells(name) if cell["cell_type"] == "code"]
            self.assertEqual([cell["execution_count"] for cell in code], list(range(1, len(code) + 1)))
            outputs = [output for cell in code for output in cell["outputs"]]
            self.assertNotIn("error", [output["output_type"] for output in outputs])
            self.assertGreater(sum("text/html" in output.get("data", {}) for output in outputs), 4)

    def test_they_run(self):
        sys.modules.setdefault("matplotlib.pyplot", MagicMock(**{"subplots.return_value": (None, MagicMock())}))
        sys.modules.setdefault("matplotlib", MagicMock(pyplot=sys.modules["matplotlib.pyplot"]))
        self.addCleanup(os.chdir, os.getcwd())
        for name, texts in make_notebooks.NOTEBOOKS.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                os.chdir(folder)
                known = {}
                for text in texts[1::2]:
                    with contextlib.redirect_stdout(io.StringIO()):
                        exec(text.replace("num_batches=40", "num_batches=10"), known)
                if name == "benchmark":
                    self.assertEqual(known["found"].baseline.verdict.limit, "storage latency")
                else:
                    self.assertEqual(known["table"].columns["expected_chunks"][3], 3.937744140625)


if __name__ == "__main__":
    unittest.main()
