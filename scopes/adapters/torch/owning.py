"""Find new tensors of PyTorch.

Each allocation of a `torch.Tensor` object is noted (``scopes.adapters.foreign``), on all threads, which takes
about 20 ns. Scopes read the notes when they begin and end, and so do statistics and reports. Trackers and
scopes with limits need a new tensor at once. For them a `TorchFunctionMode` intercepts each call of a thread.
With ``exact``, a `TorchDispatchMode` intercepts each operator too. Functions that bypass modes are wrapped.
"""

from __future__ import annotations

import functools
import operator
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from scopes._shared.naming import set_module
from scopes._shared.on_demand import ModuleOnDemand
from scopes.adapters import foreign
from scopes.adapters.foreign import Adopter, adopt, leave_alone, run_unreferenced
from scopes.adapters.patches import Patches
from scopes.adapters.torch import gradients, streams
from scopes.adapters.torch.adapter import ADAPTER
from scopes.adapters.torch.keepers import KEEPERS
from scopes.adapters.torch.library import torch
from scopes.adapters.torch.noting import Watch, can_note, compilation_callbacks, compiling, paused
from scopes.core.containers import find
from scopes.core.scope import current_dispose_scope, is_watched, watch_callbacks

if TYPE_CHECKING:
    from scopes.adapters.torch import growth
else:
    growth = ModuleOnDemand("scopes.adapters.torch.growth")

_is_traced = torch.compiler.is_dynamo_compiling
_backward_id = torch._C._current_graph_task_id
_NoSubclasses = torch._C.DisableTorchFunctionSubclass
_NOTHING = (torch.Size, torch.dtype, torch.device, torch.layout, torch.memory_format)
# The attributes whose values belong to another tensor.
_BORROWING = (torch.Tensor.grad, torch.Tensor._grad, torch.Tensor._base)

# In a transformation of torch.func, tensors are wrappers that do not outlive it.
_arguments = ADAPTER, torch.Tensor, _NOTHING, _BORROWING, torch._C._functorch.peek_interpreter_stack
_take = Adopter(*_arguments).take
# Tensors that hooks of backward create may become gradients: they are tracked, and no scope owns them.
_take_unowned = Adopter(*_arguments, is_owning=False).take


class _Functions(torch.overrides.TorchFunctionMode):  # type: ignore[misc, name-defined]
    """Mode that intercepts each call of PyTorch's Python functions and methods."""

    def __init__(self, take: Callable[..., None] = _take) -> None:
        super().__init__()
        self.take = take

    # Compiled: with a Python frame here, PyTorch's warnings would name this file instead of the user's.
    __torch_function__: Callable[..., Any] = foreign.intercept


def _call(
    mode: _Functions, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
) -> Any:
    """Like ``foreign.intercept``, for torch.compile, which traces only Python code."""
    if _is_traced():  # it records the call, and computes nothing yet
        return func(*args, **(kwargs or {}))
    return foreign.intercept(mode, func, types, args, kwargs)


def _prepare_for_compilation(is_compiling: bool) -> None:
    _Functions.__torch_function__ = _call if is_compiling else foreign.intercept


compilation_callbacks.append(_prepare_for_compilation)


class _Operators(torch.utils._python_dispatch.TorchDispatchMode):  # type: ignore[misc, name-defined]
    """Mode that intercepts each operator that runs in C++, called from Python or from C++.

    PyTorch has called the ``__torch_function__`` of subclasses before, or C++ code calls the operator without
    it. So it is off here.
    """

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Allow torch.compile, which does not compile under other modes."""
        return True

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        foreign.log_births(1)
        try:
            with _NoSubclasses():
                result = _run(func, args, kwargs)
            # Tensors that backward computes are gradients, or intermediate values: no scope owns them.
            if func is not _DETACH and func is not _ALIAS and _backward_id() == -1:
                _take(None, result, args, kwargs or _NO_KEYWORDS)
        finally:
            foreign.log_births(-1)
        return result


def _run(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Any:
    try:
        return func(*args, **kwargs) if kwargs else func(*args)
    except RuntimeError:
        converted = _with_tensors_for_numbers(func, args)
        if converted is None:
            raise
        return func(*converted, **(kwargs or {}))


_NO_KEYWORDS: dict[str, Any] = {}
# C++ code creates aliases for its own use, such as the tensor that a NumPy array keeps alive. A scope must
# not dispose them. An alias that a user creates is the result of a Python function, which is intercepted.
_DETACH, _ALIAS = torch.ops.aten.detach.default, torch.ops.aten.alias.default


def _with_tensors_for_numbers(func: Any, args: tuple[Any, ...]) -> list[Any] | None:
    """Return `args` with tensors instead of numbers where `func` requires tensors; None if there are none.

    If a tensor represents a Python number, PyTorch passes that number to a mode. Some operators, such as
    `aten::equal`, then raise an error before they compute. Functions that torch.jit traced make such calls.
    """
    takes = () if not hasattr(func, "_schema") else [str(each.type) for each in func._schema.arguments]
    converted: list[Any] = list(args)
    for index, (x, kind) in enumerate(zip(args, takes, strict=False)):
        if kind == "Tensor" and type(x) in _NUMBERS:
            others = [y.dtype for y in args if _is_tensor(y) and torch.result_type(y, x) == y.dtype]
            converted[index] = torch.tensor(x, dtype=others[0] if others else _NUMBERS[type(x)])
    return None if all(map(operator.is_, converted, args)) else converted


_NUMBERS = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}


class _ThreadState(threading.local):
    """The state of ``owning`` on this thread."""

    depth = 0
    # The number of exact blocks among the `depth` open blocks.
    exact = 0
    # The mode that intercepts each call, if it is needed, and whether scopes own what is noted.
    mode: _Functions | None = None
    is_noting = False


_state = _ThreadState()
# The number of open `watching` blocks of the process.
_watchers = 0


def _adjust() -> None:
    """Make scopes own what this thread allocates, and intercept each call, as currently needed."""
    is_needed = is_watched() if can_note or not _state.depth else True
    is_seeing = bool(_state.depth or _watchers) and not _state.exact and is_needed
    is_noting = bool(_state.depth and not _state.exact and can_note)
    if is_noting != _state.is_noting:
        foreign.count_recording(1 if is_noting else -1)
        _state.is_noting = is_noting
    take = _take if _state.depth else _take_unowned
    if is_seeing and _state.mode is not None:
        _state.mode.take = take
    elif is_seeing:
        mode = _Functions(take)
        mode.__enter__()
        _state.mode = mode
    elif _state.mode is not None and _remove(_state.mode):
        _state.mode = None


def _remove(mode: Any) -> bool:
    """Remove `mode` from PyTorch's stack of modes, at any position, and return whether it was there."""
    above = []
    while _stack_length():
        top = _pop()
        if top is mode:
            break
        above.append(top)
    else:
        top = None  # not on the stack while it runs a call that it intercepted
    for other in reversed(above):
        _push(other)
    return top is mode


_stack_length = torch._C._len_torch_function_stack
_pop, _push = torch.overrides._pop_mode, torch.overrides._push_mode
watch_callbacks.append(_adjust)


@set_module("scopes.torch")
class owning:  # noqa: N801  # it is called like a function
    """Make the current scope own each new PyTorch tensor of this thread inside the block.

    A scope disposes the tensors that its block created. Some outlive the scope: parameters and buffers, an
    optimizer's state, and tensors that a module or an older data set, cache or object of an installed library
    keeps. ``kept()`` lists them. Your own lists keep nothing.

    Scopes never own gradients, results of in-place functions, wrappers of ``torch.func``, and tensors that
    ``torch.compile`` creates while it compiles. Use ``enable()`` for a whole program.

    Parameters
    ----------
    strict
        Only parameters, buffers and optimizers' state outlive their scope.
    exact
        Find each new tensor at once, with PyTorch's modes, including tensors that C++ code creates inside a
        function. An operator takes about 6 us more.

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
            raise RuntimeError("this owning() is already open: write a new `with scopes.torch.owning():`")
        with ExitStack() as begun:  # undo the steps if one fails
            KEEPERS.begin()
            _patches.begin()
            begun.callback(_patches.end)
            foreign.count_strict(self.strict)
            begun.callback(foreign.count_strict, -self.strict)
            _count(1, self.exact)
            # Run this after the exact modes have exited, because each of them pops the last mode.
            begun.callback(_count, -1, self.exact)
            if self.exact:
                for mode in (_Operators(), _Functions()):
                    begun.enter_context(mode)
            _replace_pack_hooks()
            _adjust()
            self._open = begun.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        begun, self._open = self._open, None
        if begun is not None:
            begun.__exit__(kind, error, traceback)


class watching:  # noqa: N801  # it is called like a function
    """Track each new PyTorch tensor of the process inside the block. No scope owns it.

    Tracking opens this block. A mode intercepts the calls of this thread.
    """

    def __enter__(self) -> Self:
        global _watchers
        KEEPERS.begin()
        _patches.begin()
        _watchers += 1
        _adjust()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        global _watchers
        _watchers -= 1
        if not _watchers:
            gradients.forget()
        _adjust()
        _patches.end()


def _count(change: int, exact: bool) -> None:
    """Count the open blocks of this thread, and read the notes of a block that ends."""
    if change < 0:
        foreign.read_births()
    _state.depth += change
    _state.exact += change * exact
    if change < 0:
        _adjust()


_enabled: list[owning] = []


@set_module("scopes.torch")
def enable(*, exact: bool = False, strict: bool = False) -> None:
    """Make scopes own each new PyTorch tensor of this thread until ``disable()``.

    PyTorch's modes belong to one thread. Other threads need their own ``with scopes.torch.owning():``.

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


@set_module("scopes.torch")
def disable() -> None:
    """Undo ``enable()``. Inside ``with owning():``, it has an effect only after the block."""
    while _enabled:
        _enabled.pop().__exit__(None, None, None)
        KEEPERS.forget_leaves()


@contextmanager
def _log() -> Iterator[None]:
    """Log the births inside the block, so that an `Adopter` can separate new tensors from older ones."""
    foreign.log_births(1)
    try:
        yield
    finally:
        foreign.log_births(-1)


def _adopting(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `function`, whose calls bypass the mode, to adopt its new results."""
    return foreign.adopting(function, _state, _take)


def _constructing(new: Callable[..., Any]) -> Callable[..., Any]:
    # Not compiled, unlike the other wrappers: torch.compile requires a function of Python.
    def called(kind: type, *args: Any, **kwargs: Any) -> Any:
        if not _state.depth or kind is not torch.Tensor:
            return new(kind, *args, **kwargs)
        with _log():
            result = new(kind, *args, **kwargs)
            _take(None, result, args, kwargs)
        return result

    return called


def _fetching(fetch: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `fetch` to adopt only its new results. It may fill caches, or return the data set's tensors."""

    def called(loader: Any) -> Any:
        KEEPERS.look_into(type(loader._dataset))
        with _log():
            batch = _fetched(fetch, loader)
            if _state.depth:
                for x in find((batch,), _is_tensor, inside=False):
                    _take(None, x, (), _NO_KEYWORDS)
        return batch

    return called


def _fetching_from_workers(fetch: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `fetch` to adopt only its results, because it may also unpack later batches."""

    def called(loader: Any) -> Any:
        batch = _fetched(fetch, loader)
        if _state.depth:
            for x in find((batch,), _is_tensor, inside=False):
                adopt(x)
        return batch

    return called


def _fetched(fetch: Callable[..., Any], loader: Any) -> Any:
    # Without a scope no tensor is owned, and reports count the tensors that a data set caches.
    with nullcontext() if current_dispose_scope() is None else paused():
        return fetch(loader)


def _is_tensor(x: object) -> bool:
    return issubclass(type(x), torch.Tensor)  # `isinstance` may run code of lazy proxies


def _running_backward(run: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `run` to adopt only the returned gradients that it made."""

    def watched(*args: Any, **kwargs: Any) -> Any:
        if not _state.depth:
            return gradients.run_backward(run, *args, **kwargs)
        with _log():
            with paused(), _Functions(_take_unowned):
                result = gradients.run_backward(run, *args, **kwargs)
            _take(None, result, args, kwargs)
        return result

    return foreign.running_backward(run, watched, _state, _take)


def _tracing(trace: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `trace` to turn our dispatch mode off, because the tracer of torch.jit fails inside such modes."""

    def called(*args: Any, **kwargs: Any) -> Any:
        modes = torch.utils._python_dispatch._get_current_dispatch_mode_stack()
        ours = bool(modes) and all(isinstance(mode, _Operators) for mode in modes)
        with torch.utils._python_dispatch._disable_current_modes() if ours else nullcontext():
            return trace(*args, **kwargs)

    return called


class _Pack:
    """Calls a pack hook. Its result belongs to the graph, not to the current scope."""

    def __init__(self, pack: Callable[..., Any]) -> None:
        self._pack = pack

    def __call__(self, x: Any) -> Any:
        if not _state.depth:
            return self._pack(x)
        with paused():
            packed = self._pack(x)
            if x.grad_fn is not None:
                packed = _without_graph(packed, x)
        # The result may be `x` itself, which a scope owns, or will own as the result of this operation.
        for kept in find((packed,), _is_tensor, inside=False):
            leave_alone(kept)
        return packed


def _without_graph(packed: Any, x: Any) -> Any:
    """Return the result of a pack hook with a detached tensor instead of `x`, the tensor to pack.

    The graph of `x` keeps `packed`. If that kept the graph, both would refer to each other in C++, and never
    be freed. PyTorch takes only the data from what the unpack hook returns, so results do not change.
    """
    if packed is x:
        return x.detach()
    if type(packed) in (tuple, list):
        return type(packed)(_without_graph(item, x) for item in packed)
    if type(packed) is dict:
        return {key: _without_graph(item, x) for key, item in packed.items()}
    return packed


def _packing(enter: Callable[..., Any]) -> Callable[..., Any]:
    def called(hooks: Any) -> Any:
        pack = hooks.pack_hook
        hooks.pack_hook = pack if isinstance(pack, _Pack) else _Pack(pack)
        try:
            return enter(hooks)
        finally:
            hooks.pack_hook = pack

    return called


def _checkpointing(steps: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the generator of a checkpoint, whose graph keeps what it calls the function with again.

    PyTorch saves the arguments that are tensors like any operation. The others, keyword arguments and the
    state of the random number generator are in a closure.
    """

    def called(function: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
        running = steps(function, *args, **kwargs)
        with paused():
            yielded = next(running)
        if _state.depth and torch.is_grad_enabled():
            partly = isinstance(function, functools.partial)
            held = (args, kwargs, (function.args, function.keywords) if partly else ())
            for x in find(held, _is_tensor, inside=False):
                leave_alone(x)
        yield yielded
        yield from running

    return called


def _storing(store: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `store`: its tensor belongs to the graph of a selective checkpoint."""

    def called(place: Any, x: Any) -> None:
        if _state.depth and _is_tensor(x):
            leave_alone(x)
        store(place, x)

    return called


def _replace_pack_hooks() -> None:
    """Wrap the pack hooks that are already active."""
    pairs = []
    while (pair := _hooks._top_saved_tensors_default_hooks(True)) is not None:
        _hooks._pop_saved_tensors_default_hooks()
        pairs.append(pair)
    for pack, unpack in reversed(pairs):
        _hooks._push_saved_tensors_default_hooks(pack if isinstance(pack, _Pack) else _Pack(pack), unpack)


_hooks = torch._C._autograd
_transforms = torch._functorch.eager_transforms
_patches = Patches(
    {
        (torch, "from_numpy"): _adopting,
        (torch, "frombuffer"): _adopting,
        (torch, "from_dlpack"): _adopting,
        (torch.utils.dlpack, "from_dlpack"): _adopting,
        (torch.Tensor, "__new__"): _constructing,
        # A sampler may make tensors when its iteration begins, and workers when they start.
        (torch.utils.data.DataLoader, "__iter__"): foreign.pausing,
        (torch.utils.data.dataloader._SingleProcessDataLoaderIter, "_next_data"): _fetching,
        (torch.utils.data.dataloader._MultiProcessingDataLoaderIter, "_next_data"): _fetching_from_workers,
        (torch.autograd.graph.saved_tensors_hooks, "__enter__"): _packing,
        (torch.utils.checkpoint, "_checkpoint_without_reentrant_generator"): _checkpointing,
        (torch.utils.checkpoint._VersionWrapper, "__init__"): _storing,
        # Scopes adopt their results after the outermost transformation has ended.
        (torch._functorch.apis, "vmap_impl"): _adopting,
        (_transforms, "grad_impl"): _adopting,
        (_transforms, "grad_and_value_impl"): _adopting,
        (torch.cuda, "set_stream"): streams.setting,
        (torch.cuda.Stream, "__enter__"): streams.entering,
        (torch.jit._trace, "_trace_impl"): _tracing,
        (torch.jit._trace, "_get_trace_graph"): _tracing,
        (torch.jit, "trace_module"): _tracing,
        (torch.autograd, "_engine_run_backward"): _running_backward,
        (torch, "compile"): compiling,
        (torch.export, "export"): foreign.hiding,
        (torch.Tensor, "numpy"): foreign.hiding,
        # It refuses tensors with weak references.
        (torch.utils, "swap_tensors"): lambda swap: functools.partial(run_unreferenced, swap),
    },
    lambda: [Watch()],
)

foreign.look_for_growth_by(lambda: growth.look())
# The ended scopes and new members until the first look.
foreign.schedule_growth(250)
