"""``torch.nn.parallel`` where there is no other device: the module runs here, as in PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nn import Module

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["DataParallel", "data_parallel"]


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
