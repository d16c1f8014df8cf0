"""Reading a run back: what merge_run() returns, and bad directories (J1 to J5)."""

from __future__ import annotations

import copy
import json
import math
import os
import pickle
import random
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lineprofiler import _core
from lineprofiler.accounting import Profiler, Run, RunError, merge_run
from lineprofiler.run import Bucket, Caveat, Counter, Hist, Node, OpenPhase, Unreadable

if TYPE_CHECKING:
    from conftest import Child


def record(run_dir: Path, role: str, *, run_id: str = "one", repeat: int = 1) -> None:
    with Profiler(run_dir, role, run_id=run_id, snapshot_interval_s=None) as profiler:
        for _ in range(repeat):
            with profiler.phase("iteration"):
                with profiler.phase("mcts"):
                    profiler.count("simulations", 64)
                with profiler.phase("env"):
                    pass
        profiler.count("outside", 2)


@pytest.fixture
def run(run_dir: Path) -> Run:
    record(run_dir, "actor", repeat=2)
    record(run_dir, "actor", repeat=3)
    record(run_dir, "learner")
    return merge_run(run_dir)


def test_the_tree_is_a_mapping_by_path_J1(run: Run) -> None:
    assert isinstance(run.tree, Mapping)
    assert list(run.tree) == [("iteration",), ("iteration", "env"), ("iteration", "mcts")]
    assert len(run.tree) == 3
    assert ("iteration", "mcts") in run.tree
    assert ("mcts",) not in run.tree
    assert run.tree[("iteration", "mcts")].calls > 0
    assert run.tree.get(("nothing",)) is None
    with pytest.raises(KeyError):
        run.tree[("nothing",)]
    assert [node.path for node in run.tree.children()] == [("iteration",)]
    assert [node.name for node in run.tree.children(("iteration",))] == ["env", "mcts"]
    with pytest.raises(KeyError):
        run.tree.children(("nothing",))
    assert dict(run.tree.items())[("iteration",)] is run.tree[("iteration",)]


def test_the_root_is_no_phase(run: Run) -> None:
    assert run.tree[()] is run.tree.root
    assert run.tree.root.counters == {"outside": 6}
    assert run.tree.root.name == ""
    assert () in run.tree
    assert () not in list(run.tree)


def test_figures_of_a_node_J1(run: Run) -> None:
    node = run.tree[("iteration", "mcts")]
    assert isinstance(node, Node)
    assert (node.path, node.name) == (("iteration", "mcts"), "mcts")
    assert (node.calls, node.workers, node.open_calls, node.stride) == (6, 3, 0, (1, 1))
    assert not node.estimated
    assert node.hist.total == 6
    assert node.counters["simulations"] == 6 * 64
    assert node.counters["simulations"].calls == 6
    assert node.mean_ns == node.wall_ns / 6
    assert run.tree.root.mean_ns is None


def test_some_workers_are_chosen_J1(run: Run, run_dir: Path) -> None:
    assert run.left_out == 0
    actors = merge_run(run_dir, roles="actor")
    assert [worker.name for worker in actors.workers] == [w.name for w in run.workers_of("actor")]
    assert (list(actors.roles), actors.left_out) == (["actor"], 1)
    assert actors.tree == actors.tree_of("actor") == run.tree_of("actor")
    assert merge_run(run_dir, roles=["act*", "learner"], hosts=run.hosts) == run
    for wrong in ({"roles": "actr"}, {"hosts": ["nowhere"]}, {"ranks": 7}):
        with pytest.raises(LookupError, match="did you mean 'actor'|no host|has a rank"):
            merge_run(run_dir, **wrong)
    for empty in ({"roles": ()}, {"ranks": range(0)}, {"ranks": "one"}, {"roles": "nul\0"}):
        with pytest.raises(ValueError, match="none is named|no ranks|null byte"):
            merge_run(run_dir, **empty)
    for typed in ({"roles": 1}, {"hosts": [b"x"]}, {"ranks": 1.5}, {"ranks": [None]}):
        with pytest.raises(TypeError):
            merge_run(run_dir, **typed)


def test_roles_and_workers_J1(run: Run, run_dir: Path) -> None:
    assert "evaluator" not in run.roles
    assert "actor" in run.roles
    assert list(run.roles) == ["actor", "learner"]
    assert run.tree_of("actor")[("iteration",)].calls == 5
    assert run.tree_of("learner")[("iteration",)].calls == 1
    assert [worker.role for worker in run.workers_of("actor")] == ["actor", "actor"]
    for wrong in (run.tree_of, run.workers_of):
        with pytest.raises(KeyError):
            wrong("evaluator")
    assert len(run.workers) == 3
    walls = [worker.root_wall_ns for worker in run.workers_of("actor")]
    assert run.imbalance["actor"] == pytest.approx(max(walls) * 2 / sum(walls))
    assert run.imbalance["learner"] == 1.0
    assert run.roles["actor"].imbalance == run.imbalance["actor"]
    assert sum(walls) == run.tree_of("actor")[("iteration",)].wall_ns
    assert run.dir == str(run_dir)
    assert run.run_id == "one"
    assert not run.live
    assert run.hosts == [os.uname().nodename]
    latest = max(worker.written_at for worker in run.workers)
    assert all(latest - worker.written_at < 300 for worker in run.workers)
    assert run.started_at == min(worker.started_at for worker in run.workers)
    assert run.written_at == latest
    assert 0 < run.runtime_ns < 300e9
    assert abs(run.started_at - os.stat(run_dir).st_mtime) < 300
    assert run.unreadable == []
    assert run.superseded == []
    assert run.caveats == []
    assert list(run.metadata["runs"]) == ["one"]


def test_the_samples_may_be_left_out_J1(run: Run, run_dir: Path) -> None:
    assert run.memory.keys() == {"actor", "learner"}
    without = merge_run(str(run_dir), with_samples=False)
    assert merge_run(run_dir, False) == without
    assert without.tree == run.tree
    assert (without.io, without.gpu, without.memory, without.workers[0].usage) == (
        None,
        [],
        {},
        None,
    )
    assert all(role.sampled == [] for role in without.roles.values())


def test_the_order_of_files_does_not_matter_J2(run: Run, run_dir: Path, tmp_path: Path) -> None:
    files = sorted(run_dir.glob("workers/*/*.json"))
    for seed in range(5):
        shuffled = files[:]
        random.Random(seed).shuffle(shuffled)
        other = tmp_path / str(seed)
        shutil.copytree(run_dir, other, ignore=lambda _, names: [n for n in names if "w_" in n])
        for path in shuffled:
            target = other / path.relative_to(run_dir)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
        assert merge_run(other).tree == run.tree


def spoil(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def replace(path: Path, make: Callable[[], None]) -> None:
    path.unlink()
    make()


SPOILS: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_text(""),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-20]),
    "no JSON": lambda path: path.write_text("Hello"),
    "not UTF-8": lambda path: path.write_bytes(b"\xff\xfe" + path.read_bytes()),
    "a list": lambda path: path.write_text("[]"),
    "another format": lambda path: spoil(path, lambda d: d.update(format="else")),
    "a later version": lambda path: spoil(path, lambda d: d.update(version=1000)),
    "a missing key": lambda path: spoil(path, lambda d: d.pop("threads")),
    "a wrong type": lambda path: spoil(
        path, lambda d: d["threads"][0]["nodes"][1].update(calls="1")
    ),
    "negative": lambda path: spoil(path, lambda d: d["threads"][0]["nodes"][1].update(wall_ns=-1)),
    "a fraction": lambda path: spoil(path, lambda d: d["threads"][0]["nodes"][1].update(calls=1.5)),
    "NaN": lambda path: spoil(path, lambda d: d["threads"][0]["nodes"][1].update(wall_ns=math.nan)),
    "a folder": lambda path: replace(path, path.mkdir),
    "a broken link": lambda path: replace(path, lambda: path.symlink_to("nowhere")),
}


@pytest.mark.parametrize("kind", SPOILS)
def test_a_bad_file_costs_its_worker_only_J3(run: Run, run_dir: Path, kind: str) -> None:
    [bad] = [path for path in run_dir.glob("workers/*/*.json") if '"learner"' in path.read_text()]
    SPOILS[kind](bad)
    after = merge_run(run_dir)
    assert list(after.roles) == ["actor"]
    assert after.tree_of("actor") == run.tree_of("actor")
    [unreadable] = after.unreadable
    assert unreadable.path == str(bad.relative_to(run_dir))
    assert unreadable.reason
    assert "\n" not in unreadable.reason
    assert "unreadable" in {caveat.kind for caveat in after.caveats}
    shutil.rmtree(run_dir / "workers" / run.hosts[0] / bad.name, ignore_errors=True)
    for path in run_dir.glob("workers/*/*.json"):
        if path.is_file():
            path.write_text("{")
    with pytest.raises(RunError, match="none of the") as caught:
        merge_run(run_dir)
    assert str(run_dir) in str(caught.value)


def test_a_missing_or_empty_directory_says_which_it_is_J3(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no directory") as missing:
        merge_run(tmp_path / "missing")
    assert missing.value.filename == str(tmp_path / "missing")
    assert str(missing.value).count(str(tmp_path)) == 1
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError, match="is not a directory") as no_directory:
        merge_run(tmp_path / "file")
    assert str(no_directory.value).count(str(tmp_path)) == 1
    with pytest.raises(RunError, match="no worker has written") as empty:
        merge_run(tmp_path)
    assert str(tmp_path) in str(empty.value)
    assert isinstance(empty.value, ValueError)
    assert RunError.__module__ == "lineprofiler.accounting"
    assert type(pickle.loads(pickle.dumps(empty.value))) is RunError
    wrong: Any = merge_run
    for bad in (None, 3, 1.5):
        with pytest.raises(TypeError):
            wrong(bad)
    with pytest.raises(ValueError, match="null"):
        merge_run("a\0b")


def test_wait_pairs_with_wall_J4(run: Run) -> None:
    node = run.tree[("iteration",)]
    assert node.cpu_ns is not None
    assert node.wait_ns == max(0, node.wall_ns - node.nocpu_wall_ns - node.cpu_ns)


def test_measured_and_not_measured_are_merged_J4(run_dir: Path) -> None:
    for measure_cpu in (True, False):
        with Profiler(
            run_dir, run_id="one", measure_cpu=measure_cpu, snapshot_interval_s=None
        ) as profiler:
            with profiler.phase("both"):
                pass
            with profiler.phase(str(measure_cpu)):
                pass
    run = merge_run(run_dir)
    both = run.tree[("both",)]
    assert both.cpu_ns is not None
    assert both.wait_ns is not None
    assert 0 < both.nocpu_wall_ns < both.wall_ns
    assert run.tree[("True",)].cpu_ns is not None
    assert run.tree[("True",)].nocpu_wall_ns == 0
    assert run.tree[("False",)].cpu_ns is None
    assert run.tree[("False",)].wait_ns is None


def test_a_run_in_progress_can_be_read_J5_EX10(run_dir: Path) -> None:
    profiler = Profiler(run_dir, "actor", snapshot_interval_s=None)
    with profiler, profiler.phase("iteration"):
        for _ in range(10):
            with profiler.phase("mcts"):
                profiler.count("n")
        profiler.snapshot()
        run = merge_run(run_dir)
        assert run.tree[("iteration", "mcts")].calls == 10
        node = run.tree[("iteration",)]
        assert (node.calls, node.open_calls, node.hist.total) == (0, 1, 0)
        assert node.wall_ns == node.open_wall_ns >= node.child_wall_ns > 0
        assert math.isnan(node.hist.quantile(0.5))
        [worker] = run.workers
        assert not worker.closed
        [opened] = worker.open
        assert (opened.thread, opened.path) == ("MainThread", "iteration")
        assert opened.open_ns > 0
    assert not merge_run(run_dir).workers[0].open


def test_a_phase_open_in_another_process_has_cpu_time_J5(child: Child, run_dir: Path) -> None:
    code = """
import signal, sys, time
from lineprofiler.accounting import Profiler
profiler = Profiler(sys.argv[1], snapshot_interval_s=None, sample_interval_s=None)
with profiler.phase("loop"):
    start = time.thread_time_ns()
    while time.thread_time_ns() - start < 50_000_000:
        pass
    print("there", flush=True)
    signal.pause()
"""
    with child.start(code, run_dir) as process:
        assert process.stdout
        assert process.stdout.readline() == "there\n"
        node = merge_run(run_dir).tree[("loop",)]
        process.kill()
    assert (node.calls, node.open_calls) == (0, 1)
    # The scheduler's figure is behind by up to a tick for a thread that runs; this one has stopped.
    assert node.cpu_ns is not None
    assert 40_000_000 <= node.cpu_ns <= node.wall_ns


@pytest.mark.parametrize("depth", [100, 1500, 100_000])
def test_metadata_that_nests_deep_costs_no_run_J3(run_dir: Path, depth: int) -> None:
    with Profiler(run_dir) as profiler, profiler.phase("a"):
        pass
    (run_dir / "metadata.json").write_text('{"a":' * depth + "1" + "}" * depth)
    run = merge_run(run_dir)
    assert run.tree["a",].calls == 1
    assert (depth == 100) == ("a" in run.metadata)


def test_attempts_are_kept_apart_F4(run_dir: Path) -> None:
    record(run_dir, "actor", run_id="first", repeat=7)
    record(run_dir, "actor", run_id="second", repeat=2)
    record(run_dir, "actor", run_id="second", repeat=2)
    run = merge_run(run_dir)
    assert run.run_id == "second"
    assert run.tree[("iteration",)].calls == 4
    [superseded] = run.superseded
    assert (superseded.run_id, superseded.workers, superseded.unreadable) == ("first", 1, 0)
    assert superseded.started_at <= superseded.written_at <= run.started_at
    assert "superseded" in {caveat.kind for caveat in run.caveats}
    assert set(run.metadata["runs"]) == {"first", "second"}
    first = merge_run(run_dir, run_id="fir*", roles="actor")
    assert first.run_id == "first"
    assert first.tree[("iteration",)].calls == 7
    assert [(other.run_id, other.later) for other in first.superseded] == [("second", True)]
    with pytest.raises(LookupError, match="has no run 'frist'; did you mean 'first'"):
        merge_run(run_dir, run_id="frist")
    for wrong in (b"first", 3, ("first",)):
        with pytest.raises(TypeError, match="run_id"):
            merge_run(run_dir, run_id=wrong)  # type: ignore[arg-type]


def everything_in(run: Run) -> list[Any]:
    """One of each kind of object that a run may hold."""
    node = run.tree[("iteration", "mcts")]
    return [
        *(run, run.tree, run.tree.root, node, node.hist, node.counters["simulations"]),
        *(run.roles["actor"], run.workers[0], node.hist.buckets[0]),
        OpenPhase(thread="MainThread", path="a/b", open_ns=5),
        Unreadable(path="workers/a", reason="it is empty"),
        Caveat(kind="stale", text="one"),
    ]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_objects_can_be_pickled_J1(run: Run, protocol: int) -> None:
    for thing in everything_in(run):
        again = pickle.loads(pickle.dumps(thing, protocol))
        assert again == thing
        assert type(again) is type(thing)
        assert repr(again) == repr(thing)
    again = pickle.loads(pickle.dumps(run, protocol))
    assert again.roles["learner"].workers[0] is again.workers_of("learner")[0]
    assert any(again.workers[0] is worker for worker in again.workers_of(again.workers[0].role))
    assert again.tree[("iteration", "mcts")].counters["simulations"].calls == 6


def test_objects_can_be_copied_J1(run: Run) -> None:
    for thing in everything_in(run):
        assert copy.copy(thing) == thing
        assert copy.deepcopy(thing) == thing
    deep = copy.deepcopy(run)
    assert deep.tree[("iteration",)] is not run.tree[("iteration",)]
    assert copy.copy(run).tree is run.tree


def test_objects_compare_by_value_J1(run: Run, run_dir: Path) -> None:
    assert merge_run(run_dir) == run
    for thing in everything_in(run):
        for other in (None, "", (), {}, object(), math.nan):
            assert thing != other
            assert not thing == other  # noqa: SIM201 # the other operator
    assert run.tree != dict(run.tree)
    assert run.tree_of("actor") != run.tree_of("learner")
    assert run.tree[("iteration",)] != run.tree[("iteration", "env")]


def test_a_run_without_phases_equals_its_copy_J1(run_dir: Path) -> None:
    with Profiler(run_dir, snapshot_interval_s=None) as profiler:
        profiler.count("alone")
    run = merge_run(run_dir)
    assert math.isnan(run.roles["main"].imbalance)
    assert pickle.loads(pickle.dumps(run)) == run == merge_run(run_dir)
    assert not run.tree
    assert repr(run.tree) == "<Tree of 0 phases>"
    with pytest.raises(KeyError, match="no phase .'a',.; there are none"):
        run.tree[("a",)]


def test_objects_are_not_to_be_changed(run: Run) -> None:
    for thing in everything_in(run):
        if isinstance(thing, Counter):
            continue
        for name in ("path", "text", "hist", "root", "counts", "new"):
            with pytest.raises(AttributeError, match=f"{type(thing).__name__} objects are not"):
                setattr(thing, name, 1)
            with pytest.raises(AttributeError, match="not to be changed"):
                delattr(thing, name)
        with pytest.raises(TypeError, match=f"unhashable type: '{type(thing).__name__}'"):
            hash(thing)
    with pytest.raises(TypeError, match="Caveat has no colour"):
        Caveat(kind="a", text="b", colour="c")
    with pytest.raises(TypeError, match="Unreadable needs reason"):
        Unreadable(path="a")


def test_a_repr_can_be_read(run: Run) -> None:
    assert re.fullmatch(r"<Run one of actor x2, learner x1: 3 phases>", repr(run))
    assert repr(run.tree) == "<Tree of 3 phases: 'iteration', 'iteration/env', 'iteration/mcts'>"
    assert repr(run.roles["learner"]) == "<Role learner x1: 3 phases>"
    node = run.tree[("iteration", "mcts")]
    assert re.fullmatch(
        r"<Node 'iteration/mcts': calls=6, wall_ns=\d+, self_ns=\d+, wait_ns=\d+,"
        r" counters={'simulations': Counter\(384, calls=6, min=64, max=64\)}>",
        repr(node),
    )
    assert re.fullmatch(r"<Hist of 6: p50=\d+ ns, p99=\d+ ns>", repr(node.hist))
    assert repr(Hist({})) == "<Hist of nothing>"
    worker = run.workers_of("learner")[0]
    assert repr(worker) == f"<Worker learner: pid {os.getpid()} on {run.hosts[0]}, closed>"
    assert repr(Caveat(kind="a", text="b")) == "Caveat(kind='a', text='b')"


def spell(number: int) -> str:
    """A number in letters: names that differ in digits only are warned of."""
    return str(number).translate(str.maketrans("0123456789", "abcdefghij"))


def test_a_repr_is_bounded(run_dir: Path) -> None:
    with Profiler(run_dir, "r" * 10_000, snapshot_interval_s=None) as profiler:
        for i in range(500):
            with profiler.phase(spell(i) + "n" * 1000):
                for j in range(10):
                    profiler.count(spell(j) + "c" * 1000)
    run = merge_run(run_dir)
    node = next(iter(run.tree.values()))
    things = [run, run.tree, node, node.hist, run.workers[0], run.tree.root]
    things += run.roles.values()
    things += [
        Caveat(kind="a", text="t" * 10_000),
        OpenPhase(thread="t", path="p" * 9999, open_ns=1),
    ]
    for thing in things:
        assert len(repr(thing)) < 1500
        assert "\n" not in repr(thing)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (("iteration", "mtcs"), "did you mean ('iteration', 'mcts')"),
        (("mcts",), "did you mean ('iteration', 'mcts')"),
        (("Iteration",), "did you mean ('iteration',)"),
        (("zzz",), "there are ('iteration',), ('iteration', 'env'), ('iteration', 'mcts')"),
        ((3,), "no phase (3,)"),
    ],
)
def test_a_missing_path_names_the_nearest_J1(run: Run, path: Any, said: str) -> None:
    assert path not in run.tree
    assert run.tree.get(path) is None
    assert run.tree.get(path, 5) == 5
    for look_up in (run.tree.__getitem__, run.tree.children):
        with pytest.raises(KeyError) as caught:
            look_up(path)
        assert said in caught.value.args[0]
        assert repr(path) in caught.value.args[0]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("iteration/mcts", "not str: tree[('iteration', 'mcts')], not tree['iteration/mcts']"),
        ("mcts", "not str: tree[('mcts',)], not tree['mcts']"),
        (["iteration", "mcts"], "not list: tree[('iteration', 'mcts')], not tree[['iteration'"),
        (0, "not int"),
        (None, "not NoneType"),
    ],
)
def test_what_is_no_path_is_refused_J1(run: Run, wrong: Any, said: str) -> None:
    for look_up in (
        run.tree.__getitem__,
        run.tree.__contains__,
        run.tree.get,
        run.tree.children,
    ):
        with pytest.raises(TypeError) as caught:
            look_up(wrong)
        assert said in str(caught.value)


def test_a_missing_role_names_the_nearest_J1(run: Run) -> None:
    for look_up in (run.tree_of, run.workers_of):
        with pytest.raises(KeyError, match="no role 'actors'; did you mean 'actor'"):
            look_up("actors")
        with pytest.raises(KeyError, match="no role 'x'; there are 'actor', 'learner'"):
            look_up("x")


def test_looking_up_among_many_paths_stays_quick(run_dir: Path) -> None:
    with Profiler(run_dir, snapshot_interval_s=None) as profiler:
        for i in range(4000):
            with profiler.phase(f"phase {spell(i)}"):
                pass
    tree = merge_run(run_dir).tree
    with pytest.raises(KeyError, match=f"or .'phase {spell(17)}',|mean .'phase {spell(17)}',"):
        tree[(f"phase {spell(17)} ",)]
    # A miss that is no error must not pay for the search.
    assert all(tree.get((f"{i}",)) is None and (f"{i}",) not in tree for i in range(10_000))


def test_a_counter_is_an_int_that_knows_more() -> None:
    counter = Counter(14, 2, 5, 9)
    assert counter == 14
    assert counter + 1 == 15
    assert f"{counter:,} {counter}" == "14 14"
    assert (counter.calls, counter.min, counter.max, counter.saturated) == (2, 5, 9, False)
    assert repr(counter) == "Counter(14, calls=2, min=5, max=9)"
    assert json.dumps({"n": counter}) == '{"n": 14}'
    again = pickle.loads(pickle.dumps(counter))
    assert (again, again.calls, again.min, again.max) == (14, 2, 5, 9)


def test_a_histogram() -> None:
    hist = Hist({15: 1, 16: 2, 40: 1})
    assert hist.total == 4
    assert hist.buckets == [
        Bucket(begin_ns=15, width_ns=1, count=1),
        Bucket(begin_ns=16, width_ns=2, count=2),
        Bucket(begin_ns=128, width_ns=16, count=1),
    ]
    assert 15 <= hist.quantile(0) <= hist.quantile(0.5) <= 17
    assert 128 <= hist.quantile(1) < 144
    assert math.isnan(Hist({}).quantile(0.5))
    for bad in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="from 0 to 1"):
            hist.quantile(bad)
    wrong: Any = _core.hist_quantile
    arguments: tuple[object, ...]
    for arguments in (({512: 1}, 0.5), ({-1: 1}, 0.5)):
        with pytest.raises(ValueError, match="no bucket"):
            wrong(*arguments)
    for arguments in (({"1": 1}, 0.5), ({1: "1"}, 0.5), ([1], 0.5), ({}, "0.5")):
        with pytest.raises(TypeError):
            wrong(*arguments)
    with pytest.raises(ValueError, match="no bucket"):
        _core.hist_bounds(512)
    assert [_core.hist_bounds(n)[0] for n in range(20)] == [*range(17), 18, 20, 22]


def test_a_merge_lets_other_threads_run(child: Child, run_dir: Path) -> None:
    record(run_dir, "actor")
    code = """
import sys, threading
from lineprofiler.accounting import merge_run
runs = []
threads = [threading.Thread(target=lambda: runs.append(merge_run(sys.argv[1]))) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert len(runs) == 4 and all(run == runs[0] for run in runs)
"""
    child.run(code, run_dir)


def test_a_copy_of_a_host_s_folder_is_no_loss(run_dir: Path) -> None:
    with Profiler(run_dir, "actor") as profiler:
        with profiler.phase("step"):
            pass
        profiler.snapshot()
        [folder] = (run_dir / "workers").iterdir()
        shutil.copytree(folder, folder.with_name("!before"))  # comes first, and is older
        with profiler.phase("step"):
            pass
    shutil.copytree(folder, folder.with_name("~after"))
    run = merge_run(run_dir)
    assert (run.tree[("step",)].calls, run.workers[0].closed, run.unreadable) == (2, True, [])
    assert [caveat.kind for caveat in run.caveats] == ["copies"]
    assert run.caveats[0].text.startswith("2 worker files are left out")
