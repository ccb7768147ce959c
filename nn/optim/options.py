"""The bounds of optimizers' options."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any, NamedTuple

from tensor import Tensor
from tensor._errors import shown


class Bound(NamedTuple):
    """Bounds of an option: at least `low`, and below `high`, or at most `high` if `includes_high`."""

    low: float = 0.0
    high: float = inf
    includes_high: bool = False

    def holds(self, value: object) -> bool:
        """Return whether `value` is a number within the bounds."""
        if not isinstance(value, (int, float)):
            return False
        return self.low <= value < self.high or (self.includes_high and value == self.high)

    def __str__(self) -> str:
        limits = [] if self.low == -inf else [f"at least {self.low:g}"]
        if self.high != inf:
            limits.append(f"{'at most' if self.includes_high else 'below'} {self.high:g}")
        return f"a number of {' and '.join(limits)}" if limits else "a number"


# The bounds of a decay rate of an average.
DECAY_RATE = Bound(0.0, 1.0)


def bounds(*at_least_0: str, **others: Bound) -> dict[str, Bound]:
    """Return the bounds of options by name: at least 0 for the names `at_least_0`, and `others`."""
    return {**dict.fromkeys(at_least_0, Bound()), **others}


def require_within(name: str, group: dict[str, Any], bounds: Mapping[str, Bound]) -> None:
    """Raise ``ValueError`` for the first option of `group` that is out of its bounds."""
    rate = group.get("lr")
    if isinstance(rate, Tensor) and rate.numel() == 1:
        # A learning rate may be a tensor of one element. Store its value.
        group["lr"] = rate.item()
    for option, bound in bounds.items():
        if option == "betas":
            require_two(name, option, group[option])
        is_one = not isinstance(group[option], (tuple, list))
        for value in (group[option],) if is_one else group[option]:
            if not bound.holds(value):
                advice = ": write .item()" if isinstance(value, Tensor) and value.numel() == 1 else ""
                which = option if is_one else f"each of {option}"
                raise ValueError(f"{name}: {which} must be {bound}, not {shown(value)}{advice}")


def require_two(name: str, option: str, values: object) -> None:
    """Raise ``ValueError`` unless `values` are two."""
    if not isinstance(values, (tuple, list)) or len(values) != 2:
        raise ValueError(f"{name}: {option} must be two numbers, not {shown(values)}")


def require_real(name: str, params: list[Tensor]) -> None:
    """Raise ``ValueError`` for the first complex parameter."""
    for i, x in enumerate(params):
        if x.dtype.kind == "c":
            raise ValueError(
                f"parameters of {name} must be real, but parameter {i} is {x.dtype}: use another optimizer "
                "for complex parameters, such as Adam"
            )
