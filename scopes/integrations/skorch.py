"""A scope for each batch of a net of skorch."""

from __future__ import annotations

from typing import Any

from scopes.adapters.torch.owning import owning
from scopes.integrations._steps import missing, step

try:
    import skorch  # noqa: F401
except ModuleNotFoundError as error:
    raise missing("skorch", "skorch", error) from None

__all__ = ["ScopesMixin"]


class ScopesMixin:
    """Give each batch of a net its own scope.

    Write it before the class of the net: ``class Classifier(ScopesMixin, NeuralNetClassifier)``. Tensors that
    a batch creates end with it; the loss and the prediction are moved out, so that callbacks can use them. If
    a batch raises, its scope ends. A callback could not do this: skorch calls none when a batch raises.

    Examples
    --------
    >>> from skorch import NeuralNetClassifier
    >>> from scopes.integrations.skorch import ScopesMixin
    >>> class Classifier(ScopesMixin, NeuralNetClassifier):
    ...     pass
    """

    def fit_loop(self, *args: Any, **kwargs: Any) -> Any:
        """Train, and own the new tensors of each batch."""
        with owning():  # once, because each batch then takes less time
            return super().fit_loop(*args, **kwargs)  # type: ignore[misc]

    def train_step(self, *args: Any, **kwargs: Any) -> Any:
        """Train with one batch in its own scope, and return the loss and the prediction."""
        with step("training batch") as scope:
            return scope.move_to_outer(super().train_step(*args, **kwargs))  # type: ignore[misc]

    def validation_step(self, *args: Any, **kwargs: Any) -> Any:
        """Validate with one batch in its own scope, and return the loss and the prediction."""
        with step("validation batch") as scope:
            return scope.move_to_outer(super().validation_step(*args, **kwargs))  # type: ignore[misc]

    def evaluation_step(self, *args: Any, **kwargs: Any) -> Any:
        """Return the prediction of one batch, which is computed in its own scope."""
        with step("evaluation batch") as scope:
            return scope.move_to_outer(super().evaluation_step(*args, **kwargs))  # type: ignore[misc]
