"""What a run used besides time: I/O, memory, devices, as its samples tell.

Plain objects, found as `Run.io`, `Run.gpu`, `Run.memory`, `Role.memory`, `Role.sampled` and
`Worker.usage`. Sizes are in bytes, shares are fractions of 1. None means *not measured*; zero means
*measured, and zero*. What happened between two samples counts for the deepest phase that was open
when that interval began; intervals in which something could not be read are in no figure, and
counted as dropped.
"""

from __future__ import annotations

from lineprofiler._record import _Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal

__all__ = ["IO", "Device", "Level", "Memory", "Moved", "Rates", "Sampled", "Usage"]


class Moved(_Record):
    """Bytes moved: by system calls (chars), and those that reached a block device (bytes).

    Two views of the same traffic, never to be added up. Chars include pipes and sockets.
    """

    __slots__ = ("read_bytes", "read_chars", "write_bytes", "write_chars")
    read_chars: int | None
    write_chars: int | None
    read_bytes: int | None
    write_bytes: int | None


class Rates(_Record):
    """Bytes per second, of the four figures of `Moved`."""

    __slots__ = ("read_bytes", "read_chars", "write_bytes", "write_chars")
    read_chars: float | None
    write_chars: float | None
    read_bytes: float | None
    write_bytes: float | None


class Level(_Record):
    """A figure that goes up and down: in the first and last sample, its least and its peak."""

    __slots__ = ("first", "last", "least", "peak")
    first: int
    last: int
    least: int
    peak: int


class Sampled(_Record):
    """What the samples say of one phase of one role, all its workers together."""

    __slots__ = (
        "cached_bytes",
        "gpu_busy_p50",
        "gpu_busy_p95",
        "gpu_device_memory_peak_bytes",
        "gpu_memory_peak_bytes",
        "gpu_samples",
        "intervals",
        "intervals_ns",
        "kind",
        "moved",
        "path",
        "rss_growth_bytes",
    )
    kind: Literal["phase", "none_open", "unknown"]
    """A phase; no phase was open; or the samples name one that the worker's file does not."""
    path: tuple[str, ...] | None
    """None unless it is a phase."""
    moved: Moved
    cached_bytes: int
    """Read, but from no device: the page cache, pipes and sockets served it."""
    intervals: int
    """Intervals whose I/O is in these figures, and their wall time:"""
    intervals_ns: int
    rss_growth_bytes: int
    """Sum of the changes of resident memory, downwards too."""
    gpu_samples: int
    """Samples of devices that the process was seen on, taken while the phase was open."""
    gpu_busy_p50: float | None
    gpu_busy_p95: float | None
    gpu_memory_peak_bytes: int | None
    """Most memory that the process held on one device."""
    gpu_device_memory_peak_bytes: int | None
    """Most memory in use on such a device, by anybody."""


class IO(_Record):
    """The traffic of a run, from its samples."""

    __slots__ = (
        "cached_bytes",
        "dropped_intervals",
        "intervals",
        "layer",
        "mean_per_s",
        "moved",
        "peak_per_s",
        "unphased_share",
    )
    moved: Moved
    cached_bytes: int | None
    """Read, but from no device."""
    mean_per_s: Rates
    """Over the runtime of the run."""
    peak_per_s: Rates
    """Of the fastest interval of a process, or the fastest second of all together."""
    intervals: int
    """Between samples, those that were dropped included."""
    dropped_intervals: int
    layer: Literal["chars", "bytes"]
    """The layer that `unphased_share` is of."""
    unphased_share: float | None
    """Of what was moved in that layer, the part that moved while no phase was open."""


class Device(_Record):
    """One GPU, as all workers of its host saw it together."""

    __slots__ = (
        "busy_share",
        "host",
        "index",
        "own_peak_bytes",
        "own_share",
        "used_peak_bytes",
        "workers",
    )
    host: str
    index: int
    """NVML's: that of the machine, whatever CUDA_VISIBLE_DEVICES says."""
    busy_share: float | None
    """Of the time in which it was sampled, the part in which any kernel of anybody ran."""
    own_share: float | None
    """The same for kernels of this run, summed over its processes; None: the driver has attributed
    no work on it to the run."""
    used_peak_bytes: int | None
    """Most memory in use, by anybody."""
    own_peak_bytes: int | None
    """Sum over the run's processes of the most that each held."""
    workers: int
    """How many workers saw it."""


class Memory(_Record):
    """The resident memory of a role: sums over its processes, shared pages counted in each."""

    __slots__ = (
        "current_bytes",
        "growth_bytes",
        "peak_bytes",
        "pss_bytes",
        "trend_bytes_per_h",
        "trend_workers",
        "workers",
    )
    workers: int
    """How many have samples."""
    current_bytes: int
    """In the last sample of each."""
    peak_bytes: int
    """At the peak of each, which need not be one moment."""
    growth_bytes: int
    """Last less first sample of each."""
    trend_bytes_per_h: float | None
    """Slope of a least-squares line, summed over those with a minute of samples or more."""
    trend_workers: int
    """How many these are."""
    pss_bytes: int | None
    """Shared pages counted once; None unless it was measured in all of them."""


class Usage(_Record):
    """What one process used, from its samples."""

    __slots__ = (
        "bytes_dropped",
        "bytes_intervals",
        "cached_bytes",
        "chars_dropped",
        "chars_intervals",
        "cuda_allocated_bytes",
        "cuda_reserved_bytes",
        "heaviest_cores",
        "involuntary_switches",
        "major_faults",
        "mean_cores",
        "minor_faults",
        "moved",
        "open_files",
        "rows",
        "rss_bytes",
        "rss_trend_bytes_per_h",
        "run_delay_ns",
        "threads",
        "voluntary_switches",
    )
    rows: int
    """Samples that could be used."""
    moved: Moved
    cached_bytes: int | None
    chars_intervals: int
    """Intervals whose chars are known, and those that were dropped:"""
    chars_dropped: int
    bytes_intervals: int
    """Likewise of its bytes:"""
    bytes_dropped: int
    mean_cores: float | None
    """CPU time / wall time."""
    heaviest_cores: float | None
    """The same in the heaviest interval of at least 40 ms."""
    minor_faults: int | None
    major_faults: int | None
    voluntary_switches: int | None
    involuntary_switches: int | None
    run_delay_ns: int | None
    """How long its recorded threads were runnable while no core ran them."""
    threads: Level | None
    open_files: Level | None
    rss_bytes: Level | None
    rss_trend_bytes_per_h: float | None
    cuda_allocated_bytes: Level | None
    """Of torch's allocator, as the next."""
    cuda_reserved_bytes: Level | None


_FLOWS = ("read_chars", "write_chars", "read_bytes", "write_bytes")
_LEVELS = ("threads", "open_files", "rss_bytes", "cuda_allocated_bytes", "cuda_reserved_bytes")


def _moved(raw: tuple[int | None, ...]) -> Moved:
    return Moved(**dict(zip(_FLOWS, raw, strict=True)))


def _make_io(raw: dict[str, Any] | None) -> IO | None:
    if raw is None:
        return None
    raw["moved"] = _moved(raw["moved"])
    for name in ("mean_per_s", "peak_per_s"):
        raw[name] = Rates(**dict(zip(_FLOWS, raw[name], strict=True)))
    return IO(**raw)


def _make_sampled(raw: dict[str, Any]) -> Sampled:
    raw["moved"] = _moved(raw["moved"])
    return Sampled(**raw)


def _make_memory(raw: dict[str, Any] | None) -> Memory | None:
    return None if raw is None else Memory(**raw)


def _make_usage(raw: dict[str, Any] | None) -> Usage | None:
    if raw is None:
        return None
    raw["moved"] = _moved(raw["moved"])
    for layer in ("chars", "bytes"):
        raw[f"{layer}_intervals"], raw[f"{layer}_dropped"] = raw[f"{layer}_intervals"]
    for name in _LEVELS:
        if raw[name] is not None:
            first, last, least, peak = raw[name]
            raw[name] = Level(first=first, last=last, least=least, peak=peak)
    return Usage(**raw)
