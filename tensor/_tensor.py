"""The tensor: the core and all its operations in one class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scopes.lowlevel import ModuleOnDemand, advise_calls_of, clear_frames_of
from tensor._dtypes import Dtype, float32
from tensor.autograd.gradients import Gradients
from tensor.core.layout import Layout
from tensor.core.tensor import TensorCore, use_tensor_type
from tensor.creation.methods import Creating
from tensor.io.conversion import Conversion
from tensor.io.dlpack import Exchange
from tensor.io.numpy import Interop
from tensor.io.pickling import Pickling
from tensor.io.printing import Printing
from tensor.io.standard import Standard
from tensor.ops.casts import Casts
from tensor.ops.dividing import Dividing
from tensor.ops.expanding import Expanding
from tensor.ops.gamma import Gamma
from tensor.ops.indexing import Indexing
from tensor.ops.joining import Joining
from tensor.ops.linalg import LinearAlgebra
from tensor.ops.matrices import Matrices
from tensor.ops.methods import ElementwiseMethods
from tensor.ops.moving import Moving
from tensor.ops.operators import Operators
from tensor.ops.order_statistics import OrderStatistics
from tensor.ops.placement import Placement
from tensor.ops.rare.arithmetic import Arithmetic
from tensor.ops.rare.counting import Counting
from tensor.ops.rare.decomposing import Decomposing
from tensor.ops.rare.factoring import Factoring
from tensor.ops.rare.scattering import Scattering
from tensor.ops.rare.spectrograms import Spectrograms
from tensor.ops.rare.striding import Striding
from tensor.ops.reducing import Reductions
from tensor.ops.selecting import Selecting
from tensor.ops.shapes import Shapes
from tensor.ops.sharing import Sharing
from tensor.ops.sorting import Sorting
from tensor.ops.writing import Writing

if TYPE_CHECKING:
    from tensor import _advice
    from tensor.creation import legacy
else:
    _advice = ModuleOnDemand("tensor._advice")
    legacy = ModuleOnDemand("tensor.creation.legacy")

clear_frames_of("tensor")
clear_frames_of("numpy")  # ops call NumPy's Python functions
advise_calls_of("tensor", lambda *call: _advice.call_advice(*call))


class Tensor(
    Arithmetic,
    Casts,
    Conversion,
    Counting,
    Creating,
    Decomposing,
    Dividing,
    ElementwiseMethods,
    Exchange,
    Expanding,
    Factoring,
    Gamma,
    Gradients,
    Indexing,
    Interop,
    Joining,
    Layout,
    LinearAlgebra,
    Matrices,
    Moving,
    Operators,
    OrderStatistics,
    Pickling,
    Placement,
    Printing,
    Reductions,
    Scattering,
    Selecting,
    Shapes,
    Sharing,
    Sorting,
    Spectrograms,
    Standard,
    Striding,
    Writing,
    TensorCore,
):
    """A multi-dimensional array whose memory is released by ``dispose()``, or by the scope that owns it.

    Create tensors with ``tensor.tensor(data)`` and other functions of the namespace. A call of the class does
    the same as in PyTorch: ``Tensor(2, 3)`` is an uninitialized tensor of these sizes, and ``Tensor([2, 3])``
    has these values. Both are float32.

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

    def __new__(cls, *given: Any) -> Tensor:
        # Programs for PyTorch write `torch.Tensor(2, 3)`.
        return legacy.legacy_tensor(given, float32)

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


use_tensor_type(Tensor)
