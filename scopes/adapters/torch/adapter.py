"""PyTorch's adapter. After the import of this module, scopes may own PyTorch's tensors."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import partial
from types import FrameType
from typing import Any

from scopes.adapters.adapter import Adapter
from scopes.adapters.foreign import add_adapter
from scopes.adapters.keepers import USER
from scopes.adapters.torch import disposal, keepers, memory
from scopes.adapters.torch.keepers import KEEPERS
from scopes.adapters.torch.library import torch
from scopes.core.containers import add_container
from scopes.core.errors import TensorDisposedError
from scopes.tracking.hidden import follow_hidden, note_graph_nodes
from scopes.tracking.members import show_members
from scopes.tracking.memory_owners import TensorClass, list_caches_by, note_role, note_tensors
from scopes.tracking.sites import skip_package

_is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor


class TorchAdapter(Adapter):
    """The adapter for PyTorch's tensors."""

    library = "torch"
    kinds = (torch.Tensor,)
    # C++ may own a tensor without references in Python, such as in the cache of autocast. Make Python own it.
    revive = staticmethod(torch.Tensor._fix_weakref)

    mark = staticmethod(KEEPERS.mark)
    are_explained = staticmethod(KEEPERS.are_explained)
    find_kept = staticmethod(keepers.find_kept)
    end = staticmethod(disposal.end)
    is_wrapper = staticmethod(_is_wrapped)

    def count_keepers(self) -> int:
        """Return the number of keepers so far."""
        return KEEPERS.find_new()

    def find_kept_by_older(self, objects: dict[int, Any], older: int) -> set[int]:
        """Return the ids of objects that keepers hold, and of tensors that their views and graphs need."""
        if not objects:
            return set()
        KEEPERS.find_new()
        kept = set(KEEPERS.find(objects, older, is_strict=False, is_older=True))
        kept.update(map(id, memory.kept_alive_by([objects[key] for key in kept])))
        # A gradient belongs to its tensor. Tensors that are older than `objects` are not among them.
        for x, gradient in memory.gradients():
            if id(x) in kept or id(x) not in objects:
                kept.add(id(gradient))
        return kept

    def describe(self, ending: Any) -> str:
        """Return the shape and dtype as text."""
        shape, dtype = ending
        return f"dtype {dtype}" if shape is None else f"shape {tuple(shape)}, dtype {dtype}"

    def footprint(self, x: Any) -> tuple[int, int]:
        """Return a key that identifies the storage of `x`, and its size in bytes."""
        return memory.footprint(x)

    def device(self, x: Any) -> str:
        """Return the name of the device of `x`."""
        return memory.device(x)

    def keeps(self, x: Any, seen: set[int]) -> Iterable[tuple[int, int | None]]:
        """Yield the footprints of `x` and of the memory that its graph keeps."""
        return memory.keeps(x, seen)

    def last_op(self, x: Any) -> object:
        """Return an object in the metadata of the operation, so it is freed with the operation."""
        return memory.last_op(x)

    def is_kept_by_library(self, x: Any, references: int) -> bool:
        """Return whether only C++ keeps `x`: a view of it, a graph, or a parameter whose gradient it is."""
        return references <= memory.REFERENCES_IN_CPP and memory.is_shared(x)

    def disposed_error(self, x: Any) -> TensorDisposedError:
        """Return the error for a use of `x`. It tells how to name a library, if one may be using `x`."""
        error = super().disposed_error(x)
        package = _package_that_uses_it()
        if package is None:
            return error
        return TensorDisposedError(
            f"{error}. If {package} is a library that keeps tensors, start the program with "
            f"DISPOSESCOPE_TORCH_LIBRARIES={package}: then scopes leave its tensors alone"
        )

    def is_adoptable(self, x: Any) -> bool:
        """Return whether scopes may own `x`; False for parameters, buffers, fake and functional tensors."""
        return not isinstance(x, _NEVER)

    def may_own_new(self, x: Any) -> bool | None:
        """Return whether a scope may own `x`. Return None for fake tensors and wrappers of torch.func."""
        if _is_wrapped(x) or isinstance(x, _WITHOUT_MEMORY):
            return None
        return self.is_adoptable(x)


def _package_that_uses_it() -> str | None:
    """Return the package of the innermost function of the user's code, if it never imports `scopes`."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = str(frame.f_globals.get("__name__"))
        if keepers.author_of_file(frame.f_code.co_filename) == USER:
            package = name.partition(".")[0]
            return None if package == "__main__" or keepers.opens_scopes(package) else package
        frame = frame.f_back
    return None


_WITHOUT_MEMORY = (
    torch._subclasses.fake_tensor.FakeTensor,
    torch._subclasses.functional_tensor.FunctionalTensor,
)
_NEVER = (torch.nn.Parameter, torch.nn.Buffer, *_WITHOUT_MEMORY)


ADAPTER = TorchAdapter()
# The self-test raises an error that names no package: to find the installed packages takes 50 ms and 2 MiB.
disposal.set_error_factory(partial(Adapter.disposed_error, ADAPTER))
disposal.self_test()
disposal.set_error_factory(ADAPTER.disposed_error)
add_adapter(ADAPTER)
# All attributes of a module: parameters, buffers, submodules, and other tensors.
add_container(torch.nn.Module, lambda module: list(vars(module).values()))
add_container(torch.optim.Optimizer, lambda optimizer: (optimizer.state, optimizer.param_groups))
skip_package("torch")
follow_hidden(torch.Tensor, memory.hidden_references)
show_members(torch.nn.Module, memory.members_of)
note_graph_nodes(torch._C._FunctionBase)
note_tensors(
    torch.Tensor,
    TensorClass(
        memory.footprint, memory.gradient_of, memory.StorageWatch.of, memory.are_alive, reuses_keys=False
    ),
)
note_role(torch.nn.Module, "module")
note_role(torch.optim.Optimizer, "optimizer")
note_role(torch.utils.data.Dataset, "data")
note_role(torch.utils.data.DataLoader, "data")
list_caches_by(memory.caches)
