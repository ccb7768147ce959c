from collections.abc import Callable
from typing import Any

from tensor._dtypes import Array
from tensor._tensor import Tensor
from tensor.ops.messages import Operand

def axis_of(name: str, axis: int | tuple[int, ...] | None, ndim: int) -> int | tuple[int, ...] | None: ...
def reduce(
    name: str,
    kernel: Callable[..., Any],
    x: Operand,
    axis: int | tuple[int, ...] | None,
    keepdims: bool = False,
    **more: Any,
) -> Tensor: ...
def along(name: str, kernel: Callable[..., Any], x: Operand, axis: int | None) -> Tensor: ...
def failed(name: str, error: Exception, array: Array) -> Exception: ...
