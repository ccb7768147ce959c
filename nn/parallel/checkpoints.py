"""Checkpoints of a job, stored by Ray Train as safetensors files."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nn.parallel.errors import require
from nn.parallel.group import current
from tensor import load, save

_NAME = "checkpoint.safetensors"


def report(metrics: Mapping[str, Any], state: object = None) -> None:
    """Report progress to Ray Train. With `state`, also store a checkpoint to continue from.

    All workers must call this equally often. The checkpoint is the state of worker 0, because replicas are
    equal.

    Parameters
    ----------
    metrics
        Numbers by name. In Ray Train's second version, ``Result.metrics`` has the metrics of the last report
        with a `state`.
    state
        A state for ``tensor.save``, such as ``{"model": model.state_dict(), "optimizer":
        optimizer.state_dict(), "epoch": 3}``. None stores no checkpoint.

    Raises
    ------
    ModuleNotFoundError
        If Ray is not installed.
    TypeError
        If ``tensor.save`` can't save `state`.
    """
    train = require("ray.train")
    if state is None or current().place.rank != 0:
        train.report(dict(metrics))
        return
    with tempfile.TemporaryDirectory() as folder:
        save(state, Path(folder, _NAME))
        train.report(dict(metrics), checkpoint=train.Checkpoint.from_directory(folder))


def checkpoint() -> Any:
    """Return the state of this job's last checkpoint, or None.

    After a worker is lost, Ray Train restarts the loop in new workers, which continue from this state.
    Tensors belong to the current scope.

    Raises
    ------
    ModuleNotFoundError
        If Ray is not installed.
    """
    found = require("ray.train").get_checkpoint()
    return None if found is None else load_checkpoint(found)


def load_checkpoint(found: Any) -> Any:
    """Return the state of a Ray checkpoint from `report`, such as ``result.checkpoint``.

    Raises
    ------
    OSError
        If the checkpoint contains no state.
    """
    with found.as_directory() as folder, Path(folder, _NAME).open("rb") as file:
        return load(file)
