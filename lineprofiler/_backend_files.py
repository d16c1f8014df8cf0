"""What a window leaves below ``<run_dir>/backend/``: see docs/format.md.

An artifact has its worker's name in it and appears whole, by a rename. The name without a worker is
a link to that of the attempt's first worker.
"""

from __future__ import annotations

import contextlib
import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_FOLDER = "backend"


def _as_text(text: str) -> str:
    """Write a text as docs/format.md says, since readers of JSON refuse some."""
    text = text.replace("\\", "\\\\").replace("\0", "\\x00")
    return "".join(f"\\u{ord(c):04x}" if "\ud800" <= c <= "\udfff" else c for c in text)


class Files:
    """The files of one worker's window."""

    def __init__(self, run_dir: str, worker: str, name: str, suffix: str) -> None:
        self._folder = os.path.join(run_dir, _FOLDER)
        self._worker = worker
        self._file = f"{name}.{worker}{suffix}"
        self._plain = f"{name}{suffix}"
        self.artifact = f"{_FOLDER}/{self._file}"
        # Its suffix is the final one, for tools that go by it.
        self.temporary = os.path.join(self._folder, f".{self._file}")
        os.makedirs(self._folder, exist_ok=True)

    def note(self, facts: dict[str, Any]) -> None:
        """Say what became of the window; replaces what was said before. OSError."""
        document: dict[str, Any] = {"format": "lineprofiler-backend", "version": 1}
        document["worker"] = self._worker
        for key, value in facts.items():
            document[key] = _as_text(value) if isinstance(value, str) else value
        path = os.path.join(self._folder, f"{self._worker}.json")
        temporary = f"{path}.tmp"
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(document, file)
            file.write("\n")
        os.replace(temporary, path)

    def publish(self) -> None:
        """Give the artifact its name. OSError."""
        os.replace(self.temporary, os.path.join(self._folder, self._file))
        with contextlib.suppress(OSError):  # a convenience, which some file systems refuse
            self._link()

    def _link(self) -> None:
        """Have the plain name lead here, unless it leads to a worker of the same attempt."""
        link = os.path.join(self._folder, self._plain)
        attempt = self._worker.rsplit("_", 2)[0]  # w_<run>_<pid>_<digits>
        try:
            if f".{attempt}_" in os.readlink(link):
                return
        except FileNotFoundError:
            pass
        temporary = f"{link}.{self._worker}.tmp"
        os.symlink(self._file, temporary)
        os.replace(temporary, link)

    def discard(self) -> None:
        """Remove what was not finished."""
        import shutil

        if os.path.isdir(self.temporary):
            shutil.rmtree(self.temporary, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                os.unlink(self.temporary)

    def size_bytes(self) -> int:
        """Return the size of the artifact, a folder's files added up. OSError."""
        path = os.path.join(self._folder, self._file)
        if not os.path.isdir(path):
            return os.path.getsize(path)
        return sum(
            os.path.getsize(os.path.join(folder, name))
            for folder, _, names in os.walk(path)
            for name in names
        )
