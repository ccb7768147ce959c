"""``autograd.Function``: user-defined ops with user-defined derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from inspect import getattr_static
from typing import Any, Self
from weakref import ref

from scopes._shared.naming import set_module
from scopes._shared.tracebacks import clear_library_frames
from tensor._dtypes import is_inexact
from tensor.autograd.function_context import Applied, Call, FunctionCtx, Refusal, Saved, holds
from tensor.core.tensor import TensorCore, relatives, wrap_snapshot
from tensor.ops.overlay import Histories, add_history, add_written
from tensor.tape.growth import check_growth, ticks
from tensor.tape.modes import GradMode, grad_enabled, is_recording
from tensor.tape.recording import Node, Rule, set_histories


@set_module("tensor.autograd")
class Function:
    """A user-defined op: a class with the static methods ``forward`` and ``backward``, called by ``apply``.

    ``forward(ctx, *args)`` returns a tensor, or a tuple with tensors. It gets the caller's tensors, and its
    ops are not recorded. ``backward(ctx, *grads)`` gets the gradient of each output, or zeros, and returns a
    gradient for each argument: a tensor or None. A gradient may have a shape to which the argument's shape
    broadcasts; then it is summed. With ``create_graph=True`` backward is recorded, so that its tensor ops can
    be differentiated again.

    Alternatively, ``forward(*args)`` gets no `ctx`, and ``setup_context(ctx, inputs, output)`` fills it.

    Tensors in lists and other containers are ignored as arguments. Returning a list or dict of tensors raises
    an error. If an argument is returned unchanged, the result is its ``alias()``. `ctx` is a `FunctionCtx`,
    which describes how to save values, write to arguments, and mark outputs without gradients.

    Examples
    --------
    >>> import tensor
    >>> from tensor import autograd
    >>> class Exp(autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         y = x.exp()
    ...         ctx.save_for_backward(y)
    ...         return y
    ...
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         (y,) = ctx.saved_tensors
    ...         return grad * y
    >>> x = tensor.zeros((2,), requires_grad=True)
    >>> y = Exp.apply(x)
    >>> y.grad_fn
    <ExpBackward>
    >>> y.sum().backward()
    >>> x.grad.tolist()
    [1.0, 1.0]
    """

    # The recomputation of a checkpoint identifies the function by this rule.
    __rule = Rule("Function", {})

    def __new__(cls, *_args: Any, **_kwargs: Any) -> Self:
        raise TypeError(
            f"{cls.__name__} can't be instantiated, because its methods are static: write "
            f"{cls.__name__}.apply(...)"
        )

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in ("forward", "setup_context", "backward"):
            if not isinstance(getattr_static(cls, name), staticmethod):
                raise TypeError(
                    f"{cls.__name__}.{name} must be a static method: write @staticmethod above it"
                )
        cls.__rule = Rule(cls.__name__, {})

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the outputs: ``forward(ctx, *args)``, or ``forward(*args)`` with ``setup_context``."""
        raise NotImplementedError(
            "this autograd.Function has no forward: define a static method forward(ctx, *args)"
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Save data for backward from the arguments, and from the output of a ``forward`` without `ctx`."""
        raise NotImplementedError("setup_context is only called if the class defines it")

    @staticmethod
    def backward(*args: Any, **kwargs: Any) -> Any:
        """Compute the gradient of each argument: ``backward(ctx, *grads)``."""
        raise NotImplementedError(
            "this autograd.Function has no backward, but a gradient is needed: define a static "
            "method backward(ctx, *grads)"
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Return the result of ``forward`` for `args`, with ``backward`` as its history.

        Raises
        ------
        TypeError
            For keyword arguments, because gradients are returned in the order of positional arguments. Also
            if ``forward`` returns tensors in a list or dict.
        RuntimeError
            If an argument was marked as dirty but not returned, or must not be written to.

        Examples
        --------
        >>> import tensor
        >>> from tensor import autograd
        >>> class Scale(autograd.Function):
        ...     @staticmethod
        ...     def forward(x, factor):
        ...         return x * factor
        ...
        ...     @staticmethod
        ...     def setup_context(ctx, inputs, output):
        ...         ctx.factor = inputs[1]
        ...
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         return grad * ctx.factor, None
        >>> x = tensor.ones((2,), requires_grad=True)
        >>> Scale.apply(x, 3).sum().backward()
        >>> x.grad.tolist()
        [3.0, 3.0]
        """
        if kwargs:
            raise TypeError(
                f"{cls.__name__}.apply takes no keyword arguments ({', '.join(kwargs)}), because backward "
                "returns gradients in the order of arguments: pass them in the order of forward"
            )
        try:
            return _apply(cls, cls.__rule, args)
        except BaseException as error:
            # So that a stored error keeps no tensor memory alive.
            clear_library_frames(error)
            del args
            raise


def _apply(function: type[Function], rule: Rule, args: tuple[Any, ...]) -> Any:
    for x in args:
        if isinstance(x, TensorCore):
            x._raise_if_disposed()
    nodes = tuple([x._node if isinstance(x, TensorCore) else None for x in args])
    recorder = grad_enabled.get()
    call = Call(function.__name__, args, is_recorded=bool(recorder) and any(nodes))
    ctx = FunctionCtx(call, tuple([bool(recorder) and node is not None for node in nodes]))
    try:
        with GradMode(False):
            if function.setup_context is Function.setup_context:
                returned = function.forward(ctx, *args)
            else:
                returned = function.forward(*args)
                function.setup_context(ctx, args, returned)
            found = returned if isinstance(returned, tuple) else (returned,)
            _require_outputs(call, found)
            outputs = [_output(call, found, place) for place in range(len(found))]
        if call.is_recorded:
            applied = Applied(function, rule, ctx, args, outputs)
            applied.next = nodes
            applied.save(call.saved, [_source(call, saved, found) for saved in call.saved])
            call.node = ref(applied)
            left = ticks.left = ticks.left - 1
            if left < 0:
                check_growth(applied)
            _connect(call, applied, found, outputs)
            if not isinstance(recorder, bool):
                recorder.record(applied)
    finally:
        call.end_forward()
    return tuple(outputs) if isinstance(returned, tuple) else outputs[0]


def _require_outputs(call: Call, found: Sequence[object]) -> None:
    x: object
    for x in found:
        if isinstance(x, TensorCore):
            x._raise_if_disposed()
        elif isinstance(x, (list, dict)) and _holds_tensors(x):
            raise TypeError(
                f"{call.name}.forward returned tensors in {type(x).__name__}, where they would have no "
                "history: return a tensor, or a tuple of tensors"
            )
    if not all(holds(found, x) for x in call.dirty):
        raise RuntimeError(
            f"{call.name}: forward marked an argument as dirty but did not return it: return each argument "
            "that it writes to, because its new value is a result of this op"
        )


def _holds_tensors(x: list[Any] | dict[Any, Any]) -> bool:
    return any(isinstance(item, TensorCore) for item in (x.values() if isinstance(x, dict) else x))


def _is_differentiable(call: Call, x: object) -> bool:
    return (
        call.is_recorded
        and isinstance(x, TensorCore)
        and (array := x._array) is not None
        and is_inexact(array.dtype)
        and not holds(call.non_differentiable, x)
    )


def _output(call: Call, found: Sequence[Any], place: int) -> Any:
    """Return the tensor or object that the caller gets for one result of forward."""
    x = found[place]
    if not isinstance(x, TensorCore):
        return x
    is_first = not holds(found[:place], x)
    if is_first and holds(call.dirty, x):
        return x
    if is_first and x._node is None and not holds(call.inputs, x):
        return x
    # Return an alias with the new history. The tensor itself keeps its history.
    same: Any = x
    alias = same.alias()
    alias._is_view = False  # its history is that of the function
    return alias


def _source(call: Call, saved: Saved | None, found: Sequence[object]) -> int | Node | None:
    """Return the history of a saved value: the output's index if the value is an output, else its node."""
    if saved is None:
        return None
    if not holds(call.inputs, saved.x) or holds(call.dirty, saved.x):
        for place, x in enumerate(found):
            if x is saved.x and _is_differentiable(call, x) and saved.is_current():
                return place
    return saved.node


def _connect(call: Call, applied: Applied, found: Sequence[object], outputs: Sequence[Any]) -> None:
    """Set the history of all outputs, or of none if an error occurs."""
    written = [x for x in call.dirty if _is_differentiable(call, x)]
    seen = [[other for other in relatives(x) if not holds(outputs, other)] for x in written]
    for x, others in zip(written, seen, strict=True):
        call.require_writable(x, others)
    histories: Histories = {}
    for place, y in enumerate(outputs):
        if _is_differentiable(call, found[place]):
            add_history(histories, y, applied.output(place))
    for x, others in zip(written, seen, strict=True):
        add_written(histories, x, histories[id(x)][1], others)
    set_histories(histories)
    for x in call.dirty:
        if x._node is not None and not _is_differentiable(call, x):
            x._forget_history()


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a ``backward`` that can't be differentiated itself, for example because it uses NumPy.

    Its ops are not recorded. With ``create_graph=True``, differentiating its gradients again raises an error,
    while PyTorch may treat them as constants. Write the decorator below ``@staticmethod``.

    Examples
    --------
    >>> import numpy as np
    >>> import tensor
    >>> from tensor import autograd
    >>> class Sinc(autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return tensor.from_numpy(np.sinc(x.detach().numpy()))
    ...
    ...     @staticmethod
    ...     @autograd.once_differentiable
    ...     def backward(ctx, grad):
    ...         a = ctx.saved_tensors[0].detach().numpy()
    ...         return tensor.from_numpy(grad.numpy() * (np.cos(np.pi * a) - np.sinc(a)) / a)
    >>> x = tensor.tensor([0.5], dtype=tensor.float64, requires_grad=True)
    >>> autograd.gradcheck(Sinc.apply, x)
    True
    >>> (dx,) = autograd.grad(Sinc.apply(x), x, create_graph=True)
    >>> dx.backward()
    Traceback (most recent call last):
    ...
    RuntimeError: Sinc.backward is marked @once_differentiable...
    """
    if isinstance(backward, staticmethod):
        raise TypeError("once_differentiable takes a function: write @staticmethod above it, not below")

    @wraps(backward)
    def once(ctx: Any, *grads: Any) -> Any:
        if not is_recording():
            return backward(ctx, *grads)
        with GradMode(False):
            returned = backward(ctx, *[wrap_snapshot(g) if isinstance(g, TensorCore) else g for g in grads])
        applied: Applied = ctx._call.applied()
        after = (*[g._node for g in grads if isinstance(g, TensorCore)], *applied.next)
        if isinstance(returned, tuple):
            return tuple([_refusing(applied, after, x) for x in returned])
        return _refusing(applied, after, returned)

    return once


def _refusing(applied: Applied, after: tuple[Node | None, ...], x: Any) -> Any:
    """Return the values of `x` with a history that raises an error in backward."""
    if not isinstance(x, TensorCore) or x.is_invalid:
        return x
    y = wrap_snapshot(x)
    if is_inexact(y.dtype):
        y._node = Refusal(applied, after, y.shape, y.dtype)
    return y
