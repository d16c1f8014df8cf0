"""Two hosts on this machine, which reach each other by a network of their own.

Each is a set of namespaces that a process holds: its name, its network, its mounts and so its
/dev/shm. Pids, the boot and all other files they share.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from launchers.processes import Daemons, lives, marked, run, wait_until

NAMES = ("hostA", "hostB")
NETWORK = "10.77.0"  # seen by nobody but the two

HOLD = """
set -e
hostname "$0"
mount --make-rprivate /
mount -t tmpfs -o size=64m,mode=1777 shm /dev/shm
mount --bind {folder}/hosts /etc/hosts
touch {folder}/"$0".ready
exec sleep infinity
"""
AGENT = """#!/bin/sh
# Starts a command on a host, as ssh would.
host=$1; shift
exec nsenter --target "$(cat {folder}/"$host".pid)" --uts --net --mount --wd="$PWD" sh -c "$*"
"""


def why_not() -> str | None:
    """What keeps hosts from being made here."""
    missing = [name for name in ("ip", "nsenter", "unshare") if not shutil.which(name)]
    if missing:
        return f"no {', '.join(missing)} here (Debian: iproute2 util-linux)"
    script = "mount -t tmpfs shm /dev/shm && ip link add name veth0 type veth peer name veth1"
    tried = subprocess.run(
        ["unshare", "--uts", "--net", "--mount", "sh", "-c", script], capture_output=True, text=True
    )
    if tried.returncode != 0:
        return f"no host with a network of its own here: {tried.stderr.strip()}"
    return None


class Hosts:
    """hostA and hostB; `agent` starts a command on one of them."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self.folder = folder
        self.env = env
        self.agent = folder / "agent"
        self.holders = Daemons(folder, env)

    def start(self) -> None:
        lines = [f"{NETWORK}.{i + 1} {name}" for i, name in enumerate(NAMES)]
        (self.folder / "hosts").write_text("\n".join(["127.0.0.1 localhost", *lines, ""]))
        self.agent.write_text(AGENT.format(folder=self.folder))
        self.agent.chmod(0o755)
        hold = HOLD.format(folder=self.folder)
        for name in NAMES:
            namespaces = ("--uts", "--net", "--mount")
            self.holders.start(name, "unshare", *namespaces, "sh", "-c", hold, name)
            (self.folder / f"{name}.pid").write_text(str(self.pid(name)))
        for name in NAMES:
            wait_until((self.folder / f"{name}.ready").exists, f"{name}: {self.holders.said()}")
        one, other = (str(self.pid(name)) for name in NAMES)
        ends = ["veth0", "netns", one, "type", "veth", "peer", "name", "veth0", "netns", other]
        run(["ip", "link", "add", "name", *ends], self.folder, self.env)
        for i, name in enumerate(NAMES):
            commands = f"ip address add {NETWORK}.{i + 1}/24 dev veth0; ip link set veth0 up"
            run([self.agent, name, f"set -e; ip link set lo up; {commands}"], self.folder, self.env)

    def pid(self, name: str) -> int:
        [process] = [process for named, process in self.holders.started if named == name]
        return process.pid

    def kill(self, name: str, mark: str) -> None:
        """End a host at once, with all that carries the mark and runs on it."""
        where = os.readlink(f"/proc/{self.pid(name)}/ns/uts")
        on_it = []
        for pid in marked(mark):
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{pid}/ns/uts") == where:
                    on_it.append(pid)
                    os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not any(lives(pid) for pid in on_it), f"nothing runs on {name}")

    def stop(self) -> None:
        self.holders.stop()
