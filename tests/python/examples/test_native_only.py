"""The simulator in C: built as its README says, run, ended, and what the report says of it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lineprofiler.accounting import merge_run
from lineprofiler.testing import (
    AtLeast,
    assert_counters,
    assert_no_caveats,
    assert_phases,
    assert_roles,
)

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "native_only"
HANG_S = 300
"""Not an expectation: a run that takes so long is taken to hang."""

MISSING = [tool for tool in ("make", "cc", "pkg-config") if shutil.which(tool) is None]
pytestmark = [
    pytest.mark.core,
    pytest.mark.skipif(bool(MISSING), reason=f"not here: {', '.join(MISSING)}"),
]

STEPS = 512 * 128
"""Of all environments of a thread in an iteration."""


@pytest.fixture(scope="module")
def simulator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built in a folder of its own, for other interpreters build it too."""
    folder = tmp_path_factory.mktemp("native_only")
    for name in ("Makefile", "simulator.c"):
        shutil.copy(EXAMPLE / name, folder)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["make", "CFLAGS+=-Werror"],
        cwd=folder,
        env=os.environ | {"PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    return folder / "simulator"


def start(simulator: Path, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(simulator), *map(str, arguments)],
        env={k: v for k, v in os.environ.items() if not k.startswith("LINEPROFILER_")},
        stderr=subprocess.PIPE,
        text=True,
    )


def test_every_process_and_thread_is_in_the_report(simulator: Path, tmp_path: Path) -> None:
    iterations, workers, threads = 50, 3, 2
    with start(simulator, iterations, workers, threads, tmp_path / "profile") as process:
        _, log = process.communicate(timeout=HANG_S)
    assert process.returncode == 0, log
    lines = re.findall(r"^\[(\d+) iteration/write/sync\] iteration 50$", log, re.MULTILINE)
    assert len(set(lines)) == len(log.splitlines()) == workers

    run = merge_run(tmp_path / "profile")
    assert_roles(run, {"launcher": 1, "simulator": workers}, exact=True)
    assert_phases(run, {"start_workers": 1, "watch": 1}, role="launcher", exact=True)
    entries = workers * iterations
    phases: dict[str, int | AtLeast] = {
        "main/iteration": entries,
        "main/iteration/wait_for_steppers": entries,
        "main/iteration/write": entries,
        "main/iteration/write/sync": workers,
        "main/iteration/release_steppers": entries,
    }
    for number in range(threads):
        phases[f"stepper {number}/iteration/step"] = entries
        phases[f"stepper {number}/iteration/step/reset"] = AtLeast(1)
        phases[f"stepper {number}/iteration/wait_for_writer"] = entries
    assert_phases(run, phases, role="simulator", exact=True)
    tree = run.tree_of("simulator")
    for number in range(threads):
        step = (f"stepper {number}", "iteration", "step")
        assert_counters(run, step, {"steps": entries * STEPS}, role="simulator")
        assert tree[step].counters["episodes"] > entries
        assert tree[(*step, "reset")].estimated
    written = tree[("main", "iteration", "write")].counters["io_write_chars"]
    assert written == entries * threads * 512 * 16 + len(log)
    assert_no_caveats(run, allow=["dropped"])


def test_sigterm_ends_all_workers_after_their_iteration(simulator: Path, tmp_path: Path) -> None:
    with start(simulator, 1_000_000, 2, 1, tmp_path / "profile") as process:
        assert process.stderr is not None
        process.stderr.readline()  # a worker has made some iterations
        process.send_signal(signal.SIGTERM)
        process.stderr.read()
        assert process.wait(HANG_S) == 0

    run = merge_run(tmp_path / "profile")
    assert_roles(run, {"launcher": 1, "simulator": 2}, exact=True)
    tree = run.tree_of("simulator")
    iterations = tree[("main", "iteration")].calls
    assert 50 <= iterations < 2_000_000
    assert tree[("stepper 0", "iteration")].calls == iterations
    assert_counters(
        run, "stepper 0/iteration/step", {"steps": iterations * STEPS}, role="simulator"
    )
    assert_no_caveats(run, allow=["dropped"])


def test_a_wrong_argument_is_explained(simulator: Path, tmp_path: Path) -> None:
    with start(simulator, 10, 100, 1, tmp_path / "profile") as process:
        _, errors = process.communicate(timeout=HANG_S)
    assert process.returncode == 1
    assert "usage:" in errors
