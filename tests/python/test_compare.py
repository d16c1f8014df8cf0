"""Two runs compared: the command, its exit status, its JSON, and the same from Python. L1."""

from __future__ import annotations

import json
import os
import pickle
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lineprofiler.accounting import Profiler, RunError
from lineprofiler.compare import ComparedPhase, compare_runs

pytestmark = pytest.mark.core

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = pytest.mark.parametrize(
    "command",
    [
        [str(Path(sys.executable).parent / "lineprofiler")],
        [sys.executable, "-P", "-m", "lineprofiler"],
    ],
    ids=["native", "module"],
)

sys.path.insert(0, str(ROOT / "benchmarks"))
import bench_compare as bench  # noqa: E402


def compare(
    *words: object, command: list[str] | None = None, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            *(command or [str(Path(sys.executable).parent / "lineprofiler")]),
            "compare",
            *map(str, words),
        ],
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], **(env or {})},
        timeout=60,
    )


def make(run: Path, seed: object, slower: str | None = None, processes: int = 4) -> Path:
    noises: dict[str, bench.Noise] = {
        "step": bench.log_normal(0.3),
        "bimodal": bench.bimodal,
        "steady": bench.steady,
    }
    bench.make(random.Random(f"{seed}"), run, noises, processes, 10_000 // processes, slower)
    return run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """A, another run of the same program, and one in which "step" takes 5% longer."""
    folder = tmp_path_factory.mktemp("runs")
    return make(folder / "a", 1), make(folder / "same", 2), make(folder / "slower", 3, "step")


def verdicts(document: dict[str, Any]) -> dict[str, str]:
    return {
        phase["path"][-1]: phase["verdict"]
        for role in document["roles"]
        for phase in role["phases"]
    }


def test_a_planted_shift_is_found_and_nothing_else(runs: tuple[Path, Path, Path]) -> None:
    a, same, slower = runs
    found = verdicts(json.loads(compare(a, slower, "--json").stdout))
    assert found == {"step": "slower", "bimodal": "same", "steady": "same"}
    assert verdicts(json.loads(compare(slower, a, "--json").stdout))["step"] == "faster"
    assert set(verdicts(json.loads(compare(a, same, "--json").stdout)).values()) == {"same"}


@COMMANDS
def test_the_gate_K15(runs: tuple[Path, Path, Path], command: list[str]) -> None:
    a, same, slower = runs
    failed = compare(a, slower, "--fail-over", "3", command=command)
    assert failed.returncode == 1
    assert "GATE FAILED: 1 phase is slower by more than +3.0%:\n  actor  step" in failed.stdout
    assert failed.stderr == "lineprofiler compare: 1 of 3 phases slower by more than 3%\n"
    for words in ((a, slower, "--fail-over", "10%"), (a, same, "--fail-over", "0"), (a, slower)):
        passed = compare(*words, command=command)
        assert (passed.returncode, passed.stderr) == (0, "")


def test_a_failed_gate_names_phases_where_no_page_does(
    runs: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    a, _, slower = runs
    failed = compare(a, slower, "--fail-over=3", "--json")
    assert failed.returncode == 1
    document = json.loads(failed.stdout)
    assert document["failed"] is True
    assert document["fail_over"] == 0.03
    first, second = failed.stderr.splitlines()
    assert first == "lineprofiler compare: 1 of 3 phases slower by more than 3%"
    assert second.split()[:2] == ["actor", "step"]
    written = compare(a, slower, "--fail-over=3", "-o", tmp_path / "out.txt")
    assert written.returncode == 1
    assert written.stdout == ""
    assert "GATE FAILED" in (tmp_path / "out.txt").read_text()
    assert "step" in written.stderr


def test_a_gate_that_tested_nothing_is_not_passed_K15(
    runs: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    other = tmp_path / "other"
    with Profiler(other, "renamed", snapshot_interval_s=None) as profiler, profiler.phase("step"):
        pass
    assert compare(runs[0], other).returncode == 0
    failed = compare(runs[0], other, "--fail-over", "5")
    assert failed.returncode == 1
    assert "GATE FAILED: no phase could be tested." in failed.stdout
    assert failed.stderr.count("\n") == 1
    as_json = compare(runs[0], other, "--fail-over", "5", "--json")
    assert json.loads(as_json.stdout)["failed"] is True
    assert compare_runs(runs[0], other, fail_over=5).failed


def test_what_cannot_be_read_is_named_K15(runs: tuple[Path, Path, Path], tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    broken = make(tmp_path / "broken", 1, processes=1)
    next(broken.glob("workers/*/*.json")).write_text("{")
    for bad in (tmp_path / "missing", empty, broken):
        for words in ((runs[0], bad), (bad, runs[0])):
            done = compare(*words, "--fail-over", "5", "--json")
            assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
            assert str(bad) in done.stderr


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ((), "name two run directories"),
        (("a",), "name two run directories"),
        (("a", "b", "c"), "two directories at a time: 'a', 'b' and 'c'"),
        (("a", "b", "--fail-over", "-5"), "'-5' is no percentage"),
        (("a", "b", "--fail-over", "five"), "'five' is no percentage"),
        (("a", "b", "--fail-over", "1.2.3"), "'1.2.3' is no percentage"),
        (("a", "b", "--fail-over", "nan"), "'nan' is no percentage"),
        (("a", "b", "--fail-over", ""), "'' is no percentage"),
        (("a", "b", "--fail-over", "%"), "'%' is no percentage"),
        (("a", "b", "--fail-over"), "needs a value"),
        (("a", "b", "--format", "html"), "no format 'html'"),
        (("a", "b", "--color", "blue"), "no color 'blue'"),
        (("a", "b", "--what"), "unknown option '--what'"),
    ],
)
def test_wrong_usage_K15(words: tuple[str, ...], part: str) -> None:
    done = compare(*words)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert part in done.stderr


def test_the_help_names_it() -> None:
    assert "--fail-over PCT" in compare("--help").stdout
    listed = subprocess.run(
        [str(Path(sys.executable).parent / "lineprofiler"), "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "compare  DIR_A [DIR_B]" in listed.stdout


def test_the_same_directory_twice(runs: tuple[Path, Path, Path]) -> None:
    done = compare(runs[0], runs[0], "--fail-over", "0")
    assert done.returncode == 0
    assert "A and B are the same run." in done.stdout


def test_colour_on_request_only_K14(runs: tuple[Path, Path, Path]) -> None:
    a, same, _ = runs
    plain = compare(a, same).stdout
    assert "\x1b" not in plain
    assert "\x1b[1m" in compare(a, same, "--color", "always").stdout


def test_one_lost_worker_is_a_caveat(runs: tuple[Path, Path, Path], tmp_path: Path) -> None:
    b = make(tmp_path / "b", 4)
    next(b.glob("workers/*/*.json")).write_text("{")
    done = compare(runs[0], b)
    assert done.returncode == 0
    assert "1 process unreadable" in done.stdout
    assert "\n  B " in done.stdout[done.stdout.index("CAVEATS") :]


def test_json_keeps_to_its_schema(runs: tuple[Path, Path, Path], tmp_path: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((ROOT / "docs" / "compare.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    odd = tmp_path / "odd"
    node = bench.node("new", [5] * 12)
    sampled = {**bench.node("step", [10**6] * 1000), "stride": 100}
    never = {"parent": 0, "name": "bimodal", "calls": 0, "wall_ns": 0, "cpu_ns": 0}
    bench.write_worker(odd, 1, [node, sampled, never])
    for words in (runs[:2], (runs[0], odd), (odd, runs[0]), (odd, odd)):
        for more in ((), ("--fail-over", "2.5")):
            done = compare(*words, "--json", *more)
            validator.validate(json.loads(done.stdout))


# ---- marks -----------------------------------------------------------------


def phases_of(folder: Path, a: list[Any], b: list[Any]) -> dict[str, ComparedPhase]:
    bench.write_worker(folder / "a", 1, a)
    bench.write_worker(folder / "b", 1, b)
    result = compare_runs(folder / "a", folder / "b", fail_over=1)
    return {phase.path[-1]: phase for phase in result.phases}


def test_marks(tmp_path: Path) -> None:
    many = bench.node("many", [10**6] * 1000)
    stalled = bench.node("many", [10**6] * 999 + [10**9])
    few = bench.node("few", [10**6] * 29)
    found = phases_of(
        tmp_path,
        [many, few, {**bench.node("sampled", [10**6] * 1000), "stride": 10}],
        [stalled, few, bench.node("sampled", [10**6] * 1000), bench.node("new", [7])],
    )
    assert found["few"].few
    assert found["few"].verdict == "undecided"
    assert found["many"].disagrees
    assert found["many"].verdict == "same"  # One entry of a thousand is no change.
    assert found["many"].median_ratio == pytest.approx(1, abs=0.01)
    assert found["many"].mean.size == pytest.approx(0.999)
    assert found["sampled"].estimated
    assert found["sampled"].a is not None
    assert found["sampled"].a.entries == 100
    assert found["new"].verdict == "only_b"
    assert found["new"].a is None
    text = compare(tmp_path / "a", tmp_path / "b").stdout
    assert text.index("IN ONE RUN ONLY") < text.index("entries A")
    assert "mean x2.00, median x1.00" in text
    assert "      ≈   sampled" in text


def test_names_of_any_kind_come_back(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    names = ("nul\0inside", "back\\slash", "lone \udcff", "训练", "\x1b[31m")
    with Profiler(run_dir, "tested", snapshot_interval_s=None, sample_interval_s=None) as profiler:
        for name in names:
            with profiler.phase(name):
                pass
    result = compare_runs(run_dir, run_dir)
    assert {phase.path for phase in result.phases} == {(name,) for name in names}
    assert {phase.role for phase in result.phases} == {"tested"}
    assert result.same_run
    assert "\x1b" not in compare(run_dir, run_dir).stdout


def test_attempts_of_one_directory(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        with Profiler(tmp_path, run_id=f"job-{number}") as profiler:
            for _ in range(number):
                with profiler.phase("step"):
                    pass
    for words, chosen in {
        ("--run-a", "job-1"): ["job-1", "job-3"],
        ("--run-b", "job-1"): ["job-3", "job-1"],
        ("--run-a", "job-[12]", tmp_path): ["job-2", "job-3"],
        ("--run-a=job-1", "--run-b=job-2"): ["job-1", "job-2"],
    }.items():
        document = json.loads(compare(tmp_path, *words, "--json").stdout)
        assert [document[side]["run_id"] for side in "ab"] == chosen
        assert not document["same_run"]
    assert compare(tmp_path, "--run-a", "job-3", "--json").returncode == 0  # the same twice
    done = compare(tmp_path, "--run-b", "job-9")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "job-9" in done.stderr

    result = compare_runs(tmp_path, run_id_a="job-2")
    assert (result.a.run_id, result.b.run_id) == ("job-2", "job-3")
    assert compare_runs(tmp_path, tmp_path, run_id_b="job-1").b.run_id == "job-1"
    with pytest.raises(LookupError, match="job-9"):
        compare_runs(tmp_path, run_id_a="job-9")
    with pytest.raises(TypeError, match="run_id"):
        compare_runs(tmp_path, run_id_a=1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="second directory"):
        compare_runs(tmp_path)


# ---- from Python -----------------------------------------------------------


def test_python_says_what_the_command_says(runs: tuple[Path, Path, Path]) -> None:
    a, _, slower = runs
    result = compare_runs(a, str(slower), fail_over=3)
    document = json.loads(compare(a, slower, "--json", "--fail-over", "3").stdout)
    assert result.failed
    assert [phase.path for phase in result.slower] == [("step",)]
    assert result.faster == []
    assert [phase.over for phase in result.slower] == [True]
    raw = next(p for p in document["roles"][0]["phases"] if p["path"] == ["step"])
    assert result.slower[0].mean.size == raw["mean"]["size"]
    assert result.slower[0].mean.margin == raw["mean"]["margin"]
    assert result.error_rate == 0.01
    assert result.tested == 3
    assert (result.a.dir, result.b.processes) == (str(a), 4)
    assert not compare_runs(a, slower).failed
    assert pickle.loads(pickle.dumps(result)) == result


def test_python_errors(runs: tuple[Path, Path, Path], tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="missing"):
        compare_runs(runs[0], tmp_path / "missing")
    with pytest.raises(RunError, match=str(tmp_path)):
        compare_runs(tmp_path, runs[0])
    with pytest.raises(NotADirectoryError):
        compare_runs(__file__, runs[0])
    for bad in (-1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="fail_over"):
            compare_runs(runs[0], runs[0], fail_over=bad)


# ---- how often it errs -----------------------------------------------------


def test_few_false_alarms() -> None:
    """A tenth of what `make bench` does, of noises of every kind: at most 1 in 100 is allowed."""
    native = str(Path(sys.executable).parent / "lineprofiler")
    plans = [plan for plan in bench.PLANS if plan.name.startswith(("1 and 1", "3 and 2"))]
    assert sum(bench.false_alarms(native, plan, 15, "test")[0] for plan in plans) == 0
