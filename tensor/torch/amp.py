"""``torch.amp``: operations keep the dtype of their operands, as without autocast in PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ContextDecorator
from typing import TYPE_CHECKING, Any, TypeVar

from scopes._shared.naming import set_module
from tensor._dtypes import Dtype

if TYPE_CHECKING:
    from nn.optim import Optimizer

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]

F = TypeVar("F", bound="Callable[..., Any]")
T = TypeVar("T")


def is_autocast_available(device_type: str) -> bool:
    """Return False: autocast is not supported.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.amp.is_autocast_available("cpu")
    False
    """
    del device_type
    return False


@set_module("tensor.torch")
class autocast(ContextDecorator):  # noqa: N801 -- PyTorch's name
    """Context manager and decorator without effect: operations keep the dtype of their operands.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> with torch.autocast("cpu", dtype=torch.float16):
    ...     print((torch.ones(2, 2) @ torch.ones(2, 2)).dtype)
    float32
    """

    def __init__(
        self,
        device_type: str = "cpu",
        dtype: Dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        del dtype, enabled, cache_enabled
        self.device: str = device_type

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: object) -> None:
        return None


def custom_fwd(fwd: F | None = None, *, device_type: str = "cpu", cast_inputs: Dtype | None = None) -> Any:
    """Return ``fwd`` itself, because there is no autocast."""
    del device_type, cast_inputs
    return (lambda function: function) if fwd is None else fwd


def custom_bwd(bwd: F | None = None, *, device_type: str = "cpu") -> Any:
    """Return ``bwd`` itself, as ``custom_fwd`` does."""
    del device_type
    return (lambda function: function) if bwd is None else bwd


class GradScaler:
    """Gradient scaler with scale 1, as PyTorch's scaler when disabled: float32 needs no scaling.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> w = torch.nn.Parameter(torch.ones(1))
    >>> optimizer, scaler = torch.optim.SGD([w], lr=0.5), torch.amp.GradScaler()
    >>> scaler.scale((w * 2).sum()).backward()
    >>> _ = scaler.step(optimizer)
    >>> scaler.update()
    >>> w.tolist(), scaler.get_scale()
    ([0.0], 1.0)
    """

    def __init__(
        self,
        device: str = "cpu",
        init_scale: float = 65536.0,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        del device, init_scale, growth_factor, backoff_factor, growth_interval, enabled

    def scale(self, outputs: T) -> T:
        """Return `outputs`, a tensor or several, unchanged."""
        return outputs

    def unscale_(self, optimizer: Optimizer) -> None:
        """Do nothing: gradients are not scaled."""
        del optimizer

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        """Return ``optimizer.step(*args, **kwargs)``."""
        return optimizer.step(*args, **kwargs)

    def update(self, new_scale: float | None = None) -> None:
        """Do nothing: the scale stays 1."""
        del new_scale

    def get_scale(self) -> float:
        """Return 1.0."""
        return 1.0

    def is_enabled(self) -> bool:
        """Return False."""
        return False

    def state_dict(self) -> dict[str, Any]:
        """Return an empty dict, as PyTorch's disabled scaler does."""
        return {}

    def load_state_dict(self, state_dict: Iterable[str]) -> None:
        """Do nothing: there is no state."""
        del state_dict
