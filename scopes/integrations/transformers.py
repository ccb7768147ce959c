"""A scope for each step of Hugging Face's ``Trainer``."""

from __future__ import annotations

from typing import Any

from scopes.adapters.torch.owning import owning
from scopes.integrations._steps import missing, step

try:
    from transformers import Trainer
except ModuleNotFoundError as error:
    raise missing("transformers", "'transformers[torch]'", error) from None

__all__ = ["ScopedTrainer", "ScopesMixin"]


class ScopesMixin:
    """Give each training step and prediction step of a ``Trainer`` its own scope.

    Write it before the class of the trainer: ``class MyTrainer(ScopesMixin, Seq2SeqTrainer)``. A training
    step is the forward and the backward pass of one batch. Tensors that it creates end with it; what it
    returns is moved out. If a step raises, its scope ends. A callback could not do this: the trainer calls
    none when a step raises.

    Examples
    --------
    >>> from transformers import Seq2SeqTrainer
    >>> from scopes.integrations.transformers import ScopesMixin
    >>> class MyTrainer(ScopesMixin, Seq2SeqTrainer):
    ...     pass
    """

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """Train, and own the new tensors of each step."""
        with owning():  # once, because each step then takes less time
            return super().train(*args, **kwargs)  # type: ignore[misc]

    def training_step(self, *args: Any, **kwargs: Any) -> Any:
        """Run a training step in its own scope, and return the loss."""
        with step("training step") as scope:
            return scope.move_to_outer(super().training_step(*args, **kwargs))  # type: ignore[misc]

    def evaluation_loop(self, *args: Any, **kwargs: Any) -> Any:
        """Evaluate or predict, and own the new tensors of each step."""
        with owning():
            return super().evaluation_loop(*args, **kwargs)  # type: ignore[misc]

    def prediction_step(self, *args: Any, **kwargs: Any) -> Any:
        """Run a prediction step in its own scope, and return the loss, the logits and the labels."""
        with step("prediction step") as scope:
            return scope.move_to_outer(super().prediction_step(*args, **kwargs))  # type: ignore[misc]


class ScopedTrainer(ScopesMixin, Trainer):  # type: ignore[misc]
    """Hugging Face's ``Trainer`` with a scope for each step; see `ScopesMixin`.

    Examples
    --------
    >>> from scopes.integrations.transformers import ScopedTrainer as Trainer
    """
