from collections.abc import Callable
from typing import Any, TypeVar

from tensor._tensor import Tensor
from tensor.core.tensor import TensorCore

_F = TypeVar("_F", bound=Callable[..., Any])
_T = TypeVar("_T")

def composite(function: _F) -> _F: ...
def last_use(x: _T) -> _T: ...
def own(x: TensorCore, *others: object) -> Tensor: ...
