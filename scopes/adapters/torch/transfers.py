"""Bytes of PyTorch's storages, and copies between a GPU and pinned memory of the host."""

from __future__ import annotations

import ctypes
import mmap
from collections import deque
from typing import TYPE_CHECKING, Any

from scopes.adapters.torch.library import torch

if TYPE_CHECKING:
    from typing_extensions import Buffer

# The most copies from the GPU that run at once: their GPU memory can't be used again before they end.
_MAX_COPIES = 2


def buffer_of(storage: Any) -> Buffer:
    """Return the memory of a storage on the CPU. The result does not keep the storage alive."""
    array: Buffer = (ctypes.c_char * storage.nbytes()).from_address(storage.data_ptr())
    return array


def bytes_of(storage: Any) -> Any:
    """Return a tensor of all bytes of `storage`."""
    empty = torch.empty(0, dtype=torch.uint8, device=storage.device)
    return empty.set_(storage, 0, (storage.nbytes(),), (1,))


def pinned(nbytes: int) -> Any:
    """Return a new storage in pinned memory."""
    return torch.empty(nbytes, dtype=torch.uint8, pin_memory=True).untyped_storage()


def paged(nbytes: int) -> Any:
    """Return a new storage on the CPU, in its own pages.

    Freeing it returns the pages to the system. Use it for blocks that only a part of backward needs. A freed
    block in the C heap leaves a gap that may be too small for the next gradients, so the process would grow.
    """
    if not hasattr(mmap, "MAP_PRIVATE"):
        return torch.empty(nbytes, dtype=torch.uint8).untyped_storage()
    pages = mmap.mmap(-1, nbytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return torch.frombuffer(pages, dtype=torch.uint8).untyped_storage()


class Transfers:
    """Copies between one GPU and pinned memory, on a separate stream."""

    def __init__(self, device: Any) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)
        self._copies_to_host: deque[Any] = deque()

    def to_host(self, storage: Any) -> tuple[Any, Any]:
        """Start to copy `storage` to pinned memory. Return the memory, and the copy's end event."""
        source = bytes_of(storage)
        host = pinned(storage.nbytes())
        done = self._copy(bytes_of(host), source)
        source.record_stream(self._stream)
        self._copies_to_host.append(done)
        while len(self._copies_to_host) > _MAX_COPIES:
            self._copies_to_host.popleft().synchronize()
        return host, done

    def to_device(self, host: Any) -> tuple[Any, Any]:
        """Start to copy pinned memory to a new storage. Return the storage, and the copy's end event."""
        target = torch.empty(host.nbytes(), dtype=torch.uint8, device=self._device)
        done = self._copy(target, bytes_of(host))
        target.record_stream(self._stream)
        return target.untyped_storage(), done

    def wait(self, done: Any) -> None:
        """Make the program's stream wait for a copy."""
        torch.cuda.current_stream(self._device).wait_event(done)

    def _copy(self, target: Any, source: Any) -> Any:
        # First the program's stream must compute `source`, or end its use of the memory of `target`.
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._stream):
            target.copy_(source, non_blocking=True)
            return self._stream.record_event()
