"""``torch.nn.modules.utils``: sizes as tuples, and state dicts without a prefix."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["consume_prefix_in_state_dict_if_present"]


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Remove `prefix` in place from the names that start with it, such as ``"module."`` of `DataParallel`.

    Examples
    --------
    >>> from tensor.torch.nn.modules.utils import consume_prefix_in_state_dict_if_present
    >>> state = {"module.weight": 1, "step": 2}
    >>> consume_prefix_in_state_dict_if_present(state, "module.")
    >>> state
    {'step': 2, 'weight': 1}
    """
    for name in [name for name in state_dict if name.startswith(prefix)]:
        state_dict[name.removeprefix(prefix)] = state_dict.pop(name)


# PyTorch has no public name for these, which many programs import.


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    """Return a function that repeats a number `n` times, and returns an iterable as a tuple."""

    def parse(x: Any) -> tuple[Any, ...]:
        return tuple(x) if isinstance(x, Iterable) else (x,) * n

    parse.__name__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")
