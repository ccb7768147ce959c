from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tensor._dtypes import Array
from tensor.core.tensor import TensorCore
from tensor.kernels.elementwise import BinaryKernel, UnaryKernel
from tensor.tape.nodes import Rule

if TYPE_CHECKING:  # Checkers then read the operations before the class that they make up.
    from tensor._tensor import Tensor

function_of: dict[np.ufunc, Callable[..., Any]]

class UnaryOp:
    def __init__(
        self, rule: Rule, kernel: Callable[..., Any], compiled: UnaryKernel | None = None
    ) -> None: ...
    @property
    def rule(self) -> Rule: ...
    @property
    def kernel(self) -> Callable[..., Any]: ...
    def __call__(self, x: object) -> Tensor: ...

class BinaryOp:
    def __init__(
        self, rule: Rule, kernel: Callable[..., Any], compiled: BinaryKernel | None = None
    ) -> None: ...
    @property
    def rule(self) -> Rule: ...
    @property
    def kernel(self) -> Callable[..., Any]: ...
    def __call__(self, x1: object, x2: object) -> Tensor: ...

def operand(x: object) -> Any: ...
def as_array(result: Any) -> Array: ...
def apply(
    rule: Rule, kernel: Callable[..., Any], inputs: Sequence[object], /, **parameters: Any
) -> Tensor: ...
def apply_into(
    rule: Rule, kernel: Callable[..., Any], inputs: Sequence[object], /, **parameters: Any
) -> Tensor: ...
def view(rule: Rule, make: Callable[[Array], Any], x: TensorCore, /, **parameters: Any) -> Tensor: ...
def over(
    x: TensorCore, array: Array, out: Array, rule: Rule | None, saved: tuple[Any, ...] = ()
) -> Tensor: ...
def with_history(y: TensorCore, rule: Rule, x: TensorCore) -> Tensor: ...
def overwrite(
    rule: Rule,
    x: TensorCore,
    write: Callable[[Array], object],
    inputs: Sequence[object],
    /,
    **parameters: Any,
) -> Tensor: ...
def write_plainly(x: TensorCore, write: Callable[[Array], object]) -> None: ...
