"""A scope for each batch of Lightning's ``Trainer``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scopes.adapters.torch.owning import owning
from scopes.core.scope import new_dispose_scope
from scopes.integrations._steps import missing

try:
    from lightning.pytorch import Callback
except ModuleNotFoundError as error:
    raise missing("lightning", "lightning", error) from None

if TYPE_CHECKING:
    from scopes.core.scope import DisposeScope

__all__ = ["ScopeCallback"]


class ScopeCallback(Callback):  # type: ignore[misc]
    """Give each batch of training, validation, testing and prediction its own scope.

    Tensors that a batch creates end with it. The outputs of the step and the batch itself are moved out,
    because later hooks may use them. If a step raises, its scope ends.

    Examples
    --------
    >>> from lightning.pytorch import Trainer
    >>> from scopes.integrations.lightning import ScopeCallback
    >>> trainer = Trainer(callbacks=[ScopeCallback()], logger=False, accelerator="cpu")
    """

    def __init__(self) -> None:
        super().__init__()
        self._owning: owning | None = None
        self._scope: DisposeScope | None = None

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Begin to own new tensors."""
        self._end()
        begun = owning()
        begun.__enter__()
        self._owning = begun

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Stop owning new tensors."""
        self._end()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """End the scope of a batch that failed."""
        self._end()

    def on_train_batch_start(self, *args: Any, **kwargs: Any) -> None:
        """Open the scope of a training batch."""
        self._open("training batch")

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, *args: Any) -> None:
        """End the scope of a training batch."""
        self._close(outputs, batch)

    def on_validation_batch_start(self, *args: Any, **kwargs: Any) -> None:
        """Open the scope of a validation batch."""
        self._open("validation batch")

    def on_validation_batch_end(
        self,
        trainer: Any,
        pl_module: Any,
        outputs: Any,
        batch: Any,
        *args: Any,
    ) -> None:
        """End the scope of a validation batch."""
        self._close(outputs, batch)

    def on_test_batch_start(self, *args: Any, **kwargs: Any) -> None:
        """Open the scope of a test batch."""
        self._open("test batch")

    def on_test_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, *args: Any) -> None:
        """End the scope of a test batch."""
        self._close(outputs, batch)

    def on_predict_batch_start(self, *args: Any, **kwargs: Any) -> None:
        """Open the scope of a prediction batch."""
        self._open("prediction batch")

    def on_predict_batch_end(
        self,
        trainer: Any,
        pl_module: Any,
        outputs: Any,
        batch: Any,
        *args: Any,
    ) -> None:
        """End the scope of a prediction batch."""
        self._close(outputs, batch)

    def _open(self, name: str) -> None:
        self._close()  # a batch that a hook skipped has no end
        self._scope = new_dispose_scope(name)

    def _close(self, *results: Any) -> None:
        scope, self._scope = self._scope, None
        if scope is not None:
            scope.move_to_outer(*results)
            scope.dispose()

    def _end(self) -> None:
        try:
            self._close()
        finally:
            begun, self._owning = self._owning, None
            if begun is not None:
                begun.__exit__(None, None, None)
