"""Dispose PyTorch tensors: free the memory, and make each later use raise `TensorDisposedError`.

The disposal changes a tensor in two ways. Its class becomes one whose ``__torch_function__`` raises. And its
implementation, the `TensorImpl` of C++, is swapped with that of an empty tensor on the meta device, the
"shell". So C++ code that never calls ``__torch_function__`` does not read freed memory. Other ways to release
a tensor's memory do not suit: after ``storage.resize_(0)`` a use may crash, and after ``x.data = empty`` it
silently reads an empty tensor.

The old implementation is freed with the shell, unless C++ code refers to it: a graph that needs its values
for backward, or a view. Then backward works as before, and the memory is freed with the graph or the view.
Sometimes the swap is not possible, and only the class changes. Then backward may use the tensor.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scopes.adapters.adapter import raise_unsupported
from scopes.adapters.foreign import Ender, names_of_ended_scope
from scopes.adapters.torch import memory, streams
from scopes.adapters.torch.library import VERSION, torch, tried
from scopes.core.errors import TensorDisposedError
from scopes.tracking.records import UNNAMED
from scopes.tracking.sites import Site
from scopes.tracking.tracking import current, record_of

if TYPE_CHECKING:
    from scopes.tracking.records import Record, Tracker

try:
    _swap = torch._C._swap_tensor_impl
    _make_empty = torch.Tensor._make_wrapper_subclass
    _NoFunctions = torch._C.DisableTorchFunction
    _backward_id = torch._C._current_graph_task_id
    _mode_count = torch._C._len_torch_function_stack
except AttributeError as error:
    raise_unsupported("torch", VERSION, error)

_META = torch.device("meta")
_PLAIN = (torch.Tensor, torch.nn.Parameter)

# The adapter's function that returns the error for a use of a disposed tensor.
_error_for: Callable[[Any], TensorDisposedError]


def set_error_factory(error_for: Callable[[Any], TensorDisposedError]) -> None:
    """Make uses of a disposed tensor ``x`` raise ``error_for(x)``."""
    global _error_for
    _error_for = error_for


class DisposedTensor(torch.Tensor):  # type: ignore[misc, name-defined]
    """The class of disposed tensors."""

    __slots__ = ()
    # The attribute that all disposables have.
    is_invalid = True

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if _backward_id() != -1 and _are_values_left(args, kwargs):
            with _NoFunctions():
                return func(*args, **(kwargs or {}))
        raise _error_of(args, kwargs)

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        raise _error_of(args, kwargs)

    def __repr__(self) -> str:  # for debuggers, and the errors of tests
        return f"<disposed: {_error_for(self)}>"

    def __deepcopy__(self, memo: object) -> Any:
        raise _error_for(self)

    def __reduce_ex__(self, protocol: object) -> Any:
        raise _error_for(self)


def _are_values_left(args: object, kwargs: object) -> bool:
    """Return whether the disposed arguments have their values, because only their classes have changed.

    A graph returns such a tensor to the backward function that saved it.
    """
    with _NoFunctions():
        return not any(x.is_meta for x in _disposed_in((args, kwargs)))


def _error_of(args: object, kwargs: object) -> TensorDisposedError:
    for x in _disposed_in((args, kwargs)):
        return _error_for(x)
    return TensorDisposedError("a disposed torch tensor was used")


def _disposed_in(items: object) -> Iterator[Any]:
    if isinstance(items, DisposedTensor):
        yield items
    elif isinstance(items, (tuple, list)):
        for item in items:
            yield from _disposed_in(item)
    elif isinstance(items, dict):
        yield from _disposed_in(tuple(items.values()))


def _end(x: Any, is_safe: bool) -> tuple[tuple[int, ...] | None, Any]:
    """Dispose a tensor that `end` does not dispose itself."""
    # Bypass modes and the `__torch_function__` of the tensor's class.
    with _NoFunctions():
        return _end_without_functions(x, type(x), is_safe)


def _end_without_functions(x: Any, kind: Any, is_safe: bool) -> tuple[tuple[int, ...] | None, Any]:
    try:
        shape = x.shape
    except RuntimeError:  # a nested tensor
        shape = None
    ending = shape, x.dtype
    try:
        nbytes = x.nbytes if x.is_cpu else 0
    except (RuntimeError, NotImplementedError):  # sparse, nested, opaque
        nbytes = 0
    if streams.used and x.is_cuda:
        streams.record(x)
    if is_safe and x.requires_grad and (x.is_leaf or x.retains_grad):
        _drop_graph_of_gradient(x)
    disposed = DisposedTensor if kind is torch.Tensor else _disposed_class_for(kind)
    shell = _new_shell() if disposed is DisposedTensor else _make_empty(disposed, (0,), device=_META)
    x.__class__ = disposed
    if not is_safe or not _exchange(x, shell):
        # Only the class of `x` changes. The memory is freed with the last reference to `x`.
        with _NoFunctions():
            _note_held(x, x)
        _note_freed(nbytes)
        return ending
    # A graph may return the old implementation as a saved tensor, so keep its class and attributes.
    shell.__class__ = kind
    if kind not in _PLAIN and x.__dict__:
        shell.__dict__.update(x.__dict__)
        x.__dict__.clear()
    _note_held(x, shell)
    _note_freed(nbytes)
    return ending


def _drop_graph_of_gradient(x: Any) -> None:
    """Drop the gradient of `x`, which may have one, if it has a graph: after ``backward(create_graph=True)``.

    The graph of a gradient refers to `x`. Both would refer to each other in C++, and never be freed.
    """
    gradient = x.grad
    if gradient is not None and gradient.grad_fn is not None:
        x.grad = None


# Shells for later disposals. Many are allocated at a time, so that they are adjacent in the C heap. Shells
# between large blocks would each keep a page in memory.
_shells: list[Any] = []


def _new_shell() -> Any:
    try:
        return _shells.pop()
    except IndexError:
        with torch.inference_mode(False):
            made = [_make_empty(DisposedTensor, (0,), device=_META) for _ in range(128)]
        shell = made.pop()
        _shells.extend(made)
        return shell


def _exchange(x: Any, shell: Any) -> bool:
    """Swap the implementations. Return False if C++ code has a weak reference to that of `x`."""
    try:
        _swap(x, shell)
    except RuntimeError:
        torch.clear_autocast_cache()
        try:
            _swap(x, shell)
        except RuntimeError:
            return False
    return True


_classes: dict[type, type] = {}


def _disposed_class_for(kind: type) -> type:
    """Return `DisposedTensor`, or a class like it with the slots of `kind`."""
    if kind in _PLAIN or not _has_slots(kind):
        return DisposedTensor
    made = _classes.get(kind)
    if made is None:
        namespace = {"__slots__": (), "__module__": __name__}
        made = _classes[kind] = type(f"Disposed{kind.__name__}", (DisposedTensor, kind), namespace)
    return made


def _has_slots(kind: type) -> bool:
    return any(vars(base).get("__slots__") for base in kind.__mro__ if base not in torch.Tensor.__mro__)


# Memory of disposed tensors that is not freed yet, because a graph, a view or an export needs it.
#
# While tracking is on, the record has the line that created the tensor. Otherwise it has the scope whose end
# disposed the tensor, and the name of the operation that created it.

_StorageWeakRef = torch.multiprocessing.reductions.StorageWeakRef

GRAPH = "a graph, for backward"
# A graph and a DLPack export both refer to the tensor itself. But PyTorch does not export tensors that
# require a gradient.
GRAPH_OR_DLPACK = "a graph, for backward, or a DLPack export"
SHARED = "a view, a detached tensor, NumPy or another export"
VIEW = "a view or a detached tensor"
KEPT = "PyTorch (retain_grad, a profiler or another thread): the tensor's last reference"


#: The line of a tensor that was created while tracking was off.
UNKNOWN = Site(())


class HeldStorage:
    """The storage of a disposed tensor, as a weak reference, and what is known about it."""

    __slots__ = ("by", "device", "nbytes", "op", "owners", "record", "scope", "site", "storage", "tracker")

    def __init__(self, storage: Any, by: str, record: Record | None, tracker: Tracker | None) -> None:
        self.storage: Any = _StorageWeakRef(storage)
        # The tensors that have the storage now. C++ keeps their Python objects alive while a graph refers to
        # them.
        self.owners: list[weakref.ref[Any]] = []
        self.nbytes: int = storage.nbytes()
        self.device: str = str(storage.device)
        self.record, self.tracker = record, tracker
        self.site: Site = UNKNOWN if record is None else record.site
        self.scope: tuple[str, ...] = () if record is None else record.scope
        # The name of the operation, if the line is unknown.
        self.op: str = ""
        self.by = by

    def kept_by_graph(self, seen: set[int]) -> Iterator[tuple[int, int | None]]:
        """Yield the footprints of the memory that graphs of the tensors keep; see ``Adapter.keeps``."""
        for reference in self.owners:
            owner = reference()
            if owner is None:
                continue
            with torch._C.DisableTorchFunction():
                owner._fix_weakref()
                base = owner._base
            yield from memory.keeps(owner, seen)
            if base is not None:
                yield from memory.keeps(base, seen)


_use_count: Any = getattr(torch._C, "_storage_Use_Count", None)
# Whether this version of PyTorch tells how many references a storage has.
can_count: bool = _use_count is not None
# The references of a tensor and of the Python object of its storage.
_OWN_USES = 2

# The storages by address, and the number of them from which the freed ones are forgotten.
storages: dict[int, HeldStorage] = {}
_LEAST = 1000
_most = _LEAST


def _note_held(x: Any, owner: Any) -> None:
    """Record what holds the memory of the disposed `x`. `owner` has this memory now."""
    tracker = current.tracker
    record = None if tracker is None else record_of(x)
    is_shared = owner._use_count() > 1
    if record is None and not can_count:
        return
    try:
        storage = owner.untyped_storage()
    except (RuntimeError, NotImplementedError):  # no storage: sparse, nested
        return
    if record is None and not is_shared and x is not owner:
        if _use_count(storage._cdata) <= _OWN_USES:
            return  # it is free as soon as the caller has released `owner`
        base = owner._base
        if base is not None and not getattr(type(base), "is_invalid", False):
            return  # the memory of the tensor that `x` was a view of
    if x is owner:
        by = KEPT
    elif is_shared:
        by = GRAPH if owner.requires_grad else GRAPH_OR_DLPACK
    else:
        by = SHARED
    if len(storages) > _most:
        forget_freed()
    known = storages.get(storage._cdata)
    if known is None or known.storage.expired():
        known = storages[storage._cdata] = HeldStorage(storage, by, record, tracker)
        if record is None:
            known.scope = tuple([name or UNNAMED for name in names_of_ended_scope(x)])
    if known.record is None and not known.op and owner.grad_fn is not None:
        known.op = owner.grad_fn.name()
    if is_shared or x is owner:
        if len(known.owners) % _LEAST == _LEAST - 1:
            known.owners = [each for each in known.owners if each() is not None]
        known.owners.append(weakref.ref(owner))


def forget_freed() -> None:
    """Forget the storages that are free."""
    global _most
    for key in [key for key, each in list(storages.items()) if each.storage.expired()]:
        storages.pop(key, None)
    _most = max(_LEAST, 2 * len(storages))


# The C heap: the memory of disposed tensors returns to the system.

# The heap is trimmed after this many freed bytes. One trim takes about a millisecond.
_MUCH = 16 * 2**20
# A file with the sizes of the process, in pages.
_RESIDENT = Path("/proc/self/statm")

_freed = 0


def _find_trim() -> Any:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # not glibc
        return None


_trim = _find_trim()
_M_MMAP_THRESHOLD = -3


def _note_freed(nbytes: int) -> None:
    """Count `nbytes` freed by a tensor, and trim the heap from time to time.

    glibc itself only trims the end of the heap, which one small object can prevent.
    """
    global _freed
    _freed += nbytes
    if _freed >= _MUCH:
        trim()


def trim() -> None:
    """Return the free parts of the heap to the system, if the C library can do it."""
    global _freed
    _freed = 0
    if _trim is not None:
        _trim(0)


_ATTRIBUTES = (
    *("shape", "dtype", "is_cpu", "nbytes", "is_leaf", "requires_grad", "retains_grad"),
    *("_use_count", "untyped_storage"),
)
_ender = Ender(
    torch.Tensor,
    DisposedTensor,
    {name: getattr(torch._C.TensorBase, name) for name in _ATTRIBUTES},
    _shells,
    _mode_count,
    _swap,
    _use_count,
    _OWN_USES,
    _end,
    _note_held,
    _note_freed,
)
#: Disposes its first argument, a tensor. Returns the shape, or None if there is none, and the dtype. If the
#: second argument, `is_safe`, is False, another thread may be using the tensor: only its class changes.
end = _ender.end


def return_large_blocks() -> None:
    """Make the C library return freed blocks of at least 1 MiB to the system at once, if it can.

    glibc otherwise keeps freed blocks up to 32 MiB in its heap, where small objects leave gaps between them.
    The setting holds until the process ends. The environment variable ``MALLOC_MMAP_THRESHOLD_`` comes first.
    """
    if _trim is not None and "MALLOC_MMAP_THRESHOLD_" not in os.environ:
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, 2**20)


def resident_bytes() -> int | None:
    """Return the resident size of the process, or None if the system does not report it."""
    try:
        return int(_RESIDENT.read_text(encoding="utf-8").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, AttributeError, ValueError):
        return None


def self_test() -> None:
    """Raise an error unless the installed PyTorch meets the assumptions of this module."""
    problems = tried(lambda: list(_problems()))
    if problems:
        raise_unsupported("torch", VERSION, f"its self-test failed: {', '.join(problems)}")


def _problems() -> Iterable[str]:
    weight = torch.ones(3, requires_grad=True)
    x = weight * 2
    y = x * x
    loss = y.sum()
    free = torch.ones(1000)
    memory = torch.multiprocessing.reductions.StorageWeakRef(free.untyped_storage())
    for tensor in (x, y, free):
        end(tensor, True)
    if not memory.expired():
        yield "disposing a tensor does not free its memory"
    exported = torch.ones(1000)
    array = exported.numpy()
    memory = torch.multiprocessing.reductions.StorageWeakRef(exported.untyped_storage())
    end(exported, True)
    if memory.expired():
        yield "disposing a tensor frees memory that an array of NumPy uses"
    del array
    loss.backward()
    if weight.grad is None or weight.grad.tolist() != [8.0, 8.0, 8.0]:
        yield "disposing a tensor changes gradients"
    try:
        free + 1
    except TensorDisposedError:
        pass
    else:
        yield "a disposed tensor can be used"
    # With this key C++ code calls `DisposedTensor.__torch_dispatch__`. The test makes no such call: the first
    # one in a process imports `torch.distributed.tensor` and sympy, 570 modules.
    if not torch._C._dispatch_keys(free).has(torch._C.DispatchKey.Python):
        yield "a disposed tensor can be used from C++"
