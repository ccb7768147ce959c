"""A scope for each iteration of an engine of Ignite."""

from __future__ import annotations

from typing import Any, TypeVar

from scopes.integrations._steps import missing, step

try:
    from ignite.engine import Engine
except ModuleNotFoundError as error:
    raise missing("ignite", "pytorch-ignite", error) from None

__all__ = ["scope_iterations"]

_Engine = TypeVar("_Engine")


def scope_iterations(engine: _Engine, name: str = "iteration") -> _Engine:
    """Give each iteration of `engine` its own scope, and return the engine.

    Tensors that an iteration creates end with it, before its handlers run. The output is moved out, so that
    handlers and metrics can use it. If an iteration raises, its scope ends.

    Parameters
    ----------
    engine
        An ``ignite.engine.Engine``, such as that of ``create_supervised_trainer``.
    name
        The name of the scopes, for reports.

    Examples
    --------
    >>> import torch
    >>> from ignite.engine import Engine
    >>> from scopes.integrations.ignite import scope_iterations
    >>> trainer = scope_iterations(Engine(lambda engine, batch: torch.tensor(batch) * 2))
    >>> trainer.run([1.0, 2.0]).output
    tensor(4.)
    """
    if not isinstance(engine, Engine):
        raise TypeError(f"scope_iterations takes an engine of Ignite, not {type(engine).__name__}")
    process = engine._process_function

    def process_in_a_scope(engine: Any, batch: Any) -> Any:
        with step(name) as scope:
            return scope.move_to_outer(process(engine, batch))

    engine._process_function = process_in_a_scope
    return engine
