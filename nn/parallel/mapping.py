"""Inference over a data set that is in a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nn.parallel.datasets import tensor_of
from nn.parallel.errors import require
from scopes import new_dispose_scope
from scopes.lowlevel import call_site
from tensor import no_grad
from tensor.lowlevel import TensorCore

if TYPE_CHECKING:
    from nn.module.module import Module
    from tensor.lowlevel import Array


class _Predictor:
    """What runs in Ray Data's workers, made once in each."""

    def __init__(self, references: list[Any], columns: tuple[str, ...] | None, output: str) -> None:
        (self._model,) = require("ray").get(references)
        self._columns = columns
        self._output = output

    def __call__(self, batch: dict[str, Array]) -> dict[str, Array]:
        site = call_site()
        with new_dispose_scope("parallel.map"), no_grad():
            inputs = [tensor_of(name, batch[name], site) for name in self._columns or tuple(batch)]
            output = self._model(*inputs)
            if isinstance(output, TensorCore):
                return {**batch, self._output: _copied(output)}
            return {**batch, **{name: _copied(x) for name, x in dict(output).items()}}


def map(  # `parallel.map(model, dataset)` is what it does
    model: Module,
    dataset: Any,
    *,
    columns: tuple[str, ...] | None = None,
    output: str = "output",
    batch_size: int = 256,
    concurrency: int | tuple[int, int] = 1,
    **options: Any,
) -> Any:
    """Return a data set of Ray Data with the outputs of `model` as a column more, computed when read.

    The model goes to the object store once, and the workers' parameters lie there: on each machine it is in
    memory once. Each batch is computed in a scope, recording nothing.

    Parameters
    ----------
    model
        What ``valid()`` returns, in evaluation mode.
    dataset
        A ``ray.data.Dataset``.
    columns
        The inputs of ``forward``, in their order; None for all columns.
    output
        The name of the new column; where the model returns a dict, its own names are used.
    batch_size
        The number of rows at a time.
    concurrency
        How many workers, or the least and the most.
    **options
        What Ray's ``map_batches`` takes besides, such as ``num_cpus``.

    Raises
    ------
    ModuleNotFoundError
        If Ray is not installed.
    ValueError
        If the model is in training mode.
    """
    if model.training:
        raise ValueError(
            "parallel.map() takes a model for inference, and this one is in training mode: write "
            "parallel.map(model.valid(), dataset)"
        )
    reference = require("ray").put(model)
    return dataset.map_batches(
        _Predictor,
        fn_constructor_args=([reference], columns, output),
        batch_size=batch_size,
        batch_format="numpy",
        concurrency=concurrency,
        **options,
    )


def _copied(x: Any) -> Array:
    return np.array(x.detach().numpy())
