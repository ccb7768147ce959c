"""What the options of an optimizer must be."""

from __future__ import annotations

from typing import Any, NamedTuple

from tensor.lowlevel import shown


class Bound(NamedTuple):
    """What an option must be: at least `low`, and below `high`."""

    low: float = 0.0
    high: float = float("inf")


def require_within(name: str, group: dict[str, Any], bounds: dict[str, Bound]) -> None:
    """Raise a ``ValueError`` that names the first option of `group` that is out of its bounds."""
    for option, bound in bounds.items():
        values = group[option] if isinstance(group[option], (tuple, list)) else (group[option],)
        for value in values:
            if not isinstance(value, (int, float)) or not bound.low <= value < bound.high:
                above = "" if bound.high == float("inf") else f" and below {bound.high}"
                raise ValueError(
                    f"{name}: {option} must be a number of at least {bound.low}{above}, not {shown(value)}"
                )
