"""The pytest plugin: the fixture `profiled_run`.

pytest finds it by the entry point of the distribution and imports it in every run in which that is
installed. So it imports nothing before the fixture is asked for, the native core least of all.
"""

from __future__ import annotations

import pytest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lineprofiler.testing import ProfiledRunner


@pytest.fixture
def profiled_run(tmp_path: Path) -> Iterator[ProfiledRunner]:
    """Call it with a function: it runs in a fresh interpreter, with a profiler.

    Returns the merged run of that process and of all that it started. See
    `lineprofiler.testing.run_profiled` for the arguments; the run directories lie in `tmp_path`.
    """
    from lineprofiler.testing import ProfiledRunner

    with ProfiledRunner(tmp_path, echo=True) as runner:
        yield runner
