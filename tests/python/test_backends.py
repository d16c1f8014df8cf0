"""Heavy profilers for a window (M1, M2) and what the report says of them (K9)."""

from __future__ import annotations

import builtins
import cProfile
import json
import os
import pickle
import subprocess
import sys
import threading
import types
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lineprofiler import accounting
from lineprofiler.accounting import Backend, Profiler, merge_run

if TYPE_CHECKING:
    from conftest import Child

ROOT = Path(__file__).resolve().parents[2]


def backends_of(run_dir: Path) -> list[dict[str, Any]]:
    """Return what the report's JSON says."""
    return report(run_dir)["backends"]  # type: ignore[no-any-return]


def report(run_dir: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(text_of(run_dir, "--json"))
    try:
        import jsonschema  # type: ignore[import-untyped]
    except ImportError:
        return document
    jsonschema.validate(document, json.loads((ROOT / "docs" / "report.schema.json").read_text()))
    return document


def text_of(run_dir: Path, *options: str) -> str:
    command = [sys.executable, "-P", "-m", "lineprofiler", "report", str(run_dir), *options]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def iterate(profiler: Profiler, n: int, name: str = "iteration") -> None:
    for _ in range(n):
        with profiler.phase(name), profiler.phase("step"):
            pass


class Tool:
    """Stands for a heavy profiler's module, and sees what is asked of it."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.fails: str | None = None
        self.error: type[BaseException] = RuntimeError
        self.module = types.ModuleType("viztracer")
        self.module.VizTracer = self.make  # type: ignore[attr-defined]

    def make(self, **options: object) -> Tool:
        assert options == {"verbose": 0, "register_global": False}
        self._do("make")
        return self

    def _do(self, what: str) -> None:
        self.calls.append(what)
        if self.fails == what:
            raise self.error(f"{what} failed\nin two lines")

    def start(self) -> None:
        self._do("start")

    def stop(self) -> None:
        self._do("stop")

    def save(self, path: str) -> None:
        Path(path).write_text("{}")
        self._do("save")

    def terminate(self) -> None:
        self._do("terminate")


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Tool:
    made = Tool()
    monkeypatch.setitem(sys.modules, "viztracer", made.module)
    return made


def test_the_window_is_counted_in_entries_M1(run_dir: Path, tool: Tool) -> None:
    with Profiler(
        run_dir, "actor", backend="viztracer", backend_window=(3, 5), window_phase="round"
    ) as profiler:
        iterate(profiler, 9)
        iterate(profiler, 2, "round")
        assert tool.calls == []
        with profiler.phase("round"):
            assert tool.calls == ["make", "start"]
            assert profiler.current() == "round [viztracer]"
        iterate(profiler, 1, "round")
        assert tool.calls == ["make", "start"]
        with profiler.phase("round"):
            assert tool.calls == ["make", "start", "stop", "save", "terminate"]
            assert profiler.current() == "round"
        iterate(profiler, 9, "round")
    assert len(tool.calls) == 5
    [found] = backends_of(run_dir)
    assert found["state"] == "written"
    assert found["role"] == "actor"
    assert (found["window_phase"], found["window"], found["entries"]) == ("round", [3, 5], 5)
    assert found["bytes"] == 2
    assert (run_dir / found["path"]).read_text() == "{}"
    assert found["worker"] in found["path"]
    assert (run_dir / "backend" / "viztracer.json").read_text() == "{}"
    tree = merge_run(run_dir).tree
    assert tree[("round",)].calls == 12
    assert tree[("round [viztracer]",)].calls == 2
    assert tree[("iteration",)].calls == 9


@pytest.mark.parametrize("backend", ["torch", Backend.TORCH, Backend.VIZTRACER, Backend.JAX])
def test_backends_are_words_or_members_M1(run_dir: Path, backend: str) -> None:
    assert accounting.Backend is Backend
    with Profiler(run_dir, backend=backend, enabled=False) as profiler:
        iterate(profiler, 9)
    assert not run_dir.exists()


@pytest.mark.parametrize(
    ("options", "kind", "says"),
    [
        ({"backend": "perf"}, ValueError, '"torch", "viztracer", "jax"'),
        ({"backend": ("torch", "viztracer")}, TypeError, "tuple"),
        ({"backend": True}, TypeError, "bool"),
        ({"backend": "torch", "backend_window": (5, 5)}, ValueError, "start < end"),
        ({"backend": "torch", "backend_window": (0, 5)}, ValueError, "1 <= start"),
        ({"backend": "torch", "backend_window": (1.0, 5)}, TypeError, "integers"),
        ({"backend": "torch", "backend_window": (True, 5)}, TypeError, "integers"),
        ({"backend": "torch", "backend_window": 5}, TypeError, "start, end"),
        ({"backend": "torch", "backend_window": (1, 2, 3)}, TypeError, "start, end"),
        ({"backend": "torch", "window_phase": ""}, ValueError, "window_phase"),
        ({"backend": "torch", "window_phase": 1}, TypeError, "window_phase"),
    ],
)
def test_options_that_are_refused(
    run_dir: Path, options: dict[str, Any], kind: type[Exception], says: str
) -> None:
    with pytest.raises(kind, match=says):
        Profiler(run_dir, **options)
    assert not run_dir.exists()


def test_a_window_is_short_by_default_SC04(run_dir: Path, tool: Tool) -> None:
    with Profiler(run_dir, backend="viztracer") as profiler:
        iterate(profiler, 100)
    tree = merge_run(run_dir).tree
    assert tree[("iteration [viztracer]",)].calls == 3
    assert tool.calls.count("start") == 1


def test_its_own_time_is_a_phase_and_nobody_elses_SC04(run_dir: Path, tool: Tool) -> None:
    seen = []
    with Profiler(run_dir, backend="viztracer", backend_window=(1, 2)) as profiler:
        tool.start = lambda: seen.append(profiler.current())  # type: ignore[method-assign]
        tool.save = lambda _: seen.append(profiler.current())  # type: ignore[method-assign,assignment]
        Path(run_dir / "backend").mkdir(exist_ok=True)
        with profiler.phase("epoch"), pytest.warns(RuntimeWarning, match="could not be written"):
            iterate(profiler, 3)
    assert seen == ["epoch/lineprofiler/backend/start", "epoch/lineprofiler/backend/export"]
    tree = merge_run(run_dir).tree
    assert {path for path in tree if "lineprofiler" in path} == {
        ("epoch", "lineprofiler"),
        ("epoch", "lineprofiler", "backend"),
        ("epoch", "lineprofiler", "backend", "start"),
        ("epoch", "lineprofiler", "backend", "export"),
    }


def test_entries_in_a_window_are_out_of_the_averages_OV10(run_dir: Path, tool: Tool) -> None:
    assert tool
    with Profiler(run_dir, backend="viztracer", backend_window=(2, 4)) as profiler:
        for _ in range(6):
            with profiler.phase("iteration", sample=1.0):
                profiler.count("games")
    text = text_of(run_dir)
    assert "ITERATIONS  (4 entries)  iteration\n" in text
    assert "kept apart as iteration\n   [viztracer]" in text or "iteration [viztracer]" in text
    tree = merge_run(run_dir).tree
    assert tree[("iteration [viztracer]",)].counters["games"] == 2


def test_options_of_the_phase_stay_in_the_window(run_dir: Path, tool: Tool) -> None:
    assert tool
    with Profiler(run_dir, backend="viztracer", backend_window=(1, 20)) as profiler:
        for _ in range(10):
            with profiler.phase("iteration", sample=0.2):
                pass
    phase = merge_run(run_dir).tree[("iteration [viztracer]",)]
    assert (phase.calls, phase.estimated) == (10, True)


def test_close_ends_the_window_M1(run_dir: Path, tool: Tool) -> None:
    with Profiler(run_dir, backend="viztracer", backend_window=(2, 100)) as profiler:
        iterate(profiler, 4)
        assert tool.calls == ["make", "start"]
    assert tool.calls[2:] == ["stop", "save", "terminate"]
    [found] = backends_of(run_dir)
    assert found["state"] == "written"
    assert "entered 4 times before" in found["reason"]
    assert "entries 2-4 of iteration" in text_of(run_dir)


@pytest.mark.parametrize(
    ("n", "says"), [(0, "was never entered"), (1, "was entered once"), (2, "was entered 2 times")]
)
def test_a_window_that_never_came_is_named_K9(run_dir: Path, tool: Tool, n: int, says: str) -> None:
    with Profiler(run_dir, backend="viztracer") as profiler, profiler.phase("other"):
        iterate(profiler, n)
    assert tool.calls == []
    [found] = backends_of(run_dir)
    assert (found["state"], found["path"]) == ("none", None)
    assert says in found["reason"]
    assert says in text_of(run_dir)


@pytest.mark.parametrize("backend", ["torch", "viztracer", "jax"])
def test_a_missing_package_is_a_no_op_M2(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    monkeypatch.setitem(sys.modules, backend, None)
    with pytest.warns(RuntimeWarning, match=f"pip install {backend}") as said:
        profiler = Profiler(run_dir, backend=backend)
    assert said[0].filename == __file__
    with profiler:
        iterate(profiler, 10)
    run = merge_run(run_dir)
    [entry] = run.metadata["runs"].values()
    assert f"pip install {backend}" in entry["unavailable_reason"]
    assert entry["backend"] == backend
    assert run.tree[("iteration",)].calls == 10
    [found] = backends_of(run_dir)
    assert (found["state"], found["reason"]) == ("none", entry["unavailable_reason"])


def test_a_missing_package_raises_nothing_where_warnings_do(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "viztracer", None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with Profiler(run_dir, backend="viztracer") as profiler:
            iterate(profiler, 10)
    assert merge_run(run_dir).metadata["runs"]


def test_a_package_that_cannot_be_imported_M2(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = types.ModuleType("viztracer")
    monkeypatch.setitem(sys.modules, "viztracer", broken)

    def fail(name: str) -> object:
        raise ImportError(f"no {name}: libsomething.so is missing")

    broken.__getattr__ = fail  # type: ignore[method-assign]
    with (
        Profiler(run_dir, backend="viztracer") as profiler,
        pytest.warns(RuntimeWarning, match="libsomething"),
    ):
        iterate(profiler, 10)
    [entry] = merge_run(run_dir).metadata["runs"].values()
    assert "libsomething.so is missing" in entry["unavailable_reason"]


@pytest.mark.parametrize("what", ["make", "start", "stop", "save", "terminate"])
def test_errors_of_the_tool_reach_nobody(run_dir: Path, tool: Tool, what: str) -> None:
    tool.fails = what
    with (
        pytest.warns(RuntimeWarning, match=f"no viztracer window.*{what} failed in two lines"),
        Profiler(run_dir, backend="viztracer") as profiler,
    ):
        iterate(profiler, 10)
    [found] = backends_of(run_dir)
    assert (found["state"], found["path"], found["errors"]) == ("none", None, 1)
    assert f"{what} failed in two lines" in found["error"]
    assert f"{what} failed" in text_of(run_dir).replace("\n    ", " ")
    assert [path.name for path in (run_dir / "backend").iterdir()] == [f"{found['worker']}.json"]
    assert sum(merge_run(run_dir).tree[(name,)].calls for name in ("iteration",)) >= 7


@pytest.mark.parametrize("what", ["start", "stop", "save"])
def test_an_interrupt_ends_the_window_and_reaches_the_program(
    run_dir: Path, tool: Tool, what: str
) -> None:
    tool.fails, tool.error = what, KeyboardInterrupt
    with Profiler(run_dir, backend="viztracer") as profiler:
        with (
            pytest.warns(RuntimeWarning, match=f"no viztracer window.*{what} failed in two lines"),
            pytest.raises(KeyboardInterrupt),
        ):
            iterate(profiler, 10)
        tool.fails = None
        iterate(profiler, 10)
    [found] = backends_of(run_dir)
    assert (found["state"], found["path"], found["errors"]) == ("none", None, 1)
    assert [path.name for path in (run_dir / "backend").iterdir()] == [f"{found['worker']}.json"]
    assert tool.calls.count("start") == tool.calls.count("stop") == 1
    with Profiler(run_dir / "next", backend="viztracer") as profiler:
        iterate(profiler, 10)
    [found] = backends_of(run_dir / "next")
    assert found["state"] == "written"


def test_a_folder_that_cannot_be_made_reaches_nobody(run_dir: Path, tool: Tool) -> None:
    with Profiler(run_dir, backend="viztracer") as profiler:
        (run_dir / "backend").write_text("in the way")
        with pytest.warns(RuntimeWarning, match="backend"):
            iterate(profiler, 10)
    assert tool.calls == ["make"]
    assert merge_run(run_dir).tree[("iteration",)].calls == 10


def test_two_windows_at_once_are_refused_M1(run_dir: Path, tmp_path: Path, tool: Tool) -> None:
    other = tmp_path / "other"
    with (
        Profiler(run_dir, backend="viztracer", backend_window=(1, 9)) as one,
        Profiler(other, backend="viztracer", backend_window=(1, 9)) as two,
    ):
        iterate(one, 3)
        with pytest.warns(RuntimeWarning, match="window of another profiler is at work"):
            iterate(two, 3)
        iterate(one, 20)
    assert tool.calls == ["make", "start", "stop", "save", "terminate"]
    assert [found["state"] for found in backends_of(run_dir)] == ["written"]
    [refused] = backends_of(other)
    assert refused["state"] == "none"
    assert "only one heavy profiler" in refused["reason"]
    # One after the other is no matter.
    with Profiler(tmp_path / "third", backend="viztracer") as three:
        iterate(three, 9)
    assert tool.calls[5:] == tool.calls[:5]


def test_the_programs_own_profiler_goes_on_M1(run_dir: Path, tool: Tool) -> None:
    own = cProfile.Profile()
    with Profiler(run_dir, backend="viztracer") as profiler:
        own.enable()
        with pytest.warns(RuntimeWarning, match="cProfile.* is at work in this process"):
            iterate(profiler, 9)
        sum(map(abs, [1, 2]))
        own.disable()
    assert tool.calls == []
    names = {entry.code for entry in own.getstats() if isinstance(entry.code, str)}
    assert any("sum" in name for name in names)


def test_tools_that_the_program_runs_are_seen(
    run_dir: Path, tool: Tool, monkeypatch: pytest.MonkeyPatch
) -> None:
    their = types.SimpleNamespace(enable=True)
    monkeypatch.setattr(builtins, "__viz_tracer__", their, raising=False)
    torch = types.SimpleNamespace(_is_profiler_enabled=True)
    jax = types.SimpleNamespace(_profile_state=types.SimpleNamespace(session=object()))
    stops: dict[str, tuple[object, str, object]] = {
        "viztracer": (their, "enable", False),
        "torch.profiler": (torch, "_is_profiler_enabled", False),
        "jax.profiler": (jax._profile_state, "session", None),
    }
    for name, stop in stops.items():
        monkeypatch.setitem(sys.modules, "torch.autograd.profiler", torch)
        monkeypatch.setitem(sys.modules, "jax._src.profiler", jax)
        with (
            Profiler(run_dir / name, backend="viztracer") as profiler,
            pytest.warns(RuntimeWarning, match=f"{name} is at work"),
        ):
            iterate(profiler, 9)
        setattr(*stop)
    assert tool.calls == []
    with Profiler(run_dir, backend="viztracer") as profiler:
        iterate(profiler, 9)
    assert tool.calls


WARMS_UP = """
import sys
from torch.profiler import ProfilerActivity, profile, schedule
import torch
from lineprofiler.accounting import Profiler

ready = []
when = schedule(wait=1, warmup=3, active=2, repeat=1)
with (
    Profiler(sys.argv[1], backend="torch", backend_window=(3, 4)) as profiler,
    profile(
        activities=[ProfilerActivity.CPU],
        schedule=when,
        on_trace_ready=lambda own: ready.append(len(own.events())),
    ) as own,
):
    for _ in range(7):
        with profiler.phase("iteration"):
            torch.ones(8).sum()
        own.step()
assert ready and ready[0] > 0
"""


def test_a_schedule_of_torch_that_warms_up_goes_on_M1(child: Child, run_dir: Path) -> None:
    pytest.importorskip("torch", reason="the package torch is not installed")
    done = child.run(WARMS_UP, run_dir)
    assert "torch.profiler, in the warmup of its schedule, is at work" in done.stderr
    [found] = backends_of(run_dir)
    assert found["state"] == "none"


def test_the_plain_name_leads_to_the_newest_attempt_M1(run_dir: Path, tool: Tool) -> None:
    assert tool
    plain = run_dir / "backend" / "viztracer.json"
    seen = []
    for _ in range(2):
        with Profiler(run_dir, backend="viztracer") as profiler:
            iterate(profiler, 9)
            worker = profiler.worker
        assert plain.resolve().name == f"viztracer.{worker}.json"
        seen.append(plain.resolve())
        assert [found["worker"] for found in backends_of(run_dir)] == [worker]
    assert all(path.exists() for path in seen)
    assert len(set(seen)) == 2


def test_what_is_not_as_noted_is_named_K9(run_dir: Path, tool: Tool) -> None:
    assert tool
    profilers = []
    run_id = None
    for role in ("written", "missing", "unreadable", "unnoted", "newer"):
        profiler = Profiler(run_dir / "..", role, backend="viztracer", run_id="r 1/ü")
        profilers.append(profiler)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(warnings, "warn", lambda *_, **__: None)
            iterate(profiler, 9)
        profiler.close()
        run_id = profiler.run_id
    assert run_id == "r 1/ü"
    run_dir = run_dir.parent
    folder = run_dir / "backend"
    _, missing, unreadable, unnoted, newer = (str(p.worker) for p in profilers)
    (folder / f"viztracer.{missing}.json").unlink()
    (folder / f"{unreadable}.json").write_text('{"format": 1')
    (folder / f"{unnoted}.json").unlink()
    note = json.loads((folder / f"{newer}.json").read_text())
    (folder / f"{newer}.json").write_text(json.dumps({**note, "version": 2}))
    (folder / "something else").write_text("of somebody")
    found = {item["worker"]: item for item in backends_of(run_dir)}
    assert sorted(item["state"] for item in found.values()) == [
        "missing",
        "unnoted",
        "unreadable",
        "unreadable",
        "written",
    ]
    assert found[unreadable]["reason"] == "not JSON"
    assert "version 2" in found[newer]["reason"]
    assert found[unnoted]["path"] == f"backend/viztracer.{unnoted}.json"
    text = text_of(run_dir).replace("\n    ", " ")
    assert "is not there any more" in text
    assert "left no note" in text
    assert "something else" not in text


def test_names_that_are_any_text(run_dir: Path, tool: Tool) -> None:
    assert tool
    name = "a\\b\0\ud800 ü"
    with Profiler(run_dir, role=name, backend="viztracer", window_phase=name) as profiler:
        iterate(profiler, 9, name)
    [found] = backends_of(run_dir)
    assert accounting.decode_text(found["window_phase"]) == name
    assert accounting.decode_text(found["role"]) == name
    assert "BACKEND ARTIFACTS" in text_of(run_dir)


def test_many_alike_are_one_line_K9(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch, tool: Tool
) -> None:
    assert tool
    monkeypatch.setattr(warnings, "warn", lambda *_, **__: None)
    for i in range(30):
        with Profiler(run_dir, "actor", run_id="r", backend="viztracer") as profiler:
            iterate(profiler, i % 2)
    text = text_of(run_dir)
    assert text.count("actor x15") == 2
    for _ in range(30):
        with Profiler(run_dir, "learner", run_id="r", backend="viztracer") as profiler:
            iterate(profiler, 9)
    assert "12 more: see backend/" in text_of(run_dir)


def test_annotations_and_a_window_together(
    run_dir: Path, tool: Tool, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: list[str] = []
    nvtx = types.ModuleType("nvtx")
    nvtx.start_range = lambda name: names.append(name)  # type: ignore[attr-defined]
    nvtx.end_range = lambda _: None  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "nvtx", nvtx)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    with accounting.start(run_dir, backend="viztracer", annotate=True):
        for _ in range(9):
            with accounting.phase("iteration"), accounting.phase("step"):
                pass
    assert names == ["iteration", "step"] * 9  # in the trace a window's entries have the plain name
    assert tool.calls.count("save") == 1
    assert merge_run(run_dir).tree[("iteration [viztracer]", "step")].calls == 3


def test_pickles_keep_the_options(run_dir: Path, tool: Tool) -> None:
    assert tool
    options = {"backend": "viztracer", "backend_window": (2, 4), "window_phase": "w"}
    with Profiler(run_dir, **options) as profiler:  # type: ignore[arg-type]
        _, arguments = profiler.__reduce__()[:2]
        assert {key: arguments[-1][key] for key in options} == options
        assert pickle.loads(pickle.dumps(profiler)) is profiler
        phase = pickle.loads(pickle.dumps(profiler.phase("w")))
        for _ in range(3):
            with phase:
                pass
    assert merge_run(run_dir).tree[("w [viztracer]",)].calls == 2


def test_threads_share_one_count(run_dir: Path, tool: Tool) -> None:
    with Profiler(run_dir, backend="viztracer", backend_window=(100, 200)) as profiler:
        work = [threading.Thread(target=iterate, args=(profiler, 100)) for _ in range(4)]
        for thread in work:
            thread.start()
        for thread in work:
            thread.join()
    assert tool.calls == ["make", "start", "stop", "save", "terminate"]
    [found] = backends_of(run_dir)
    assert found["state"] == "written"
    tree = merge_run(run_dir).tree
    assert tree[("iteration",)].calls + tree[("iteration [viztracer]",)].calls == 400


def test_another_thread_may_end_it_and_leaves_no_hook_behind(run_dir: Path) -> None:
    pytest.importorskip("viztracer", reason="the package viztracer is not installed")
    hooks: list[object] = []
    begun, ended = threading.Event(), threading.Event()

    def begin() -> None:
        iterate(profiler, 1)
        begun.set()
        ended.wait()
        hooks.append(sys.getprofile())
        iterate(profiler, 1)
        hooks.append(sys.getprofile())

    with Profiler(run_dir, backend="viztracer", backend_window=(1, 2)) as profiler:
        thread = threading.Thread(target=begin)
        thread.start()
        begun.wait()
        iterate(profiler, 1)
        ended.set()
        thread.join()
    assert hooks[1] is None
    [found] = backends_of(run_dir)
    assert found["state"] == "written"


def test_a_child_that_enters_nothing_says_nothing(run_dir: Path, tool: Tool) -> None:
    """Forked inside a window, too, it leaves its parent's note alone."""
    profiler = Profiler(
        run_dir,
        backend="viztracer",
        backend_window=(1, 3),
        snapshot_interval_s=None,  # no thread beside which to fork
        sample_interval_s=None,
    )
    with profiler:
        tool.clear = lambda: None  # type: ignore[attr-defined]
        with profiler.phase("iteration"):
            pid = os.fork()
            if pid == 0:
                profiler.close()
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
        iterate(profiler, 3)
    [found] = backends_of(run_dir)
    assert (found["state"], found["entries"]) == ("written", 3)
    assert len(merge_run(run_dir).workers) == 1


# --- real packages ---

PROGRAM = """
import json, multiprocessing, os, sys
from lineprofiler.accounting import Profiler

backend, run_dir, method = sys.argv[1:4]
OPTIONS = dict(backend=backend, backend_window=(3, 6), annotate=backend == "torch")

def one(): return sum(range(10))
BODIES = {i: eval(f"lambda: one() + {i}") for i in range(9)}
for i, body in BODIES.items():
    body.__code__ = body.__code__.replace(co_name=f"round_{i}", co_qualname=f"round_{i}")

def work(profiler):
    if backend == "torch":
        import torch
        tensor = torch.ones(8, 8)
    for i in range(1, 9):
        with profiler.phase("iteration"), profiler.phase(f"step"):
            BODIES[i]()
            if backend == "torch":
                tensor @ tensor

def child(role):
    with Profiler(run_dir, role, snapshot_interval_s=None, **OPTIONS) as profiler:
        work(profiler)

def inherited(profiler):
    work(profiler)

if __name__ == "__main__":
    if method == "none":
        child("main")
    elif method in ("inherit", "pickled"):
        # The profiler, and torch, were there before the child was; a spawned one gets a pickle.
        if backend == "torch":
            import torch
            torch.ones(8, 8) @ torch.ones(8, 8)
        with Profiler(run_dir, "parent", snapshot_interval_s=None, **OPTIONS) as profiler:
            context = multiprocessing.get_context("fork" if method == "inherit" else "spawn")
            children = [context.Process(target=inherited, args=(profiler,)) for _ in range(2)]
            for process in children: process.start()
            for process in children: process.join()
            assert [process.exitcode for process in children] == [0, 0]
            work(profiler)
    else:
        context = multiprocessing.get_context(method)
        with Profiler(run_dir, "parent", snapshot_interval_s=None):
            children = [context.Process(target=child, args=(f"actor{i}",)) for i in range(2)]
            for process in children: process.start()
            for process in children: process.join()
            assert [process.exitcode for process in children] == [0, 0]
"""


def events_of(path: Path) -> set[str]:
    return {event["name"] for event in json.loads(path.read_text())["traceEvents"]}


def run_program(child: Child, backend: str, run_dir: Path, method: str) -> list[dict[str, Any]]:
    pytest.importorskip(backend, reason=f"the package {backend} is not installed")
    child.run(PROGRAM, backend, run_dir, method)
    found = backends_of(run_dir)
    assert {item["state"] for item in found} == {"written"}, found
    assert len({item["path"] for item in found}) == len(found)
    return found


def test_viztracer_records_the_window_and_no_more_M1(child: Child, run_dir: Path) -> None:
    [found] = run_program(child, "viztracer", run_dir, "none")
    names = {name.split(" ")[0] for name in events_of(run_dir / found["path"])}
    assert {f"round_{i}" for i in (3, 4, 5)} <= names
    assert not {f"round_{i}" for i in (1, 2, 6, 7, 8)} & names
    assert events_of(run_dir / "backend" / "viztracer.json")
    assert found["bytes"] == (run_dir / found["path"]).stat().st_size


def test_torch_records_the_window_with_our_names_M1_M3(child: Child, run_dir: Path) -> None:
    [found] = run_program(child, "torch", run_dir, "none")
    trace = json.loads((run_dir / "backend" / "torch_trace.json").read_text())
    names = [event["name"] for event in trace["traceEvents"] if event.get("ph") == "X"]
    assert names.count("iteration") == names.count("step") == 3
    assert names.count("aten::matmul") == 3
    assert found["path"].startswith("backend/torch_trace.")


WAYS = [("viztracer", method) for method in ("fork", "spawn", "forkserver", "inherit", "pickled")]


# Each import of torch takes seconds.
@pytest.mark.parametrize(("backend", "method"), [*WAYS, ("torch", "spawn"), ("torch", "inherit")])
def test_each_process_has_a_window_of_its_own_M1(
    child: Child, run_dir: Path, backend: str, method: str
) -> None:
    found = run_program(child, backend, run_dir, method)
    assert len(found) == (3 if method in ("inherit", "pickled") else 2)
    for item in found:
        names = {name.split(" ")[0] for name in events_of(run_dir / item["path"])}
        if backend == "viztracer":
            assert {f"round_{i}" for i in (3, 4, 5)} <= names
            assert not {"round_2", "round_6"} & names
        else:
            assert {"iteration", "step", "aten::matmul"} <= names
    tree = merge_run(run_dir).tree
    assert tree[(f"iteration [{backend}]",)].calls == 3 * len(found)
    assert tree[("iteration",)].calls == 5 * len(found)


FORKS_INSIDE = """
import os, sys
from lineprofiler.accounting import Profiler
backend, run_dir = sys.argv[1:3]
if backend == "torch":
    import torch
def before(): pass
def of_child(): return [i for i in range(3)]
with Profiler(run_dir, "parent", backend=backend, backend_window=(2, 5)) as profiler:
    for i in range(1, 7):
        with profiler.phase("iteration"):
            if i == 3:
                pid = os.fork()
                if pid == 0:
                    for _ in range(6):
                        with profiler.phase("iteration"):
                            of_child()
                            if backend == "torch":
                                torch.ones(3) + 1
                    profiler.close()
                    os._exit(0)
                assert os.waitpid(pid, 0)[1] == 0
            before()
            if backend == "torch":
                torch.ones(3) * 2
"""


@pytest.mark.parametrize("backend", ["viztracer", "torch"])
def test_a_fork_inside_a_window_leaves_it_to_the_parent_M1(
    child: Child, run_dir: Path, backend: str
) -> None:
    pytest.importorskip(backend, reason=f"the package {backend} is not installed")
    child.run(FORKS_INSIDE, backend, run_dir)
    found = backends_of(run_dir)
    assert [item["state"] for item in found] == ["written", "written"]
    run = merge_run(run_dir)
    parents = {worker.name: worker.parent_pid for worker in run.workers}
    forked = {
        worker.name
        for worker in run.workers
        if worker.parent_pid in {other.pid for other in run.workers}
    }
    assert len(forked) == 1
    assert set(parents) == {item["worker"] for item in found}
    for item in found:
        names = {name.split(" ")[0] for name in events_of(run_dir / item["path"])}
        mine, other = ("of_child", "before") if item["worker"] in forked else ("before", "of_child")
        if backend == "torch":
            mine, other = (
                ("aten::add", "aten::mul")
                if item["worker"] in forked
                else ("aten::mul", "aten::add")
            )
        assert mine in names
        assert other not in names


def test_a_kill_inside_a_window_is_named_K9(child: Child, run_dir: Path) -> None:
    code = """
import os, signal, sys, types
sys.modules["viztracer"] = tool = types.ModuleType("viztracer")
tool.VizTracer = lambda **_: types.SimpleNamespace(start=lambda: None)
from lineprofiler.accounting import Profiler
profiler = Profiler(sys.argv[1], "actor", backend="viztracer", backend_window=(1, 9))
with profiler.phase("iteration"):
    os.kill(os.getpid(), signal.SIGKILL)
"""
    child.run(code, run_dir, status=-9)
    [found] = backends_of(run_dir)
    assert (found["state"], found["cut_off"]) == ("open", True)
    assert "ended inside the window" in text_of(run_dir)


def test_jax_writes_a_folder(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in: jax itself is no small thing to install."""
    calls: list[str] = []

    def start_trace(path: str) -> None:
        calls.append("start")
        where = Path(path) / "plugins" / "profile" / "now"
        where.mkdir(parents=True)
        (where / "host.trace.json.gz").write_bytes(b"12345")

    jax = types.ModuleType("jax")
    jax.profiler = types.ModuleType("jax.profiler")  # type: ignore[attr-defined]
    jax.profiler.start_trace = start_trace
    jax.profiler.stop_trace = lambda: calls.append("stop")
    monkeypatch.setitem(sys.modules, "jax", jax)
    monkeypatch.setitem(sys.modules, "jax.profiler", jax.profiler)
    with Profiler(run_dir, backend="jax") as profiler:
        iterate(profiler, 9)
    assert calls == ["start", "stop"]
    [found] = backends_of(run_dir)
    assert (found["state"], found["bytes"]) == ("written", 5)
    assert list((run_dir / found["path"]).rglob("*.gz"))
    assert list((run_dir / "backend" / "jax_trace").rglob("*.gz"))
