"""CuPy's arrays in scopes: adopted when their class creates them, and emptied by their disposal.

The tests only cover arrays over memory that CuPy does not own, because they ran without a GPU.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, NoReturn, Self
from weakref import ref

from scopes.adapters.adapter import Adapter, check_version, import_library, raise_unsupported
from scopes.adapters.foreign import add_adapter, adopt, leave_alone
from scopes.adapters.patches import Patches
from scopes.core.errors import TensorDisposedError
from scopes.tracking.sites import skip_package
from scopes.tracking.tracking import note_memory

cupy = import_library("cupy", "CuPy", "cupy")
check_version("cupy", cupy.__version__, (13, 0))


class CupyAdapter(Adapter):
    """The adapter for CuPy's arrays."""

    library = "cupy"
    noun = "array"
    kinds = (cupy.ndarray,)

    def end(self, x: Any, is_safe: bool) -> object:
        """Make `x` an empty array, of a class whose methods and attributes raise an error.

        Without `is_safe`, only the class changes. The memory returns to CuPy's pool when no array uses it.
        """
        ending = x.shape, x.dtype
        disposed = _disposed_class_for(type(x))
        if is_safe and x.data is not None:
            _empty(x)
        x.__class__ = disposed
        return ending

    def describe(self, ending: Any) -> str:
        """Return shape and dtype in words."""
        shape, dtype = ending
        return f"shape {shape}, dtype {dtype}"

    def footprint(self, x: Any) -> tuple[int, int]:
        """Return the key and size of the whole block of `x`, because a view keeps all of it."""
        if x.data is None:  # the constructor still runs
            return id(x), 0
        return id(x.data.mem), x.data.mem.size

    def device(self, x: Any) -> str:
        """Return the device of `x` in PyTorch's form."""
        return f"cuda:{x.data.device_id}"


ADAPTER = CupyAdapter()


def _empty(x: Any) -> None:
    """Make `x` an array without memory and elements.

    It has eight dimensions and dtype float64. So C++ functions, which do not check the class, still raise an
    error when they concatenate it, multiply it or index with it.
    """
    nothing = cupy.cuda.UnownedMemory(0, 0, None, x.data.device_id)
    x._shape = ()
    x._init((0,) * 8, dtype=float, memptr=cupy.cuda.MemoryPointer(nothing, 0))


# Attributes that Python itself needs on an object or its class.
_KEPT = {
    *("__class__", "__delattr__", "__dir__", "__doc__", "__getattribute__", "__hash__", "__init__"),
    *("__init_subclass__", "__module__", "__new__", "__repr__", "__setattr__", "__sizeof__", "__slots__"),
    *("__subclasshook__", "__weakref__", "__dict__", "__pyx_vtable__"),
}
# Attributes that a universal function reads from all arguments, before it reads their memory.
_READ_BY_UFUNCS = {"__cupy_override_elementwise_kernel__", "__array_ufunc__", "__array_priority__"}
_classes: dict[type, type] = {}


def _error(x: Any) -> TensorDisposedError:
    return ADAPTER.disposed_error(x)


def _raise(x: Any, *_: Any) -> NoReturn:
    raise _error(x)


def _disposed_class_for(kind: type) -> type:
    """Return a class like `kind` whose attributes raise an error."""
    disposed = _classes.get(kind)
    if disposed is None:
        raising = property(_raise, _raise, _raise)
        namespace: dict[str, Any] = {
            # Python looks up the methods of operators on the class, so they are functions.
            name: _raise if name.startswith("__") and callable(getattr(kind, name)) else raising
            for name in set(dir(kind)) - _KEPT
        }
        namespace |= {
            **dict.fromkeys(_READ_BY_UFUNCS, raising),
            "__slots__": (),
            "__module__": __name__,
            "__repr__": lambda x: f"<disposed: {_error(x)}>",
            "is_invalid": True,
        }
        disposed = _classes[kind] = type(f"Disposed{kind.__name__}", (kind,), namespace)
    return disposed


def _no_array() -> None:
    return None


class _ThreadState(threading.local):
    """The state of ``owning`` on this thread."""

    depth = 0
    # The newest array, as a weak reference. The next block from the pool is for this array.
    newest: Callable[[], Any] = staticmethod(_no_array)


_state = _ThreadState()
# The number of open `watching` blocks of the process.
_watchers = 0


def _constructing(new: Callable[..., Any]) -> Callable[..., Any]:
    """Return a ``__new__`` that adopts new arrays. CuPy calls it for each array, also from C++."""

    def adopting_new(kind: type, *args: Any, **kwargs: Any) -> Any:
        x = new(kind, *args, **kwargs)
        if _state.depth:
            adopt(x)
        elif _watchers:
            leave_alone(x)
        if _state.depth or _watchers:
            _state.newest = ref(x)
        return x

    return adopting_new


_patches = Patches({(cupy.ndarray, "__new__"): _constructing})


class _Blocks(cupy.cuda.MemoryHook):  # type: ignore[misc, name-defined]
    """Reports the size of a new array to tracking. The array is adopted before it has memory."""

    name = "disposescope"

    def malloc_postprocess(self, **event: Any) -> None:
        x = _state.newest()
        _state.newest = _no_array
        if x is not None and x.data is None:
            note_memory(x, event["pmem_id"], event["mem_size"])


class owning:  # noqa: N801  # it is called like a function
    """Make the current scope own each new CuPy array of this thread inside the block.

    Results of in-place operations stay in their scope. The scope also owns arrays that CuPy keeps, such as a
    random generator's state. Create such objects outside the scope, or call ``scope.detach`` on their arrays.
    """

    def __init__(self) -> None:
        self._hook: _Blocks | None = None

    def __enter__(self) -> Self:
        _patches.begin()
        if not _state.depth:
            hook = _Blocks()
            try:
                hook.__enter__()
            except BaseException:
                _patches.end()
                raise
            self._hook = hook
        _state.depth += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _state.depth -= 1
        hook, self._hook = self._hook, None
        if hook is not None:
            hook.__exit__(kind, error, traceback)
        _patches.end()


class watching:  # noqa: N801  # it is called like a function
    """Track each new CuPy array inside the block. No scope owns it. Tracking opens this block."""

    def __init__(self) -> None:
        self._hook = _Blocks()

    def __enter__(self) -> Self:
        global _watchers
        _patches.begin()
        self._hook.__enter__()
        _watchers += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        global _watchers
        _watchers -= 1
        self._hook.__exit__(kind, error, traceback)
        _patches.end()


_enabled: list[owning] = []


def enable() -> None:
    """Make scopes own each new CuPy array of this thread until ``disable()``."""
    disable()
    block = owning()
    block.__enter__()
    _enabled.append(block)


def disable() -> None:
    """Undo ``enable()``."""
    while _enabled:
        _enabled.pop().__exit__(None, None, None)


class _Owner:
    """Owner of memory outside of CuPy, for the self-test."""


def _array_over_foreign_memory() -> tuple[Any, Callable[[], object]]:
    """Return an array over memory of an owner, and a weak reference to that owner."""
    owner = _Owner()
    memory = cupy.cuda.UnownedMemory(512, 16, owner, 0)
    array = cupy.ndarray((4,), dtype="float32", memptr=cupy.cuda.MemoryPointer(memory, 0))
    return array, ref(owner)


def _self_test() -> None:
    try:
        x, owner = _array_over_foreign_memory()
        ADAPTER.end(x, True)
    except (AttributeError, TypeError, ValueError) as error:
        raise_unsupported("cupy", cupy.__version__, error)
    if owner() is not None:
        raise_unsupported("cupy", cupy.__version__, "disposing an array does not free its memory")
    found: list[Any] = []
    y, _ = _array_over_foreign_memory()
    with owning():
        found.append(_state.newest())
        view = y[:2]
        found.append(_state.newest())
    if found[1] is not view:
        raise_unsupported("cupy", cupy.__version__, "it creates views without calling the class of arrays")


_self_test()
add_adapter(ADAPTER)
skip_package("cupy")
skip_package("cupyx")
