"""Run inference over a data set of Ray Data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nn.parallel.datasets import tensor_of
from nn.parallel.errors import require
from scopes import new_dispose_scope
from scopes.tracking.records import call_site
from tensor import no_grad
from tensor._dtypes import Array
from tensor.core.tensor import TensorCore

if TYPE_CHECKING:
    from nn.module.module import Module


class _Predictor:
    """Callable that runs in Ray Data's workers, created once in each."""

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


def map(  # used as `parallel.map(model, dataset)`
    model: Module,
    dataset: Any,
    *,
    columns: tuple[str, ...] | None = None,
    output: str = "output",
    batch_size: int = 256,
    concurrency: int | tuple[int, int] = 1,
    **options: Any,
) -> Any:
    """Return `dataset` with an additional column: the outputs of `model`, computed lazily.

    The model is put into the object store once, and all workers of a machine share its memory there. Each
    batch runs in its own scope, without recording gradients.

    Parameters
    ----------
    model
        A model in evaluation mode, from ``valid()``.
    dataset
        A ``ray.data.Dataset``.
    columns
        The columns to pass to ``forward``, in order; None for all.
    output
        The name of the new column. If the model returns a dict, its keys are the names.
    batch_size
        The number of rows at a time.
    concurrency
        The number of workers, or the smallest and the largest number.
    **options
        Other arguments of Ray's ``map_batches``, such as ``num_cpus``.

    Raises
    ------
    ModuleNotFoundError
        If Ray is not installed.
    ValueError
        If the model is in training mode.
    """
    if model.training:
        raise ValueError(
            "parallel.map() requires a model in evaluation mode, but this one is in training mode: write "
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
