# SPDX-License-Identifier: Apache-2.0
"""A Slurm of one node: munged, slurmctld and slurmd of Debian, in a folder, at free ports, for as long as a test takes."""
import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

LIMIT = 120  # seconds that anything may take
CORES = 4

CONF = """\
ClusterName=stoker
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={port}
SlurmdPort={slurmd_port}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.socket
PluginDir={plugins}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SchedulerParameters=sched_interval=1,batch_sched_delay=0
MailProg=/bin/true
KillWait=5
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs={cores} Boards=1 SocketsPerBoard=1 CoresPerSocket={cores} ThreadsPerCore=1 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class Missing(Exception):
    """There is no Slurm here."""


def free_ports(count):
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


def wait_for(what, condition, more=lambda: ""):
    until = time.monotonic() + LIMIT
    while not (value := condition()):
        if time.monotonic() > until:
            raise AssertionError(f"{what}: not within {LIMIT} s\n{more()}")
        time.sleep(0.1)
    return value


class Slurm:
    """`environment` for its commands, which `run()` runs; root: where the packages lie, "/" where they are installed."""

    def __init__(self, root, folder):
        self.root, self.folder = root, folder
        libraries = next((root / "usr/lib").glob("*/slurm-wlm"))
        path = f"{libraries.parent}:{libraries}"
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("SLURM")}
        self.environment |= {"SLURM_CONF": str(folder / "slurm.conf"), "PATH": f"{root / 'usr/bin'}:{os.environ['PATH']}"}
        if root != Path("/"):
            self.environment["LD_LIBRARY_PATH"] = path
        port, slurmd_port = free_ports(2)
        for name in ("state", "spool"):
            (folder / name).mkdir()
        (folder / "slurm.conf").write_text(CONF.format(host=socket.gethostname().split(".")[0], user=getpass.getuser(), port=port,
                                                       slurmd_port=slurmd_port, folder=folder, plugins=libraries, cores=CORES))

    def run(self, *command, **options):
        options = {"capture_output": True, "text": True, "timeout": LIMIT, "env": self.environment} | options
        return subprocess.run([str(word) for word in command], **options)

    def check(self, *command, **options):
        done = self.run(*command, **options)
        if done.returncode != 0:
            raise AssertionError(f"{command}: exit code {done.returncode}\n{done.stderr}\n{self.logs()}")
        return done.stdout

    def logs(self):
        return "\n".join(path.read_text()[-2000:] for path in self.folder.glob("*.log"))

    def start(self):
        key, sbin = self.folder / "munge.key", self.root / "usr/sbin"
        key.write_bytes(os.urandom(32))
        key.chmod(0o400)
        self.check(sbin / "munged", "--force", f"--key-file={key}", f"--socket={self.folder}/munge.socket",
                   f"--pid-file={self.folder}/munged.pid", f"--log-file={self.folder}/munged.log", f"--seed-file={self.folder}/munged.seed")
        self.check(sbin / "slurmctld-wlm", "-c")
        self.check(sbin / "slurmd-wlm", "-d", sbin / "slurmstepd-wlm")
        wait_for("a node that is idle", lambda: "idle" in self.run("sinfo", "-h", "-o", "%T").stdout)

    def stop(self):
        self.run("scancel", "-u", getpass.getuser())
        wait_for("the end of all jobs", lambda: not self.run("squeue", "-h").stdout.strip(), self.logs)
        for name in ("slurmd", "slurmctld", "munged"):
            with contextlib.suppress(OSError, ValueError):
                pid = int((self.folder / f"{name}.pid").read_text())
                os.kill(pid, 15)
                wait_for(f"the end of {name}", lambda: not Path(f"/proc/{pid}").exists())

    def job(self, number):
        """What scontrol says of a job: "JobState" and others."""
        text = self.check("scontrol", "show", "job", number)
        return dict(word.split("=", 1) for word in text.split() if "=" in word)


@contextlib.contextmanager
def one_node():
    found = shutil.which("slurmctld-wlm", path=f"{os.environ['PATH']}:/usr/sbin")
    if not found:
        raise Missing("there is no slurmctld (packages slurmctld, slurmd, slurm-client, munge)")
    with tempfile.TemporaryDirectory() as made:
        slurm = Slurm(Path(found).resolve().parents[2], Path(made))
        try:
            slurm.start()
            yield slurm
        finally:
            slurm.stop()
