"""PyTorch's adapter: scopes know its tensors from when this is imported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scopes.core.containers import add_holder
from scopes.core.foreign import add_adapter
from scopes.foreign.adapter import Adapter
from scopes.foreign.torch import disposal, heap, kept, memory
from scopes.foreign.torch.keeping import KEEPERS
from scopes.foreign.torch.library import torch
from scopes.tracking.holders import follow_graphs
from scopes.tracking.sites import pass_over

if TYPE_CHECKING:
    from collections.abc import Iterable


class TorchAdapter(Adapter):
    """How PyTorch's tensors end, and how much memory they take."""

    library = "torch"
    kinds = (torch.Tensor,)
    # C++ may own a tensor that Python has let go of (the cache of autocast): Python owns it from here on.
    revive = staticmethod(torch.Tensor._fix_weakref)

    look = staticmethod(KEEPERS.look)
    find_kept = staticmethod(kept.find)

    def count_keepers(self) -> int:
        """Return how many keepers there have been so far."""
        return KEEPERS.counted()

    def find_kept_by_older(self, objects: dict[int, Any], older: int) -> set[int]:
        """Ask the keepers; what they keep holds its base and its graph."""
        if not objects:
            return set()
        KEEPERS.look()
        kept = KEEPERS.find(objects, older, is_strict=False, is_older=True)
        return {*kept, *map(id, memory.kept_alive_by([objects[key] for key in kept]))}

    def end(self, x: Any, is_safe: bool) -> object:
        """Exchange implementation and class."""
        nbytes = memory.nbytes_on_cpu(x)
        ending = disposal.end(x, is_safe)
        heap.note_freed(nbytes)
        return ending

    def describe(self, ending: Any) -> str:
        """Return shape and dtype in words."""
        shape, dtype = ending
        return f"dtype {dtype}" if shape is None else f"shape {tuple(shape)}, dtype {dtype}"

    def footprint(self, x: Any) -> tuple[int, int]:
        """Return the storage's."""
        return memory.footprint(x)

    def device(self, x: Any) -> str:
        """Return the tensor's."""
        return memory.device(x)

    def keeps(self, x: Any, seen: set[int]) -> Iterable[tuple[int, int | None]]:
        """Yield the tensor's own, and what its graph keeps."""
        return memory.keeps(x, seen)

    def last_op(self, x: Any) -> object:
        """Return what is put into the metadata of the operation, and goes with that."""
        return memory.last_op(x)

    def is_adoptable(self, x: Any) -> bool:
        """Parameters and buffers are their modules'; fake and functional tensors stand for none."""
        return not isinstance(x, _NEVER)

    def is_new(self, x: Any) -> bool:
        """Tell whether it is adoptable, and no wrapper that a transformation of torch.func made."""
        return (type(x) is torch.Tensor or self.is_adoptable(x)) and not _is_wrapped(x)


_is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor
_NEVER = (
    torch.nn.Parameter,
    torch.nn.Buffer,
    torch._subclasses.fake_tensor.FakeTensor,
    torch._subclasses.functional_tensor.FunctionalTensor,
)


def _held_by_optimizer(optimizer: Any) -> Iterable[Any]:
    return optimizer.state, optimizer.param_groups


ADAPTER = TorchAdapter()
disposal.tell_errors_by(ADAPTER.disposed_error)
disposal.self_test()
add_adapter(ADAPTER)
# A module holds what all its attributes do: parameters, buffers, inner modules, tensors that are neither.
add_holder(torch.nn.Module, lambda module: list(vars(module).values()))
add_holder(torch.optim.Optimizer, _held_by_optimizer)
pass_over("torch")
follow_graphs(torch.Tensor, memory.saved_by_graph)
