"""Line search with the strong Wolfe conditions."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tensor._dtypes import Array

# The strong Wolfe conditions, with absolute values of slopes: the loss decreases by at least _C1 times the
# initial slope times the step length, and the new slope is at most _C2 times the initial slope.
_C1, _C2 = 1e-4, 0.9


class Point(NamedTuple):
    """The loss at step length `t`, its gradient, and its derivative along the direction: the slope."""

    t: float
    loss: float
    gradient: Array
    slope: float


def strong_wolfe(
    evaluate: Callable[[float], Point],
    start: Point,
    t: float,
    size: float,
    most: int,
    tolerance: float = 1e-9,
) -> tuple[Point, int]:
    """Return a point that meets the strong Wolfe conditions, or else the best, and the number of evaluations.

    The algorithm is that of minFunc (Schmidt, 2005), as in PyTorch. The step length grows until such a point
    is between the last two step lengths, the bracket. Then the bracket shrinks.

    Parameters
    ----------
    evaluate
        A function that returns the point at step length `t`.
    start
        The point at step length 0, where the loss decreases along the direction.
    t
        The first step length.
    size
        The largest absolute value in the direction.
    most
        The most evaluations after the first.
    tolerance
        The search ends when no parameter changes by more than this within the bracket.
    """
    previous, point = start, evaluate(t)
    for made in range(most):
        if _is_too_high(point, start) or (made > 1 and point.loss >= previous.loss):
            break
        if _is_flat(point, start):
            return point, 1 + made
        if point.slope >= 0:
            break
        bounds = point.t + 0.01 * (point.t - previous.t), point.t * 10
        previous, point = point, evaluate(_interpolated(previous, point, bounds))
    else:
        return (start if start.loss <= point.loss else point), 1 + most
    return _zoom(evaluate, start, [previous, point], size, made, most, tolerance)


def _zoom(
    evaluate: Callable[[float], Point],
    start: Point,
    bracket: list[Point],
    size: float,
    made: int,
    most: int,
    tolerance: float,
) -> tuple[Point, int]:
    """Shrink the bracket in up to ``most - made`` evaluations, and return its best point."""
    low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
    was_near_the_end = False
    while made < most and not abs(bracket[1].t - bracket[0].t) * size < tolerance:
        first, last = (f(point.t for point in bracket) for f in (min, max))
        t = _interpolated(bracket[0], bracket[1], (first, last))
        margin = 0.1 * (last - first)
        if min(last - t, t - first) < margin:
            # Move the point inward if it is on an end of the bracket, or near an end twice in a row.
            is_stuck = was_near_the_end or t >= last or t <= first
            if is_stuck:
                t = last - margin if abs(t - last) < abs(t - first) else first + margin
            was_near_the_end = not is_stuck
        else:
            was_near_the_end = False
        point = evaluate(t)
        made += 1
        if _is_too_high(point, start) or point.loss >= bracket[low].loss:
            bracket[high] = point
            low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
            continue
        if _is_flat(point, start):
            return point, 1 + made
        if point.slope * (bracket[high].t - bracket[low].t) >= 0:
            bracket[high] = bracket[low]
        bracket[low] = point
    return bracket[low], 1 + made


def _is_too_high(point: Point, start: Point) -> bool:
    return bool(point.loss > start.loss + _C1 * point.t * start.slope)


def _is_flat(point: Point, start: Point) -> bool:
    return bool(abs(point.slope) <= -_C2 * start.slope)


@np.errstate(all="ignore")
def _interpolated(a: Point, b: Point, bounds: tuple[float, float]) -> float:
    """Return where the cubic through `a` and `b`, with their slopes, is minimal within `bounds`."""
    if a.t > b.t:
        a, b = b, a
    least, most = bounds
    d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
    square = d1**2 - a.slope * b.slope
    if not square >= 0:
        return (least + most) / 2
    d2 = np.sqrt(square)
    found: float = b.t - (b.t - a.t) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2))
    return min(max(found, least), most)
