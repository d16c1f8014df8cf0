"""A cluster of Slurm on this machine: a controller and two nodes, which have names of their own.

Each node's daemon runs in a UTS namespace in which the host has the node's name. All else they
share: pids, the boot, and /dev/shm unless each has one of its own, which is gone with it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

from launchers.processes import Daemons, command_of, free_ports, lives, marked, run, wait_until

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "unshare")
CGROUPS = Path("/sys/fs/cgroup")

CONFIGURATION = """\
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmctldPort={ports[0]}
AuthInfo=socket={folder}/munge.sock,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SchedulerParameters=sched_interval=1,bf_interval=1
ReturnToService=2
KillWait=3
SlurmdTimeout={timeout_s}
CommunicationParameters=NoCtldInAddrAny
NodeName={nodes} NodeHostname={host} NodeAddr=127.0.0.1 Port=[{ports[1]},{ports[2]}] \
    CPUs=4 RealMemory=1000
PartitionName=p Nodes=ALL Default=YES
"""
PLAIN = """\
ProctrackType=proctrack/linuxproc
SelectTypeParameters=CR_Core
"""
BOUNDED = """\
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup
SelectTypeParameters=CR_Core_Memory
"""
CGROUP = """\
CgroupPlugin=cgroup/v1
CgroupMountpoint=/sys/fs/cgroup
ConstrainRAMSpace=yes
"""


def why_not(bounded: bool = False, mortal: bool = False) -> str | None:
    """What keeps a cluster from being started here."""
    missing = [name for name in PROGRAMS if not shutil.which(name, path="/usr/sbin:/usr/bin:/bin")]
    if missing:
        return f"no {', '.join(missing)} here (Debian: slurm-wlm munge)"
    if os.geteuid() != 0:
        return "a cluster of Slurm is started by root"
    if subprocess.run(["unshare", "-u", "true"], capture_output=True).returncode != 0:
        return "nodes may not have names of their own here (unshare -u)"
    own = ("unshare", "-m", "mount", "-t", "tmpfs", "shm", "/dev/shm")
    if mortal and subprocess.run(own, capture_output=True).returncode != 0:
        return "nodes may not have a /dev/shm of their own here (unshare -m, mount -t tmpfs)"
    if bounded and not (CGROUPS / "memory" / "memory.limit_in_bytes").exists():
        return "no memory cgroup (v1) here"
    return None


class Cluster:
    """Nodes n1 and n2.

    bounded: they bound the memory of their tasks by cgroups.
    mortal: they have a /dev/shm of their own, and one that does not answer is soon taken for dead.
    """

    def __init__(
        self, folder: Path, env: Mapping[str, str], bounded: bool = False, mortal: bool = False
    ) -> None:
        self.folder = folder
        self.bounded = bounded
        self.mortal = mortal
        prefix = f"b{os.getpid()}n" if bounded else "n"
        self.nodes = [f"{prefix}1", f"{prefix}2"]
        self.env = {
            **env,
            "SLURM_CONF": str(folder / "slurm.conf"),
            "PATH": f"{env['PATH']}:/usr/sbin",
        }
        self.daemons = Daemons(folder, self.env)

    def start(self) -> None:
        key = self.folder / "key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        (self.folder / "state").mkdir()
        for node in self.nodes:
            (self.folder / node).mkdir()
        self.daemons.start(
            "munged",
            *("munged", "-F", "--force", f"--key-file={key}", f"--socket={self.folder}/munge.sock"),
            *(f"--pid-file={self.folder}/munged.pid", f"--log-file={self.folder}/munged.log"),
            f"--seed-file={self.folder}/seed",
        )
        wait_until((self.folder / "munge.sock").exists, "munged has a socket")
        self.configure()
        self.start_controller("-c")
        for node in self.nodes:
            self.start_node(node)
        self.wait_for_nodes()

    def start_controller(self, *options: str) -> None:
        self.daemons.start("slurmctld", "slurmctld", "-D", *options)

    def start_node(self, node: str) -> None:
        own = "mount -t tmpfs -o size=64m,mode=1777 shm /dev/shm; " if self.mortal else ""
        script = f'set -e; {own}hostname "$0"; exec slurmd -D -N "$0"'
        options = ["--uts", "--mount"] if self.mortal else ["--uts"]
        self.daemons.start(node, "unshare", *options, "sh", "-c", script, node)

    def wait_for_nodes(self) -> None:
        try:
            wait_until(lambda: self.idle() == set(self.nodes), "both nodes are idle")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.daemons.said()}") from None

    def configure(self) -> None:
        text = CONFIGURATION + (BOUNDED if self.bounded else PLAIN)
        names = f"{self.nodes[0][:-1]}[1-2]"
        (self.folder / "slurm.conf").write_text(
            text.format(
                host=socket.gethostname().partition(".")[0],
                folder=self.folder,
                nodes=names,
                ports=free_ports(3),
                timeout_s=5 if self.mortal else 300,
            )
        )
        if self.bounded:
            (self.folder / "cgroup.conf").write_text(CGROUP)

    def kill_node(self, node: str, job: str, mark: str) -> None:
        """End a node at once, with all that runs of a job that is on no other one."""
        self.daemons.end(node, signal.SIGKILL)
        steps = {
            int(folder.name): command
            for folder in Path("/proc").glob("[0-9]*")
            if (command := command_of(folder)).startswith(f"slurmstepd: [{job}.")
        }
        for pid in {**steps, **marked(mark)}:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not any(lives(pid) for pid in steps), "nothing is left of the node")

    def stop(self) -> None:
        self.cancel_all()
        self.daemons.stop()
        for node in self.nodes if self.bounded else ():
            for group in CGROUPS.glob(f"*/slurm_{node}"):
                for path in sorted(group.rglob("*"), reverse=True):
                    if path.is_dir():
                        path.rmdir()
                group.rmdir()

    def idle(self) -> set[str]:
        done = self.run("sinfo", "-h", "-N", "-t", "idle", "-o", "%N", status=None)
        return set(done.stdout.split()) if done.returncode == 0 else set()

    def answers(self) -> bool:
        return self.run("scontrol", "ping", status=None).returncode == 0

    def run(
        self, *command: str | Path, folder: Path | None = None, status: int | None = 0, **env: str
    ) -> subprocess.CompletedProcess[str]:
        return run(command, folder or self.folder, {**self.env, **env}, status)

    def submit(self, folder: Path, *arguments: str | Path) -> str:
        """The number of a job that was handed to sbatch."""
        return self.run("sbatch", "--parsable", *arguments, folder=folder).stdout.strip()

    def state_of(self, job: str) -> str:
        """RUNNING, COMPLETED and the like; of the tasks of an array all, each once."""
        said = self.run("scontrol", "show", "job", job).stdout
        return "+".join(sorted(set(re.findall(r"JobState=(\w+)", said))))

    def node_of(self, job: str) -> str:
        """The node on which a job's script runs."""
        found = re.search(r"BatchHost=(\S+)", self.run("scontrol", "show", "job", job).stdout)
        assert found, f"job {job} has no node"
        return found[1]

    def wait_for(self, job: str, *states: str) -> str:
        """Wait for the job to be in one of the states, by default one in which it has ended."""
        ended = states or ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY")
        wait_until(lambda: self.state_of(job) in ended, f"job {job} is {' or '.join(ended)}")
        return self.state_of(job)

    def cancel_all(self) -> None:
        """End all jobs at once, and wait until the nodes are free."""
        with contextlib.suppress(AssertionError):
            self.run("scancel", "-s", "KILL", "--full", "-u", "root", status=None)
            self.run("scancel", "-u", "root", status=None)
            wait_until(
                lambda: not self.run("squeue", "-h", status=None).stdout.strip(), "no job is left"
            )
