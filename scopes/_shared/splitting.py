"""Run a function on pieces of a batch that does not fit in memory. Each library has its subclass.

A call is all or nothing. Gradients from before it are set aside, so that its pieces accumulate new ones. If a
piece does not fit, the new gradients are dropped, and the call begins again with pieces of half the size. The
gradients from before are added at the end.
"""

from __future__ import annotations

import gc
import inspect
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from copy import copy
from functools import wraps
from math import ceil, prod
from typing import Any, ParamSpec, TypeVar

from scopes._shared.tracebacks import clear_all_frames

P = ParamSpec("P")
R = TypeVar("R")
# The arguments of a piece that are split, and all arguments, by position and by name.
Arguments = tuple[tuple[Any, ...], tuple[Any, ...], dict[str, Any]]

_DEEPEST = 100
_STEPS = (
    "a post-accumulate hook, such as an optimizer step in backward, would use the gradient of one piece. "
    "Remove the hook, and step after the call"
)
_TWICE = (
    "splitting() runs backward of each piece: return the loss without calling backward, and compute what "
    "requires grad inside the function"
)
_REDUCTIONS = ("mean", "sum", "none")
# Whether a decorated function that runs backward is running.
_is_running: ContextVar[bool] = ContextVar("is_running", default=False)


class CannotSplitError(RuntimeError):
    """The function can't run on a piece of its batch. The message says why."""


class _Gradients:
    """The gradients of leaves from before a call, set aside until all its pieces have run."""

    def __init__(self) -> None:
        self._before: dict[int, tuple[Any, Any]] = {}

    def set_aside(self, leaves: Iterable[Any]) -> None:
        for leaf in leaves:
            if id(leaf) not in self._before:
                before = leaf.grad
                self._before[id(leaf)] = leaf, before
                if before is not None:
                    leaf.grad = None

    def restore(self) -> None:
        """Drop the new gradients, and restore those from before."""
        while self._before:
            _, (leaf, before) = self._before.popitem()
            leaf.grad = before

    def add(self, add: Callable[[Any, Any], Any]) -> None:
        """Add the new gradients to those from before."""
        while self._before:
            _, (leaf, before) = self._before.popitem()
            if before is not None:
                new = leaf.grad
                leaf.grad = before if new is None else add(before, new)


class _Call:
    """The arguments of a call, and how they are split."""

    def __init__(self, bound: inspect.BoundArguments, names: tuple[str, ...], title: str) -> None:
        bound.apply_defaults()
        self.bound = bound
        self.title = title
        kinds = {name: parameter.kind for name, parameter in bound.signature.parameters.items()}
        #: The name of the parameter ``**kwargs``.
        self.keywords = next((name for name, kind in kinds.items() if kind is kind.VAR_KEYWORD), None)
        given = {**bound.arguments.get(self.keywords or "", {}), **bound.arguments}
        self.batch: dict[str, Any] = {name: given[name] for name in names if name in given}

    def tensors(self) -> list[tuple[str, Any]]:
        """Return each tensor to split, with the name of its argument."""
        found: list[tuple[str, Any]] = []
        for name, argument in self.batch.items():
            here: list[Any] = []
            _map(argument, here.append, name)
            found += [(name, x) for x in here]
        return found

    def whole(self) -> Arguments:
        """Return the arguments as they were given."""
        return tuple(self.batch.values()), self.bound.args, self.bound.kwargs

    def piece(self, start: int, stop: int) -> Arguments:
        """Return the arguments of the rows from `start` to `stop`: those that are split, and all."""
        parts = {name: _map(x, lambda x: x[start:stop], name) for name, x in self.batch.items()}
        arguments = dict(self.bound.arguments)
        others: dict[str, Any] = {}
        for name, part in parts.items():
            (arguments if name in arguments else others)[name] = part
        if others:
            assert self.keywords is not None
            arguments[self.keywords] = {**arguments[self.keywords], **others}
        chosen = inspect.BoundArguments(self.bound.signature, arguments)
        return tuple(parts.values()), chosen.args, chosen.kwargs


def _map(x: Any, change: Callable[[Any], Any], name: str, depth: int = 0) -> Any:
    """Return nested lists, tuples and dicts with `change` applied to all their items except None."""
    kind = type(x)
    if x is None:
        return None
    if depth > _DEEPEST:
        raise ValueError(f"{name!r} is nested more than {_DEEPEST} levels deep, or contains itself")
    if isinstance(x, dict):
        changed = copy(x)
        for key, item in x.items():
            changed[key] = _map(item, change, name, depth + 1)
        return changed
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return kind(*[_map(item, change, name, depth + 1) for item in x])
    if kind is list or kind is tuple:
        return kind([_map(item, change, name, depth + 1) for item in x])
    return change(x)


class _Joined:
    """The result of a call: the sum of the losses of its pieces, and their concatenated outputs."""

    def __init__(self) -> None:
        self._loss: Any = None
        self._outputs: list[list[Any]] = []

    def add(self, loss: Any, weight: float | None, outputs: list[Any]) -> None:
        self._outputs.append([x.detach() for x in outputs])
        if loss is None or weight == 0.0:
            return
        part = loss.detach() if weight is None else loss.detach() * weight
        self._loss = part if self._loss is None else self._loss + part

    def results(self, concatenate: Callable[[list[Any]], Any]) -> list[Any]:
        """Return the loss, if any, and the outputs."""
        columns = zip(*self._outputs, strict=True)
        joined = [concatenate(list(parts)) if len(parts) > 1 else parts[0] for parts in columns]
        return joined if self._loss is None else [self._loss, *joined]


class Splitting:
    """The decorator ``splitting``, without what depends on the library."""

    def __init__(
        self,
        names: tuple[str, ...],
        reduction: str,
        count: Callable[..., Any] | None,
        backward: Callable[[Any], object] | None,
    ) -> None:
        if not names or not all(isinstance(name, str) for name in names):
            raise TypeError('write the names of the arguments to split: splitting("images", "labels")')
        if reduction not in _REDUCTIONS:
            raise ValueError(f"reduction must be 'mean', 'sum' or 'none', not {reduction!r}")
        if count is not None and reduction != "mean":
            raise ValueError(
                f"count says how many values a mean has, but the reduction is {reduction!r}: leave count out"
            )
        if backward is not None and reduction == "none":
            raise ValueError("with reduction='none' nothing runs backward: leave backward out")
        self._names = names
        self._reduction = reduction
        self._count = count
        self._backward = backward
        # By the shapes and dtypes of rows: the most rows that have fitted where more did not.
        self._fitting: dict[Any, int] = {}
        self._last: Any = None
        self._piece_count = 0
        self._shortage_count = 0

    # --- What depends on the library ----------------------------------------------------------------------

    def _is_tensor(self, x: Any) -> bool:
        raise NotImplementedError

    def _is_computed(self, x: Any) -> bool:
        """Return whether the tensor has a graph before it."""
        raise NotImplementedError

    def _is_recording(self) -> bool:
        raise NotImplementedError

    def _is_shortage(self, error: BaseException) -> bool:
        """Return whether the error says that memory is short."""
        raise NotImplementedError

    def _random_state(self) -> Any:
        raise NotImplementedError

    def _set_random_state(self, state: Any) -> None:
        raise NotImplementedError

    def _leaves(self, loss: Any) -> list[Any]:
        """Return the leaves in which backward of `loss` accumulates gradients."""
        raise NotImplementedError

    def _steps_in_backward(self, leaf: Any) -> bool:
        """Return whether the leaf has post-accumulate hooks."""
        raise NotImplementedError

    def _add(self, before: Any, new: Any) -> Any:
        """Return the sum of two gradients, in the memory of `before` if possible."""
        raise NotImplementedError

    def _concatenate(self, parts: list[Any]) -> Any:
        raise NotImplementedError

    def _on_pieces(self) -> AbstractContextManager[object]:
        """Return a context manager in which ops that mix rows raise `CannotSplitError`."""
        raise NotImplementedError

    def _raise_if_shared(self) -> None:
        """Raise an error if other processes wait for each backward of this one."""

    def _empty_caches(self) -> None:
        """Give cached memory back."""

    # --- The decorator ------------------------------------------------------------------------------------

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Return `function`, which splits its batch where memory is short."""
        title = getattr(function, "__qualname__", type(function).__qualname__)
        signature = inspect.signature(function)
        takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in signature.parameters.values())
        for name in self._names:
            parameter = signature.parameters.get(name)
            if parameter is None and takes_any:
                continue
            if parameter is None:
                raise TypeError(
                    f"{title}() has no parameter {name!r}, which splitting() names. Its parameters: "
                    f"{', '.join(signature.parameters) or 'none'}"
                )
            if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
                raise TypeError(f"splitting() can't split *{name} of {title}(): name a parameter of its own")
        if any(
            test(function)
            for test in (
                inspect.iscoroutinefunction,
                inspect.isgeneratorfunction,
                inspect.isasyncgenfunction,
            )
        ):
            raise TypeError(
                f"{title}() is async or a generator, which splitting() does not support: decorate the "
                "function that it calls"
            )

        @wraps(function)
        def in_pieces(*args: P.args, **kwargs: P.kwargs) -> R:
            call = _Call(signature.bind(*args, **kwargs), self._names, title)
            try:
                result: R = self._run(function, call)
            finally:
                del call
            return result

        return in_pieces

    @property
    def rows(self) -> int | None:
        """The most rows that fitted, for the shapes of the last call; None if all its rows fitted."""
        return self._fitting.get(self._last)

    @property
    def piece_count(self) -> int:
        """The number of pieces of the last call that ended."""
        return self._piece_count

    @property
    def shortage_count(self) -> int:
        """How often memory was short, over all calls."""
        return self._shortage_count

    def forget(self) -> None:
        """Forget the sizes that fitted, so that the next call begins with its whole batch."""
        self._fitting.clear()

    def __repr__(self) -> str:
        names = ", ".join(map(repr, self._names))
        return f"<splitting of {names}: {self.rows or 'all'} rows at once, {self.shortage_count} times short>"

    # --- A call ---------------------------------------------------------------------------------------------

    def _run(self, function: Callable[..., Any], call: _Call) -> Any:
        records = self._is_recording() and self._reduction != "none"
        if records and _is_running.get():
            raise RuntimeError(
                f"{call.title}() runs in another function with splitting(), and both would run backward: "
                "decorate only the outer function"
            )
        self._raise_if_shared()
        rows, shapes = self._measured(call)
        self._last = key = (shapes, records)
        most = min(rows, self._fitting.get(key, rows))
        state = self._random_state()
        handled = sys.exception()  # of the caller
        shortage: BaseException | None = None
        refusals: list[str] = []  # why the batch can't be split
        try:
            while True:
                count = max(1, ceil(rows / most)) if most else 1
                try:
                    result = self._attempt(function, call, rows, count, records, refusals)
                except CannotSplitError as error:
                    if count == 1:  # this call runs on a piece of an outer function
                        raise
                    refusals.append(str(error))
                    self._set_random_state(state)
                    if shortage is not None:
                        shortage.add_note(f"The batch can't be split: {error}")
                        raise shortage from None
                    # A call without this op has split batches of these shapes.
                    most = rows
                    continue
                except BaseException as error:
                    if not self._is_shortage(error):
                        raise
                    self._set_random_state(state)
                    self._shortage_count += 1
                    if refusals or most <= 1:
                        why = refusals[0] if refusals else "it was tried with one row at a time"
                        error.add_note(f"The batch can't be split: {why}")
                        raise
                    shortage = error
                else:
                    if shortage is not None:
                        self._fitting[key] = ceil(rows / count)
                    self._piece_count = count
                    return result
                # Only now does Python itself no longer refer to the error.
                clear_all_frames(shortage, handled)
                gc.collect()
                self._empty_caches()
                most = ceil(ceil(rows / count) / 2)
        finally:
            del shortage, handled  # errors that this frame would keep in a cycle

    def _measured(self, call: _Call) -> tuple[int, Any]:
        """Return the number of rows of the batch, and the shapes and dtypes of rows."""
        rows: int | None = None
        first = ""
        shapes = []
        for name, x in call.tensors():
            shape = getattr(x, "shape", None)
            if shape is None:
                raise TypeError(
                    f"{call.title}(): splitting() can't split the {type(x).__name__} in {name!r}. Name only "
                    "arguments that are tensors, or tuples, lists and dicts of tensors"
                )
            if len(shape) == 0:
                raise ValueError(
                    f"{call.title}(): splitting() can't split the number in {name!r}, which has no dimensions"
                )
            if rows is None:
                rows, first = shape[0], name
            elif shape[0] != rows:
                raise ValueError(
                    f"{call.title}(): all tensors to split must have the same number of rows, but {first!r} "
                    f"has {rows}, and {name!r} has {shape[0]}"
                )
            if self._is_tensor(x) and self._is_computed(x):
                raise ValueError(
                    f"{call.title}(): splitting() can't split {name!r}, which was computed from tensors that "
                    "require grad: each piece would run backward through that graph. Compute it inside the "
                    "function, or pass x.detach()"
                )
            shapes.append((tuple(shape[1:]), x.dtype))
        if rows is None:
            raise TypeError(
                f"{call.title}(): splitting() has nothing to split, because none of "
                f"{', '.join(map(repr, self._names))} holds a tensor in this call"
            )
        return rows, tuple(shapes)

    def _attempt(
        self,
        function: Callable[..., Any],
        call: _Call,
        rows: int,
        count: int,
        records: bool,
        refusals: list[str],
    ) -> Any:
        """Run the function on `count` pieces, and return its result. After an error, restore gradients."""
        gradients = _Gradients()
        joined = _Joined()
        token = _is_running.set(records or _is_running.get())
        try:
            with self._on_pieces() if count > 1 else nullcontext():
                whole = self._counted(call.batch.values(), rows) if count > 1 else 0.0
                for i in range(count):
                    start, stop = rows * i // count, rows * (i + 1) // count
                    parts, args, kwargs = call.piece(start, stop) if count > 1 else call.whole()
                    weight: float | None = None
                    if count > 1 and self._reduction == "mean":
                        weight = self._counted(parts, stop - start) / whole if whole else 1 / count
                    result = function(*args, **kwargs)
                    del parts, args, kwargs
                    is_tuple = isinstance(result, tuple)
                    loss, outputs = self._checked(result, stop - start, call.title)
                    del result
                    if records:
                        self._accumulate(loss, weight, count, gradients, refusals)
                    joined.add(loss, weight, outputs)
                    del loss, outputs
                found = joined.results(self._concatenate)
            gradients.add(self._add)
        except BaseException:
            gradients.restore()
            raise
        finally:
            _is_running.reset(token)
        return tuple(found) if is_tuple else found[0]

    def _counted(self, parts: Iterable[Any], rows: int) -> float:
        """Return the number of values of which a mean over these arguments is the mean."""
        return float(rows if self._count is None else self._count(*parts))

    def _checked(self, result: Any, rows: int, title: str) -> tuple[Any, list[Any]]:
        """Return the loss, which is None without a reduction, and the outputs."""
        outputs = list(result) if isinstance(result, tuple) else [result]
        loss: Any = None
        if self._reduction != "none":
            loss = outputs.pop(0) if outputs else None
            if not self._is_tensor(loss):
                raise TypeError(
                    f"{title}() must return its loss as a tensor, or a tuple of the loss and outputs, but "
                    f"returned {type(loss).__name__}: splitting() weighs the loss, and runs backward"
                )
            if prod(loss.shape) != 1:
                raise ValueError(
                    f"{title}() must return a loss of one element, not of shape {tuple(loss.shape)}: reduce "
                    "it, or write reduction='none' for values of each row"
                )
        for x in outputs:
            if not self._is_tensor(x):
                raise TypeError(
                    f"{title}() returned an output of type {type(x).__name__}, which splitting() can't "
                    "concatenate: return tensors with a row for each row of the batch"
                )
            if len(x.shape) == 0 or x.shape[0] != rows:
                raise ValueError(
                    f"{title}() returned an output of shape {tuple(x.shape)} for {rows} rows: splitting() "
                    "concatenates outputs, so that each must have a row for each row of the batch"
                )
            if self._reduction == "none" and x.requires_grad:
                raise RuntimeError(
                    f"{title}() records a graph, which would keep the memory of all pieces: with "
                    "reduction='none', call it under no_grad()"
                )
        return loss, outputs

    def _accumulate(
        self, loss: Any, weight: float | None, count: int, gradients: _Gradients, refusals: list[str]
    ) -> None:
        """Run backward of a piece."""
        leaves = self._leaves(loss)
        if any(self._steps_in_backward(leaf) for leaf in leaves):
            if count > 1:
                raise CannotSplitError(_STEPS)
            refusals.append(_STEPS)
        gradients.set_aside(leaves)
        if weight == 0.0:
            return
        weighted = loss if weight is None else loss * weight
        del loss
        try:
            if self._backward is None:
                weighted.backward()
            else:
                self._backward(weighted)
        except RuntimeError as error:
            if "backward through" in str(error):
                error.add_note(_TWICE)
            raise
