"""Anomaly detection: find the line of the forward pass whose gradient has nan."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np

from scopes.tracking.sites import callers
from tensor.tape.modes import Block, Recorder, Recording, grad_enabled, innermost_recorder, when_enabled
from tensor.tape.recording import set_modes

if TYPE_CHECKING:
    from tensor.tape.recording import Modes, Node, NodeReceiver

P = ParamSpec("P")
R = TypeVar("R")

_DEPTH = 8


class Anomalies(Recorder):
    """Stores the lines of the user's code that record each op, and checks gradients."""

    __slots__ = ("check_nan",)

    def __init__(self, check_nan: bool) -> None:
        super().__init__()
        self.check_nan: bool = check_nan

    def record(self, node: Node) -> None:
        """Store the lines of the user's code that recorded `node`."""
        node.site = _lines()
        super().record(node)

    def check(self, g: Any, node: Node, i: int) -> None:
        """Raise an error if `g`, the gradient of input `i` of an op, has nan elements."""
        array = g if isinstance(g, np.ndarray) else g._array
        if self.check_nan and bool(np.isnan(array).any()):
            raise RuntimeError(f"{node.name()} has a gradient of nan for its input {i}. {recorded_at(node)}")


def anomalies() -> Anomalies | None:
    """Return the active anomaly detector, or None."""
    recorder = innermost_recorder()
    while recorder is not None and not isinstance(recorder, Anomalies):
        recorder = recorder.outer
    return recorder


def recorded_at(node: Node) -> str:
    """Return a sentence with the lines that recorded the op of `node`."""
    site = getattr(node, "site", None)
    if site is None:
        return "To see its line, run the forward pass in `with autograd.detect_anomaly():` too"
    return f"It was recorded by\n{site}"


def _lines() -> str:
    """Return the last `_DEPTH` lines of the user's code on the call stack, outermost first."""
    found: list[str] = []
    for frame in callers(_DEPTH):
        code, number = frame.f_code, frame.f_lineno
        line = linecache.getline(code.co_filename, number, frame.f_globals).strip()
        found.append(f'  File "{code.co_filename}", line {number}, in {code.co_name}\n    {line}')
    return "\n".join(reversed(found))


class Detection(Block):
    """Detects anomalies in a block or function: ``detect_anomaly``."""

    __slots__ = ("_check_nan",)

    def __init__(self, check_nan: bool) -> None:
        self._check_nan = check_nan

    def _inside(self) -> Modes:
        return Recording(Anomalies(self._check_nan))._inside()


def detect_anomaly(check_nan: bool = True) -> Detection:
    """Find the line of the forward pass whose gradient is wrong, in a block or a decorated function.

    Each recorded op stores the lines of your code that led to it. Backward raises an error at the first
    gradient with nan, which names the op and these lines. Other errors in backward get the lines as a note.
    Run the forward and the backward pass inside. Use it only to find errors: an op takes ten times as long.

    Parameters
    ----------
    check_nan
        False: only add notes to errors, do not check for nan.

    Raises
    ------
    RuntimeError
        By backward, at a gradient with nan.

    Examples
    --------
    >>> import tensor
    >>> from tensor import autograd
    >>> x = tensor.zeros((1,), requires_grad=True)
    >>> with autograd.detect_anomaly():
    ...     y = (x.sqrt() * 0).sum()
    ...     y.backward()
    Traceback (most recent call last):
    ...
    RuntimeError: SqrtBackward has a gradient of nan for its input 0. It was recorded by
    ...
    """
    return Detection(bool(check_nan))


class SetDetection(Detection):
    """Turns detection on or off when it is created; a block restores the former state at its end."""

    __slots__ = ("_before", "_mode")

    def __init__(self, mode: bool, check_nan: bool) -> None:
        super().__init__(check_nan)
        self._mode = mode
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

    def _inside(self) -> Modes:
        if self._mode:
            return super()._inside()
        enabled, whenever = grad_enabled.get(), when_enabled.get()
        return _without_detection(enabled), _without_detection(whenever)


def _without_detection(mode: bool | NodeReceiver) -> bool | NodeReceiver:
    while isinstance(mode, Anomalies):
        mode = True if mode.outer is None else mode.outer
    return mode


def set_detect_anomaly(mode: bool, check_nan: bool = True) -> SetDetection:
    """Turn ``detect_anomaly`` on or off.

    A statement takes effect in this thread or task until the next change, a ``with`` block until its end, and
    a decorator within the function.

    Parameters
    ----------
    check_nan
        As for ``detect_anomaly``.

    Examples
    --------
    >>> from tensor import autograd
    >>> with autograd.set_detect_anomaly(True):
    ...     autograd.is_anomaly_enabled()
    True
    >>> autograd.is_anomaly_enabled()
    False
    """
    return SetDetection(bool(mode), bool(check_nan))


def is_anomaly_enabled() -> bool:
    """Return whether anomaly detection is on."""
    return anomalies() is not None


def is_anomaly_check_nan_enabled() -> bool:
    """Return whether backward checks for nan."""
    found = anomalies()
    return found is not None and found.check_nan
