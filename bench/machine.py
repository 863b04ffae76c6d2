# SPDX-License-Identifier: Apache-2.0
"""What else a machine did while something was measured on it, and caps of the processor for what is measured."""
import os
import resource
import subprocess
import threading
import time
from pathlib import Path

TICK = 0.005        # of the canary, s
LATE = 0.001        # that a wake-up may be late
MOST_OTHERS = 0.10  # cores that others may use,
MOST_LATE = 0.03    # share of the time that the canary may be late,
MOST_STOLEN = 0.01  # and share of a core that the machine below may take
HERTZ = os.sysconf("SC_CLK_TCK")
SKIPPED = 77  # exit status of a benchmark: the machine let too little be judged


def cores():
    return sorted(os.sched_getaffinity(0))


def _stat():
    """Seconds that all cores worked, and that were stolen from them. None where the system does not tell."""
    try:
        fields = [int(x) for x in Path("/proc/stat").read_text().split("\n", maxsplit=1)[0].split()[1:9]]
    except (OSError, ValueError):
        return None
    user, nice, system, _, _, irq, soft, steal = fields
    return (user + nice + system + irq + soft) / HERTZ, steal / HERTZ


def _waited():
    """Seconds that this thread has waited for a core, awake. 0 where the system does not tell."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


class Machine:
    """Knows the programs that it runs, so that it can tell what others did."""

    def __init__(self):
        self.live, self.lock, self.late = set(), threading.Lock(), 0.0
        threading.Thread(target=self._canary, daemon=True).start()

    def _canary(self):
        """A thread that sleeps: what makes it late makes a step late, whatever the loader does. That threads of this machine were
        before it is no disturbance: of others it is seen by what they use, from MOST_OTHERS on."""
        while True:
            before, waited = time.monotonic(), _waited()
            time.sleep(TICK)
            self.late += max(0.0, time.monotonic() - before - TICK - LATE - (_waited() - waited))

    def _own(self):
        """Processor seconds of this process and all that it started."""
        total = 0.0
        with self.lock:
            for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
                usage = resource.getrusage(who)
                total += usage.ru_utime + usage.ru_stime
            for pid in self.live:
                try:
                    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                    total += sum(int(x) for x in fields[11:15]) / HERTZ
                except (OSError, IndexError):
                    continue
        return total

    def run(self, command, timeout):
        """(finished process, what disturbed it or ""). The process is None where it took too long."""
        began, stat, own, late = time.monotonic(), _stat(), self._own(), self.late
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
            with self.lock:
                self.live.add(child.pid)
            try:
                out, err = child.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                child.kill()
                out, err = child.communicate()
                child.returncode = None
            with self.lock:
                self.live.discard(child.pid)
        wall, after = max(time.monotonic() - began, 1e-3), _stat()
        found = []
        if stat and after:
            others = (after[0] - stat[0] - (self._own() - own)) / wall
            stolen = (after[1] - stat[1]) / wall
            # A tick of the kernel's clock is the least that it counts.
            if others > MOST_OTHERS + 2 / HERTZ / wall:
                found.append(f"others used {others:.2f} cores")
            if stolen > MOST_STOLEN + 2 / HERTZ / wall:
                found.append(f"{stolen:.2f} cores were stolen")
        if (self.late - late) / wall > MOST_LATE:
            found.append(f"a thread that sleeps woke late {100 * (self.late - late) / wall:.0f} % of the time")
        if child.returncode is None:
            return None, ", ".join(found)
        return subprocess.CompletedProcess(command, child.returncode, out, err), ", ".join(found)


class Cap:
    """A control group with a quota of the processor, version 2 or 1; where none can be made, fewer cores by affinity."""

    def __init__(self):
        self.folder, self.version, self.why = None, 0, ""
        groups = self._groups()
        for version, top in ((2, "/sys/fs/cgroup" + groups.get("", "/")), (1, "/sys/fs/cgroup/cpu" + groups.get("cpu", "/"))):
            folder = Path(top) / f"stoker-verdicts-{os.getpid()}"
            file = "cpu.max" if version == 2 else "cpu.cfs_quota_us"
            try:
                folder.mkdir()
            except OSError as error:
                self.why = self.why or f"{top}: {error.strerror}"
                continue
            self.folder, self.version = folder, version
            if (folder / file).exists():
                return
            self.why = f"{top} has no {file}"
            self.close()

    @staticmethod
    def _groups():
        try:
            lines = Path("/proc/self/cgroup").read_text().splitlines()
        except OSError:
            return {}
        return {name: path for line in lines for names, path in [line.split(":", 2)[1:]] for name in names.split(",")}

    def __str__(self):
        if self.folder:
            return f"a quota of control groups, version {self.version}"
        return f"affinity alone, one core, as no control group can be made ({self.why or 'none is there'})"

    def wrap(self, quota, period_us):
        """What to put in front of a command, so that it has `quota` cores."""
        if not self.folder:
            return ["taskset", "-c", str(cores()[0])]
        if self.version == 2:
            (self.folder / "cpu.max").write_text(f"{int(quota * period_us)} {period_us}")
        else:
            (self.folder / "cpu.cfs_quota_us").write_text("-1")
            (self.folder / "cpu.cfs_period_us").write_text(str(period_us))
            (self.folder / "cpu.cfs_quota_us").write_text(str(int(quota * period_us)))
        return ["sh", "-c", f'echo $$ >"{self.folder}/cgroup.procs" && exec "$@"', f"{quota:.3f}/{period_us}"]

    def close(self):
        if self.folder:
            try:
                self.folder.rmdir()
            except OSError:
                pass
        self.folder = None
