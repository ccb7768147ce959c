"""Noticing new tensors of PyTorch: a mode that sees each call, and wrappers for what it does not see."""

from __future__ import annotations

import operator
import threading
from contextlib import ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Self

from scopes.core.containers import find
from scopes.core.disposable import current_dispose_scope
from scopes.core.foreign import Adopter, adopt, leave_alone
from scopes.foreign.patches import Patches
from scopes.foreign.torch import streams
from scopes.foreign.torch.adapter import ADAPTER
from scopes.foreign.torch.keeping import KEEPERS
from scopes.foreign.torch.library import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

_is_traced = torch.compiler.is_dynamo_compiling
_backward_id = torch._C._current_graph_task_id
_NOTHING = (torch.Size, torch.dtype, torch.device, torch.layout, torch.memory_format)
# What they return belongs to another tensor.
_BORROWING = (torch.Tensor.grad, torch.Tensor._grad, torch.Tensor._base)

# Inside of a transformation of torch.func, tensors are wrappers that don't outlive it.
_adopter = Adopter(ADAPTER, torch.Tensor, _NOTHING, _BORROWING, torch._C._functorch.peek_interpreter_stack)
_take = _adopter.take


class _Functions(torch.overrides.TorchFunctionMode):  # type: ignore[misc, name-defined]
    """Sees each call of PyTorch's Python functions and methods."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if _is_traced():  # torch.compile records the call, and computes nothing yet
            return func(*args, **(kwargs or {}))
        if kwargs is None:
            kwargs = _NO_KEYWORDS
        try:
            result = func(*args, **kwargs)
        except BaseException:
            del args, kwargs  # a stored error has this frame, and keeps no operand alive
            raise
        _take(func, result, args, kwargs)
        return result


class _Operators(torch.utils._python_dispatch.TorchDispatchMode):  # type: ignore[misc, name-defined]
    """Sees each operator that runs in C++, called from Python or from C++."""

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Let torch.compile compile: it runs all as it is under other modes."""
        return True

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        try:
            result = func(*args, **kwargs) if kwargs else func(*args)
        except RuntimeError:
            converted = _with_tensors_for_numbers(func, args)
            if converted is None:
                raise
            result = func(*converted, **(kwargs or {}))
        # What backward computes is a gradient, or an intermediate value of one: not the scope's.
        if func is not _DETACH and func is not _ALIAS and _backward_id() == -1:
            _take(None, result, args, kwargs or _NO_KEYWORDS)
        return result


_NO_KEYWORDS: dict[str, Any] = {}
# C++ code makes aliases for its own use, such as the tensor that an array of NumPy keeps alive: they must not
# end before that. An alias that a user asks for is noticed as the result of a function.
_DETACH, _ALIAS = torch.ops.aten.detach.default, torch.ops.aten.alias.default


def _with_tensors_for_numbers(func: Any, args: tuple[Any, ...]) -> list[Any] | None:
    """Return `args` with tensors where `func` takes only tensors and got numbers; None if it got none.

    PyTorch passes a tensor that stands for a Python number as that number to a mode. Some operators, such as
    `aten::equal`, refuse it before they do anything. Functions that torch.jit traced call them so.
    """
    takes = () if not hasattr(func, "_schema") else [str(each.type) for each in func._schema.arguments]
    converted: list[Any] = list(args)
    for index, (x, kind) in enumerate(zip(args, takes, strict=False)):
        if kind == "Tensor" and type(x) in _NUMBERS:
            others = [y.dtype for y in args if _is_tensor(y) and torch.result_type(y, x) == y.dtype]
            converted[index] = torch.tensor(x, dtype=others[0] if others else _NUMBERS[type(x)])
    return None if all(map(operator.is_, converted, args)) else converted


_NUMBERS = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}


class _Here(threading.local):
    """What is noticed on this thread."""

    depth = 0


_here = _Here()


class owning:  # noqa: N801  # it is called like a function
    """Let the current scope own each new PyTorch tensor: on this thread, inside the block.

    A scope disposes what its block made. What something else keeps outlives it: parameters and buffers of
    modules, an optimizer's state, and what an older object holds that is a module, a data set, a cache, or an
    object of an installed library. ``kept()`` lists it. A list of yours keeps nothing.

    Never owned: gradients, results of functions in place, what ``torch.func`` wraps, what ``torch.compile``
    makes (attach its outputs). For a whole program there is ``enable()``.

    Parameters
    ----------
    strict
        Let only parameters, buffers and optimizers' state outlive their scope.
    exact
        Notice too what C++ code makes inside of one function, and what reaches PyTorch past its Python
        functions. An operator takes some 6 us more, instead of some 2 us.

    Examples
    --------
    >>> import scopes.torch, torch
    >>> from scopes import TensorDisposedError, new_dispose_scope
    >>> with scopes.torch.owning(), new_dispose_scope("step") as scope:
    ...     x = torch.ones(3)
    ...     y = scope.detach(x * 2)
    >>> y
    tensor([2., 2., 2.])
    >>> try:
    ...     x + 1
    ... except TensorDisposedError as error:
    ...     print(error)
    this torch tensor (shape (3,), dtype torch.float32) is empty: its dispose scope 'step' ended. ...
    """

    def __init__(self, *, exact: bool = False, strict: bool = False) -> None:
        self.exact = exact
        self.strict = strict
        self._open: ExitStack | None = None

    def __enter__(self) -> Self:
        if self._open is not None:
            raise RuntimeError("this owning() is open already: write a new `with scopes.torch.owning():`")
        with ExitStack() as begun:  # all of it, or nothing
            KEEPERS.begin()
            _patches.begin()
            begun.callback(_patches.end)
            _adopter.be_strict(self.strict)
            begun.callback(_adopter.be_strict, -self.strict)
            for mode in (_Operators(), _Functions()) if self.exact else (_Functions(),):
                begun.enter_context(mode)
            self._open = begun.pop_all()
        _here.depth += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        begun, self._open = self._open, None
        if begun is not None:
            _here.depth -= 1
            begun.__exit__(kind, error, traceback)


_enabled: list[owning] = []


def enable(*, exact: bool = False, strict: bool = False) -> None:
    """Let scopes own each new PyTorch tensor of this thread from now on, until ``disable()``.

    PyTorch's modes are a thread's own: other threads of yours write ``with scopes.torch.owning():``.

    Examples
    --------
    >>> import scopes.torch, torch
    >>> from scopes import new_dispose_scope
    >>> scopes.torch.enable()
    >>> with new_dispose_scope() as scope:
    ...     x = torch.ones(3)
    ...     x in scope
    True
    >>> scopes.torch.disable()
    """
    disable()
    made = owning(exact=exact, strict=strict)
    made.__enter__()
    _enabled.append(made)


def disable() -> None:
    """End what ``enable()`` began; inside of ``with owning():``, only after it."""
    while _enabled:
        _enabled.pop().__exit__(None, None, None)


@contextmanager
def paused() -> Iterator[None]:
    _adopter.pause(1)
    try:
        yield
    finally:
        _adopter.pause(-1)


def _adopting(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function`, whose calls the mode does not see, with its results adopted."""

    def called(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        if _here.depth:
            _take(None, result, args, kwargs)
        return result

    return called


def _constructing(new: Callable[..., Any]) -> Callable[..., Any]:
    def called(kind: type, *args: Any, **kwargs: Any) -> Any:
        result = new(kind, *args, **kwargs)
        if _here.depth and kind is torch.Tensor:
            _take(None, result, args, kwargs)
        return result

    return called


def _fetching(fetch: Callable[..., Any]) -> Callable[..., Any]:
    """Return `fetch`, with only its results adopted: it may fill caches, or unpack batches of later steps."""

    def called(loader: Any) -> Any:
        # Without a scope nothing is owned, and reports count what a data set caches.
        with nullcontext() if current_dispose_scope() is None else paused():
            batch = fetch(loader)
        if _here.depth:
            for x in find((batch,), _is_tensor, inside=False):
                adopt(x)
        return batch

    return called


def _is_tensor(x: object) -> bool:
    return isinstance(x, torch.Tensor)


def _packing(construct: Callable[..., Any]) -> Callable[..., Any]:
    """Let what a pack hook returns belong to the graph, not to the scope that it was made in."""

    def called(hooks: Any, pack: Callable[..., Any], unpack: Callable[..., Any]) -> None:
        def pack_for_graph(x: Any) -> Any:
            with paused():
                packed = pack(x)
            # It may be `x` itself, which a scope owns, or is about to own as the result of this operation.
            for kept in find((packed,), _is_tensor, inside=False):
                leave_alone(kept)
            return packed

        construct(hooks, pack_for_graph, unpack)

    return called


def _tracing(trace: Callable[..., Any]) -> Callable[..., Any]:
    """Let torch.jit trace without our dispatch mode: its tracer fails inside any such mode."""

    def called(*args: Any, **kwargs: Any) -> Any:
        modes = torch.utils._python_dispatch._get_current_dispatch_mode_stack()
        ours = bool(modes) and all(isinstance(mode, _Operators) for mode in modes)
        with torch.utils._python_dispatch._disable_current_modes() if ours else nullcontext():
            return trace(*args, **kwargs)

    return called


_transforms = torch._functorch.eager_transforms
_patches = Patches(
    {
        (torch, "from_numpy"): _adopting,
        (torch, "frombuffer"): _adopting,
        (torch, "from_dlpack"): _adopting,
        (torch.utils.dlpack, "from_dlpack"): _adopting,
        (torch.Tensor, "__new__"): _constructing,
        (torch.utils.data.dataloader._SingleProcessDataLoaderIter, "_next_data"): _fetching,
        (torch.utils.data.dataloader._MultiProcessingDataLoaderIter, "_next_data"): _fetching,
        (torch.autograd.graph.saved_tensors_hooks, "__init__"): _packing,
        # Their results are new when the last transformation around them has ended.
        (torch._functorch.apis, "vmap_impl"): _adopting,
        (_transforms, "grad_impl"): _adopting,
        (_transforms, "grad_and_value_impl"): _adopting,
        (torch.cuda, "set_stream"): streams.setting,
        (torch.cuda.Stream, "__enter__"): streams.entering,
        (torch.jit._trace, "_trace_impl"): _tracing,
        (torch.jit._trace, "_get_trace_graph"): _tracing,
        (torch.jit, "trace_module"): _tracing,
    },
)
