"""Functions that split a batch that does not fit in memory: ``@memory.splitting``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal

from scopes._shared.naming import set_module
from scopes._shared.on_demand import ModuleOnDemand
from scopes._shared.splitting import Splitting
from scopes.core.errors import ScopeLimitError

if TYPE_CHECKING:
    from tensor._tensor import Tensor

# Imported at its first use: it imports this package.
_pieces: Any = ModuleOnDemand("tensor.autograd.batch_pieces")


@set_module("tensor.memory")
class splitting(Splitting):  # noqa: N801  # it is called like a function
    """Decorate a function of a batch so that it runs on pieces of the batch where memory is short.

    The function computes the loss of a batch and returns it. The decorated function also runs backward, and
    returns the loss without its graph. If an op raises an ``OutOfMemoryError``, all memory of the try is
    released, and gradients and the default generator are as before the call. Then the batch is halved, and
    the pieces run one after another. Their gradients add up to those of the batch, up to rounding. The number
    of rows that fitted is remembered for later calls with rows of the same shapes.

    Parameters
    ----------
    *names
        The names of the arguments to split along their first dimension: tensors or NumPy arrays, or tuples,
        lists and dicts of them. All have the same number of rows.
    reduction
        What the loss is of the values of its rows. ``"mean"``: a piece counts as much as it has rows.
        ``"sum"``: the losses of pieces are added. ``"none"``: the function returns tensors with values of
        each row, nothing runs backward, and the values are concatenated. A function does not tell which it
        is.
    count
        For a mean over something other than rows, such as words that are not padding: a function of the
        arguments `names`, in their order, that returns of how many values the loss is the mean.
    backward
        A function of the loss to call instead of ``loss.backward()``.

    Raises
    ------
    OutOfMemoryError
        At a call, if a single row does not fit, or if the function can't be split: in training, batch norm
        needs the whole batch, and so does an optimizer step in backward. A note of the error says which. The
        gradients are as before the call.
    TypeError, ValueError
        If an argument or the result can't be split or joined.

    Notes
    -----
    Other ops that mix rows are not detected, such as a softmax over the first dimension or a loss that
    compares rows: their results differ between pieces and the batch. Dropout draws different random numbers.

    Examples
    --------
    >>> import nn, tensor
    >>> from tensor import memory
    >>> model = nn.Linear(100, 1)
    >>> @memory.splitting("inputs", "targets")
    ... def loss_of(inputs, targets):
    ...     return nn.functional.mse_loss(model(inputs).expand(-1, 500), targets)
    >>> inputs, targets = tensor.ones((400, 100)), tensor.ones((400, 500))
    >>> with memory.limit(memory.statistics().bytes_live + 1_000_000):
    ...     loss = loss_of(inputs, targets)
    >>> model.weight.grad.shape
    (1, 100)
    """

    def __init__(
        self,
        *names: str,
        reduction: Literal["mean", "sum", "none"] = "mean",
        count: Callable[..., Any] | None = None,
        backward: Callable[[Tensor], object] | None = None,
    ) -> None:
        super().__init__(names, reduction, count, backward)

    def _is_tensor(self, x: Any) -> bool:
        return _pieces.is_tensor(x)  # type: ignore[no-any-return]

    def _is_computed(self, x: Any) -> bool:
        return _pieces.is_computed(x)  # type: ignore[no-any-return]

    def _is_recording(self) -> bool:
        return _pieces.is_recording()  # type: ignore[no-any-return]

    def _is_shortage(self, error: BaseException) -> bool:
        return isinstance(error, MemoryError) or (
            isinstance(error, ScopeLimitError) and error.figure == "bytes"
        )

    def _random_state(self) -> Any:
        return _pieces.default_generator.get_state()

    def _set_random_state(self, state: Any) -> None:
        _pieces.default_generator.set_state(state)

    def _leaves(self, loss: Any) -> list[Any]:
        return _pieces.leaves_of(loss)  # type: ignore[no-any-return]

    def _steps_in_backward(self, leaf: Any) -> bool:
        return _pieces.has_post_accumulate_hooks(leaf)  # type: ignore[no-any-return]

    def _add(self, before: Any, new: Any) -> Any:
        return _pieces.add_gradients(before, new)

    def _concatenate(self, parts: list[Any]) -> Any:
        return _pieces.cat(parts)

    def _on_pieces(self) -> AbstractContextManager[object]:
        return _pieces.OnPieces()  # type: ignore[no-any-return]
