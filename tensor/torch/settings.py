"""Settings of PyTorch that exist for compatibility and have no effect."""

from __future__ import annotations

from builtins import tuple as Size  # noqa: N812 -- PyTorch's name
from collections.abc import Callable
from typing import Any, Final, TypeVar

from tensor import InvalidArgumentError, float32
from tensor._dtypes import Dtype, DtypeLike, as_dtype

__all__ = [
    "Size",
    "are_deterministic_algorithms_enabled",
    "channels_last",
    "channels_last_3d",
    "compile",
    "contiguous_format",
    "get_default_dtype",
    "get_float32_matmul_precision",
    "preserve_format",
    "set_default_dtype",
    "set_float32_matmul_precision",
    "strided",
    "use_deterministic_algorithms",
]

F = TypeVar("F", bound="Callable[..., Any]")

channels_last: Final = "torch.channels_last"
channels_last_3d: Final = "torch.channels_last_3d"
contiguous_format: Final = "torch.contiguous_format"
preserve_format: Final = "torch.preserve_format"
strided: Final = "torch.strided"


def compile(model: F | None = None, **options: Any) -> Any:
    """Return `model`, a module or a function, unchanged: there is no compiler.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> @torch.compile
    ... def double(x):
    ...     return x * 2
    >>> double(torch.ones(1)).tolist()
    [2.0]
    """
    del options
    return (lambda function: function) if model is None else model


def get_default_dtype() -> Dtype:
    """Return float32.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> str(torch.get_default_dtype())
    'float32'
    """
    return float32


def set_default_dtype(d: DtypeLike) -> None:
    """Do nothing for float32, and raise an error for other dtypes: pass ``dtype=`` to creation functions."""
    if as_dtype(d) != float32:
        raise InvalidArgumentError(
            f"the default dtype is always float32, and can't be {as_dtype(d)}: pass dtype= to creation "
            "functions, or write module.double()"
        )


def are_deterministic_algorithms_enabled() -> bool:
    """Return True: all operations give the same result again for the same values and number of threads."""
    return True


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Do nothing: all operations are deterministic for a given number of threads."""
    del mode, warn_only


def get_float32_matmul_precision() -> str:
    """Return ``"highest"``: products of float32 are computed in float32."""
    return "highest"


def set_float32_matmul_precision(precision: str) -> None:
    """Do nothing: products of float32 are computed in float32, which is the highest precision."""
    if precision not in ("highest", "high", "medium"):
        raise InvalidArgumentError(f"precision must be 'highest', 'high' or 'medium', not {precision!r}")
