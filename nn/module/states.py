"""Compare the values of a state dict with a module's tensors, and copy them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import repeat
from operator import setitem
from typing import Any, Final, NamedTuple

import numpy as np

from scopes import DisposeScope
from scopes._shared.naming import set_module
from tensor._dtypes import Array, is_inexact, require_supported
from tensor._errors import InvalidArgumentError
from tensor.autograd.gradients import take_values
from tensor.core.tensor import TensorCore, wrap, wrap_snapshot, writing_all
from tensor.memory.buffer import owner_of

# Exhausts an iterator without running Python bytecode.
run: Final = deque[None](maxlen=0).extend
# ``array[...] = values`` as a function.
_write: Callable[[Any, Any, Any], None] = setitem


@set_module("nn")
class IncompatibleKeys(NamedTuple):
    """The result of ``load_state_dict``; both lists are empty if all names matched."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


def require_fit(what: str, target: TensorCore, value: object, *, assign: bool = False) -> None:
    """Raise unless `value` can be copied into `target`, or can replace it."""
    array = require_array(what, value)
    target._raise_if_disposed()
    found = target._array
    if found is None:
        return
    if array.shape != found.shape:
        raise InvalidArgumentError(
            f"{what} has shape {found.shape} in the module, but {array.shape} in the state dict. Nothing was "
            "loaded: create the module with the sizes of the saved one, or remove this name and pass "
            "strict=False"
        )
    given = require_supported(array.dtype)
    if assign:
        if target._node is not None and not is_inexact(given):
            raise TypeError(
                f"{what} requires grad, but is {given} in the state dict. Nothing was loaded: convert the "
                "value with x.float()"
            )
        return
    if not np.can_cast(given, found.dtype, "same_kind"):
        advice = f"convert the value with x.to(tensor.{found.dtype})"
        if is_inexact(found.dtype):
            advice += f", or the module with module.to(tensor.{given})"
        raise TypeError(
            f"{what} is {found.dtype} in the module, but {given} in the state dict, and the conversion would "
            f"lose information. Nothing was loaded: {advice}"
        )


def require_array(what: str, value: object) -> Array:
    if isinstance(value, TensorCore):
        array = value._array
        if array is None:
            value._raise_disposed()
        return array
    if isinstance(value, np.ndarray):
        return value
    raise TypeError(f"{what} must be a tensor or an array in the state dict, not {type(value).__name__}")


def copy_values(targets: Sequence[TensorCore], values: Sequence[Any]) -> None:
    """Write `values` into `targets`. Shapes and dtypes must fit. Errors are raised before the first write."""
    with writing_all(targets) as arrays:
        owners = {id(owner_of(array)) for array in arrays}
        sources = []
        for array, value in zip(arrays, values, strict=True):
            source = require_array("a value", value)
            # Copy a value that shares memory with another target: the write would change it before it is
            # read.
            is_overwritten = id(owner_of(source)) in owners and _address(source) != _address(array)
            sources.append(source.copy() if is_overwritten else source)
        # Write all in one call of C code, so that an interrupt arrives before or after all writes.
        run(map(_write, arrays, repeat(...), sources))


def assign_values(targets: Sequence[TensorCore], values: Sequence[Any]) -> None:
    """Assign the memory of `values` to `targets`. All clones are created before the first target changes."""
    with DisposeScope("load_state_dict"):
        clones = [
            wrap_snapshot(value) if isinstance(value, TensorCore) else wrap(value.copy()) for value in values
        ]
        for target, clone in zip(targets, clones, strict=True):
            take_values(target, clone)


def _address(array: Array) -> tuple[int, tuple[int, ...]]:
    return array.__array_interface__["data"][0], array.strides
