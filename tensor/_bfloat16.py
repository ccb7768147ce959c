"""``tensor.bfloat16``: the dtype if ml_dtypes is installed, else an object whose use raises an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensor._dtypes import MissingDtype, find_bfloat16

if TYPE_CHECKING:
    from tensor._dtypes import Dtype

    bfloat16: Dtype
else:
    bfloat16 = find_bfloat16() or MissingDtype()
