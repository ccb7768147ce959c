"""A scope for each update of an algorithm of Stable-Baselines3."""

from __future__ import annotations

from typing import Any

from scopes.adapters.torch.owning import owning
from scopes.integrations._steps import missing, step

try:
    import stable_baselines3  # noqa: F401
except ModuleNotFoundError as error:
    raise missing("stable_baselines3", "stable-baselines3", error) from None

__all__ = ["ScopesMixin"]


class ScopesMixin:
    """Give each update of an algorithm, and each collection of rollouts, its own scope.

    Write it before the class of the algorithm: ``class ScopedPPO(ScopesMixin, PPO)``. Tensors that an update
    creates end with it. If an update raises, its scope ends. A callback could not do this: the algorithm
    calls none around an update, and none when it raises.

    Examples
    --------
    >>> from stable_baselines3 import PPO
    >>> from scopes.integrations.stable_baselines3 import ScopesMixin
    >>> class ScopedPPO(ScopesMixin, PPO):
    ...     pass
    """

    def learn(self, *args: Any, **kwargs: Any) -> Any:
        """Learn, and own the new tensors of each update."""
        with owning():  # once, because each update then takes less time
            return super().learn(*args, **kwargs)  # type: ignore[misc]

    def collect_rollouts(self, *args: Any, **kwargs: Any) -> Any:
        """Collect experience in its own scope."""
        with step("rollouts") as scope:
            return scope.move_to_outer(super().collect_rollouts(*args, **kwargs))  # type: ignore[misc]

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """Update the policy in its own scope."""
        with step("update") as scope:
            return scope.move_to_outer(super().train(*args, **kwargs))  # type: ignore[misc]
