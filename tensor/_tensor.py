"""The tensor: operators, and ten families of methods (`tensor.methods`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scopes._shared.advice import advise_calls_of
from scopes._shared.naming import set_module
from scopes._shared.on_demand import ModuleOnDemand
from scopes._shared.tracebacks import clear_frames_of
from tensor._dtypes import Dtype, float32
from tensor.core.tensor import use_tensor_type
from tensor.methods.arithmetic import Arithmetic
from tensor.methods.comparisons import Comparisons
from tensor.methods.conversion import Conversion
from tensor.methods.gradients import Gradients
from tensor.methods.indexing import Indexing
from tensor.methods.linear_algebra import LinearAlgebra
from tensor.methods.mathematics import Mathematics
from tensor.methods.reductions import Reductions
from tensor.methods.shapes import Shapes
from tensor.methods.storage import Storage
from tensor.ops.operators import Operators

if TYPE_CHECKING:
    from tensor import _advice
    from tensor.creation import legacy
else:
    _advice = ModuleOnDemand("tensor._advice")
    legacy = ModuleOnDemand("tensor.creation.legacy")

clear_frames_of("tensor")
clear_frames_of("numpy")  # ops call NumPy's Python functions
advise_calls_of("tensor", lambda *call: _advice.call_advice(*call))


@set_module("tensor")
class Tensor(
    Arithmetic,
    Comparisons,
    Mathematics,
    Reductions,
    Shapes,
    Indexing,
    LinearAlgebra,
    Storage,
    Conversion,
    Gradients,
    Operators,
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
