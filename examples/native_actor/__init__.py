"""The tree search of examples/connect_four in C++: the same figures, from several threads.

The extension module has to be built first: `build.build()`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from connect_four.game import COLUMNS, Floats, Positions
from connect_four.mcts import Evaluate

from lineprofiler import accounting

from . import build

__path__.append(str(build.FOLDER))


def search(
    roots: Positions, evaluators: Sequence[Evaluate], simulations: int, noise: Floats | None = None
) -> Floats:
    """How often each column of each root was visited: as mcts.search() has it.

    There is a thread for each evaluator, the calling one among them; each asks its own.
    """
    from . import _search

    with accounting.phase("mcts"):
        visits = _search.search(
            np.stack([roots.own, roots.other], axis=1).tobytes(),
            tuple(_Asked(evaluate) for evaluate in evaluators),
            simulations,
            None if noise is None else np.ascontiguousarray(noise, np.float32),
        )
    return np.frombuffer(visits, np.float32).reshape(len(roots), COLUMNS)


class _Asked:
    """An evaluator as C++ sees it: bytes in, bytes out."""

    def __init__(self, evaluate: Evaluate) -> None:
        self._evaluate = evaluate

    def __call__(self, question: bytes) -> Floats:
        stones = np.frombuffer(question, np.uint64).reshape(-1, 2)
        policy, value = self._evaluate(Positions(stones[:, 0].copy(), stones[:, 1].copy()))
        answer: Floats = np.empty((len(stones), COLUMNS + 1), np.float32)
        answer[:, :COLUMNS], answer[:, COLUMNS] = policy, value
        return answer
