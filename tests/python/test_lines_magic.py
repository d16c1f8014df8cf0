"""The magic %%lineprofile, in a shell of IPython and in a real kernel of Jupyter."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lines import hooks

pytest.importorskip("IPython")

FUNCTION = "import time\ndef nap():\n    time.sleep(0.02)\n    return 1\n"


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    from IPython.core.interactiveshell import InteractiveShell

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    InteractiveShell.clear_instance()
    made = InteractiveShell.instance(history_length=0)
    made.run_line_magic("load_ext", "lineprofiler")
    before = hooks()
    yield made
    assert hooks() == before
    InteractiveShell.clear_instance()


def cell(shell: Any, text: str, capsys: pytest.CaptureFixture[str]) -> tuple[Any, str, str]:
    """Run a cell; return its result, and what was printed."""
    capsys.readouterr()
    result = shell.run_cell(text, store_history=True)
    told = capsys.readouterr()
    return result, told.out, told.err


def test_a_cell_is_measured(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    cell(shell, FUNCTION, capsys)
    result, out, _ = cell(
        shell, "%%lineprofile\nx = 3\nfor i in range(4):\n    nap()\n\nx + nap()", capsys
    )
    assert result.success
    assert result.result == 4
    assert shell.user_ns["x"] == 3
    assert re.search(r"(?m)^nap  In\[1\]:2  5 calls, \d+\.\dms$", out), "as the notebook names it"
    assert "<module>  In[2]:1  1 call, " in out
    assert re.search(r"(?m)^ +3 +5 +(\d+\.\dms) +\1 +>?\d\d% +time\.sleep\(0\.02\)$", out)
    assert re.search(r"(?m)^ +3 +4 .* +nap\(\)$", out)
    assert re.search(r"(?m) +x \+ nap\(\)$", out)


def test_options(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    cell(shell, FUNCTION, capsys)
    _, out, _ = cell(shell, "%%lineprofile --top 1 --functions n*\nnap();", capsys)
    assert "all 2 lines" in out
    assert "1 other line" in out
    for line, message in (
        ("--tpo 3", "unknown option '--tpo'; did you mean --top?"),
        ("--top", "option --top needs a value"),
        ("--top x", "--top needs a number, not 'x'"),
        ("--project nowhere", "nowhere': No such file or directory"),
        ("nap()", "'nap()' is no option: what is to run goes on the lines below"),
    ):
        result, out, err = cell(shell, f"%%lineprofile {line}\ny = 1", capsys)
        assert not result.success
        assert message in out + err
        assert "y" not in shell.user_ns


def test_an_error_is_the_cells(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    result, out, _ = cell(shell, "%%lineprofile\na = 1\n1 / 0", capsys)
    assert isinstance(result.error_in_exec, ZeroDivisionError)
    assert re.search(r"(?m)^ +1 +1 .*a = 1$", out)
    result, out, _ = cell(shell, "%%lineprofile\ndef f(:", capsys)
    assert not result.success
    assert "Block" not in out


def test_awaiting(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    result, out, err = cell(shell, "%%lineprofile\nimport asyncio\nawait asyncio.sleep(0)", capsys)
    assert not result.success
    assert "nothing can be awaited here: use `with LineProfiler()" in out + err
    result, out, _ = cell(
        shell,
        "import asyncio\nfrom lineprofiler import LineProfiler\n"
        "with LineProfiler() as profiler:\n"
        "    await asyncio.sleep(0.02)\n"
        "    x = 1\n"
        "profiler.print_stats()",
        capsys,
    )
    assert result.success
    assert re.search(r"(?m)^ +4 +1 .* +\d\d+\.\dms +1 +await asyncio", out)
    assert re.search(r"(?m)^ +5 +1 .* +x = 1$", out)


def test_a_profiler_in_a_cell(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    cell(shell, FUNCTION, capsys)
    _, out, _ = cell(
        shell,
        "from lineprofiler import LineProfiler\n"
        "with LineProfiler() as profiler:\n    nap()\nprofiler.print_stats()",
        capsys,
    )
    assert re.search(r"(?m)^nap  \S+:2  1 call", out)
    assert re.search(r"(?m)^ +3 +1 .*  nap\(\)$", out.replace("    nap()", "  nap()"))


def test_in_a_real_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ipykernel")
    manager_of = pytest.importorskip("jupyter_client.manager")
    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    manager = manager_of.KernelManager()
    import sys

    manager.kernel_spec.argv[0] = sys.executable
    manager.start_kernel(cwd=str(tmp_path))
    client = manager.client()
    with contextlib.ExitStack() as stack:
        stack.callback(manager.shutdown_kernel, now=True)
        client.start_channels()
        stack.callback(client.stop_channels)
        client.wait_for_ready(timeout=60)
        assert run_in(client, "%load_ext lineprofiler")[0] == "ok"
        assert run_in(client, FUNCTION)[0] == "ok"
        status, out, shown = run_in(client, "%%lineprofile\nfor i in range(3):\n    nap()\nnap()")
        assert (status, shown) == ("ok", "1")
        assert re.search(r"(?m)^nap  \S+:2  4 calls, \d+\.\dms$", out)
        assert re.search(r"(?m)^ +3 +4 .* +time\.sleep\(0\.02\)$", out)
        status, out, _ = run_in(client, "%%lineprofile --top 3\nnap()\n1 / 0")
        assert status == "error"
        assert "time.sleep(0.02)" in out
        assert run_in(client, "nap()")[2] == "1"


def run_in(client: Any, code: str) -> tuple[str, str, str]:
    """Run a cell in the kernel; return its status, what it printed, what it showed."""
    out, shown = [], []

    def hear(message: Any) -> None:
        content = message["content"]
        if message["msg_type"] == "stream":
            out.append(content["text"])
        elif message["msg_type"] == "execute_result":
            shown.append(content["data"]["text/plain"])

    reply = client.execute_interactive(code, timeout=60, output_hook=hear)
    return reply["content"]["status"], "".join(out), "".join(shown)
