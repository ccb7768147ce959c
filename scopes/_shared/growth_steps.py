"""The number of uses of a parameter at which growing graphs warn: one check for both libraries."""

from __future__ import annotations

__all__ = ["check_steps"]


def check_steps(steps: object) -> None:
    """Raise an error unless `steps` is None, or an int of at least 2."""
    if steps is None:
        return
    if isinstance(steps, bool) or not isinstance(steps, int):
        raise TypeError(
            f"warn_on_graph_growth takes a number of steps, not {type(steps).__name__}: write an int, "
            "or None to turn the warning off"
        )
    if steps < 2:
        raise ValueError(
            f"warn_on_graph_growth takes 2 steps or more, not {steps}: every graph has one. Write None "
            "to turn the warning off"
        )
