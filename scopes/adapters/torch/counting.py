"""Count the memory of PyTorch's CPU tensors, from the import of this module on.

PyTorch calls one allocator for the memory of CPU tensors (``cpu_allocator.h``). The import replaces it, so
all figures count each block from its birth to its end, on all threads. Older blocks return to the allocator
of their birth, so their ends can't be counted. `uncounted_bytes` returns the bytes of those that are alive.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
from _thread import allocate_lock, get_ident, start_new_thread
from collections.abc import Callable
from typing import Any

from scopes.adapters.torch import cpu_allocator
from scopes.adapters.torch.library import VERSION, torch, tried
from scopes.adapters.torch.memory import StorageWatch, are_alive
from scopes.adapters.torch.out_of_memory import OutOfMemoryError, cpu_tensors, described

_GET = "_ZN3c1015GetCPUAllocatorEv"
_SET = "_ZN3c1015SetCPUAllocatorEPNS_9AllocatorEh"
_VIRTUAL_TABLE = "_ZTVN3c109AllocatorE"
# The bytes of an allocation that no limit allows.
_HUGE = 2**62
_MOST_SECONDS = 10.0


class _Limits:
    """The limits in force, of which the smallest applies."""

    def __init__(self) -> None:
        self._all: list[int] = []
        self._lock = threading.Lock()

    def add(self, nbytes: int) -> None:
        with self._lock:
            self._all.append(nbytes)
            cpu_allocator.set_limit(min(self._all))

    def remove(self, nbytes: int) -> None:
        with self._lock:
            self._all.remove(nbytes)
            cpu_allocator.set_limit(min(self._all, default=None))

    def smallest(self) -> int | None:
        return min(self._all, default=None)


limits = _Limits()
# The threads that search for holders. What they allocate is refused without another search.
_searching: set[int] = set()


def _refuse(asked: int) -> BaseException | None:
    """Free memory for an allocation that exceeds the limit, and return the error if that is not enough.

    It runs inside an operation of PyTorch, whose state of the thread differs from that of the program:
    autograd may be off. So finalizers run on a thread of their own, as do the searches.
    """
    limit = limits.smallest()
    if limit is None:
        limit = _HUGE
    if get_ident() in _searching:
        return OutOfMemoryError(asked, cpu_allocator.figures()[0], limit)
    found: list[BaseException | None] = []
    done = allocate_lock()
    done.acquire()

    def search() -> None:
        _searching.add(get_ident())
        try:
            if asked <= limit:
                gc.collect()
            found.append(None if cpu_allocator.has_room(asked) else described(asked, limit))
        finally:
            _searching.discard(get_ident())
            done.release()

    start_new_thread(search, ())
    # A finalizer may wait for a lock of this thread.
    done.acquire(timeout=_MOST_SECONDS)
    return found[0] if found else OutOfMemoryError(asked, cpu_allocator.figures()[0], limit)


def _address_of(library: Any, name: str) -> int:
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0


class _Symbol(ctypes.Structure):
    """The entry of a symbol in a library of 64 bits (``Elf64_Sym``)."""

    _fields_ = (
        ("name", ctypes.c_uint32),
        ("info", ctypes.c_ubyte),
        ("other", ctypes.c_ubyte),
        ("section", ctypes.c_uint16),
        ("value", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
    )


class _Found(ctypes.Structure):
    """What ``dladdr1`` finds (``Dl_info``)."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def _size_of_symbol(address: int) -> int:
    """Return the bytes of the symbol at `address`."""
    symbol, found = ctypes.POINTER(_Symbol)(), _Found()
    find = ctypes.CDLL(None).dladdr1
    find.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
    of_symbol = 1
    if not find(address, ctypes.byref(found), ctypes.byref(symbol), of_symbol):
        return 0
    try:
        return int(symbol.contents.size)
    except ValueError:  # a null pointer
        return 0


def _begin() -> str | None:
    """Begin to count. Return None, or the reason why this is impossible."""
    if sys.platform != "linux" or sys.maxsize < 2**32:
        return f"it works on Linux with 64 bits, and this is {sys.platform}"
    if not cpu_allocator.HAS_LIBRARY_OF_PYTORCH:
        return (
            "disposescope is compiled with another C++ library than PyTorch. Install a C++ compiler such as "
            "g++ and compile it again"
        )
    try:
        library = ctypes.CDLL(torch._C.__file__)
        get, replace, table = (_address_of(library, name) for name in (_GET, _SET, _VIRTUAL_TABLE))
        size = _size_of_symbol(table)
    except (AttributeError, OSError) as error:
        return f"PyTorch {VERSION} or the C library does not have what it needs: {error}"
    if size != cpu_allocator.VIRTUAL_TABLE_BYTES:
        return f"the allocator of PyTorch {VERSION} has other functions than that of PyTorch 2.6 to 2.13"
    if not cpu_allocator.install(get, replace, _refuse):
        return "PyTorch keeps an allocator that another library has set"
    return None


def _works() -> bool:
    """Return whether an allocation is counted and a refusal is raised as our error."""
    x = torch.empty(1000, dtype=torch.uint8)
    if cpu_allocator.size_of(x.data_ptr()) != 1000:
        return False
    limits.add(_HUGE)
    try:
        torch.empty(_HUGE + 1, dtype=torch.uint8)
    except OutOfMemoryError:
        return True
    except Exception:  # noqa: BLE001  # whatever PyTorch makes of it
        return False
    finally:
        limits.remove(_HUGE)
    return False


def _older() -> list[tuple[StorageWatch, int]]:
    """Return the storages that are older than the count, with their bytes."""
    found: dict[int, tuple[StorageWatch, int]] = {}
    for x, address in cpu_tensors():
        storage = x.untyped_storage()
        # Memory of other libraries, such as NumPy's, is not resizable.
        if address not in found and not cpu_allocator.size_of(address) and storage.resizable():
            found[address] = StorageWatch(storage), storage.nbytes()
    return list(found.values())


def uncounted_bytes() -> int:
    """Return the memory of tensors that are older than the count and still alive."""
    alive = are_alive([watch for watch, _ in older])
    return sum(nbytes for (_, nbytes), is_alive in zip(older, alive, strict=True) if is_alive)


def counted(function: Callable[[], Any]) -> Any:
    """Return ``function()``.

    Raises
    ------
    RuntimeError
        If the memory of CPU tensors can't be counted here. It gives the reason.
    """
    if reason is not None:
        raise RuntimeError(f"scopes.torch.memory can't count the memory of CPU tensors: {reason}")
    return function()


reason = _begin()
if reason is None:
    if tried(_works):
        cpu_allocator.reset_peak()
    else:
        reason = f"with PyTorch {VERSION}, a test of the count failed"
older: list[tuple[StorageWatch, int]] = [] if reason is not None else _older()
