"""NumPy as derivatives see it: ``xp`` while gradients are plain arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensor.kernels.power import power
from tensor.kernels.scatter_add import scatter_add
from tensor.kernels.selecting import keep_where, overwrite_where_nonzero, where, where_nonzero


class Namespace:
    """NumPy's functions, and some of ours under names of their own.

    Its counterpart for recorded gradients is `tensor.autograd.recorded_functions`.
    """

    # What the counterpart computes may be derived again.
    is_recorded = False

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        setattr(self, name, found)
        return found

    scatter_add = staticmethod(scatter_add)
    keep_where = staticmethod(keep_where)
    pow = staticmethod(power)
    where = staticmethod(where)
    where_nonzero = staticmethod(where_nonzero)


class Overwriting(Namespace):
    """The same, for functions whose first argument, a gradient, nobody will need any more."""

    where_nonzero = staticmethod(overwrite_where_nonzero)


xp = Namespace()
xp_over = Overwriting()
