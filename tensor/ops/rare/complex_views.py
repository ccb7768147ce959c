"""Complex numbers as pairs of real ones, and back: views of the same memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tensor._dtypes import Array
from tensor._errors import InvalidArgumentError
from tensor.ops.data import as_tensor
from tensor.ops.dispatch import view
from tensor.tape.rules import RULES

if TYPE_CHECKING:
    from tensor._tensor import Tensor

_COMPLEX_OF = {"float32": np.complex64, "float64": np.complex128}


def view_as_real(input: Tensor) -> Tensor:
    """Return a view of complex numbers as pairs of real ones, in a new last dimension of size 2.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.view_as_real(torch.tensor([1 + 2j])).tolist()
    [[1.0, 2.0]]
    """
    x = as_tensor(input)
    if x.dtype.kind != "c":
        raise InvalidArgumentError(f"view_as_real takes a complex tensor, not {x.dtype}")
    real = np.dtype(f"f{x.dtype.itemsize // 2}")
    return view(RULES["view_as_real"], lambda a: a[..., None].view(real), x)


def view_as_complex(input: Tensor) -> Tensor:
    """Return a view of pairs of real numbers, in the last dimension, as complex ones.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.view_as_complex(torch.tensor([[1.0, 2.0]])).tolist()
    [(1+2j)]
    """
    x = as_tensor(input)
    shape, kind = x.shape, _COMPLEX_OF.get(str(x.dtype))
    if kind is None or not shape or shape[-1] != 2:
        raise InvalidArgumentError(
            "view_as_complex takes pairs of float32 or float64 in a last dimension of size 2, not "
            f"{x.dtype} of shape {shape}"
        )
    size = x.dtype.itemsize
    steps = x._live_array().strides
    if steps[-1] != size or any(
        n > 1 and step % (2 * size) for n, step in zip(shape, steps[:-1], strict=False)
    ):
        raise InvalidArgumentError(
            "view_as_complex: the two numbers of a pair are not adjacent in memory. Write "
            "view_as_complex(x.contiguous())"
        )

    def make(a: Array) -> Array:
        return a.view(kind)[..., 0]

    return view(RULES["view_as_complex"], make, x)
