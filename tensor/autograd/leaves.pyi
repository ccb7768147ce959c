from collections.abc import Iterable

from tensor.core.tensor import TensorCore

def clear_gradients(tensors: Iterable[TensorCore], set_to_none: bool) -> None: ...
