"""State dicts: save and load a module's values by name."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import repeat
from operator import setitem
from os import PathLike
from typing import Any, Final, NamedTuple

import numpy as np

from nn.module.traversal import Traversal
from nn.module.uninitialized import Uninitialized, UninitializedBuffer, UninitializedParameter
from scopes import DisposeScope
from tensor import Tensor
from tensor.lowlevel import (
    Array,
    InvalidArgumentError,
    TensorCore,
    is_inexact,
    owner_of,
    require_supported,
    shown,
    take_values,
    wrap,
    wrap_snapshot,
    writing_all,
)

# Exhausts an iterator without running Python bytecode.
run: Final = deque[None](maxlen=0).extend
# ``array[...] = values`` as a function.
_write: Callable[[Any, Any, Any], None] = setitem


class IncompatibleKeys(NamedTuple):
    """The result of ``load_state_dict``; both lists are empty if all names matched."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


class States(Traversal):
    """Methods that save and load a module's values."""

    def get_extra_state(self) -> Any:
        """Return the state of this module besides its tensors, for ``state_dict()``. Subclasses define it.

        If the class defines it, ``state_dict()`` stores the value as ``"_extra_state"``.
        """
        raise RuntimeError(
            f"{type(self).__name__} does not define get_extra_state(self): define it to return the extra "
            "state that set_extra_state takes"
        )

    def set_extra_state(self, state: Any) -> None:
        """Restore a `state` from ``get_extra_state()``. Subclasses define it.

        Examples
        --------
        >>> import nn
        >>> class Counter(nn.Module):
        ...     count = 3
        ...
        ...     def get_extra_state(self):
        ...         return self.count
        ...
        ...     def set_extra_state(self, state):
        ...         self.count = state
        >>> state = Counter().state_dict()
        >>> state
        {'_extra_state': 3}
        >>> counter = Counter()
        >>> counter.count = 0
        >>> counter.load_state_dict(state)
        <All keys matched successfully>
        >>> counter.count
        3
        """
        del state
        raise RuntimeError(
            f"{type(self).__name__} does not define set_extra_state(self, state): define it to restore the "
            "state that get_extra_state returns"
        )

    def _with_extra_state(self) -> Iterator[tuple[str, States]]:
        """Yield each module whose class defines an extra state, with the name in state dicts."""
        for place, module in self.named_modules(remove_duplicate=False):
            kind = type(module)
            if (
                kind.get_extra_state is not States.get_extra_state
                or kind.set_extra_state is not States.set_extra_state
            ):
                yield (f"{place}._extra_state" if place else "_extra_state"), module

    def state_dict(self, *, prefix: str = "") -> dict[str, Tensor]:
        """Return a dict of parameters and persistent buffers by dotted name.

        The values share memory with the module, so training changes them. To keep a state, use
        ``copy.deepcopy(module.state_dict())``, which copies memory only at the next write. The values have no
        gradient history and belong to the current scope.

        Parameters
        ----------
        prefix
            A prefix for each name.

        Examples
        --------
        >>> import nn, tensor
        >>> {name: x.shape for name, x in nn.Linear(2, 3).state_dict().items()}
        {'weight': (3, 2), 'bias': (3,)}
        """
        found = {prefix + name: x.detach() for name, x in self._state()}
        for name, module in self._with_extra_state():
            found[prefix + name] = module.get_extra_state()
        return found

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copy the values of `state_dict` into parameters and persistent buffers of the same names.

        If a value does not fit, the error names it, and no value changes.

        Parameters
        ----------
        state_dict
            Tensors or arrays by name, as ``state_dict()`` returns them. They are not changed.
        strict
            Raise if a name is missing or unexpected. If False, load the names that match.
        assign
            Share the tensors' memory and dtype instead of copying; the first write on either side copies.
            Arrays are copied. Parameters and buffers stay the same objects, so tied weights and optimizers
            stay valid. Earlier aliases and views of them keep the old memory.

        Returns
        -------
        A named tuple of the missing and the unexpected names.

        Raises
        ------
        ValueError
            If a shape does not match, or a name with ``strict=True``.
        TypeError
            If a value is not a tensor or an array, or its dtype can't be converted: float64 to float32 is
            allowed, float32 to int64 or complex to real is not.
        TensorDisposedError
            If a tensor on either side is invalid.

        Examples
        --------
        >>> import nn
        >>> first, second = nn.Linear(2, 2), nn.Linear(2, 2)
        >>> second.load_state_dict(first.state_dict())
        <All keys matched successfully>
        >>> second.weight.tolist() == first.weight.tolist()
        True
        """
        if isinstance(state_dict, (str, PathLike)):
            raise TypeError(
                f"{type(self).__name__}.load_state_dict requires a dict, not the path of a file: write "
                f"load_state_dict(tensor.load({shown(state_dict)}))"
            )
        if not isinstance(state_dict, Mapping):
            raise TypeError(
                f"{type(self).__name__}.load_state_dict requires a dict from names to tensors, not "
                f"{type(state_dict).__name__}"
            )
        own, extra = dict(self._state()), dict(self._with_extra_state())
        missing = [name for name in (*own, *extra) if name not in state_dict]
        unexpected = [name for name in state_dict if name not in own and name not in extra]
        label = type(self).__name__
        if strict and (missing or unexpected):
            raise InvalidArgumentError(
                f"{label}.load_state_dict: the names do not match, and nothing was loaded. Missing: "
                f"{_listed(missing)}. Unexpected: {_listed(unexpected)}. Rename the keys, or pass "
                "strict=False to load the names that match"
            )
        pairs = [(name, own[name], state_dict[name]) for name in own if name in state_dict]
        for name, target, value in pairs:
            if isinstance(target, Uninitialized):
                if not isinstance(value, Uninitialized):
                    _array_of(f"{label}.load_state_dict: {name!r}", value)
                continue
            require_fit(f"{label}.load_state_dict: {name!r}", target, value, assign=assign)
        # Parameters without a shape get the shape from the state, if it has one.
        pairs = [pair for pair in pairs if not isinstance(pair[2], Uninitialized)]
        for _, target, value in pairs:
            if isinstance(target, (UninitializedParameter, UninitializedBuffer)):
                target.materialize(value.shape)
        targets, values = [target for _, target, _ in pairs], [value for _, _, value in pairs]
        if assign:
            _assign_values(targets, values)
        else:
            copy_values(targets, values)
        for name, module in extra.items():
            if name in state_dict:
                module.set_extra_state(state_dict[name])
        return IncompatibleKeys(missing, unexpected)

    def _state(self) -> Iterator[tuple[str, Tensor]]:
        for place, module in self.named_modules(remove_duplicate=False):
            for name, kind, value in module._registered():
                if kind != "module" and name not in module._transient:
                    yield (f"{place}.{name}" if place else name), value


def _listed(names: list[str]) -> str:
    return f"[{', '.join(map(shown, names))}]"


def require_fit(what: str, target: TensorCore, value: object, *, assign: bool = False) -> None:
    """Raise unless `value` can be copied into `target`, or can replace it."""
    array = _array_of(what, value)
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


def _array_of(what: str, value: object) -> Array:
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
            source = _array_of("a value", value)
            # Copy a value that shares memory with another target: the write would change it before it is
            # read.
            is_overwritten = id(owner_of(source)) in owners and _address(source) != _address(array)
            sources.append(source.copy() if is_overwritten else source)
        # Write all in one call of C code, so that an interrupt arrives before or after all writes.
        run(map(_write, arrays, repeat(...), sources))


def _assign_values(targets: Sequence[TensorCore], values: Sequence[Any]) -> None:
    """Assign the memory of `values` to `targets`. All clones are created before the first target changes."""
    with DisposeScope("load_state_dict"):
        clones = [
            wrap_snapshot(value) if isinstance(value, TensorCore) else wrap(value.copy()) for value in values
        ]
        for target, clone in zip(targets, clones, strict=True):
            take_values(target, clone)


def _address(array: Array) -> tuple[int, tuple[int, ...]]:
    return array.__array_interface__["data"][0], array.strides
