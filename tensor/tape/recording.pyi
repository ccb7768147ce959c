from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tensor._dtypes import Array
from tensor.core.storage import StorageReference
from tensor.tape.nodes import Node, Rule

if TYPE_CHECKING:  # so that type checkers read the operations before the class that uses them
    from tensor._tensor import Tensor

def complete(node: Node, out: Array, mode: Any) -> Node: ...
def record(rule: Rule, inputs: Sequence[object], out: Array, parameters: dict[str, Any]) -> Node | None: ...
def record_places(rule: Rule, nexts: tuple[Node | None, ...], out: Array, places: dict[str, Any]) -> Node: ...
def set_histories(histories: dict[int, tuple[StorageReference, Node]]) -> int: ...
def remember(
    node: Node | None,
    kernel: Callable[..., Any],
    inputs: Sequence[object],
    parameters: dict[str, Any] | None = None,
) -> int: ...
def wrap_recorded(out: Array, node: Node | None) -> Tensor: ...
