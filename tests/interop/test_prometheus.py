# SPDX-License-Identifier: Apache-2.0
"""Metrics of a run, as Prometheus itself reads them: its own check of the text, and its answers after it has scraped them."""
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.parse
import urllib.request
from pathlib import Path

from support import COMMAND

PROMETHEUS, PROMTOOL = shutil.which("prometheus"), shutil.which("promtool")
PATIENCE = 60  # seconds for what begins


def until(ask, what):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = ask()
        if found:
            return found
        time.sleep(0.2)
    raise AssertionError(f"no {what} within {PATIENCE} s")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def get(url):
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.read().decode()
    except OSError:
        return None


@unittest.skipUnless(PROMETHEUS and PROMTOOL, "Prometheus is not installed")
class Prometheus(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp())
        cls.programs = []
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.addClassCleanup(cls.stop)
        output = cls.folder / "bench.out"
        cls.start([COMMAND, "bench", "digits:", "--train-step-time", "0.01", "--min-seconds", "600", "--max-seconds", "600",
                   "--num-workers", "2", "--dashboard", "0"], output)
        page = until(lambda: re.search(r"live page: (http://\S+)", output.read_text()), "page")[1]
        cls.page = page

    @classmethod
    def start(cls, command, output):
        with open(output, "w", encoding="utf-8") as out:
            cls.programs.append(subprocess.Popen(command, stdout=out, stderr=out))

    @classmethod
    def stop(cls):
        for program in cls.programs:
            program.terminate()
        for program in cls.programs:
            program.wait(30)

    def test_text(self):
        """Nothing to complain of: names, types, units, help."""
        text = until(lambda: get(self.page + "metrics"), "metrics")
        done = subprocess.run([PROMTOOL, "check", "metrics"], input=text, capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_scraped(self):
        port = free_port()
        target = urllib.parse.urlsplit(self.page).netloc
        config = self.folder / "prometheus.yml"
        config.write_text(json.dumps({"global": {"scrape_interval": "1s"}, "scrape_configs": [
            {"job_name": "stoker", "static_configs": [{"targets": [target]}]}]}))
        self.start([PROMETHEUS, f"--config.file={config}", f"--storage.tsdb.path={self.folder / 'data'}",
                    f"--web.listen-address=127.0.0.1:{port}"], self.folder / "prometheus.out")

        def ask(query):
            text = get(f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode({"query": query}))
            return json.loads(text)["data"]["result"] if text else []

        until(lambda: ask("rate(stoker_samples_total[10s]) > 0"), "rate of samples")
        self.assertEqual([r["value"][1] for r in ask("up")], ["1"])
        self.assertEqual(ask("stoker_run_info")[0]["metric"]["command"], "bench")
        self.assertEqual(len(ask("stoker_worker_busy_ratio")), 2)
        # What it has is what the page says, a moment later.
        before = float(ask("stoker_samples_total")[0]["value"][1])
        after = json.loads(get(self.page + "status"))["samples"]
        self.assertLess(0, before)
        self.assertLessEqual(before, after)
        kinds = json.loads(get(f"http://127.0.0.1:{port}/api/v1/metadata"))["data"]
        self.assertEqual(kinds["stoker_samples_total"][0]["type"], "counter")
        self.assertEqual(kinds["stoker_wait_ratio"][0]["type"], "gauge")


if __name__ == "__main__":
    unittest.main()
