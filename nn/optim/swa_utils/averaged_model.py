"""A model whose parameters are averages of another model's parameters over training."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import tensor as tn
from nn.layers.channel_norms import BatchNorm1d, BatchNorm2d, BatchNorm3d
from nn.module.module import Module
from nn.optim.swa_utils.averages import get_swa_multi_avg_fn
from scopes._shared.naming import set_module
from tensor import Tensor, no_grad
from tensor._devices import require_cpu

if TYPE_CHECKING:
    from nn.optim.swa_utils.averages import AvgFn, MultiAvgFn


@set_module("nn.optim.swa_utils")
class AveragedModel(Module):
    """A copy of a model with averages of the model's parameters over all updates (Izmailov et al., 2018).

    The first update copies the model's values. Later updates average them. The copy shares memory with the
    model until the copy or the model is written to. The state dict does not include `avg_fn` and
    `multi_avg_fn`.

    Parameters
    ----------
    model
        The model to average. It is copied.
    device
        ``"cpu"`` or None.
    avg_fn
        A function of the averaged parameter, the model's parameter and the number of updates, which returns
        the new average. The default is the mean; ``get_ema_avg_fn()`` is the exponential moving average.
    multi_avg_fn
        The same for lists of parameters of one dtype. It changes the averages in place.
    use_buffers
        Average buffers too, such as running statistics. If false, each update copies them.

    Attributes
    ----------
    module
        The averaged model.
    n_averaged
        The number of updates so far.

    Raises
    ------
    TypeError
        If `model` is not a module.
    ValueError
        If both `avg_fn` and `multi_avg_fn` are given.

    Examples
    --------
    >>> import nn
    >>> model = nn.Linear(1, 1)
    >>> averaged = nn.optim.swa_utils.AveragedModel(model)
    >>> for weight in (1.0, 2.0, 6.0):
    ...     _ = nn.init.constant_(model.weight, weight)
    ...     averaged.update_parameters(model)
    >>> averaged.module.weight.item(), averaged.n_averaged.item()
    (3.0, 3)
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: str | None = None,
        avg_fn: AvgFn | None = None,
        multi_avg_fn: MultiAvgFn | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        require_cpu(device)
        if not isinstance(model, Module):
            raise TypeError(f"AveragedModel requires an nn.Module, not {type(model).__name__}")
        if avg_fn is not None and multi_avg_fn is not None:
            raise ValueError("AveragedModel: pass either avg_fn or multi_avg_fn, not both")
        self.module: Module = copy.deepcopy(model)
        self.register_buffer("n_averaged", tn.zeros((), dtype="int64"))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the averaged model."""
        return self.module(*args, **kwargs)

    @no_grad()
    def update_parameters(self, model: Module) -> None:
        """Update the averages with the parameters of `model`: the copied model, or a module that contains it.

        Raises
        ------
        ValueError
            If `model` has other parameters or buffers than the copied model. Nothing changes.
        """
        parameters, buffers = self._pairs(model, "parameters"), self._pairs(model, "buffers")
        averaged = [*parameters, *buffers] if self.use_buffers else parameters
        if self.n_averaged.item() == 0:
            for x, y in averaged:
                x.copy_(y)
        else:
            self._average(averaged)
        if not self.use_buffers:
            for x, y in buffers:
                x.copy_(y)
        self.n_averaged.add_(1)

    def _pairs(self, model: Module, kind: str) -> list[tuple[Tensor, Tensor]]:
        """Return detached pairs of parameters or buffers of the average and of `model`."""
        own, others = (list(getattr(module, f"named_{kind}")()) for module in (self.module, model))
        for first, second in zip_longest(own, others):
            if first is None or second is None or not _is_alike(first, second):
                has = [
                    f"{x[0]!r} of shape {x[1].shape}" if x is not None else "nothing" for x in (first, second)
                ]
                raise ValueError(
                    f"the {kind} of model must match those of the average, but the average has {has[0]}, and "
                    f"model has {has[1]}. Nothing was changed"
                )
        return [(x.detach(), y.detach()) for (_, x), (_, y) in zip(own, others, strict=True)]

    def _average(self, pairs: list[tuple[Tensor, Tensor]]) -> None:
        if self.avg_fn is not None:
            for x, y in pairs:
                x.copy_(self.avg_fn(x, y, self.n_averaged))
            return
        together = self.multi_avg_fn or get_swa_multi_avg_fn()
        for dtype in dict.fromkeys(x.dtype for x, _ in pairs):
            same = [(x, y) for x, y in pairs if x.dtype == dtype]
            together([x for x, _ in same], [y for _, y in same], self.n_averaged)


def _is_alike(first: tuple[str, Tensor], second: tuple[str, Tensor]) -> bool:
    """Return whether two named tensors match: one name may have the prefix of an outer module."""
    names = sorted((f".{first[0]}", f".{second[0]}"), key=len)
    return names[1].endswith(names[0]) and first[1].shape == second[1].shape


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: str | None = None) -> None:
    """Compute the running statistics of all batch norms of `model` again, as means over batches of `loader`.

    An averaged model needs new running statistics, because its activations differ.

    Parameters
    ----------
    loader
        Batches: tensors, or tuples and lists whose first item is the input of `model`.
    model
        The model. It is in training mode during the loop. Afterwards it and its submodules get the mode that
        it had before.
    device
        ``"cpu"`` or None.

    Examples
    --------
    >>> import nn, tensor
    >>> model = nn.BatchNorm1d(1)
    >>> nn.optim.swa_utils.update_bn([tensor.tensor([[0.0], [2.0]]), tensor.tensor([[4.0], [6.0]])], model)
    >>> model.running_mean.tolist(), model.running_var.tolist()
    ([3.0], [2.0])
    """
    require_cpu(device)
    norms = [m for m in model.modules() if isinstance(m, (BatchNorm1d, BatchNorm2d, BatchNorm3d))]
    if not norms:
        return
    momenta = [norm.momentum for norm in norms]
    was_training = model.training
    try:
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None
        model.train()
        for batch in loader:
            model(batch[0] if isinstance(batch, (list, tuple)) else batch)
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
        model.train(was_training)
