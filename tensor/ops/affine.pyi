from typing import TYPE_CHECKING

from tensor.core.tensor import TensorCore
from tensor.tape.nodes import Rule

if TYPE_CHECKING:  # so that type checkers read the operations before the class that uses them
    from tensor._tensor import Tensor

def apply_affine(rule: Rule, x: TensorCore, weight: TensorCore, bias: TensorCore | None) -> Tensor: ...
def apply_affine_then(
    rule: Rule, activation: str, x: TensorCore, weight: TensorCore, bias: TensorCore | None
) -> Tensor | None: ...
