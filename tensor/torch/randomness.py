"""The state of the default generator."""

from __future__ import annotations

from typing import Any

from tensor.creation.generators import default_generator

__all__ = ["default_generator", "get_rng_state", "initial_seed", "seed", "set_rng_state"]


def seed() -> int:
    """Seed the default generator with a random number from the operating system, and return the seed."""
    return default_generator.seed()


def initial_seed() -> int:
    """Return the initial seed of the default generator.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> _ = torch.manual_seed(7)
    >>> torch.initial_seed()
    7
    """
    return default_generator.initial_seed()


def get_rng_state() -> dict[str, Any]:
    """Return the state of the default generator, for ``set_rng_state``."""
    return default_generator.get_state()


def set_rng_state(new_state: dict[str, Any]) -> None:
    """Set the state of the default generator, from ``get_rng_state``.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> state = torch.get_rng_state()
    >>> first = torch.rand(3)
    >>> torch.set_rng_state(state)
    >>> torch.equal(torch.rand(3), first)
    True
    """
    default_generator.set_state(new_state)
