"""The tape: nodes, the rules that they follow, and the switch that turns recording off."""

from __future__ import annotations

from contextvars import ContextVar
from functools import wraps
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from tensor._limits import kinds_that_hold

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from tensor._core import TensorCore
    from tensor._dtypes import Dtype

P = ParamSpec("P")
R = TypeVar("R")

# Each thread and each asyncio task has its own.
grad_enabled: ContextVar[bool] = ContextVar("grad_enabled", default=True)


# What backward knows without anything saved: an input's place, and its shape.
_FREE = {"i": -1, "to_shape": -2}


class Plan:
    """What one op saves, and how it derives, when a given set of its inputs requires gradients."""

    __slots__ = ("pick", "saves", "saves_out", "steps")

    def __init__(self, rule: Rule, wanted: tuple[bool, ...]) -> None:
        derivatives = [(i, rule.of_input(i)) for i in range(len(wanted)) if wanted[i]]
        names = [*rule.input_names(len(wanted)), "out"]
        needed: dict[str, int] = {}
        steps = []
        for i, function in derivatives:
            code = function.__code__
            arguments = code.co_varnames[2 : code.co_argcount]
            places = []
            for name in arguments:
                if name not in _FREE:
                    needed.setdefault(name, len(needed))
                places.append(_FREE[name] if name in _FREE else needed[name])
            steps.append((i, function, tuple(places)))
        # Where each saved value comes from: an input's or the output's place, or a parameter's name.
        self.saves = tuple((names.index(name) if name in names else name) for name in needed)
        self.saves_out = len(wanted) in self.saves
        self.steps = tuple(steps)
        # For ops without parameters: picks what is saved from the tuple (*inputs, out).
        self.pick = _picker([source for source in self.saves if isinstance(source, int)])


def _picker(places: list[int]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]] | None:
    if not places:
        return None
    if len(places) == 1:
        return itemgetter(slice(places[0], places[0] + 1))
    return itemgetter(*places)


class Rule:
    """The derivatives of one op: for each input a function ``(xp, g, ...) -> gradient``.

    Beside the namespace `xp` and the gradient `g` of the output, a function names what it needs: inputs by
    their names, ``out``, and parameters of the op. Just that is saved, and just for inputs that require
    gradients. Free of charge is ``to_shape``, the shape of the input that the gradient is for. An op with any
    number of inputs has one function, ``each``, which may ask for the place `i`.
    """

    __slots__ = ("functions", "is_differentiable", "name", "plans")

    def __init__(self, name: str, functions: dict[str, Callable[..., Any] | None]) -> None:
        self.name = name
        self.functions = functions
        self.is_differentiable = any(function is not None for function in functions.values())
        self.plans: dict[tuple[bool, ...], Plan] = {}

    def input_names(self, count: int) -> list[str]:
        return [f"_{i}" for i in range(count)] if "each" in self.functions else list(self.functions)

    def of_input(self, i: int) -> Callable[..., Any]:
        functions = self.functions
        function = functions["each"] if "each" in functions else list(functions.values())[i]
        if function is None:
            return _no_gradient
        return function

    def plan(self, wanted: tuple[bool, ...]) -> Plan:
        plan = self.plans.get(wanted)
        if plan is None:
            plan = self.plans[wanted] = Plan(self, wanted)
        return plan


def _no_gradient(_xp: Any, _g: Any) -> None:
    """Stand in for an input that has no derivative."""


class Node:
    """One recorded op. It holds arrays and the nodes of its inputs, never tensors."""

    __slots__ = ("__weakref__", "dtype", "holds", "next", "plan", "rule", "saved", "shape")

    rule: Rule
    plan: Plan
    next: tuple[Node | None, ...]
    # The values that `plan.saves` names, in its order; None once backward has used them.
    saved: tuple[Any, ...] | None
    # What counts the small ones of them as live memory; in the last place that of the output, if it is saved.
    holds: tuple[object, ...]
    shape: tuple[int, ...]
    dtype: Dtype

    def name(self) -> str:
        """Return the op's name, as in ``MultiplyBackward``."""
        return "".join(part.capitalize() for part in self.rule.name.split("_")) + "Backward"

    def __repr__(self) -> str:
        return f"<{self.name()}>"


kinds_that_hold.append(Node)


class Leaf(Node):
    """Where gradients of a leaf tensor gather. The tensor owns the gradient; the graph only reaches it."""

    __slots__ = ("grad", "is_closed")

    grad: TensorCore | None

    def __init__(self, shape: tuple[int, ...], dtype: Dtype) -> None:
        self.shape = shape
        self.dtype = dtype
        self.next = ()
        self.saved = ()
        self.holds = ()
        self.grad = None
        # Its tensor is gone, though graphs may still reach here: nothing gathers any more.
        self.is_closed = False

    def close(self) -> None:
        """Dispose the gradient, with its tensor."""
        self.is_closed = True
        grad, self.grad = self.grad, None
        if grad is not None:
            grad.dispose()

    def name(self) -> str:
        return "AccumulateGrad"


def is_recording() -> bool:
    """Tell whether operations are recorded here (``torch.is_grad_enabled``)."""
    return grad_enabled.get()


def nodes_of(tensors: Sequence[object]) -> tuple[Node | None, ...]:
    return tuple(getattr(x, "_node", None) for x in tensors)


class GradMode:
    """Switches recording on or off for a block or a function: ``no_grad`` and ``enable_grad``."""

    __slots__ = ("_before", "_enabled")

    def __init__(self, enabled: bool) -> None:
        self._enabled = enabled
        self._before: list[bool] = []

    def __enter__(self) -> None:
        self._before.append(grad_enabled.get())
        grad_enabled.set(self._enabled)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        grad_enabled.set(self._before.pop())

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        enabled = self._enabled

        @wraps(function)
        def with_mode(*args: P.args, **kwargs: P.kwargs) -> R:
            with GradMode(enabled):
                return function(*args, **kwargs)

        return with_mode


def no_grad() -> GradMode:
    """Record nothing inside the block, or inside the decorated function.

    Examples
    --------
    >>> import tensor
    >>> x = tensor.ones((2,), requires_grad=True)
    >>> with tensor.no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """
    return GradMode(False)


def enable_grad() -> GradMode:
    """Record inside the block, or inside the decorated function, also within ``no_grad``.

    Examples
    --------
    >>> import tensor
    >>> x = tensor.ones((2,), requires_grad=True)
    >>> with tensor.no_grad(), tensor.enable_grad():
    ...     y = x * 2
    >>> y.requires_grad
    True
    """
    return GradMode(True)


def set_grad_enabled(mode: bool) -> GradMode:
    """Return ``enable_grad()`` or ``no_grad()``, as `mode` says; takes effect as a block or decorator.

    Examples
    --------
    >>> import tensor
    >>> with tensor.set_grad_enabled(False):
    ...     tensor.is_grad_enabled()
    False
    """
    return GradMode(bool(mode))
