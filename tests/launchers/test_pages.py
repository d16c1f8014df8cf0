"""The pages in docs/launchers keep their word: commands run, reports say what is shown.

python kept, sh kept, c kept   a file; its name stands in a comment in one of the first two lines
console                        the lines that begin with `$ ` are run by one shell, after all files
                               of the page are there; each must exit 0
text                           lines that were printed. A word with a digit, or a bar, stands for
                               any word, and ... at the end for whatever follows
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
from pages import Block, blocks

from launchers import open_mpi
from launchers.conftest import Work
from launchers.native import pkg_config
from launchers.open_mpi import OpenMpi
from launchers.processes import run
from launchers.ray_cluster import Ray
from launchers.slurm import Cluster

PAGES = Path(__file__).resolve().parents[2] / "docs" / "launchers"


def keep(block: Block, work: Work) -> None:
    named = re.search(r"(?m)\A(?:#!.*\n)?(?:#|/\*) ([\w-]+\.\w+)\b", block.text)
    assert named, f"line {block.line}: a file without a name"
    work.write(named[1], block.text)


def pattern_of(line: str) -> str:
    words = [
        r"\S+(?: \d+\w+)?" if re.search(r"\d|█", word) else re.escape(word)
        for word in line.removesuffix("...").split()
    ]
    # How long a phase had been open is known of a killed process only if it was seen in it.
    end = "" if line.endswith("...") else r"(?:\s|, open |$)"
    return r"(?:^|\s)" + r"\s+".join(words) + end


def play(page: str, work: Work, env: Mapping[str, str]) -> str:
    """Run a page; return all that its commands printed."""
    found = list(blocks(PAGES / page))
    printed = []
    for block in found:
        if block.kind.endswith(" kept"):
            keep(block, work)
    for block in found:
        if block.kind == "console":
            commands = [line[2:] for line in block.text.splitlines() if line.startswith("$ ")]
            done = run(["bash", "-e", "-c", "\n".join(commands)], work.folder, env, status=None)
            assert done.returncode == 0, f"{page}:{block.line}: {done.stdout}"
            printed.append(done.stdout)
    text = "\n".join(printed)
    print(text)  # shown with pytest -rP
    for block in found:
        for line in block.text.splitlines() if block.kind == "text" else ():
            said = re.search(pattern_of(line), text) if line.strip() else True
            assert said, f"{page}:{block.line}: nothing like {line!r} in\n{text}"
    return text


def test_torchrun(work: Work) -> None:
    pytest.importorskip("torch", reason="no torch in this environment: pip install torch")
    play("torchrun.md", work, work.env)


def test_ray(ray_here: Ray, work: Work) -> None:
    play("ray.md", work, {**ray_here.env, **work.env})


def test_slurm(jobs: Cluster, work: Work) -> None:
    play("slurm.md", work, jobs.env)


def test_open_mpi(work: Work) -> None:
    pytest.importorskip("mpi4py", reason="no mpi4py in this environment")
    mpirun = open_mpi.of_system()
    if mpirun is None:
        pytest.skip("no mpirun here (Debian: openmpi-bin libopenmpi-dev)")
    mpi = OpenMpi(mpirun, work.env)
    libraries = pkg_config(mpi.env, "--variable=libdir")
    # The machine of the test has fewer cores, and the library is not where the loader looks.
    here = {"OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none"}
    path = f"{mpirun.parent}:{mpi.env['PATH']}"
    python = f"{Path(mpi.env['PATH'].split(':')[0])}"
    work.write("python", f'#!/bin/sh\nexec {python}/python "$@"\n')
    work.write("lineprofiler", f'#!/bin/sh\nexec {python}/lineprofiler "$@"\n')
    env = {**mpi.env, **here, "PATH": f"{work.folder}:{path}", "LD_LIBRARY_PATH": libraries}
    play("open-mpi.md", work, env)


def test_mpich(work: Work) -> None:
    hydra = shutil.which("mpiexec.hydra", path="/usr/bin:/usr/local/bin")
    if hydra is None:
        pytest.skip("no mpiexec.hydra here (Debian: mpich)")
    work.write("mpiexec", f'#!/bin/sh\nexec {hydra} "$@"\n')
    play("mpich.md", work, {**work.env, "PATH": f"{work.folder}:{work.env['PATH']}"})


def test_python_processes(work: Work) -> None:
    pytest.importorskip("joblib", reason="no joblib in this environment")
    play("python-processes.md", work, work.env)


def test_vector_envs(work: Work) -> None:
    pytest.importorskip("gymnasium", reason="no gymnasium in this environment")
    reason = "no stable-baselines3 in this environment"
    pytest.importorskip("stable_baselines3", reason=reason)
    play("vector-envs.md", work, work.env)


def test_data_loader(work: Work) -> None:
    pytest.importorskip("torch", reason="no torch in this environment")
    play("data-loader.md", work, work.env)
