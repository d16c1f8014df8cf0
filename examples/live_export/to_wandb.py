"""An offline run of Weights & Biases: `wandb sync` uploads it.

WANDB_MODE=online in the environment does so at once.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import wandb


class WandbWriter:
    def __init__(self, folder: str) -> None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        mode: Literal["online", "offline"]
        mode = "online" if os.environ.get("WANDB_MODE") == "online" else "offline"
        settings = wandb.Settings(console="off", silent=True)
        self._run = wandb.init(project="connect_four", dir=folder, mode=mode, settings=settings)
        # As a figure: wandb's own step only rises, and two intervals of one step would be one row.
        self._run.define_metric("profile/*", step_metric="step")

    def write(self, figures: dict[str, float], step: int) -> None:
        self._run.log({"step": step, **figures})

    def close(self) -> None:
        self._run.finish()
