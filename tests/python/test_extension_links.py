"""What the extension needs and shows at run time: libc alone, and one function."""

import re
import shutil
import subprocess

import pytest

from lineprofiler import _core

pytestmark = pytest.mark.skipif(
    shutil.which("readelf") is None, reason="needs readelf from binutils"
)


def readelf(*options: str) -> str:
    assert _core.__file__ is not None
    return subprocess.run(
        ["readelf", "--wide", *options, _core.__file__], check=True, capture_output=True, text=True
    ).stdout


def test_needs_only_the_c_library() -> None:
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("--dynamic")))
    allowed = re.compile(r"(libc|libm|libpthread|libdl|librt)\.so\.\d+|ld-linux.*\.so\.\d+")
    assert {name for name in needed if not allowed.fullmatch(name)} == set()


def test_stays_loaded() -> None:
    assert "NODELETE" in readelf("--dynamic")


def test_shows_only_its_init_function() -> None:
    shown = set()
    for line in readelf("--dyn-syms").splitlines():
        fields = line.split()
        # Num: Value Size Type Bind Vis Ndx Name
        if len(fields) == 8 and fields[4] in ("GLOBAL", "WEAK") and fields[6] != "UND":
            shown.add(fields[7])
    assert shown == {"PyInit__core"}
