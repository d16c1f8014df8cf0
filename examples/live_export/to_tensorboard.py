"""Event files for TensorBoard, written with tensorboardX.

`torch.utils.tensorboard` has a class of the same name that is used in the same way.
"""

from __future__ import annotations

from tensorboardX import SummaryWriter


class TensorBoardWriter:
    def __init__(self, folder: str) -> None:
        self._events = SummaryWriter(folder)

    def write(self, figures: dict[str, float], step: int) -> None:
        for name, value in figures.items():
            self._events.add_scalar(name, value, step)
        self._events.flush()

    def close(self) -> None:
        self._events.close()
