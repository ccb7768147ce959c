"""CuPy's arrays in scopes: found when their class creates them, and emptied at the end.

It was only tested without a device, on arrays over memory that CuPy does not own.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, NoReturn, Self
from weakref import ref

from scopes.core.foreign import add_adapter, adopt
from scopes.foreign.adapter import Adapter, check_version, import_library, raise_unsupported
from scopes.foreign.patches import Patches
from scopes.tracking.sites import pass_over
from scopes.tracking.tracking import note_memory

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from scopes.core.errors import TensorDisposedError

cupy = import_library("cupy", "CuPy", "cupy")
check_version("cupy", cupy.__version__, (13, 0))


class CupyAdapter(Adapter):
    """The adapter for CuPy's arrays."""

    library = "cupy"
    kinds = (cupy.ndarray,)

    def end(self, x: Any, is_safe: bool) -> object:
        """Make it an empty array, of a class whose uses raise.

        The memory goes back to CuPy's pool when no other array is over it, as when the last array goes.
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
        """Return the block's that it lies in, whole: views keep all of it."""
        if x.data is None:  # it is being made
            return id(x), 0
        return id(x.data.mem), x.data.mem.size

    def device(self, x: Any) -> str:
        """Return the name of its device, as PyTorch writes it."""
        return f"cuda:{x.data.device_id}"


ADAPTER = CupyAdapter()


def _empty(x: Any) -> None:
    """Exchange the memory of `x` for none, its shape for one of no elements.

    Of eight dimensions and float64, so that functions in C++, which ask no class, refuse to join, to multiply
    or to index by it.
    """
    nothing = cupy.cuda.UnownedMemory(0, 0, None, x.data.device_id)
    x._shape = ()
    x._init((0,) * 8, dtype=float, memptr=cupy.cuda.MemoryPointer(nothing, 0))


# What Python itself asks of an object, or of its class.
_KEPT = {
    *("__class__", "__delattr__", "__dir__", "__doc__", "__getattribute__", "__hash__", "__init__"),
    *("__init_subclass__", "__module__", "__new__", "__repr__", "__setattr__", "__sizeof__", "__slots__"),
    *("__subclasshook__", "__weakref__", "__dict__", "__pyx_vtable__"),
}
# Asked of all arguments of a universal function, before it looks at their memory.
_ASKED = {"__cupy_override_elementwise_kernel__", "__array_ufunc__", "__array_priority__"}
_classes: dict[type, type] = {}


def _error(x: Any) -> TensorDisposedError:
    return ADAPTER.disposed_error(x)


def _refuse(x: Any, *_: Any) -> NoReturn:
    raise _error(x)


def _disposed_class_for(kind: type) -> type:
    """Return a class like `kind` whose attributes raise an error."""
    made = _classes.get(kind)
    if made is None:
        refusing = property(_refuse, _refuse, _refuse)
        namespace: dict[str, Any] = {
            # Python asks the class for what an operator calls.
            name: _refuse if name.startswith("__") and callable(getattr(kind, name)) else refusing
            for name in set(dir(kind)) - _KEPT
        }
        namespace |= {
            **dict.fromkeys(_ASKED, refusing),
            "__slots__": (),
            "__module__": __name__,
            "__repr__": lambda x: f"<disposed: {_error(x)}>",
            "is_invalid": True,
        }
        made = _classes[kind] = type(f"Disposed{kind.__name__}", (kind,), namespace)
    return made


def _no_array() -> None:
    return None


class _Here(threading.local):
    """What is noticed on this thread."""

    depth = 0
    # The array that was made last, to which memory that the pool gives now belongs. Weak.
    newest: Callable[[], Any] = staticmethod(_no_array)


_here = _Here()


def _constructing(new: Callable[..., Any]) -> Callable[..., Any]:
    """Return `new`, with its results adopted: CuPy calls it for each array, in C++ too."""

    def called(kind: type, *args: Any, **kwargs: Any) -> Any:
        x = new(kind, *args, **kwargs)
        if _here.depth:
            adopt(x)
            _here.newest = ref(x)
        return x

    return called


_patches = Patches({(cupy.ndarray, "__new__"): _constructing})


class _Blocks(cupy.cuda.MemoryHook):  # type: ignore[misc, name-defined]
    """Tells tracking how large a new array is: it is adopted before it has memory."""

    name = "disposescope"

    def malloc_postprocess(self, **event: Any) -> None:
        x = _here.newest()
        _here.newest = _no_array
        if x is not None and x.data is None:
            note_memory(x, event["pmem_id"], event["mem_size"])


class owning:  # noqa: N801  # it is called like a function
    """Make the current scope own each new CuPy array of this thread inside the block.

    Results in place stay where they were. What CuPy itself keeps from inside of a scope, as a random
    generator its state, is owned as well: make such things outside, or ``scope.detach`` them.
    """

    def __init__(self) -> None:
        self._hook: _Blocks | None = None

    def __enter__(self) -> Self:
        _patches.begin()
        if not _here.depth:
            hook = _Blocks()
            try:
                hook.__enter__()
            except BaseException:
                _patches.end()
                raise
            self._hook = hook
        _here.depth += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _here.depth -= 1
        hook, self._hook = self._hook, None
        if hook is not None:
            hook.__exit__(kind, error, traceback)
        _patches.end()


_enabled: list[owning] = []


def enable() -> None:
    """Make scopes own each new CuPy array of this thread until ``disable()``."""
    disable()
    made = owning()
    made.__enter__()
    _enabled.append(made)


def disable() -> None:
    """Undo ``enable()``."""
    while _enabled:
        _enabled.pop().__exit__(None, None, None)


class _Owner:
    """Represents memory of another owner."""


def _array_over_others() -> tuple[Any, Callable[[], object]]:
    """Return an array over memory of an owner, and what returns that owner, None when it has gone."""
    owner = _Owner()
    memory = cupy.cuda.UnownedMemory(512, 16, owner, 0)
    array = cupy.ndarray((4,), dtype="float32", memptr=cupy.cuda.MemoryPointer(memory, 0))
    return array, ref(owner)


def _self_test() -> None:
    try:
        x, owner = _array_over_others()
        ADAPTER.end(x, True)
    except (AttributeError, TypeError, ValueError) as error:
        raise_unsupported("cupy", cupy.__version__, error)
    if owner() is not None:
        raise_unsupported("cupy", cupy.__version__, "an array that is emptied keeps its memory")
    found: list[Any] = []
    y, _ = _array_over_others()
    with owning():
        found.append(_here.newest())
        view = y[:2]
        found.append(_here.newest())
    if found[1] is not view:
        raise_unsupported("cupy", cupy.__version__, "arrays are made by other means than their class")


_self_test()
add_adapter(ADAPTER)
pass_over("cupy")
pass_over("cupyx")
