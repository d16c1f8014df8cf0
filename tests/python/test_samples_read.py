"""Samples files read back: figures against a reference, and all kinds of bad input (H2, H3)."""

from __future__ import annotations

import json
import math
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import (
    FIELDS,
    FLOWS,
    PROCESS,
    START,
    Row,
    S,
    Worker,
    bucket_of,
    expect,
    gpu_row,
    header,
    pack,
    row,
)

from lineprofiler.accounting import Run, merge_run

pytestmark = pytest.mark.core

ROOT = Path(__file__).parents[2]
COMMAND = str(Path(sys.executable).parent / "lineprofiler")
PHASES = {1: ("iteration", "load"), 2: ("iteration", "save"), 3: ("iteration",)}


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def read(worker: Worker, folder: Path) -> Run:
    worker.write(folder)
    return merge_run(folder)


def texts(run: Run, kind: str) -> list[str]:
    return [caveat.text for caveat in run.caveats if caveat.kind == kind]


# --- any rows ----------------------------------------------------------------------------------

GROWTH = st.one_of(st.integers(0, 10**6), st.just(0), st.integers(0, 2**62), st.none())


@st.composite
def streams(draw: st.DrawFn) -> list[Row]:
    """Rows as a writer makes them, then damaged in some places."""
    rows: list[Row] = []
    at, number = START, 0
    totals = dict.fromkeys(("cpu_ns", *FLOWS), 0)
    rss = 10**9
    for _ in range(draw(st.integers(0, 60))):
        unread = draw(st.integers(0, 9)) == 0
        figures: dict[str, int | None] = {
            name: None if unread else total for name, total in totals.items()
        }
        figures["phase"] = draw(st.sampled_from([0, 1, 2, 3, 77]))
        figures["gaps"] = draw(st.sampled_from([0, 0, 0, 1, 2, 3]))
        figures["rss_bytes"] = draw(st.sampled_from([rss, rss, rss, None, 2**60]))
        rows.append({**row(0, number), **figures, "monotonic_ns": at})
        at += draw(st.sampled_from([S, S, S + 1, 3 * S, 10**6, 41 * 10**6]))
        number += draw(st.sampled_from([1, 1, 1, 1, 2, 5]))
        rss += draw(st.integers(-(10**6), 10**6))
        for name in totals:
            totals[name] += draw(st.integers(0, 10**9))
    for _ in range(draw(st.integers(0, 3)) if rows else 0):
        victim = dict(rows[draw(st.integers(0, len(rows) - 1))])
        name = draw(st.sampled_from([name for name, _ in PROCESS]))
        most = {"threads": 2**16, "gaps": 2**16}.get(name, 2**32)
        victim[name] = draw(st.one_of(st.integers(0, most - 2), st.none()))
        rows.insert(draw(st.integers(0, len(rows))), victim)
    return rows


@settings(max_examples=150, deadline=None)
@given(rows=streams())
def test_any_stream_gives_the_figures_of_the_reference_H2_H3(rows: list[Row]) -> None:
    worker = Worker(phases=PHASES, rows=rows or [row(0)])
    expected = expect(worker.rows, PHASES, worker.seconds)
    with tempfile.TemporaryDirectory() as name:
        run = read(worker, Path(name))
    usage = run.workers[0].usage
    assert usage is not None
    assert usage.rows == expected.rows
    for layer in ("chars", "bytes"):
        assert getattr(usage, f"{layer}_intervals") == expected.used[layer]
        assert getattr(usage, f"{layer}_dropped") == expected.dropped[layer]
        for name in (f"read_{layer}", f"write_{layer}"):
            value = expected.moved[name] if expected.used[layer] else None
            assert getattr(usage.moved, name) == value
    assert usage.cached_bytes == expected.cached
    cores = None
    if expected.cpu_ns is not None and expected.cpu_wall_ns >= 40 * 10**6:
        cores = expected.cpu_ns / expected.cpu_wall_ns
    assert usage.mean_cores == (None if cores is None else pytest.approx(cores))
    heaviest = expected.heaviest
    assert usage.heaviest_cores == (None if heaviest is None else pytest.approx(heaviest))
    if expected.rss:
        assert usage.rss_bytes is not None
        assert usage.rss_bytes.first == expected.rss[0]
        assert usage.rss_bytes.last == expected.rss[-1]
        assert usage.rss_bytes.peak == max(expected.rss)
        assert usage.rss_bytes.least == min(expected.rss)
    else:
        assert usage.rss_bytes is None
    trend = usage.rss_trend_bytes_per_h
    if expected.slope is None:
        assert trend is None
    else:
        assert trend == pytest.approx(expected.slope * 3600, rel=1e-6, abs=1)
    check_phases(run, expected.by_phase, expected.growth_by_phase)


def check_phases(
    run: Run, moved: dict[int | None, dict[str, int]], growth: dict[int | None, int]
) -> None:
    found = {
        sampled.path if sampled.path else sampled.kind: sampled
        for sampled in run.roles["learner"].sampled
    }
    names: dict[int | None, Any] = {0: "none_open", None: "unknown"}
    names |= {number: path for number, path in PHASES.items()}  # noqa: C416
    for phase, totals in moved.items():
        if any(totals.values()):
            assert {name: getattr(found[names[phase]].moved, name) for name in FLOWS} == totals
    for phase, bytes_ in growth.items():
        assert found[names[phase]].rss_growth_bytes == bytes_
    for name, total in (("read_chars", 0), ("write_bytes", 0)):
        total = sum(getattr(sampled.moved, name) for sampled in found.values())
        assert total == (getattr(run.workers[0].usage.moved, name) or 0)  # type: ignore[union-attr]


def test_the_order_of_workers_does_not_show_J2(folder: Path) -> None:
    rows = [row(s, phase=1, read_bytes=s * 7, read_chars=s * 9, rss_bytes=s) for s in range(90)]
    runs = []
    for order in ((1, 2, 3), (3, 1, 2)):
        shutil.rmtree(folder / "run", ignore_errors=True)
        for place, number in enumerate(order):
            name = f"w_r1_{place}_0000000{place}"
            Worker(name, pid=number, rank=number, phases=PHASES, rows=rows[: 30 * number]).write(
                folder / "run"
            )
        runs.append(merge_run(folder / "run"))
    assert runs[0].io == runs[1].io
    assert runs[0].memory == runs[1].memory
    assert runs[0].roles["learner"].sampled == runs[1].roles["learner"].sampled


# --- measured zero and not measured ------------------------------------------------------------


def test_zero_and_not_measured_differ_H2(folder: Path) -> None:
    unread = dict.fromkeys(FLOWS)
    zero = read(Worker(rows=[row(s) for s in range(9)]), folder / "zero")
    never = read(Worker(rows=[row(s, **unread) for s in range(9)]), folder / "never")
    assert zero.io is not None
    assert never.io is not None
    assert (zero.io.moved.read_bytes, zero.io.cached_bytes) == (0, 0)
    assert (never.io.moved.read_bytes, never.io.cached_bytes) == (None, None)
    assert never.io.dropped_intervals == 8
    page = report(folder / "never")
    assert "Read (from disk)                     n/a" in page
    assert "I/O could not be measured in 1 worker" in page
    assert "Read (from disk)                     0 B" in report(folder / "zero")


def test_one_layer_alone_H2(folder: Path) -> None:
    """A container may show the bytes of system calls and not those of its devices."""
    rows = [row(s, read_bytes=None, write_bytes=None, read_chars=s * 1000) for s in range(9)]
    run = read(Worker(rows=rows), folder)
    assert run.io is not None
    assert (run.io.moved.read_chars, run.io.moved.read_bytes) == (8000, None)
    assert run.io.cached_bytes is None
    assert texts(run, "dropped") == [
        "8 of 8 intervals between samples are in no figure of I/O of block devices: 8 could not be "
        "read (learner pid 4242 on node07)"
    ]
    page = " ".join(report(folder).split())
    assert "Read (from page cache) n/a" in page
    assert "Read (by system calls) 8.0 kB" in page
    assert "8 of 8 intervals dropped, their bytes not known (see CAVEATS)" in page


def test_what_is_cached_needs_both_layers_at_once_H2(folder: Path) -> None:
    chars = [row(s, read_bytes=None, write_bytes=None, read_chars=s * 1000) for s in range(9)]
    blocks = [row(s, read_chars=None, write_chars=None, read_bytes=s * 500) for s in range(9)]
    Worker("w_r1_1_00000001", pid=1, rows=chars).write(folder)
    Worker("w_r1_2_00000002", pid=2, rows=blocks).write(folder)
    run = merge_run(folder)
    assert run.io is not None
    assert (run.io.moved.read_chars, run.io.moved.read_bytes) == (8000, 4000)
    assert run.io.cached_bytes is None


def test_a_gap_bills_nobody_for_the_whole_process_H3(folder: Path) -> None:
    """One failed read used to be differenced over: hundreds of gigabytes for one phase."""
    rows = [row(s, phase=1, read_bytes=10**12 + s, read_chars=10**12 + s) for s in range(10)]
    rows[5] = row(5, phase=1, **dict.fromkeys(FLOWS))
    run = read(Worker(phases=PHASES, rows=rows), folder)
    assert run.io is not None
    assert run.io.moved.read_bytes == 7
    assert (run.io.intervals, run.io.dropped_intervals) == (9, 2)
    assert texts(run, "dropped") == [
        "2 of 9 intervals between samples are in no figure of I/O: 2 could not be read "
        "(learner pid 4242 on node07)"
    ]
    assert "2 of 9 intervals dropped" in " ".join(report(folder).split())


def test_traffic_without_a_phase_is_told_with_its_layer_K6(folder: Path) -> None:
    rows = [row(s, phase=1 if s < 5 else 0, write_bytes=s * 10**6, write_chars=s) for s in range(9)]
    run = read(Worker(phases=PHASES, rows=rows), folder)
    assert run.io is not None
    assert (run.io.layer, run.io.unphased_share) == ("bytes", 3 / 8)
    page = " ".join(report(folder).split())
    assert "37.5% of the bytes that reached the block devices moved with no phase open" in page
    assert "(no phase open) 37.5% 3.0 MB" in page


def test_the_last_sample_may_fail_PR04(folder: Path) -> None:
    rows = [row(s, rss_bytes=10**9 + s, read_bytes=s) for s in range(9)]
    rows.append(row(9, rss_bytes=None, **dict.fromkeys(FLOWS)))
    run = read(Worker(rows=rows), folder)
    memory = run.memory["learner"]
    assert (memory.current_bytes, memory.peak_bytes) == (10**9 + 8, 10**9 + 8)
    assert run.io is not None
    assert run.io.moved.read_bytes == 8


def test_a_childs_bytes_are_counted_once_PR02(folder: Path) -> None:
    """The writer leaves out what reaped children had moved; the role has the sum of both files."""
    parent = [row(s, write_chars=0) for s in range(4)]
    child = [row(s, write_chars=5_000_000 if s > 1 else 0) for s in range(4)]
    Worker(rows=parent).write(folder)
    Worker("w_r1_7_00000002", pid=7, rows=child).write(folder)
    run = merge_run(folder)
    assert run.io is not None
    assert run.io.moved.write_chars == 5_000_000


def test_processes_and_their_sum_are_both_there_PR08_PR12(folder: Path) -> None:
    for number in (1, 2):
        rows = [row(s, rss_bytes=number * 10**9) for s in range(3)]
        memory = {"peak_rss_bytes": number * 10**9 + 5, "pss_bytes": 10**8}
        Worker(f"w_r1_{number}_0000000{number}", pid=number, rows=rows, memory=memory).write(folder)
    run = merge_run(folder)
    assert run.memory["learner"].current_bytes == 3 * 10**9
    assert run.memory["learner"].peak_bytes == 3 * 10**9 + 10
    assert run.memory["learner"].pss_bytes == 2 * 10**8
    assert [w.usage.rss_bytes.last for w in run.workers if w.usage and w.usage.rss_bytes] == [
        10**9,
        2 * 10**9,
    ]
    page = report(folder)
    assert "learner (2 processes)" in page
    assert "\n  pid 2 " in page
    assert "\n  pid 1 " in page
    assert "count pages that they share in each" in " ".join(page.split())
    assert "shared pages counted once: 200.0 MB" in page


# --- clocks ------------------------------------------------------------------------------------


def test_hosts_are_aligned_by_their_stamps(folder: Path) -> None:
    """The same burst on two hosts whose monotonic clocks are hours apart falls in one column."""
    for number, offset in enumerate((0, 7200 * S)):
        rows: list[Row] = []
        for s in range(40):
            at = {"monotonic_ns": START + s * S + offset}
            rows.append(row(s, write_bytes=10**6 if s > 20 else 0) | at)
        Worker(
            f"w_r1_{number}_0000000{number}",
            host=f"h{number}",
            boot=f"b{number}",
            clock_offset_ns=offset,
            seconds=40,
            rows=rows,
        ).write(folder)
    document = json.loads(report(folder, "--json"))
    columns = document["io"]["timeline"]["write_bytes"]
    assert [at for at, bytes_ in enumerate(columns) if bytes_] == [20]
    assert document["io"]["peak_per_s"]["write_bytes"] == 2 * 10**6


# --- devices -----------------------------------------------------------------------------------


def test_workers_share_a_device_K7_GP11(folder: Path) -> None:
    for number in range(2):
        rows = [
            gpu_row(
                s,
                device,
                phase=1,
                busy_permille=900,
                own_busy_permille=300 if device == 0 else 0,
                flags=1 if device == 0 else 0,
                device_used_bytes=10**10 + s,
                own_used_bytes=10**9 if device == 0 else 0,
            )
            for s in range(50)
            for device in range(2)
        ]
        Worker(f"w_r1_{number}_0000000{number}", rows=[row(0)], gpu_rows=rows, phases=PHASES).write(
            folder
        )
    run = merge_run(folder)
    assert [(device.host, device.index, device.workers) for device in run.gpu] == [
        ("node07", 0, 2),
        ("node07", 1, 2),
    ]
    assert run.gpu[0].busy_share == pytest.approx(0.9)
    assert run.gpu[0].own_share == pytest.approx(0.6)
    assert run.gpu[1].own_share is None
    assert (run.gpu[0].used_peak_bytes, run.gpu[0].own_peak_bytes) == (10**10 + 49, 2 * 10**9)
    sampled = run.roles["learner"].sampled[0]
    assert sampled.path == ("iteration", "load")
    assert (sampled.gpu_samples, sampled.gpu_busy_p50) == (100, 0.9)
    assert sampled.gpu_memory_peak_bytes == 10**9
    page = report(folder)
    assert "GPU 0                          90.0%      60.0%    10.0%" in page
    assert "GPU 1                          90.0%        n/a    10.0%" in page
    assert "any kernel of anybody" in page
    assert "may run later" in " ".join(page.split())
    assert "GPU async: kernels run after the phase" in " ".join(page.split())


def test_devices_by_phase_H5(folder: Path) -> None:
    """The block that docs/gpu.md shows: where a device starves."""
    loads: dict[str, int | None] = {"phase": 2, "busy_permille": 60, "own_busy_permille": 0}
    trains: dict[str, int | None] = {"phase": 1, "busy_permille": 980, "own_busy_permille": 950}
    held = {"flags": 1, "device_used_bytes": 31 * 10**9, "own_used_bytes": 30 * 10**9}
    rows = [gpu_row(s) | held | (trains if s % 4 else loads) for s in range(101)]
    phases = {1: ("iteration", "forward"), 2: ("iteration", "load_batch")}
    Worker(rows=[row(0)], gpu_rows=rows, phases=phases).write(folder)
    shown = [
        line.removeprefix("    ")
        for line in (ROOT / "docs" / "gpu.md").read_text().splitlines()
        if line.startswith(("    GPU", "      iteration/"))
    ]
    assert len(shown) == 5
    lines = report(folder).splitlines()
    assert [line for line in shown if line not in lines] == []


def test_where_the_time_of_asynchronous_work_shows_is_said_OV09(folder: Path) -> None:
    rows = [gpu_row(s, busy_permille=900, own_busy_permille=900, flags=1) for s in range(5)]
    worker = Worker(rows=[row(0)], gpu_rows=rows, phases=PHASES)
    worker.write(folder)
    assert "GPU async" in report(folder)
    document = worker.document()
    node = document["threads"][0]["nodes"][1]
    node |= {"gpu_calls": 1, "gpu_ns": 500, "gpu_hist": f"{bucket_of(500)}:1"}
    next(folder.rglob("*.json")).write_text(json.dumps(document))
    assert "GPU async" not in report(folder), "a phase tells it"


def test_others_on_the_device_are_none_of_ours_OV09(folder: Path) -> None:
    rows = [gpu_row(s, busy_permille=900, own_busy_permille=0) for s in range(5)]
    Worker(rows=[row(0)], gpu_rows=rows, phases=PHASES).write(folder)
    assert "GPU async" not in report(folder)


def test_a_device_that_tells_nothing_is_not_idle_GP11(folder: Path) -> None:
    nothing: dict[str, int | None] = dict.fromkeys(
        ("busy_permille", "own_busy_permille", "own_used_bytes", "device_used_bytes")
    )
    rows = [gpu_row(s) | nothing for s in range(5)]
    run = read(Worker(rows=[row(0)], gpu_rows=rows), folder)
    assert (run.gpu[0].busy_share, run.gpu[0].own_share, run.gpu[0].used_peak_bytes) == (
        None,
        None,
        None,
    )
    assert "GPU 0                            n/a        n/a      n/a" in report(folder)


# --- bad input ---------------------------------------------------------------------------------

GOOD = [row(s, phase=1, read_bytes=s * 10, read_chars=s * 10) for s in range(10)]
BIG_ENDIAN = {"byte_order": "big"}

NAME = "w_r1_4242_00000001"
BAD_HEADERS = {
    "not JSON": (b"\x00" * 4096, "no header"),
    "empty": (b"", "empty"),
    "another format": (header("process", NAME, format="other"), "not a samples file"),
    "a newer version": (
        header("process", NAME, version=2),
        "version 2: written by a newer release",
    ),
    "the other kind": (header("gpu", NAME), "kind: not process"),
    "the other order": (header("process", NAME, **BIG_ENDIAN), "byte_order: not little"),
    "huge records": (
        header("process", NAME, record_bytes=2**60),
        "record_bytes: 1152921504606846976",
    ),
    "no records": (header("process", NAME, record_bytes=0), "record_bytes: less than 1"),
    "wrong size": (
        header("process", NAME, record_bytes=64),
        "record_bytes: 64, but its fields take",
    ),
    "wrong header": (header("process", NAME, header_bytes=64), "header_bytes: 64, but"),
    "odd type": (header("process", NAME).replace(b'"u8"', b'"x8"', 1), "fields[0]: type x8"),
    "no sequence": (
        header("process", NAME, fields=[["monotonic_ns", "u8"]]),
        "fields: no monotonic_ns or no sequence",
    ),
    "no end": (b"{" * 100_000, "no header"),
}


@pytest.mark.parametrize("name", BAD_HEADERS)
def test_a_bad_header_costs_that_file_only(folder: Path, name: str) -> None:
    data, reason = BAD_HEADERS[name]
    path = Worker(phases=PHASES, rows=GOOD).write(folder)
    Worker("w_r1_7_00000002", pid=7, phases=PHASES, rows=GOOD).write(folder)
    path.write_bytes(data)
    run = merge_run(folder)
    assert len(run.workers) == 2
    assert run.unreadable == []
    assert run.io is not None
    assert run.io.moved.read_bytes == 90
    (text,) = texts(run, "samples")
    assert text.startswith("the samples of learner pid 4242 on node07 could not be used: ")
    assert reason in text


def test_samples_of_another_worker_are_not_taken(folder: Path) -> None:
    path = Worker(rows=GOOD).write(folder)
    path.write_bytes(header("process", "w_r1_1_ffffffff") + path.read_bytes()[2048:])
    assert "samples of another worker" in texts(merge_run(folder), "samples")[0]


@pytest.mark.parametrize("cut", [1, 5, 127])
def test_a_record_that_is_cut_is_left_out(folder: Path, cut: int) -> None:
    path = Worker(phases=PHASES, rows=GOOD).write(folder)
    path.write_bytes(path.read_bytes()[:-cut])
    run = merge_run(folder)
    assert run.io is not None
    assert run.io.moved.read_bytes == 80
    assert texts(run, "samples") == [
        "1 file of samples ends inside a record, which is left out (learner pid 4242 on node07)"
    ]


def test_files_that_are_none(folder: Path) -> None:
    path = Worker(rows=GOOD).write(folder)
    path.unlink()
    path.mkdir()
    assert "a directory, not a file" in texts(merge_run(folder), "samples")[0]
    path.rmdir()
    path.symlink_to("/etc/passwd")
    assert "symbolic link" in texts(merge_run(folder), "samples")[0]


def test_missing_samples_are_named(folder: Path) -> None:
    Worker(rows=GOOD).write(folder)
    Worker("w_r1_7_00000002", pid=7, taken=10).write(folder)
    assert texts(merge_run(folder), "samples") == [
        "the samples of 1 worker are not there: in no figure of I/O, memory and GPUs "
        "(learner pid 7 on node07)"
    ]


def test_odd_rows_cost_themselves(folder: Path) -> None:
    last = GOOD[-1]
    odd: list[Row] = [
        row(5, 5, read_bytes=50),  # there already
        row(9, 10),  # not later
        row(11, 2**32 - 2),  # so many cannot have been lost
        last | {"monotonic_ns": 2**63, "sequence": 11},
        last | {"monotonic_ns": 5, "sequence": 11},  # not later
        last | {"sequence": None},
        row(12, 10, phase=1, read_bytes=100, read_chars=100, rss_bytes=2**62),
        row(13, 11, phase=1, read_bytes=2**63, read_chars=100),  # no machine reads that
        row(14, 12, phase=1, read_bytes=50, read_chars=101),  # and then backwards
        row(15, 13, phase=1, read_bytes=51, read_chars=102),
    ]
    run = read(Worker(phases=PHASES, rows=GOOD + odd), folder)
    assert run.io is not None
    assert run.io.moved.read_bytes == 90 + 10 + 1
    told = " ".join(texts(run, "samples") + texts(run, "dropped"))
    for words in (
        "1 sample left out: there already",
        "2 samples left out: not later than the one before",
        "3 samples left out: with a time, number or device that cannot be",
        "1 figure of a sample left out: more than any machine has",
        "1 went backwards",
        "1 too large to be true",
    ):
        assert words in told
    assert run.workers[0].usage is not None
    assert run.workers[0].usage.rows == 14


def test_fields_are_found_by_name(folder: Path) -> None:
    """A newer writer may put fields elsewhere, widen them, and have more."""
    fields = [("news", "u2"), *reversed(PROCESS), ("more", "u8")]
    fields = [(name, "u8" if name == "threads" else type_) for name, type_ in fields]
    path = Worker(phases=PHASES, rows=GOOD).write(folder)
    expected = merge_run(folder)
    name = path.stem
    path.write_bytes(header("process", name, fields=fields) + pack(GOOD, fields))
    assert merge_run(folder) == expected


def test_what_a_writer_does_not_have_is_not_measured(folder: Path) -> None:
    fields = [pair for pair in PROCESS if pair[0] in ("monotonic_ns", "sequence", "rss_bytes")]
    path = Worker(rows=GOOD).write(folder)
    path.write_bytes(header("process", path.stem, fields=fields) + pack(GOOD, fields))
    usage = merge_run(folder).workers[0].usage
    assert usage is not None
    assert usage.rss_bytes is not None
    assert (usage.moved.read_bytes, usage.mean_cores, usage.threads) == (None, None, None)


@settings(max_examples=100, deadline=None)
@given(data=st.binary(max_size=600), at=st.integers(0, 5000))
def test_any_bytes(data: bytes, at: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Worker(phases=PHASES, rows=GOOD).write(Path(name))
        whole = path.read_bytes()
        path.write_bytes(whole[:at] + data + whole[at + len(data) :])
        run = merge_run(name)
        assert len(run.workers) == 1
        assert run.io is None or not math.isnan(run.io.moved.read_bytes or 0)


# --- the command -------------------------------------------------------------------------------


def report(folder: Path, *options: str) -> str:
    words = [COMMAND, "report", str(folder), *options]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def export(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    words = [COMMAND, "export", str(folder), *options]
    return subprocess.run(words, check=False, capture_output=True, text=True)


def test_blocks_with_nothing_to_say_are_absent(folder: Path) -> None:
    Worker(phases=PHASES).write(folder)
    page = report(folder)
    for title in ("I/O", "GPU", "MEMORY", "CAVEATS"):
        assert title not in page
    Worker(phases=PHASES, rows=GOOD).write(folder)
    assert "MEMORY" in report(folder)
    assert "MEMORY" not in report(folder, "--no-samples")


def test_exact_bytes_have_a_block_of_their_own_K5(folder: Path) -> None:
    load = {"io_read_bytes": 408_700_000, "io_read_chars": 768_000_000, "io_write_bytes": 0}
    counters: dict[tuple[str, ...], dict[str, int]] = {
        ("iteration", "load"): {**load, "io_write_chars": 0, "batches": 7}
    }
    Worker(phases=PHASES, counters=counters, seconds=4).write(folder)
    page = report(folder)
    assert "I/O BY PHASE (measured exactly)" in page
    assert "iteration/load r 408.7 MB w 0 B 408.7 MB/s" in " ".join(page.split())
    assert "+   359.3 MB read from page cache" in page
    assert "io_read" not in page
    assert "+ batches" in page


def test_where_sampled_bytes_stand_is_no_match_for_exact_ones_K5_K6(folder: Path) -> None:
    exact = dict.fromkeys(("io_read_bytes", "io_read_chars", "io_write_chars"), 0)
    rows = [row(s, phase=1, write_bytes=s * 10**6, write_chars=s * 3 * 10**6) for s in range(4)]
    counters: dict[tuple[str, ...], dict[str, int]] = {
        ("iteration", "save"): {**exact, "io_write_bytes": 3 * 10**6}
    }
    Worker(phases=PHASES, rows=rows).write(folder)
    assert "trust I/O BY PHASE" not in report(folder)
    Worker(phases=PHASES, rows=rows, counters=counters).write(folder)
    assert "trust I/O BY PHASE first" in report(folder)


def test_rates_stand_beside_the_bytes_that_they_are_of_K6(folder: Path) -> None:
    """A sparkline and its peak, and no such number in the rows above, are a riddle."""
    rows = [row(s, phase=1, read_chars=s * 10**7, write_chars=s * 10**6) for s in range(5)]
    Worker(phases=PHASES, rows=rows, seconds=4).write(folder)
    lines = [" ".join(line.split()) for line in report(folder).splitlines()]
    assert "Read (from disk) 0 B 0 B/s" in lines
    assert "Read (from page cache) 40.0 MB 10.0 MB/s 10.0 MB/s" in lines
    assert "Write 0 B 0 B/s" in lines
    assert "Write (reached no device) 4.0 MB 1.0 MB/s 1.0 MB/s" in lines
    rows = [{**r, "read_bytes": 10**6 * i, "write_bytes": 10**6 * i} for i, r in enumerate(rows)]
    Worker(phases=PHASES, rows=rows, seconds=4).write(folder)
    lines = [" ".join(line.split()) for line in report(folder).splitlines()]
    assert "Read (from page cache) 36.0 MB" in lines
    assert not any(line.startswith("Write (") for line in lines)


@pytest.mark.parametrize(
    ("figures", "told", "not_told"),
    [
        # Next to nothing was written, and no device has it.
        ({"write_chars": 100}, ["Write 0 B 0 B/s"], "peak 100 B/s"),
        # This kernel does not count what reaches the devices.
        (
            {"read_chars": 10**7, "write_chars": 10**6, "read_bytes": None, "write_bytes": None},
            [
                "Read (by system calls) 40.0 MB 10.0 MB/s 10.0 MB/s",
                "Write (by system calls) 4.0 MB 1.0 MB/s 1.0 MB/s",
            ],
            "page cache) 40",
        ),
    ],
)
def test_no_sparkline_stands_without_a_row_of_its_peak_K6(
    folder: Path, figures: dict[str, int | None], told: list[str], not_told: str
) -> None:
    rows = [
        row(s, phase=1, **{name: None if n is None else s * n for name, n in figures.items()})
        for s in range(5)
    ]
    Worker(phases=PHASES, rows=rows, seconds=4).write(folder)
    page = " ".join(report(folder).split())
    for words in told:
        assert words in page
    assert not_told not in page


def test_one_interval_is_told_of_as_one_H3(folder: Path) -> None:
    rows = [row(s, phase=1, read_chars=s, gaps=int(s == 2)) for s in range(5)]
    run = read(Worker(phases=PHASES, rows=rows), folder)
    assert texts(run, "dropped") == [
        "1 of 4 intervals between samples is in no figure of I/O by system calls: "
        "1 mixed with what ended children or the profiler moved (learner pid 4242 on node07)"
    ]


def test_export_as_csv_and_json_lines(folder: Path) -> None:
    import csv

    rows = [row(s, phase=s % 3, read_bytes=s, cuda_allocated_bytes=None) for s in range(4)]
    Worker(role='a "b", c', rank=3, phases=PHASES, rows=rows).write(folder)
    result = export(folder, "--samples", "csv")
    assert (result.returncode, result.stderr) == (0, "")
    table = list(csv.DictReader(result.stdout.splitlines()))
    assert [line["phase_path"] for line in table] == [
        "(no phase open)",
        "iteration/load",
        "iteration/save",
        "(no phase open)",
    ]
    assert table[2]["role"] == 'a "b", c'
    assert (table[2]["rank"], table[2]["read_bytes"], table[2]["cuda_allocated_bytes"]) == (
        "3",
        "2",
        "",
    )
    assert table[2]["time"] == "1780000002.000000000"
    lines = [json.loads(line) for line in export(folder, "--samples", "jsonl").stdout.splitlines()]
    assert [line["phase_path"] for line in lines] == [
        [],
        ["iteration", "load"],
        ["iteration", "save"],
        [],
    ]
    assert lines[2]["cuda_allocated_bytes"] is None
    assert lines[2]["read_bytes"] == 2
    assert {name for name, _ in PROCESS} <= lines[0].keys()


def test_export_of_devices_and_to_a_file(folder: Path, tmp_path: Path) -> None:
    rows = [gpu_row(s, device) for s in range(3) for device in range(2)]
    Worker(rows=GOOD, gpu_rows=rows).write(folder)
    target = tmp_path / "gpus.jsonl"
    result = export(folder, "--samples", "jsonl", "--gpu", "-o", str(target))
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert [json.loads(line)["device"] for line in target.read_text().splitlines()] == [0, 1] * 3


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((), "say what to export: --samples csv, or --samples jsonl"),
        (("--samples", "xml"), "no form 'xml'; there are csv and jsonl"),
        (("--samples", "csv", "--gpu"), "no samples of devices in"),
    ],
)
def test_export_says_what_is_wrong(folder: Path, options: tuple[str, ...], told: str) -> None:
    Worker(rows=GOOD).write(folder)
    result = export(folder, *options)
    assert result.returncode == 2
    assert result.stderr.startswith("lineprofiler export: ")
    assert told in result.stderr
    assert result.stderr.count("\n") == 1


def test_export_writes_nothing_where_there_are_no_samples(folder: Path, tmp_path: Path) -> None:
    Worker(rows=GOOD).write(folder)
    target = tmp_path / "gpus.csv"
    target.write_text("of yesterday")
    for options in ((), ("-o", str(target))):
        result = export(folder, "--samples", "csv", "--gpu", *options)
        assert (result.returncode, result.stdout) == (2, "")
        assert "no samples of devices in" in result.stderr
    assert target.read_text() == "of yesterday"
    assert [path.name for path in tmp_path.iterdir() if "gpus" in path.name] == ["gpus.csv"]


def test_export_goes_on_past_a_bad_file(folder: Path) -> None:
    path = Worker(rows=GOOD).write(folder)
    Worker("w_r1_7_00000002", pid=7, rows=GOOD).write(folder)
    path.write_bytes(b"nothing")
    result = export(folder, "--samples", "jsonl")
    assert result.returncode == 0
    assert len(result.stdout.splitlines()) == len(GOOD)
    assert result.stderr == "lineprofiler export: the samples of w_r1_4242_00000001: no header\n"


def test_export_into_a_closed_pipe_ends_quietly(folder: Path) -> None:
    rows = [row(s) for s in range(20_000)]
    Worker(seconds=20_000, rows=rows).write(folder)
    words = [COMMAND, "export", str(folder), "--samples", "jsonl"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.readline()
        child.stdout.close()
        assert child.stderr.read() == b""


# --- a run that really was recorded --------------------------------------------------------------


def test_fields_and_sizes_are_those_of_the_writer(tmp_path: Path) -> None:
    """A real writer's header is what the tests above are written with."""
    program = (
        "from lineprofiler.accounting import Profiler\n"
        f"with Profiler({str(tmp_path / 'run')!r}, 'learner', sample_interval_s=0.05) as p:\n"
        "    with p.phase('work'):\n"
        "        import time; time.sleep(0.5)\n"
    )
    subprocess.run([sys.executable, "-P", "-c", program], check=True)
    (path,) = (tmp_path / "run").glob("workers/*/*.samples")
    head = json.loads(path.read_bytes().split(b"\n", 1)[0])
    assert [tuple(pair) for pair in head["fields"]] == FIELDS["process"]
    assert struct.calcsize("<14Q3I2H") == head["record_bytes"]
    run = merge_run(tmp_path / "run")
    usage = run.workers[0].usage
    assert usage is not None
    assert usage.rows >= 2
    assert texts(run, "samples") == []
    assert run.memory["learner"].current_bytes > 10**6
    lines = export(tmp_path / "run", "--samples", "jsonl").stdout.splitlines()
    assert len(lines) == usage.rows
    assert ["work"] in [json.loads(line)["phase_path"] for line in lines]
