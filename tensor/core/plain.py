"""The class of the tensors that operations make."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tensor.core.donation import Donated
    from tensor.core.tensor import Tensor


class Plain:
    """The class of the tensors that operations make, set once by `tensor.core.tensor`.

    Beside it the class of donated ones, set by `tensor.core.donation`.
    """

    __slots__ = ("donated", "kind")

    kind: type[Tensor]
    donated: type[Donated]


plain = Plain()
