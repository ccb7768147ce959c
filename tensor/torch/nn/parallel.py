"""``torch.nn.parallel`` without other devices: the module runs on the CPU, as in PyTorch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nn import Module, parallel

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel"]


class DataParallel(Module):
    """Wrapper that passes its inputs to `module`. Its parameter names have the prefix ``module.``.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> model = torch.nn.DataParallel(torch.nn.Linear(2, 1))
    >>> list(model.state_dict()), model(torch.ones(3, 2)).shape
    (['module.weight', 'module.bias'], (3, 1))
    """

    def __init__(
        self, module: Module, device_ids: Sequence[Any] | None = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        del device_ids, output_device, dim
        self.module = module

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Return the output of the module."""
        return self.module(*inputs, **kwargs)


class DistributedDataParallel(Module):
    """Replica for data-parallel training: PyTorch's name for ``nn.parallel.prepare``.

    The attribute `module` is the replica. Outside of a job of ``nn.parallel.Trainer``, there is no other
    replica. Parameter names have the prefix ``module.``, as in PyTorch.

    Parameters
    ----------
    bucket_cap_mb
        The size of a bucket of gradients in MiB.
    find_unused_parameters
        As for ``nn.parallel.prepare``.
    device_ids, output_device, dim, broadcast_buffers, process_group, gradient_as_bucket_view, static_graph
        No effect.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
    >>> list(model.state_dict()), model(torch.ones(3, 2)).shape
    (['module.weight', 'module.bias'], (3, 1))
    """

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[Any] | None = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
    ) -> None:
        super().__init__()
        del device_ids, output_device, dim, broadcast_buffers, process_group
        del gradient_as_bucket_view, static_graph
        self.module = parallel.prepare(
            module,
            bucket_bytes=int((25 if bucket_cap_mb is None else bucket_cap_mb) * 2**20),
            find_unused_parameters=find_unused_parameters,
        )

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Return the output of the module."""
        return self.module(*inputs, **kwargs)

    def no_sync(self) -> AbstractContextManager[None]:
        """Return a context manager that accumulates gradients locally, for several calls of ``backward``."""
        return parallel.no_sync(self.module)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Sequence[Any] | None = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: Mapping[str, Any] | None = None,
) -> Any:
    """Return ``module(*inputs)``. A single input needs no tuple.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.nn.parallel.data_parallel(torch.nn.Linear(2, 1), torch.ones(3, 2), range(1)).shape
    (3, 1)
    """
    del device_ids, output_device, dim
    given = inputs if isinstance(inputs, tuple) else (inputs,)
    return module(*given, **(module_kwargs or {}))
