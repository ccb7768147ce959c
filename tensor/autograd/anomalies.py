"""Anomaly detection: which line of the forward pass has a gradient that is not a number."""

from __future__ import annotations

import linecache
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np

from scopes.lowlevel import callers
from tensor.tape.blocks import turn_to
from tensor.tape.modes import (
    Block,
    Recorder,
    Recording,
    grad_enabled,
    innermost_recorder,
    when_enabled,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor.tape.modes import Answers
    from tensor.tape.nodes import Node

P = ParamSpec("P")
R = TypeVar("R")

_DEPTH = 8


class Anomalies(Recorder):
    """Notes for each op by which of the user's lines it was recorded, and looks at gradients."""

    __slots__ = ("check_nan",)

    def __init__(self, check_nan: bool) -> None:
        super().__init__()
        self.check_nan: bool = check_nan

    def show(self, node: Node) -> None:
        """Note the lines."""
        node.site = _lines()
        super().show(node)

    def look(self, g: Any, node: Node, i: int) -> None:
        """Raise when `g`, the gradient of the input `i` of an op, has elements that are not a number."""
        array = g if isinstance(g, np.ndarray) else g._array
        if self.check_nan and bool(np.isnan(array).any()):
            raise RuntimeError(f"{node.name()} has a gradient of nan for its input {i}. {recorded_at(node)}")


def anomalies() -> Anomalies | None:
    """Return what looks for anomalies here, if anything does."""
    recorder = innermost_recorder()
    while recorder is not None and not isinstance(recorder, Anomalies):
        recorder = recorder.outer
    return recorder


def recorded_at(node: Node) -> str:
    """Say by which lines the op of `node` was recorded."""
    site = getattr(node, "site", None)
    if site is None:
        return "For the line that recorded it run the forward pass in `with autograd.detect_anomaly():` too"
    return f"It was recorded by\n{site}"


def _lines() -> str:
    """Return the innermost of the user's lines that led here, the outermost first."""
    found: list[str] = []
    for frame in callers(_DEPTH):
        code, number = frame.f_code, frame.f_lineno
        line = linecache.getline(code.co_filename, number, frame.f_globals).strip()
        found.append(f'  File "{code.co_filename}", line {number}, in {code.co_name}\n    {line}')
    return "\n".join(reversed(found))


class Detection(Block):
    """Looks for anomalies in a block or a function: ``detect_anomaly``."""

    __slots__ = ("_check_nan",)

    def __init__(self, check_nan: bool) -> None:
        self._check_nan = check_nan

    def _inside(self) -> Answers:
        return Recording(Anomalies(self._check_nan))._inside()


def detect_anomaly(check_nan: bool = True) -> Detection:
    """Find the line of the forward pass whose gradient goes wrong, in the block or the decorated function.

    Each op that is recorded notes the user's lines that led to it, and backward raises at the first gradient
    that holds nan, naming the op and these lines; to other errors in backward they are added as a note. Run
    both passes inside. For finding errors only: an op costs ten times as much.

    Parameters
    ----------
    check_nan
        False: only errors are looked for, not nan.

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
    """Switches detection on or off when it is made; as a block it goes back to what was so before that."""

    __slots__ = ("_before", "_mode")

    def __init__(self, mode: bool, check_nan: bool) -> None:
        super().__init__(check_nan)
        self._mode = mode
        # What a first block goes back to; one that is entered again, to what was so then.
        self._before: Answers | None = turn_to(self._inside())

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        # A decorator is no statement: it changes nothing but the calls of the function.
        self._take_back()
        return super().__call__(function)

    def _take_back(self) -> None:
        before, self._before = self._before, None
        if before is not None:
            turn_to(before)

    def _inside(self) -> Answers:
        if self._mode:
            return super()._inside()
        enabled, whenever = grad_enabled.get(), when_enabled.get()
        return _without_detection(enabled), _without_detection(whenever)


def _without_detection(answer: bool | Recorder) -> bool | Recorder:
    while isinstance(answer, Anomalies):
        answer = True if answer.outer is None else answer.outer
    return answer


def set_detect_anomaly(mode: bool, check_nan: bool = True) -> SetDetection:
    """Switch ``detect_anomaly`` on or off from here on, as `mode` says.

    As a statement it holds until it is set again, in this thread or task; as a ``with`` block until the end
    of the block, as a decorator within the function.

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
    """Tell whether anomalies are looked for here."""
    return anomalies() is not None


def is_anomaly_check_nan_enabled() -> bool:
    """Tell whether backward looks for nan here."""
    found = anomalies()
    return found is not None and found.check_nan
