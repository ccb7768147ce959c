from collections.abc import Callable
from typing import Any, TypeVar

from tensor._tensor import Tensor
from tensor.core.tensor import TensorCore

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

def composite(function: F) -> F: ...
def last_use(x: T) -> T: ...
def own(x: TensorCore, *others: object) -> Tensor: ...
