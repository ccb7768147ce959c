"""Whether ops are recorded here, and what else happens to those that are.

Each thread and each asyncio task has its own answer. It is False, True, or a `Recorder`, which counts as True
and is shown each new node: for anomaly detection, for checkpoints.
"""

from __future__ import annotations

from contextvars import ContextVar
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from tensor._graph import Node

P = ParamSpec("P")
R = TypeVar("R")


class Block:
    """What is switched on for a ``with`` block, or for each call of a decorated function."""

    __slots__ = ("_inside",)

    def __init__(self) -> None:
        # One undoing for each block that is open: a mode may be entered again within itself.
        self._inside: list[Callable[[], None]] = []

    def _switch(self) -> Callable[[], None]:
        """Switch on, and return what switches off."""
        raise NotImplementedError

    def _again(self) -> Block:
        """Return a block of the same kind, for one call."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        self._inside.append(self._switch())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._inside.pop()()

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def within(*args: P.args, **kwargs: P.kwargs) -> R:
            with self._again():
                return function(*args, **kwargs)

        return within


class Recorder:
    """Is shown each node that is recorded while it stands in `grad_enabled`."""

    __slots__ = ("outer",)

    def __init__(self) -> None:
        # Another one that was there before, and goes on being shown them.
        before = when_enabled.get()
        self.outer = before if isinstance(before, Recorder) else None

    def show(self, node: Node) -> None:
        """Take note of a node that has just been recorded, all but an output that it saves."""
        if self.outer is not None:
            self.outer.show(node)


# What `record` asks.
grad_enabled: ContextVar[bool | Recorder] = ContextVar("grad_enabled", default=True)
# What ``enable_grad`` sets it to.
when_enabled: ContextVar[bool | Recorder] = ContextVar("when_enabled", default=True)


def is_recording() -> bool:
    """Tell whether operations are recorded here (``torch.is_grad_enabled``)."""
    return bool(grad_enabled.get())


class Switched(Block):
    """A block in which both variables have other values."""

    __slots__ = ()

    def _set(self, enabled: bool | Recorder, when: bool | Recorder) -> Callable[[], None]:
        before, before_when = grad_enabled.get(), when_enabled.get()
        grad_enabled.set(enabled)
        when_enabled.set(when)

        def undo() -> None:
            grad_enabled.set(before)
            when_enabled.set(before_when)

        return undo


class GradMode(Switched):
    """Switches recording on or off: ``no_grad`` and ``enable_grad``."""

    __slots__ = ("_enabled",)

    def __init__(self, enabled: bool) -> None:
        super().__init__()
        self._enabled = enabled

    def _switch(self) -> Callable[[], None]:
        when = when_enabled.get()
        return self._set(when if self._enabled else False, when)

    def _again(self) -> GradMode:
        return GradMode(self._enabled)


class Inference(Switched):
    """Switches recording off, whatever ``enable_grad`` says inside: ``inference_mode``."""

    __slots__ = ("_enabled",)

    def __init__(self, enabled: bool) -> None:
        super().__init__()
        self._enabled = enabled

    def _switch(self) -> Callable[[], None]:
        if self._enabled:
            return self._set(False, False)
        return self._set(True, True)

    def _again(self) -> Inference:
        return Inference(self._enabled)


class Recording(Switched):
    """Shows a recorder all nodes that are recorded in the block; with `always`, all are."""

    __slots__ = ("_always", "_recorder")

    def __init__(self, recorder: Recorder, *, always: bool = False) -> None:
        super().__init__()
        self._recorder = recorder
        self._always = always

    def _switch(self) -> Callable[[], None]:
        if self._always:
            return self._set(self._recorder, self._recorder)
        if not when_enabled.get():
            return self._set(False, False)
        return self._set(self._recorder if grad_enabled.get() else False, self._recorder)


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


def inference_mode(mode: bool = True) -> Inference:
    """Record nothing inside the block, or inside the decorated function, even under ``enable_grad``.

    For code that must never keep a graph, whatever it calls. Tensors made inside are ordinary ones, as are
    those of ``no_grad``: unlike PyTorch's, they may be used later where gradients are recorded.

    Parameters
    ----------
    mode
        False: record inside, also within another inference mode.

    Examples
    --------
    >>> import tensor
    >>> x = tensor.ones((2,), requires_grad=True)
    >>> with tensor.inference_mode(), tensor.enable_grad():
    ...     y = x * 2
    >>> y.requires_grad, tensor.is_inference_mode_enabled()
    (False, False)
    """
    return Inference(bool(mode))


def is_inference_mode_enabled() -> bool:
    """Tell whether the caller is inside ``inference_mode``.

    Examples
    --------
    >>> import tensor
    >>> with tensor.inference_mode():
    ...     tensor.is_inference_mode_enabled()
    True
    """
    return not when_enabled.get()
