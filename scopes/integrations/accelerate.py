"""A scope for each step of a loop with Accelerate."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from scopes.integrations._steps import missing, step

try:
    import accelerate  # noqa: F401
except ModuleNotFoundError as error:
    raise missing("accelerate", "accelerate", error) from None

if TYPE_CHECKING:
    from scopes.core.scope import DisposeScope

__all__ = ["accumulate"]


@contextmanager
def accumulate(accelerator: Any, *models: Any, name: str = "step") -> Iterator[DisposeScope]:
    """Open a scope for a step, and ``accelerator.accumulate(*models)`` in it.

    Tensors that the block creates end with it. If the block raises, the scope ends. Move out what a later
    line needs: ``loss = scope.move_to_outer(loss)``.

    Parameters
    ----------
    accelerator
        The ``accelerate.Accelerator``.
    models
        The models, for ``accelerator.accumulate``.
    name
        The name of the scopes, for reports.

    Examples
    --------
    >>> import torch
    >>> from accelerate import Accelerator
    >>> from scopes.integrations.accelerate import accumulate
    >>> accelerator = Accelerator(cpu=True)
    >>> model = accelerator.prepare(torch.nn.Linear(2, 1))
    >>> with accumulate(accelerator, model) as scope:
    ...     loss = model(torch.ones(3, 2)).sum()
    ...     accelerator.backward(loss)
    >>> loss.is_invalid
    True
    """
    with step(name) as scope, accelerator.accumulate(*models):
        yield scope
