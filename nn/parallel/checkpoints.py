"""Checkpoints of a job, in our own file format, kept by Ray Train."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nn.parallel.errors import require
from nn.parallel.group import current
from tensor import load, save

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAME = "checkpoint.safetensors"


def report(metrics: Mapping[str, Any], state: object = None) -> None:
    """Tell Ray Train how far the job is; with `state`, let it keep a checkpoint from which the job can go on.

    All workers call this equally often. The checkpoint is worker 0's: replicas are equal.

    Parameters
    ----------
    metrics
        Numbers by name. The ``Result.metrics`` of Ray Train's second version are those of the last report
        with a `state`.
    state
        What ``tensor.save`` takes, such as ``{"model": model.state_dict(), "optimizer":
        optimizer.state_dict(), "epoch": 3}``: a safetensors file. None keeps none.

    Raises
    ------
    ModuleNotFoundError
        If Ray is not installed.
    TypeError
        If there is anything in `state` that ``tensor.save`` does not take.
    """
    train = require("ray.train")
    if state is None or current().place.rank != 0:
        train.report(dict(metrics))
        return
    with tempfile.TemporaryDirectory() as folder:
        save(state, Path(folder, _NAME))
        train.report(dict(metrics), checkpoint=train.Checkpoint.from_directory(folder))


def checkpoint() -> Any:
    """Return the state of the last checkpoint of this job, to go on from; None where there is none.

    After a worker was lost, Ray Train runs the loop again in new workers, and this is what it starts with.
    Tensors belong to the current scope.

    Raises
    ------
    ModuleNotFoundError
        If Ray is not installed.
    """
    found = require("ray.train").get_checkpoint()
    return None if found is None else load_checkpoint(found)


def load_checkpoint(found: Any) -> Any:
    """Return the state in a checkpoint of Ray's that `report` made, such as ``result.checkpoint``.

    Raises
    ------
    OSError
        If there is none in it.
    """
    with found.as_directory() as folder, Path(folder, _NAME).open("rb") as file:
        return load(file)
