# SPDX-License-Identifier: Apache-2.0
"""Runs a command under limits: memory, processor time, no network, a tree that it can only read, and a watch over what lies beside.

What the machine does not let us set is left out, and said once: memory by a control group (version 1 or 2), else by RLIMIT_DATA and
the high-water mark; network and read-only tree by unshare(2).
"""
import ctypes
import hashlib
import os
import resource
import signal
import subprocess
import tempfile
from pathlib import Path

MEMORY = 64 << 20   # bytes
CPU_S = 20
WALL_S = 120
CLONE_NEWNS, CLONE_NEWNET = 0x00020000, 0x40000000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18

libc = ctypes.CDLL(None, use_errno=True)


def mount(source, target, flags):
    return libc.mount(source.encode(), str(target).encode(), None, flags, None) == 0


class Group:
    """A control group of its own for each command, with a limit of memory and none of swap."""

    def __init__(self):
        self.base = None
        for base, limits in (("/sys/fs/cgroup/memory", ["memory.limit_in_bytes"]), ("/sys/fs/cgroup", ["memory.max"])):
            probe = Path(base) / f"stoker-hostile-{os.getpid()}"
            try:
                probe.mkdir()
            except OSError:
                continue
            if (probe / limits[0]).exists():
                self.base, self.limits = Path(base), limits
            probe.rmdir()
            if self.base:
                break

    def make(self, name):
        folder = self.base / f"stoker-hostile-{os.getpid()}-{name}"
        folder.mkdir()
        (folder / self.limits[0]).write_text(str(MEMORY))
        for swap, value in (("memory.swap.max", "0"), ("memory.memsw.limit_in_bytes", str(MEMORY))):
            try:
                (folder / swap).write_text(value)
            except OSError:
                pass
        return folder


class Sandbox:
    def __init__(self):
        self.group = Group()
        self.alone = subprocess.run(["unshare", "--mount", "--net", "true"], stderr=subprocess.DEVNULL).returncode == 0

    def describe(self):
        memory = "a control group" if self.group.base else "RLIMIT_DATA"
        return (f"{MEMORY >> 20} MiB by {memory}, {CPU_S} s of processor, " +
                ("no network, a tree that is only read" if self.alone else "network and tree not kept away (no unshare here)"))

    def enter(self, folder, group):
        """In the child, before the command."""
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if group:
            (group / "cgroup.procs").write_text(str(os.getpid()))
        else:
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        if self.alone and libc.unshare(CLONE_NEWNS | CLONE_NEWNET) == 0:
            mount("none", "/", MS_REC | MS_PRIVATE)
            mount(str(folder), folder, MS_BIND)
            mount("none", "/", MS_REMOUNT | MS_BIND | MS_RDONLY)
            os.chdir(folder)

    def run(self, command, folder, name):
        """(what is wrong or None, exit status, output). The command runs in FOLDER and may write there alone."""
        group = self.group.make(name) if self.group.base else None
        before = fingerprint(folder.parent, folder)
        with tempfile.TemporaryFile() as out:
            process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                       start_new_session=True, preexec_fn=lambda: self.enter(folder, group))
            wrong = None
            try:
                process.wait(WALL_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                wrong = f"hangs: not at its end after {WALL_S} s"
            out.seek(0)
            text = out.read()
        if group:
            killed = was_killed(group)
            group.rmdir()
            if killed and not wrong:
                wrong = f"takes more than {MEMORY >> 20} MiB"
        status = process.returncode
        if not wrong and status < 0:
            wrong = f"ends by {signal.Signals(-status).name}" + (f" ({CPU_S} s)" if status == -signal.SIGXCPU else "")
        if not wrong and status not in (0, 1, 2):
            wrong = f"exit status {status}"
        if not wrong and fingerprint(folder.parent, folder) != before:
            wrong = "changes files outside of its folder"
        if not wrong and any(c in text for c in (b"\x1b", b"\xc2\x9b", b"\x07")):
            wrong = "sends control characters of a file to the terminal"
        return wrong, status, text.decode(errors="replace")


def was_killed(group):
    for name in ("memory.events", "memory.oom_control"):
        if (group / name).exists():
            return any(int(line.split()[1]) for line in (group / name).read_text().splitlines()
                       if line.startswith("oom_kill "))
    return False


def fingerprint(outer, but):
    """Names and contents of what lies beside the folder, in which a forged name may point."""
    state = hashlib.sha256()
    for path in sorted(outer.iterdir()):
        if path != but and path.is_file():
            state.update(path.name.encode() + path.read_bytes())
    return state.digest()
