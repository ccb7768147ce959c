from collections.abc import Callable
from typing import Any

from tensor._dtypes import Array
from tensor.core.tensor import FiledValues, StorageReference, TensorCore

class Step:
    def __init__(self, rule: str | None) -> None: ...
    def gather(
        self,
        params: list[Any],
        states: dict[Any, dict[str, Any]],
        names: tuple[str, ...],
        counter: str | None,
        new_state: Callable[[Any, str], TensorCore],
        numbers: Callable[[int], tuple[float, ...]],
    ) -> None: ...
    def exchange(
        self,
        exchanges: list[tuple[StorageReference, FiledValues, FiledValues]],
        fresh: list[tuple[Any, Any, dict[str, Any]]],
        counted: list[tuple[dict[str, Any], str, int]],
    ) -> None: ...
    def run(self, formula: Callable[[tuple[float, ...], list[Array]], object]) -> None: ...
