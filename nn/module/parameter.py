"""The class of trainable tensors."""

from __future__ import annotations

from pickle import UnpicklingError
from typing import Any

import numpy as np

from scopes._shared.naming import set_module
from scopes.tracking.tracking import note_created, note_ended
from tensor import Tensor
from tensor._dtypes import is_inexact, require_supported
from tensor.core.tensor import TensorCore, snapshot, wrap, wrap_snapshot
from tensor.kernels import copy
from tensor.tape.recording import Leaf, become_leaf

_ENDING = "its handle moved into a Parameter"


@set_module("nn")
class Parameter(Tensor):
    """Trainable leaf tensor of a module. It takes over the memory of `data`, in the same scope.

    Dispose statistics do not change, and no memory is copied, unless `data` is a view that covers less than
    half of its memory: the parameter then gets its own. `data` is invalid afterwards. The parameter takes
    over the gradient of `data`, and graphs that used `data` now use the parameter.
    Assigning the parameter to a module detaches it from its scope.

    Parameters
    ----------
    data
        A tensor without gradient history. Its views and aliases share memory with the parameter.
    requires_grad
        Whether operations on the parameter are recorded for ``backward``. If not, the parameter does not take
        over the gradient of `data`.

    Raises
    ------
    TypeError
        If `data` is not a tensor, or its dtype can't require gradients.
    RuntimeError
        If `data` was computed from tensors that require gradients.
    TensorDisposedError
        If `data` is invalid.

    Examples
    --------
    >>> import nn, tensor
    >>> from scopes import new_dispose_scope, statistics
    >>> before = statistics.snapshot()
    >>> with new_dispose_scope() as scope:
    ...     data = tensor.ones((2,))
    ...     weight = nn.Parameter(data)
    ...     data.is_invalid, weight in scope
    (True, True)
    >>> print((statistics.snapshot() - before).disposed_in_scope_count)
    1
    """

    __slots__ = ()

    def __new__(cls, data: Tensor, requires_grad: bool = True) -> Parameter:
        _require_data(data, requires_grad)
        parameter = TensorCore.__new__(cls)
        parameter._replace(data, _ENDING)
        parameter._leave_larger_memory()
        if not requires_grad:
            parameter._forget_history()
        elif parameter._node is None:
            become_leaf(parameter)
        note_ended(data, _ENDING)
        note_created(parameter, parameter.owning_dispose_scope)
        return parameter

    def __init__(self, data: Tensor, requires_grad: bool = True) -> None:
        """Do nothing: ``__new__`` creates the parameter."""

    def __repr__(self) -> str:
        if self._array is None:
            return super().__repr__()
        return f"Parameter containing:\n{super().__repr__()}"

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        known = memo.get(id(self))
        if isinstance(known, Parameter):
            return known
        self._raise_if_disposed()
        copied = memo[id(self)] = type(self)(wrap_snapshot(self), self._node is not None)
        return copied

    def __copy__(self) -> Parameter:
        return self.__deepcopy__({})

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        self._raise_if_disposed()
        return _rebuild, (type(self), snapshot(self), self._node is not None)


def _rebuild(kind: object, array: object, requires_grad: object) -> Parameter:
    is_kind = isinstance(kind, type) and issubclass(kind, Parameter)
    if not is_kind or type(array) is not np.ndarray or type(requires_grad) is not bool:
        raise UnpicklingError(
            f"the pickle of a parameter is corrupt: it holds {kind!r}, {type(array).__name__} and "
            f"requires_grad={requires_grad!r}"
        )
    require_supported(array.dtype)
    # Copy the values, because other code may write to an out-of-band buffer (protocol 5).
    return kind(wrap(copy(array)), requires_grad)  # type: ignore[no-any-return,operator]  # checked above


def _require_data(data: object, requires_grad: bool) -> None:
    if not isinstance(data, TensorCore):
        raise TypeError(
            f"Parameter() requires a tensor, not {type(data).__name__}: write "
            "nn.Parameter(tensor.tensor(data))"
        )
    node, dtype = data._node, data._live_array().dtype
    if node is not None and not isinstance(node, Leaf):
        raise RuntimeError(
            f"a Parameter must be a leaf, but {node.name()} computed this tensor from tensors that require "
            "grad: write nn.Parameter(x.detach()), or assign the tensor as a plain attribute"
        )
    if requires_grad and not is_inexact(dtype):
        raise TypeError(
            f"a Parameter of dtype {dtype} can't require gradients: its dtype must be floating or complex. "
            "Write nn.Parameter(x.float()) or nn.Parameter(x, requires_grad=False)"
        )
