"""The memory of PyTorch's tensors and of their graphs, and their devices."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from typing import Any
from weakref import ref

from scopes.adapters import foreign
from scopes.adapters.torch.library import torch, tried
from scopes.tracking.counts import reference_counts
from scopes.tracking.hidden import GRAPH

_NoFunctions = torch._C.DisableTorchFunction


def footprint(x: Any) -> tuple[int, int]:
    """Return a key that identifies the storage of `x`, and its bytes, which are 0 on the meta device."""
    with _NoFunctions():
        parts = parts_of(x)
        nbytes = 0
        key = id(x)
        for part in parts:
            try:
                storage = part.untyped_storage()
            except (RuntimeError, NotImplementedError):
                continue  # an opaque tensor, whose memory PyTorch does not know
            key = storage._cdata
            if storage.device.type != "meta":
                nbytes += storage.nbytes()
        return key, nbytes


def parts_of(x: Any) -> list[Any]:
    """Return the tensors with the storages of `x`: itself, or its inner tensors, such as sparse values."""
    layout = x.layout
    if layout is torch.strided:
        inner = getattr(x, "__tensor_flatten__", None)
        return [x] if inner is None else [getattr(x, name) for name in inner()[0]]
    if layout is torch.sparse_coo:
        return [x._indices(), x._values()]
    if layout in (torch.sparse_csr, torch.sparse_bsr):
        return [x.crow_indices(), x.col_indices(), x.values()]
    if layout in (torch.sparse_csc, torch.sparse_bsc):
        return [x.ccol_indices(), x.row_indices(), x.values()]
    inner = getattr(x, "__tensor_flatten__", None)
    return [x] if inner is None else [getattr(x, name) for name in inner()[0]]


def device(x: Any) -> str:
    """Return the name of the device of `x`."""
    with _NoFunctions():
        return str(x.device)


def keeps(x: Any, seen: set[int]) -> Iterator[tuple[int, int | None]]:
    """Yield the footprint of `x`, and those of its graph's saved tensors except leaves.

    An operation is yielded with None instead of bytes. `seen` has ids of operations, so their Python objects
    must live as long as `seen`. If `seen` has a list ``held``, the objects are added to it.
    """
    yield footprint(x)
    with _NoFunctions():
        root = x.grad_fn
        found = [] if root is None else _kept_by(root, seen)
    yield from found


class _Mark:
    """Object in the metadata of a recorded operation, so it is freed with the operation."""

    __slots__ = ("__weakref__",)


def last_op(x: Any) -> object:
    """Return the mark of the operation that created `x`, or None if none is recorded."""
    with _NoFunctions():
        node = x.grad_fn
    return None if node is None else mark_of(node)


def mark_of(node: Any) -> object:
    """Return the mark of a recorded operation, or None if it can't have one."""
    metadata = getattr(node, "metadata", None)
    return metadata.setdefault(_Mark, _Mark()) if isinstance(metadata, dict) else None


# PyTorch makes a Python object for a tensor that only C++ had, when a search reads it. The program did not
# create it, so `hiding` keeps it out of the notes of new tensors.
@foreign.hiding
def _kept_by(root: Any, seen: set[int]) -> list[tuple[int, int | None]]:
    saved: list[Any] = []
    stack = [root]
    held: list[Any] = getattr(seen, "held", [])
    found: list[tuple[int, int | None]] = []
    while stack:
        node = stack.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        held.append(node)
        leaf = getattr(node, "variable", None)
        if isinstance(leaf, torch.Tensor):
            seen.add(footprint(leaf)[0])  # a leaf's memory does not belong to the graph
        else:
            found.append((id(node), None))
        saved += saved_by(node)
        stack += [inner for inner, _ in node.next_functions]
    return found + [part for part in map(footprint, saved) if part[0] not in seen]


def hidden_references(x: Any, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """Yield what C++ keeps for `x`, with its text: its base, its gradient, and what its graph refers to.

    Do not follow operations in `seen`.
    """
    yield from _hidden_references(x, seen)


@foreign.hiding
def _hidden_references(x: Any, seen: set[int]) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    with _NoFunctions():
        if x._base is not None:
            found.append((" (a view of it)", x._base))
        if x.requires_grad and (x.is_leaf or x.retains_grad) and x.grad is not None:
            found.append((".grad", x.grad))
        stack = [x.grad_fn]
        while stack:
            node = stack.pop()
            # PyTorch may create a new Python object for the node each time. The mark in its metadata stays.
            metadata = getattr(node, "metadata", None)
            if not isinstance(metadata, dict):
                continue
            mark = metadata.setdefault(_Mark, _Mark())
            if id(mark) in seen:
                continue
            seen.add(id(mark))
            leaf = getattr(node, "variable", None)
            kept = [*saved_by(node), *([leaf] if isinstance(leaf, torch.Tensor) else ())]
            if isinstance(node, _PythonNode):
                kept.append(node)  # its attributes: those of `ctx`
            found += [(GRAPH, x) for x in kept]
            stack += [inner for inner, _ in node.next_functions]
    return found


def is_shared(x: Any) -> bool:
    """Return whether C++ has a reference to `x` besides that of its Python object."""
    with _NoFunctions():
        return bool(x._use_count() > 1)


def _references_in_cpp() -> int:
    base = torch.empty(0)
    view, weak = base[:], ref(base)
    del base
    items: list[tuple[None, Any]] = [(None, weak())]
    items[0][1]._fix_weakref()
    (count,) = reference_counts(items)
    del view
    return count


# The references to the Python object of a tensor that only C++ keeps, in this version of PyTorch.
REFERENCES_IN_CPP = tried(_references_in_cpp)


def members_of(module: Any) -> list[tuple[str, Any]]:
    """Return the parameters, buffers and submodules of `module` with their names."""
    attributes = vars(module)
    return [
        item
        for name in ("_modules", "_parameters", "_buffers")
        for item in attributes.get(name, {}).items()
        if item[1] is not None
    ]


@foreign.hiding
def kept_alive_by(tensors: Iterable[Any]) -> list[Any]:
    """Return the tensors that C++ keeps for `tensors`: bases of views, saved tensors and leaves of graphs."""
    found: list[Any] = []
    seen: set[int] = set()
    held: list[Any] = []  # keeps the operations' Python objects alive, because `seen` has their ids
    with _NoFunctions():
        for x in tensors:
            if x._base is not None:
                found.append(x._base)
            stack = [x.grad_fn]
            while stack:
                node = stack.pop()
                if node is None or id(node) in seen:
                    continue
                seen.add(id(node))
                held.append(node)
                leaf = getattr(node, "variable", None)
                found += [*saved_by(node), *([leaf] if isinstance(leaf, torch.Tensor) else ())]
                stack += [inner for inner, _ in node.next_functions]
    return found


def gradient_of(x: Any) -> Any:
    """Return the gradient of the leaf `x`, or None."""
    # Reading the attribute may create the gradient's Python object, which the program has not created.
    foreign.suspend_births(True)
    try:
        with _NoFunctions():
            is_disposed = getattr(type(x), "is_invalid", False)
            return x.grad if not is_disposed and x.is_leaf and x.requires_grad else None
    finally:
        foreign.suspend_births(False)


class StorageWatch:
    """A weak reference to the storage of a tensor."""

    __slots__ = ("_key",)

    def __init__(self, storage: Any) -> None:
        self._key: int = storage._weak_ref()

    @classmethod
    def of(cls, x: Any) -> StorageWatch | None:
        """Return a watch of the storage of `x`, None if it has none."""
        with _NoFunctions():
            try:
                return cls(parts_of(x)[-1].untyped_storage())
            except (RuntimeError, NotImplementedError, IndexError):
                return None

    def is_alive(self) -> bool:
        """Return whether a tensor, a graph or other code in C++ refers to the storage."""
        return not torch.UntypedStorage._expired(self._key)

    def __del__(self, free: Any = torch.UntypedStorage._free_weak_ref) -> None:
        free(self._key)


def are_alive(watches: list[StorageWatch]) -> list[bool]:
    """Return for each storage whether something refers to it."""
    return [watch.is_alive() for watch in watches]


def caches() -> list[tuple[str, int]]:
    """Return the free memory that PyTorch keeps for each CUDA device in use."""
    if not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return []
    return [
        (
            f"free blocks of PyTorch on cuda:{n}: torch.cuda.empty_cache() returns them",
            torch.cuda.memory_reserved(n) - torch.cuda.memory_allocated(n),
        )
        for n in range(torch.cuda.device_count())
    ]


def gradients() -> list[tuple[Any, Any]]:
    """Return all leaves of the process that have a gradient, with it."""
    found = []
    # Reading the attribute may create the gradient's Python object, which the program has not created.
    foreign.suspend_births(True)
    try:
        with _NoFunctions():
            for x in gc.get_objects():
                if issubclass(type(x), torch.Tensor) and not getattr(type(x), "is_invalid", False):
                    gradient = x.grad if x.is_leaf and x.requires_grad else None
                    if gradient is not None:
                        found.append((x, gradient))
    finally:
        foreign.suspend_births(False)
    return found


# Older versions return saved tensors only through their unpack hooks, which may copy or compute. With such a
# version, reports count tensors without their graphs.
SHOWS_SAVED = hasattr(torch._C._autograd.SavedTensor, "data")
_names: dict[type, list[str]] = {}
# The operations of subclasses of torch.autograd.Function.
_PythonNode = torch._C._FunctionBase


def saved_by(node: Any) -> list[Any]:
    """Return the tensors that `node` has saved, without running unpack hooks."""
    kind = type(node)
    names = _names.get(kind)
    if names is None:
        names = _names[kind] = [name for name in dir(kind) if name.startswith("_raw_saved_")]
    found: list[Any] = []
    for name in names:
        try:
            raw = getattr(node, name)
        except RuntimeError:  # backward has freed it
            continue
        for saved in raw if isinstance(raw, (tuple, list)) else (raw,):
            try:
                value = saved.data
            except (AttributeError, RuntimeError):
                continue
            if isinstance(value, torch.Tensor):
                found.append(value)
    return found
