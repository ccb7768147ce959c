from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from weakref import ref

from tensor._dtypes import Array, Dtype
from tensor.core.storage import StorageReference
from tensor.core.tensor import TensorCore
from tensor.memory.buffer import Share
from tensor.tape.hooks import NodeHooks
from tensor.tape.recipes import Recipe

if TYPE_CHECKING:  # so that type checkers read the operations before the class that uses them
    from tensor._tensor import Tensor

_Functions = Mapping[str, Callable[..., Any] | None]

class Plan:
    saves: tuple[int | str, ...]
    saves_out: bool
    steps: tuple[tuple[int, Callable[..., Any], tuple[int, ...]], ...]
    done: tuple[tuple[int, ...], ...]
    together: tuple[Callable[..., Any], tuple[bool, ...], tuple[int, ...]] | None
    def __init__(self, rule: Rule, wanted: tuple[bool, ...]) -> None: ...
    def without_saves(self) -> Plan: ...

class Rule:
    def __init__(
        self,
        name: str,
        functions: _Functions,
        derived: dict[str, Rule] | None = None,
        together: Callable[..., Any] | None = None,
    ) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def functions(self) -> _Functions: ...
    @property
    def derived(self) -> dict[str, Rule]: ...
    @property
    def together(self) -> Callable[..., Any] | None: ...
    @property
    def is_differentiable(self) -> bool: ...
    @property
    def plans(self) -> dict[tuple[bool, ...], Plan]: ...
    def input_names(self, count: int) -> list[str]: ...
    def wanted(self, wanted: tuple[bool, ...]) -> list[tuple[int, Callable[..., Any]]]: ...
    def require_no_parameters(self) -> None: ...
    def unknown(self, name: str) -> NotImplementedError: ...
    def plan(self, wanted: tuple[bool, ...]) -> Plan: ...

class Node:
    is_op: bool
    rule: Rule
    plan: Plan
    next: tuple[Node | None, ...]
    saved: tuple[Any, ...] | Deferred | None
    holds: tuple[Share | None, ...]
    shape: tuple[int, ...]
    dtype: Dtype
    hooks: NodeHooks | None
    site: str | None
    recipe: Recipe | None
    is_in_use: bool
    def shares(self) -> list[Share]: ...
    def save_output(self, array: Array | None, share: Share | None) -> int: ...
    def moved_to(self, x: StorageReference) -> None: ...
    def name(self) -> str: ...

class Leaf(Node):
    home: ref[TensorCore]
    def __init__(self, x: StorageReference) -> None: ...
    def tensor(self) -> Tensor | None: ...

class Deferred:
    def restore(self, node: Node) -> None: ...
    def shares(self) -> list[Share]: ...

class Ticks:
    left: int

def tick_counter() -> Ticks: ...
def nodes_alive() -> int: ...
def become_leaf(x: StorageReference) -> None: ...
