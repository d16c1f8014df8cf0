import importlib.metadata
import subprocess
import sys
from pathlib import Path

import lineprofiler


def test_version_is_known() -> None:
    assert lineprofiler.__version__


def test_module_and_command_are_the_same(tmp_path: Path) -> None:
    command = Path(sys.executable).parent / "lineprofiler"
    outputs = [
        subprocess.run(
            [*start, "--version"], cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout
        for start in ([str(command)], [sys.executable, "-m", "lineprofiler"])
    ]
    assert outputs[0] == outputs[1]
    assert lineprofiler.__version__ in outputs[0]


def test_the_licences_of_what_is_linked_in_come_along() -> None:
    files = importlib.metadata.files("with-line-profiler") or []
    licences = {path.name: path.read_text() for path in files if "licenses" in path.parts}
    assert set(licences) == {"LICENSE", "jansson.txt", "ncurses.txt"}
    assert "Petri Lehtinen" in licences["jansson.txt"]
    assert "Free Software Foundation" in licences["ncurses.txt"]
