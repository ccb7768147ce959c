"""Errors of lost or late workers, and of missing Ray."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from scopes._shared.extras import how_to_install
from scopes._shared.naming import set_module


@set_module("nn.parallel")
class WorkerLostError(RuntimeError):
    """Another worker has ended or was killed while this worker waited for it.

    Ray Train then stops the group, and starts it again from the last checkpoint if
    ``FailureConfig(max_failures=...)`` allows it.
    """


@set_module("nn.parallel")
class ExchangeTimeoutError(TimeoutError):
    """Another worker is alive, but has not reached the same step or barrier in time."""


def late_error(seconds: float, workers: str, what: str) -> ExchangeTimeoutError:
    """Return the error that names the late `workers`, and `what` they should have done."""
    return ExchangeTimeoutError(
        f"waited {seconds:.1f} s for {workers} {what}. All workers must make the same number of steps. If "
        "steps take that long, pass a longer timeout to parallel.Trainer(..., timeout=...)"
    )


def require(module: str) -> ModuleType:
    """Import and return a module that jobs need, such as one of Ray.

    Raises
    ------
    ModuleNotFoundError
        If the module, or a package that it needs, is not installed: Ray Data needs pyarrow and pandas.
    """
    try:
        return import_module(module)
    except ImportError as error:
        reason = (
            "RayDataset requires Ray Data with pyarrow and pandas"
            if module == "ray.data"
            else "nn.parallel requires Ray"
        )
        raise ModuleNotFoundError(
            f"{reason}, but the import of {error.name or module!r} failed: {how_to_install('ray')}",
            name=error.name,
        ) from error
