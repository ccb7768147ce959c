"""``torch.backends.cudnn``: not available. Programs may assign its settings, which have no effect."""

from collections.abc import Iterator
from contextlib import contextmanager

from tensor.torch.accelerator import is_available

__all__ = ["allow_tf32", "benchmark", "deterministic", "enabled", "flags", "is_available"]

enabled: bool = False
allow_tf32: bool = False
benchmark: bool = False
deterministic: bool = False


@contextmanager
def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
    fp32_precision: str = "none",
) -> Iterator[None]:
    """Return a context without effect.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> with torch.backends.cudnn.flags(enabled=False):
    ...     torch.ones(1).item()
    1.0
    """
    del enabled, benchmark, benchmark_limit, deterministic, allow_tf32, fp32_precision
    yield
