"""Functions that split a batch that does not fit in memory, for PyTorch: ``@scopes.torch.splitting``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Literal

from scopes._shared.naming import set_module
from scopes._shared.splitting import CannotSplitError, Splitting
from scopes.adapters import foreign
from scopes.adapters.torch.disposal import trim
from scopes.adapters.torch.library import torch

# Parts of the messages of other errors of PyTorch that say that memory is short.
_SHORTAGES = (
    "can't allocate memory",  # of the CPU
    "not enough memory",  # of the CPU, on Windows
    "std::bad_alloc",
    "out of memory",  # of CUDA, from code that does not raise torch.OutOfMemoryError
    "CUBLAS_STATUS_ALLOC_FAILED",
)
_BATCH_NORM = (
    "batch_norm in training uses the mean and variance of the whole batch. Use group_norm or layer_norm, or "
    "call eval() of the batch norms"
)
_BATCH_NORMS = frozenset({torch.batch_norm, torch.nn.functional.batch_norm})


@set_module("scopes.torch")
class splitting(Splitting):  # noqa: N801  # it is called like a function
    """Decorate a function of a batch so that it runs on pieces of the batch where memory is short.

    The function computes the loss of a batch with PyTorch and returns it. The decorated function also runs
    backward, and returns the loss without its graph. If memory is short (``torch.OutOfMemoryError``, the
    ``RuntimeError`` of PyTorch's allocator for the CPU, or a ``MemoryError``), all memory of the try is
    released, and gradients and the default generators are as before the call. Then the batch is halved, and
    the pieces run one after another. Their gradients add up to those of the batch, up to rounding. The number
    of rows that fitted is remembered for later calls with rows of the same shapes.

    Parameters
    ----------
    *names
        The names of the arguments to split along their first dimension: tensors, or tuples, lists and dicts
        of them. All have the same number of rows.
    reduction
        What the loss is of the values of its rows. ``"mean"``: a piece counts as much as it has rows.
        ``"sum"``: the losses of pieces are added. ``"none"``: the function returns tensors with values of
        each row, nothing runs backward, and the values are concatenated. A function does not tell which it
        is.
    count
        For a mean over something other than rows, such as words that are not padding: a function of the
        arguments `names`, in their order, that returns of how many values the loss is the mean.
    backward
        A function of the loss to call instead of ``loss.backward()``, such as one that scales the loss.

    Raises
    ------
    RuntimeError, torch.OutOfMemoryError, MemoryError
        At a call, PyTorch's error, if a single row does not fit, or if the function can't be split: in
        training, batch norm needs the whole batch, and so does an optimizer step in backward. A note of the
        error says which. The gradients are as before the call.
    RuntimeError
        If there is a process group of more than one process, or a checkpoint with ``use_reentrant=True``.
    TypeError, ValueError
        If an argument or the result can't be split or joined.

    Notes
    -----
    Other ops that mix rows are not detected, such as a softmax over the first dimension or a loss that
    compares rows: their results differ between pieces and the batch. The same holds for batch norm inside
    ``torch.compile``. Dropout draws different random numbers.

    Examples
    --------
    >>> import scopes.torch, torch
    >>> model = torch.nn.Linear(100, 1)
    >>> @scopes.torch.splitting("inputs", "targets")
    ... def loss_of(inputs, targets):
    ...     return torch.nn.functional.mse_loss(model(inputs), targets)
    >>> loss = loss_of(torch.ones(400, 100), torch.ones(400, 1))
    """

    def __init__(
        self,
        *names: str,
        reduction: Literal["mean", "sum", "none"] = "mean",
        count: Callable[..., Any] | None = None,
        backward: Callable[[Any], object] | None = None,
    ) -> None:
        super().__init__(names, reduction, count, backward)

    def _is_tensor(self, x: Any) -> bool:
        return isinstance(x, torch.Tensor)

    def _is_computed(self, x: Any) -> bool:
        return x.grad_fn is not None

    def _is_recording(self) -> bool:
        return bool(torch.is_grad_enabled())

    def _is_shortage(self, error: BaseException) -> bool:
        if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
            return True
        return isinstance(error, RuntimeError) and any(text in str(error) for text in _SHORTAGES)

    def _random_state(self) -> Any:
        with_cuda = torch.cuda.is_available() and torch.cuda.is_initialized()
        return torch.get_rng_state(), torch.cuda.get_rng_state_all() if with_cuda else []

    def _set_random_state(self, state: Any) -> None:
        of_cpu, of_cuda = state
        torch.set_rng_state(of_cpu)
        if of_cuda:
            torch.cuda.set_rng_state_all(of_cuda)

    @foreign.hiding
    def _leaves(self, loss: Any) -> list[Any]:
        found = []
        stack = [loss.grad_fn]
        seen = set()
        if loss.is_leaf and loss.requires_grad:
            return [loss]
        while stack:
            node = stack.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            leaf = getattr(node, "variable", None)
            if isinstance(leaf, torch.Tensor):
                found.append(leaf)
            elif node.name() == "CheckpointFunctionBackward":
                raise RuntimeError(
                    "splitting() can't restore the gradients of a checkpoint with use_reentrant=True, "
                    "because its leaves are not in the graph: write checkpoint(..., use_reentrant=False)"
                )
            stack += [following for following, _ in node.next_functions]
        return found

    def _steps_in_backward(self, leaf: Any) -> bool:
        return bool(leaf._post_accumulate_grad_hooks)

    def _add(self, before: Any, new: Any) -> Any:
        if before.requires_grad or new.requires_grad:
            return before + new
        with torch.no_grad():
            # PyTorch adds a sparse tensor to a dense one, but not a dense tensor to a sparse one.
            if before.is_sparse and not new.is_sparse:
                return new.add_(before)
            return before.add_(new)

    def _concatenate(self, parts: list[Any]) -> Any:
        return torch.cat(parts)

    def _on_pieces(self) -> AbstractContextManager[object]:
        return _OnPieces()

    def _raise_if_shared(self) -> None:
        distributed = torch.distributed
        if distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1:
            raise RuntimeError(
                "splitting() is refused in a process group of more than one process: where memory is short "
                "in one process, it would run backward more often than the others, which would wait for it "
                "forever. Use smaller batches in all processes"
            )

    def _empty_caches(self) -> None:
        trim()
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            torch.cuda.empty_cache()


class _OnPieces(torch.overrides.TorchFunctionMode):  # type: ignore[misc, name-defined]
    """In the block, functions run on a piece of a batch, and batch norm in training raises an error."""

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        given = kwargs or {}
        if function in _BATCH_NORMS and _is_training(args, given):
            raise CannotSplitError(_BATCH_NORM)
        return function(*args, **given)


def _is_training(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether a call of ``batch_norm`` uses the statistics of its input."""
    # torch.batch_norm(input, weight, bias, running_mean, running_var, training, ...), and in
    # torch.nn.functional: (input, running_mean, running_var, weight, bias, training, ...).
    return bool(args[5] if len(args) > 5 else kwargs.get("training", False))
