"""The tensor: the core and all its operations in one class."""

from __future__ import annotations

from typing import Any

from scopes.lowlevel import accounts_of, clear_frames_of
from tensor._casts import Casts
from tensor._conversion import Conversion
from tensor._core import TensorCore
from tensor._dtypes import Dtype
from tensor._exchange import Exchange
from tensor._expanding import Expanding
from tensor._gradients import Gradients
from tensor._indexing import Indexing
from tensor._inplace import InPlace
from tensor._interop import Interop
from tensor._joining import Joining
from tensor._layout import Layout
from tensor._linalg import LinearAlgebra
from tensor._moving import Moving
from tensor._operators import ElementwiseMethods, Operators
from tensor._pickling import Pickling
from tensor._plain import plain
from tensor._printing import Printing
from tensor._reducing import Reductions
from tensor._selecting import Selecting
from tensor._shapes import Shapes
from tensor._sharing import Sharing
from tensor._sorting import Sorting

clear_frames_of("tensor")


class Tensor(
    Casts,
    Conversion,
    ElementwiseMethods,
    Exchange,
    Expanding,
    Gradients,
    InPlace,
    Indexing,
    Interop,
    Joining,
    Layout,
    LinearAlgebra,
    Moving,
    Operators,
    Pickling,
    Printing,
    Reductions,
    Selecting,
    Shapes,
    Sharing,
    Sorting,
    TensorCore,
):
    """A multi-dimensional array whose lifetime a scope decides.

    Make one with ``tensor.tensor(data)`` and the other functions of the namespace.

    Examples
    --------
    >>> import tensor
    >>> from scopes import new_dispose_scope
    >>> with new_dispose_scope():
    ...     x = tensor.tensor([1.0, 2.0])
    ...     (x + x).tolist()
    [2.0, 4.0]
    >>> x.is_invalid
    True
    """

    __slots__ = ()

    def __new__(cls, *_args: Any, **_kwargs: Any) -> Tensor:
        raise TypeError(
            "Tensor is not called directly: write tensor.tensor(data), tensor.zeros(shape), "
            "tensor.from_numpy(array)"
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each dimension."""
        array = self._array
        if array is None:
            self._raise_disposed()
        shape: tuple[int, ...] = array.shape
        return shape

    @property
    def dtype(self) -> Dtype:
        """The type of the elements."""
        array = self._array
        if array is None:
            self._raise_disposed()
        return array.dtype


plain.kind = Tensor
plain.accounts = accounts_of(Tensor)
