"""``torch.nn.parallel`` where there is no other device: the module runs here, as in PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nn import Module, parallel

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel"]


class DataParallel(Module):
    """A module that hands its inputs on to `module`, whose names it puts ``module.`` before.

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
        """Return what the module makes of the inputs."""
        return self.module(*inputs, **kwargs)


class DistributedDataParallel(Module):
    """A replica that all workers of a job train together: ``nn.parallel.prepare`` under PyTorch's name.

    Outside of a job of ``nn.parallel.Trainer`` the module is trained alone. `module` is the replica; its
    names have ``module.`` before them, as in PyTorch.

    Parameters
    ----------
    bucket_cap_mb
        How many MiB of gradients are exchanged at a time.
    find_unused_parameters
        As for ``nn.parallel.prepare``.
    device_ids, output_device, dim, broadcast_buffers, process_group, gradient_as_bucket_view, static_graph
        Change nothing.

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
        """Return what the module makes of the inputs."""
        return self.module(*inputs, **kwargs)

    def no_sync(self) -> AbstractContextManager[None]:
        """Let gradients gather in this worker alone inside the block, for several backwards."""
        return parallel.no_sync(self.module)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Sequence[Any] | None = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: Mapping[str, Any] | None = None,
) -> Any:
    """Return what `module` makes of `inputs`, a tuple of them or one.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.nn.parallel.data_parallel(torch.nn.Linear(2, 1), torch.ones(3, 2), range(1)).shape
    (3, 1)
    """
    del device_ids, output_device, dim
    given = inputs if isinstance(inputs, tuple) else (inputs,)
    return module(*given, **(module_kwargs or {}))
