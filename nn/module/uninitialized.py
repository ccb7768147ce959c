"""Parameters and buffers without a shape, for lazy modules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import tensor as tn
from nn.module.parameter import Parameter
from scopes._shared.naming import set_module
from tensor import Tensor
from tensor._devices import require_cpu
from tensor._dtypes import DtypeLike
from tensor.core.tensor import TensorCore


class Uninitialized(Tensor):
    """Tensor of size 0 with the dtype of the later values."""

    __slots__ = ()

    @property
    def shape(self) -> NoReturn:
        """Raise an error: the shape is unknown."""
        raise RuntimeError(
            f"this {type(self).__name__} has no shape yet: call the lazy module with an input first, which "
            "sets the shape"
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        kind: Any = type(self)
        return memo.setdefault(id(self), kind(requires_grad=self.requires_grad, dtype=self.dtype))

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.requires_grad, self.dtype.name)

    def detach(self) -> Tensor:
        """Return this object, because it has no values to share. A state dict stores it."""
        return self


@set_module("nn")
class UninitializedParameter(Uninitialized, Parameter):
    """Parameter without a shape, for a lazy module before its first call.

    It stays the same object when it gets its shape, so an optimizer may already hold it.

    Parameters
    ----------
    requires_grad
        Whether the parameter will require grad.
    dtype
        The dtype of the later values; float32 for None.

    Examples
    --------
    >>> import nn
    >>> weight = nn.UninitializedParameter()
    >>> weight
    <UninitializedParameter>
    >>> weight.materialize((2, 3))
    >>> type(weight).__name__, weight.shape
    ('Parameter', (2, 3))
    """

    __slots__ = ()

    def __new__(
        cls,
        data: Tensor | None = None,
        requires_grad: bool = True,
        *,
        device: str | None = None,
        dtype: DtypeLike | None = None,
    ) -> UninitializedParameter:
        require_cpu(device)
        return Parameter.__new__(cls, tn.empty((0,), dtype=dtype) if data is None else data, requires_grad)  # type: ignore[return-value]  # of the class given

    def __init__(
        self,
        data: Tensor | None = None,
        requires_grad: bool = True,
        *,
        device: str | None = None,
        dtype: DtypeLike | None = None,
    ) -> None:
        """Do nothing: ``__new__`` creates the parameter."""

    def materialize(
        self, shape: Sequence[int], device: str | None = None, dtype: DtypeLike | None = None
    ) -> None:
        """Become a parameter of this shape, with uninitialized values.

        Parameters
        ----------
        shape
            The sizes.
        device
            ``"cpu"``.
        dtype
            The dtype; None keeps the current one.
        """
        _materialize(self, Parameter, shape, device, dtype)


@set_module("nn")
class UninitializedBuffer(Uninitialized):
    """Buffer without a shape, for a lazy module before its first call. See ``UninitializedParameter``.

    Examples
    --------
    >>> import nn, tensor
    >>> mean = nn.UninitializedBuffer()
    >>> mean.materialize((3,))
    >>> type(mean).__name__, mean.shape
    ('Tensor', (3,))
    """

    __slots__ = ()

    def __new__(
        cls, requires_grad: bool = False, *, device: str | None = None, dtype: DtypeLike | None = None
    ) -> UninitializedBuffer:
        require_cpu(device)
        made = TensorCore.__new__(cls)
        made._replace(tn.empty((0,), dtype=dtype), "its handle moved into a buffer")
        return made.requires_grad_(requires_grad)

    def __init__(
        self, requires_grad: bool = False, *, device: str | None = None, dtype: DtypeLike | None = None
    ) -> None:
        """Do nothing: ``__new__`` creates the buffer."""

    def materialize(
        self, shape: Sequence[int], device: str | None = None, dtype: DtypeLike | None = None
    ) -> None:
        """Become a tensor of this shape, with uninitialized values."""
        _materialize(self, Tensor, shape, device, dtype)


def _rebuild(kind: Any, requires_grad: bool, dtype: str) -> Any:
    return kind(requires_grad=requires_grad, dtype=dtype)


def _materialize(
    x: Any, kind: type[Tensor], shape: Sequence[int], device: str | None, dtype: DtypeLike | None
) -> None:
    require_cpu(device)
    values = tn.empty(tuple(shape), dtype=x.dtype if dtype is None else dtype)
    x.data = values
    values.dispose()
    x.__class__ = kind
