"""What the integrations share: the scope of a step, and the error if a framework is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from scopes.adapters.torch.owning import owning
from scopes.core.scope import new_dispose_scope

if TYPE_CHECKING:
    from scopes.core.scope import DisposeScope


@contextmanager
def step(name: str) -> Iterator[DisposeScope]:
    """Open a scope that owns the new tensors of its block. It ends with the block, also by an exception."""
    with owning(), new_dispose_scope(name) as scope:
        yield scope


def missing(module: str, package: str, error: ModuleNotFoundError) -> ModuleNotFoundError:
    """Return `error`, or one with the command that installs `package`, if `module` is not installed."""
    if error.name != module:
        return error
    text = f"scopes.integrations.{module} requires {package}, which is not installed: pip install {package}"
    return ModuleNotFoundError(text, name=module)
