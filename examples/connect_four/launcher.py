"""The launcher: reads the options, starts every process, shows how the run goes, ends it."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

import live_export
import native_actor

from lineprofiler.accounting import Profiler

from . import actor, evaluator, inference, learner
from .channels import Channels, Scoreboard, Settings
from .processes import ChildFailedError, Crew

INTERRUPTED = 128 + signal.SIGINT


def main() -> int:
    options = parse_options()
    signal.signal(signal.SIGTERM, exit_by_signal)
    limit_threads_of_children()
    if options.native:
        try:
            native_actor.build.build()
        except native_actor.build.BuildError as error:
            print(f"connect_four: {error}", file=sys.stderr)
            return 1
    status = 1
    # An enabled profiler marks the environment, and so every process started below joins its run.
    with (
        Profiler(run_dir=options.run_dir, role="launcher", enabled=True) as profiler,
        archive_of(options) as archive,
    ):
        try:
            play(options, archive, profiler)
            status = 0
        except ChildFailedError as failure:
            print(f"\nThe run was ended: {failure}.", file=sys.stderr)
        except KeyboardInterrupt:
            print("\nInterrupted.", file=sys.stderr)
            status = INTERRUPTED
    print(f"See where the time went:  lineprofiler report {shlex.quote(options.run_dir)}")
    return status


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="connect_four",
        description="Learn Connect Four by self-play in several processes, profiled.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--actors", type=at_least_one, default=3, help="processes that play against themselves")
    add("--seconds", type=float, default=25.0, help="how long they play")
    add("--simulations", type=at_least_one, default=32, help="simulations per move")
    add("--seed", type=int, default=1, help="of the network's weights and all random choices")
    add("--run-dir", default="profile", help="the folder that the profile is written to")
    add("--archive", help="the folder for games and checkpoints; else they go when the run ends")
    add("--native", action="store_true", help="actors search in C++, see examples/native_actor")
    add("--threads", type=at_least_one, default=2, help="of each actor that searches in C++")
    add("--export", choices=live_export.KINDS, help="write the learner's figures to, meanwhile")
    add("--export-dir", default="export", help="the folder that these are written to")
    add("--export-every", type=float, default=5.0, help="seconds from one writing to the next")
    return parser.parse_args()


def at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def exit_by_signal(number: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)


def limit_threads_of_children() -> None:
    """There are more processes than cores already: numpy is to add no threads of its own."""
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = "1"


@contextmanager
def archive_of(options: argparse.Namespace) -> Iterator[str]:
    """The folder that was asked for, or one beside the run's, on the same disk, for as long."""
    if options.archive:
        os.makedirs(options.archive, exist_ok=True)
        yield os.path.abspath(options.archive)
        return
    beside = os.path.dirname(os.path.abspath(options.run_dir))
    with tempfile.TemporaryDirectory(prefix="connect_four_", dir=beside) as folder:
        yield folder


def play(options: argparse.Namespace, archive: str, profiler: Profiler) -> None:
    """One whole run, from the first process to the last match."""
    context = multiprocessing.get_context("spawn")
    settings = Settings(
        actors=options.actors,
        native=options.native,
        threads=options.threads if options.native else 1,
        simulations=options.simulations,
        seed=options.seed,
        end_of_play=time.monotonic() + options.seconds,
        archive=archive,
        export=options.export,
        export_dir=options.export_dir,
        export_every_s=options.export_every,
    )
    channels = Channels(context, settings.clients)
    with Crew(context) as crew:
        with profiler.phase("start_processes"):
            start_processes(crew, settings, channels)
        with profiler.phase("watch"):
            progress = Progress(channels.scoreboard)
            while not crew.wait(timeout_s=progress.interval_s):
                progress.show()
    progress.conclude()


def start_processes(crew: Crew, settings: Settings, channels: Channels) -> None:
    crew.start("inference server", inference.run, settings, channels)
    crew.start("learner", learner.run, settings, channels)
    crew.start("evaluator", evaluator.run, settings, channels)
    for index in range(settings.actors):
        crew.start(f"actor {index}", actor.run, index, settings, channels)
    members = ", ".join(f"{name} ({pid})" for name, pid in crew.pids().items())
    print(f"Started {members}", flush=True)


class Progress:
    """One line, redrawn on a terminal; elsewhere a new line every few seconds."""

    def __init__(self, scoreboard: Scoreboard) -> None:
        self._scoreboard = scoreboard
        self._started = self._shown = time.monotonic()
        self._redraws = sys.stdout.isatty()
        self.interval_s = 0.25 if self._redraws else 5.0

    def show(self) -> None:
        now = time.monotonic()
        if now - self._shown < self.interval_s:
            return
        self._shown = now
        board = self._scoreboard
        line = f"{now - self._started:4.0f} s   {board.games:,} games"
        if board.training_steps:
            line += f"   {board.training_steps:,} training steps   loss {board.loss:.2f}"
        if board.match_games:
            line += f"   {board.win_rate:.0%} against the untrained network"
        print(
            f"\r{line}\x1b[K" if self._redraws else line,
            end="" if self._redraws else "\n",
            flush=True,
        )

    def conclude(self) -> None:
        board = self._scoreboard
        print("\n" if self._redraws else "", end="")
        print(
            f"Learnt from {board.games:,} games ({board.positions:,} positions) "
            f"in {board.training_steps:,} training steps."
        )
        print(
            f"Last match, trained against untrained network: {board.match_won} won, "
            f"{board.match_drawn} drawn, {board.match_lost} lost: "
            f"{board.win_rate:.0%} of the points."
        )
