"""What is raised when workers lose each other, and when Ray is missing."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType


class WorkerLostError(RuntimeError):
    """Another worker has ended or was killed while this one waited for it.

    Ray Train then stops the group, and starts it again from the last checkpoint if
    ``FailureConfig(max_failures=...)`` allows it.
    """


class ExchangeTimeoutError(TimeoutError):
    """Another worker is alive, and has not come to the same step or barrier in time."""


def late_error(seconds: float, who: str, what: str) -> ExchangeTimeoutError:
    """Return the error that names who was waited for in vain, and `what` they were to do."""
    return ExchangeTimeoutError(
        f"waited {seconds:.1f} s for {who} {what}. All workers must make the same number of steps. If steps "
        "are that slow, give parallel.Trainer(..., timeout=...) more seconds"
    )


def require(module: str) -> ModuleType:
    """Return a module of Ray's, imported now.

    Raises
    ------
    ModuleNotFoundError
        If Ray is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise ModuleNotFoundError(
            f"nn.parallel runs jobs on Ray, and {error.name or module!r} can't be imported: "
            "pip install 'disposescope[ray]'",
            name=error.name,
        ) from error
