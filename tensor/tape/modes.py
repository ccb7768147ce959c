"""Modes of recording: whether ops are recorded, and what else happens to recorded ops.

Each thread and each asyncio task has its own mode: False, True, or a `Recorder`, which counts as True and
receives each new node. Anomaly detection, checkpoints and budgets are recorders.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextvars import ContextVar
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from tensor.tape import recording
from tensor.tape.recording import Steps, grad_enabled, set_modes, when_enabled

__all__ = [
    "Block",
    "GradMode",
    "Inference",
    "Recorder",
    "Recording",
    "enable_grad",
    "grad_enabled",
    "inference_mode",
    "innermost_recorder",
    "is_inference_mode_enabled",
    "is_recording",
    "no_grad",
    "recomputing",
    "set_grad_enabled",
    "when_enabled",
]

if TYPE_CHECKING:
    from tensor.tape.recording import Modes, Node

P = ParamSpec("P")
R = TypeVar("R")


class Block(recording.Block):
    """A mode for a ``with`` block, or for each call of a decorated function.

    A decorated generator or coroutine has the mode while it runs, but not while other code runs. A block may
    be entered again inside itself, and by several threads and tasks at once.
    """

    __slots__ = ()

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        if inspect.isasyncgenfunction(function):
            return self._around_async_generator(function)  # type: ignore[return-value]  # R is a generator
        if inspect.isgeneratorfunction(function):
            return self._around_generator(function)  # type: ignore[return-value]
        if inspect.iscoroutinefunction(function):
            return self._around_coroutine(function)  # type: ignore[return-value]

        @wraps(function)
        def within(*args: P.args, **kwargs: P.kwargs) -> R:
            with self:
                return function(*args, **kwargs)

        return within

    def _around_coroutine(self, function: Callable[P, Awaitable[Any]]) -> Callable[P, Awaitable[Any]]:
        @wraps(function)
        async def within(*args: P.args, **kwargs: P.kwargs) -> Any:
            with self:
                return await function(*args, **kwargs)

        return within

    def _around_generator(
        self, function: Callable[P, Generator[Any, Any, Any]]
    ) -> Callable[P, Generator[Any, Any, Any]]:
        @wraps(function)
        def within(*args: P.args, **kwargs: P.kwargs) -> Generator[Any, Any, Any]:
            body = function(*args, **kwargs)
            steps = Steps(self)
            given: Any = None
            step: Callable[[Any], Any] = body.send
            try:
                while True:
                    try:
                        with steps:
                            item = step(given)
                    except StopIteration as end:
                        return end.value
                    step, given = body.send, None
                    try:
                        given = yield item
                    except BaseException as error:  # noqa: BLE001  # the body handles it
                        step, given = body.throw, error
            finally:
                given = None

        return within

    def _around_async_generator(
        self, function: Callable[P, AsyncGenerator[Any, Any]]
    ) -> Callable[P, AsyncGenerator[Any, Any]]:
        @wraps(function)
        async def within(*args: P.args, **kwargs: P.kwargs) -> AsyncGenerator[Any, Any]:
            body = function(*args, **kwargs)
            steps = Steps(self)
            given: Any = None
            step: Callable[[Any], Awaitable[Any]] = body.asend
            try:
                while True:
                    try:
                        with steps:
                            item = await step(given)
                    except StopAsyncIteration:
                        return
                    step, given = body.asend, None
                    try:
                        given = yield item
                    except BaseException as error:  # noqa: BLE001  # as above
                        step, given = body.athrow, error
            finally:
                given = None

        return within


class Recorder:
    """Receives each node that is recorded while `grad_enabled` is this recorder."""

    __slots__ = ("outer",)

    def __init__(self) -> None:
        # The recorder before this one, which receives the nodes too.
        self.outer: Recorder | None = innermost_recorder()

    def record(self, node: Node) -> None:
        """Receive a node that was just recorded. If the node saves its output, that is not stored yet."""
        if self.outer is not None:
            self.outer.record(node)


# The number of nested checkpoints whose functions run again.
recomputing: ContextVar[int] = ContextVar("recomputing", default=0)


def innermost_recorder() -> Recorder | None:
    """Return the first recorder that receives nodes here; its `outer` is the next one."""
    mode = when_enabled.get()
    return mode if isinstance(mode, Recorder) else None


def is_recording() -> bool:
    """Return whether operations are recorded here (``torch.is_grad_enabled``)."""
    return bool(grad_enabled.get())


class GradMode(Block, recording.GradMode):
    """Switches recording on or off: ``no_grad`` and ``enable_grad``."""

    __slots__ = ()


class SetGradEnabled(GradMode):
    """Switches recording on or off when it is created; a block restores the former mode at its end."""

    __slots__ = ("_before",)

    def __init__(self, enabled: bool) -> None:
        super().__init__(enabled)
        # The modes before the creation. The first block restores them at its start, and so at its end too.
        self._before: Modes | None = set_modes(self._inside())

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        # Used as a decorator, it only affects calls of the function.
        self._restore_modes()
        return super().__call__(function)

    def _restore_modes(self) -> None:
        before, self._before = self._before, None
        if before is not None:
            set_modes(before)


class Inference(Block):
    """Switches recording off, even inside ``enable_grad``: ``inference_mode``."""

    __slots__ = ("_enabled",)

    def __init__(self, enabled: bool) -> None:
        self._enabled = enabled

    def _inside(self) -> Modes:
        records = not self._enabled
        return records, records


class Recording(Block):
    """Passes all nodes recorded in the block to a recorder."""

    __slots__ = ("_recorder",)

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def _inside(self) -> Modes:
        if not when_enabled.get():
            return False, False
        return self._recorder if grad_enabled.get() else False, self._recorder


def no_grad() -> GradMode:
    """Turn recording off inside a block or a decorated function.

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
    """Turn recording on inside a block or a decorated function, even within ``no_grad``.

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
    """Turn recording on or off, as `mode` says.

    As a statement, it holds in this thread or task until the next change. As a ``with`` block, it holds until
    the end of the block; as a decorator, within the function. It has no effect inside ``inference_mode``.

    Examples
    --------
    >>> import tensor
    >>> with tensor.set_grad_enabled(False):
    ...     tensor.is_grad_enabled()
    False
    >>> _ = tensor.set_grad_enabled(False)
    >>> tensor.is_grad_enabled()
    False
    >>> _ = tensor.set_grad_enabled(True)
    """
    return SetGradEnabled(_answer("set_grad_enabled", mode, "@tensor.set_grad_enabled(False)"))


def inference_mode(mode: bool = True) -> Inference:
    """Turn recording off inside a block or a decorated function, even under ``enable_grad``.

    Use it for code that must never keep a graph. Tensors created inside are ordinary tensors, as with
    ``no_grad``. Unlike PyTorch's inference tensors, they may be used later where gradients are recorded.

    Parameters
    ----------
    mode
        False: turn recording on inside, even within another inference mode.

    Examples
    --------
    >>> import tensor
    >>> x = tensor.ones((2,), requires_grad=True)
    >>> with tensor.inference_mode(), tensor.enable_grad():
    ...     y = x * 2
    >>> y.requires_grad, tensor.is_inference_mode_enabled()
    (False, False)
    """
    return Inference(_answer("inference_mode", mode, "@tensor.inference_mode()"))


def _answer(name: str, mode: object, decorator: str) -> bool:
    if callable(mode):
        raise TypeError(f"{name}() takes a bool: write {decorator} above a def, with parentheses")
    return bool(mode)


def is_inference_mode_enabled() -> bool:
    """Return whether the caller is inside ``inference_mode``.

    Examples
    --------
    >>> import tensor
    >>> with tensor.inference_mode():
    ...     tensor.is_inference_mode_enabled()
    True
    """
    return not when_enabled.get()
