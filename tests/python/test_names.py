"""Names: any text comes back unchanged, and what is no name is refused (B12, C1)."""

from __future__ import annotations

import enum
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lineprofiler import accounting
from lineprofiler.accounting import Profiler, decode_text, merge_run

if TYPE_CHECKING:
    from conftest import Child

LIMIT = 1 << 20

# Surrogates and NUL included.
any_text = st.text(st.characters(codec=None, exclude_categories=()), min_size=1)


class Kind(enum.StrEnum):
    MCTS = "mcts"


class Text(str):
    pass


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(any_text, min_size=1, max_size=8), role=any_text)
@example(names=["a/b", "/", "\0", "\\", "\\x00", "\\udcff", "\x1b[31m", "\x7f"], role="\udcff\0\\")
@example(
    names=["\ud800\udfff", "\udfff\ud800", "\ud83d", "\U0001f600", "\uffff", "\ufeff"], role="é"
)
@example(names=["Modèle", "训练", "\udcff", '"', "\n", " ", "\u2028"], role=" ")
def test_any_text_comes_back_B12(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], role: str
) -> None:
    run_dir = tmp_path_factory.mktemp("run")
    with Profiler(run_dir, role, snapshot_interval_s=None, sample_interval_s=None) as profiler:
        for name in names:
            with profiler.phase(name):
                profiler.count(name)
        for name in reversed(names):
            profiler.phase(name).__enter__().__exit__(None, None, None)
    run = merge_run(run_dir)
    assert set(run.tree) == {(name,) for name in names}
    for name in names:
        assert run.tree[(name,)].calls == 2 * names.count(name)
        assert run.tree[(name,)].counters == {name: names.count(name)}
        assert run.tree[(name,)].name == name
    assert list(run.roles) == [role]
    assert run.workers[0].role == role


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=any_text)
@example(text="\\x00 \0 \\udcff \udcff \\\\")
def test_a_plain_json_reader_sees_the_names(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    run_dir = tmp_path_factory.mktemp("run")
    profiler = Profiler(run_dir, snapshot_interval_s=None, sample_interval_s=None)
    with profiler, profiler.phase(text):
        pass
    [path] = run_dir.glob("workers/*/*.json")
    document = json.loads(path.read_bytes().decode("utf-8"))
    [thread] = document["threads"]
    assert decode_text(thread["nodes"][1]["name"]) == text


@given(text=any_text)
def test_decode_text_undoes_the_escapes(text: str) -> None:
    escaped = "".join(
        "\\\\"
        if char == "\\"
        else "\\x00"
        if char == "\0"
        else f"\\u{ord(char):04x}"
        if 0xD800 <= ord(char) <= 0xDFFF
        else char
        for char in text
    )
    assert decode_text(escaped) == text


def test_decode_text_leaves_other_backslashes() -> None:
    for text in ("\\", "a\\", "\\n", "\\x01", "\\u0041", "\\uDCFF", "\\udcf", "\\ud7ff", "\\ue000"):
        assert decode_text(text) == text


def test_names_in_the_c_locale_NM01(child: Child, run_dir: Path) -> None:
    code = """
import sys
from lineprofiler.accounting import Profiler
with Profiler(sys.argv[1]) as profiler:
    for name in ("Mod\\xe8le", "\\u8bad\\u7ec3", "\\udcff"):
        with profiler.phase(name):
            profiler.count(name)
"""
    child.run(code, run_dir, env={"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"})
    assert set(merge_run(run_dir).tree) == {("Modèle",), ("训练",), ("\udcff",)}


@pytest.mark.parametrize("bad", [None, 1, 1.0, b"x", ["x"], ("x",), object(), str], ids=repr)
def test_a_name_is_a_str_B12(profiler: Profiler, run_dir: Path, bad: Any) -> None:
    kind = type(bad).__name__
    with pytest.raises(TypeError, match=f"phase name must be str, not {kind}"):
        profiler.phase(bad)
    with pytest.raises(TypeError, match=f"phase name must be str, not {kind}"):
        profiler.phase(bad, io=True)
    with pytest.raises(TypeError, match=f"counter name must be str, not {kind}"):
        profiler.count(bad)
    profiler.close()
    run = merge_run(run_dir)
    assert len(run.tree) == 0
    assert run.tree.root.counters == {}


def test_empty_and_long_names_are_refused_B12(profiler: Profiler, run_dir: Path) -> None:
    longest = ["x" * LIMIT, "é" * (LIMIT // 2), "\U0001f600" * (LIMIT // 4)]
    for name in longest:
        with profiler.phase(name):
            profiler.count(name)
    for bad in ("", *(name + "x" for name in longest), "\udcff" * (LIMIT // 3 + 1)):
        with pytest.raises(ValueError, match="phase name"):
            profiler.phase(bad)
        with pytest.raises(ValueError, match="phase name"):
            profiler.phase(bad, sync=True)
        with pytest.raises(ValueError, match="counter name"):
            profiler.count(bad)
    profiler.close()
    assert set(merge_run(run_dir).tree) == {(name,) for name in longest}


def test_a_bad_call_is_the_same_on_a_disabled_profiler(run_dir: Path) -> None:
    off: Any = Profiler(run_dir, enabled=False)
    nothing: Any = accounting
    for target in (off, nothing):
        for name, error in ((3, TypeError), ("", ValueError), ("x" * (LIMIT + 1), ValueError)):
            with pytest.raises(error):
                target.phase(name)
            with pytest.raises(error):
                target.count(name)
        with pytest.raises(ValueError, match="sample"):
            target.phase("x", sample=2)
        with pytest.raises(TypeError):
            target.phase("x", io=1)
        with pytest.raises(TypeError):
            target.count("x", 1.5)
        with pytest.raises(OverflowError):
            target.count("x", 2**63)
        with pytest.raises(TypeError):
            target.phase()
        with pytest.raises(TypeError):
            target.count()


def test_subclasses_of_str_are_names(profiler: Profiler, run_dir: Path) -> None:
    for name in (Kind.MCTS, Text("mcts"), "mcts"):
        for _ in range(3):
            with profiler.phase(name):
                profiler.count(name)
    profiler.close()
    run = merge_run(run_dir)
    assert list(run.tree) == [("mcts",)]
    assert run.tree[("mcts",)].calls == 9
    assert run.tree[("mcts",)].counters == {"mcts": 9}


@pytest.mark.filterwarnings("ignore:128 distinct phase names:RuntimeWarning")
def test_many_names_that_come_and_go(profiler: Profiler, run_dir: Path) -> None:
    # More than the extension remembers, and addresses that are used again for other texts.
    for repeat in range(3):
        for i in range(3000):
            with profiler.phase("phase " + str(i)):
                profiler.count("counter " + str(i % 7), repeat)
    profiler.close()
    run = merge_run(run_dir)
    assert {path: node.calls for path, node in run.tree.items()} == {
        (f"phase {i}",): 3 for i in range(3000)
    }
    assert all(
        node.counters == {f"counter {int(path[0][6:]) % 7}": 3} for path, node in run.tree.items()
    )
