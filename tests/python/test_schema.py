"""Worker files hold what docs/worker.schema.json says: golden ones, made ones, recorded ones."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.core

jsonschema = pytest.importorskip("jsonschema")

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = sorted((ROOT / "tests" / "run" / "golden").glob("v1_*.json"))
GOOD = [path for path in GOLDEN if not path.name.startswith("v1_bad_")]
# What a schema cannot say: figures that contradict each other, escapes inside a text, trees.
BEYOND_A_SCHEMA = {
    "blocked",
    "child_wall",
    "clock",
    "counter_min",
    "escape",
    "hist_bucket",
    "hist_calls",
    "hist_order",
    "parent",
}


@pytest.fixture(scope="module")
def validator() -> Any:
    schema = json.loads((ROOT / "docs" / "worker.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def load(path: Path) -> Any:
    """The document, strictly: no NaN, no key twice."""

    def no_constant(name: str) -> None:
        raise ValueError(name)

    def no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({key for key, _ in pairs}) != len(pairs):
            raise ValueError("a key twice")
        return dict(pairs)

    return json.loads(
        path.read_bytes().decode("utf-8"),
        parse_constant=no_constant,
        object_pairs_hook=no_duplicates,
    )


def test_there_are_golden_files() -> None:
    assert len(GOOD) >= 9
    assert len(GOLDEN) > len(GOOD)


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_good_files_satisfy_the_schema(validator: Any, path: Path) -> None:
    validator.validate(load(path))


@pytest.mark.parametrize(
    "path", [path for path in GOLDEN if path not in GOOD], ids=lambda path: path.stem
)
def test_bad_files_do_not(validator: Any, path: Path) -> None:
    if path.stem.removeprefix("v1_bad_") in BEYOND_A_SCHEMA:
        validator.validate(load(path))
        return
    with pytest.raises((ValueError, jsonschema.ValidationError)):
        validator.validate(load(path))


def test_made_runs_satisfy_the_schema(validator: Any, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    command = [sys.executable, str(ROOT / "benchmarks" / "make_run.py"), str(run_dir)]
    subprocess.run([*command, "--workers", "20", "--phases", "12", "--hosts", "3"], check=True)
    files = list(run_dir.glob("workers/*/w_*.json"))
    assert len(files) == 20
    for path in files:
        document = load(path)
        validator.validate(document)
        assert document["worker"] == path.stem
        for node in document["threads"][0]["nodes"][1:]:
            counts = (int(pair.split(":")[1]) for pair in node["hist"].split())
            assert sum(counts) == node["calls"]
