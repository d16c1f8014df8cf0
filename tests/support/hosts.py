"""Several hosts on this machine: names, boots, clocks, networks and shared memory of their own.

    how = cluster(tmp_path, ["node07", "node08"])
    child.run(PRELUDE + HOSTS + program, ..., within=how)

Within, `on("node07", command...)` starts a command on one of them. They see one folder, each
through a mount of its own (sshfs, as two clients of one file server): `shared("node07")`.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path

from machine import PIDS, within

# Names are cached for a second, as NFS does it for three or more.
MOUNT = """
mkdir -p {here} {shm}
mount -t tmpfs -o size=64m,mode=1777 shm {shm}
sshfs -o dcache_timeout=1,attr_timeout=1,entry_timeout=1,negative_timeout=1 \\
    -o ssh_command={server} fake:{there} {here}
"""
SERVER = """
mkdir -p {there}
printf '#!/bin/sh\\nexec /usr/lib/openssh/sftp-server\\n' >{server}
chmod +x {server}
"""

# Enters a host: its name, its boot id, its /dev/shm; then what was asked for.
ENTER = """#!/bin/sh -eu
host=$1; shift
exec unshare --mount --uts --net $(cat {folder}/"$host".clocks) --fork --kill-child sh -euc '
    hostname "$0"
    mount --bind {folder}/"$0".boot /proc/sys/kernel/random/boot_id
    mount --bind {folder}/"$0".shm /dev/shm
    exec "$@"' "$host" "$@"
"""

HOSTS = """
import subprocess
CLUSTER = Path(os.environ["CLUSTER"])

def shared(host):
    return CLUSTER / f"{host}.here"

def on(host, *command, env=None, **how):
    how = {"text": True, "stdin": subprocess.PIPE, "stdout": subprocess.PIPE, **how}
    return subprocess.Popen([str(CLUSTER / "enter"), host, *map(str, command)],
                            env={**os.environ, **(env or {})}, **how)

def end(process, said="go on\\n"):
    out = process.communicate(said)[0]
    assert process.returncode == 0, process.returncode
    return out
"""


def cluster(
    folder: Path, hosts: list[str], clocks: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """Return what to start a program with so that there are these hosts; or skip the test.

    clocks: options of unshare(1) for a host, such as "--time --monotonic=1000".
    """
    for host in hosts:
        (folder / f"{host}.clocks").write_text((clocks or {}).get(host, ""))
        (folder / f"{host}.boot").write_text(f"{uuid.uuid5(uuid.NAMESPACE_DNS, host)}\n")
    enter = folder / "enter"
    enter.write_text(ENTER.format(folder=folder))
    enter.chmod(0o755)
    there, server = folder / "there", folder / "server"
    setup = SERVER.format(there=there, server=server)
    for host in hosts:
        here, shm = folder / f"{host}.here", folder / f"{host}.shm"
        setup += MOUNT.format(here=here, shm=shm, server=server, there=there)
    setup += "".join(f"{enter} {host} true\n" for host in hosts)
    setup += f"export CLUSTER={folder}"
    return within(setup, PIDS)
