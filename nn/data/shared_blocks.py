"""Send tensors of batches through shared memory, without a copy in the loop's process.

A block of shared memory holds one tensor. The worker creates it under a numbered name. The loop's process
opens the block when the worker's next answer arrives, and removes the name. From then on the operating system
frees the memory when the last process closes it or ends. When no tensor, view or export uses the memory any
longer, the next task returns the block to its worker, which reuses it.
"""

from __future__ import annotations

import os
import pickle
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tensor import Tensor, from_blob, tensor
from tensor._dtypes import Array
from tensor.core.tensor import snapshot

if TYPE_CHECKING:
    from multiprocessing.shared_memory import SharedMemory


# Smaller tensors are pickled: pickling is as fast, and a small tensor that the user keeps uses no block.
_MIN_BYTES = 4096
# A free block is closed after this many writes to other blocks: its size is no longer needed.
_MAX_IDLE_WRITES = 64
# Above this number of used blocks of a worker, tensors are copied, for example if a program keeps batches.
# Each block is an open file, and a process may have about a thousand.
_MAX_OUT = 64


class WorkerBlocks:
    """The blocks of a worker, in the worker."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._blocks: dict[int, SharedMemory] = {}
        self._free: dict[int, int] = {}  # by number; the value of `_takes` when the block was returned
        self._takes = 0
        self._made = 0

    def write(self, array: Array) -> int:
        """Copy an array into a block, and return its number."""
        number = self._take(array.nbytes)
        into = np.ndarray(array.shape, array.dtype, self._blocks[number].buf)
        np.copyto(into, array)
        return number

    def _take(self, nbytes: int) -> int:
        self._takes += 1
        fitting = [
            (self._blocks[number].size, number)
            for number in self._free
            if nbytes <= self._blocks[number].size <= 4 * nbytes
        ]
        if fitting:
            number = min(fitting)[1]
            del self._free[number]
            return number
        return self._make(nbytes)

    def _make(self, nbytes: int) -> int:
        from multiprocessing.shared_memory import SharedMemory

        number = self._made
        self._blocks[number] = SharedMemory(f"{self._name}_{number}", create=True, size=nbytes + nbytes // 8)
        self._made += 1
        return number

    def give_back(self, numbers: Iterable[int]) -> None:
        """Mark blocks as free, so that `write` can use them again."""
        for number in numbers:
            self._free[number] = self._takes

    def made(self) -> int:
        """Return the number of blocks created so far. Blocks are numbered from 0."""
        return self._made

    def retire(self) -> list[int]:
        """Close blocks that are no longer needed, and return their numbers."""
        idle = [number for number, since in self._free.items() if self._takes - since > _MAX_IDLE_WRITES]
        for number in idle:
            del self._free[number]
            self._blocks.pop(number).close()
        return idle

    def unlink(self) -> None:
        """Remove the names of blocks that the loop's process has not opened."""
        for block in self._blocks.values():
            with suppress(FileNotFoundError):
                block.unlink()


@cache
def _shared_memory() -> type[SharedMemory]:
    from multiprocessing.shared_memory import SharedMemory

    class ClosedAtExit(SharedMemory):
        """Shared memory that ignores errors of `close` in its destructor, if an array still uses it."""

        def __del__(self) -> None:
            with suppress(BufferError, OSError):
                self.close()

    return ClosedAtExit


class LoopBlocks:
    """The blocks of a worker, in the loop's process."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._opened = 0
        self._blocks: dict[int, SharedMemory] = {}
        self._out: set[int] = set()
        self._ended = False
        # Any thread may append to it when it releases a tensor. A deque needs no lock for that.
        self._released: deque[int] = deque()
        self._returned: list[int] = []

    def open(self, made: int) -> None:
        """Open all blocks that the worker has made, and remove their names."""
        while self._opened < made:
            self._open_next()

    def _open_next(self) -> None:
        block = _shared_memory()(f"{self._name}_{self._opened}")
        block.unlink()
        self._blocks[self._opened] = block
        self._opened += 1

    def retire(self, numbers: Iterable[int]) -> None:
        """Close blocks that the worker no longer needs."""
        for number in numbers:
            self._blocks.pop(number).close()

    def read(self, number: int, dtype: str, shape: tuple[int, ...]) -> Tensor:
        """Return the tensor in a block, without a copy unless too many blocks are in use."""
        block = self._blocks[number]
        assert block.buf is not None
        if len(self._out) >= _MAX_OUT:
            self._collect()
        if len(self._out) >= _MAX_OUT:
            copied = tensor(np.ndarray(shape, dtype, block.buf))
            self._returned.append(number)
            return copied
        self._out.add(number)
        return from_blob(block.buf, shape, dtype, on_release=lambda: self._release(number))

    def _release(self, number: int) -> None:
        self._released.append(number)
        if self._ended:
            self._close_released()

    def give_back(self, numbers: Iterable[int]) -> None:
        """Return blocks that no tensor uses to the worker, with the next task."""
        self._returned.extend(numbers)

    def take_returned(self) -> list[int]:
        """Return the blocks that the worker can use again."""
        self._collect()
        returned, self._returned = self._returned, []
        return returned

    def _collect(self) -> None:
        for _ in range(len(self._released)):
            number = self._released.popleft()
            self._out.discard(number)
            self._returned.append(number)

    def end(self) -> None:
        """Remove all names and close all blocks. Blocks of living tensors close when the tensors end."""
        try:
            while True:  # blocks that the worker created and did not report before it died
                self._open_next()
        except (FileNotFoundError, ValueError) as error:
            if isinstance(error, ValueError):
                self._remove_name_without_memory()
            self._unregister_next()
        self._collect()
        for number in self._blocks.keys() - self._out:
            self._blocks.pop(number).close()
        self._ended = True
        self._close_released()

    def _remove_name_without_memory(self) -> None:
        """Remove the name of a block that a worker was creating when it was killed.

        The block has no memory yet, so Python's `SharedMemory` can't open it. Linux documents the folder of
        names (shm_overview(7)). On other systems the name stays. It uses no memory.
        """
        Path("/dev/shm", f"{self._name}_{self._opened}").unlink(missing_ok=True)

    def _unregister_next(self) -> None:
        """Unregister the next name from the resource tracker again.

        An interrupt may have arrived after the removal of the name, before the tracker got its message.
        Register the name first: the tracker prints an error for a name that is not registered.
        """
        if os.name == "posix":
            from multiprocessing import resource_tracker

            name = f"/{self._name}_{self._opened}"
            resource_tracker.register(name, "shared_memory")
            resource_tracker.unregister(name, "shared_memory")

    def _close_released(self) -> None:
        while True:
            try:
                number = self._released.popleft()
            except IndexError:  # another thread may have taken the last one
                return
            block = self._blocks.pop(number, None)
            if block is not None:
                block.close()


def pack(batch: object, blocks: WorkerBlocks) -> tuple[bytes, list[int]]:
    """Pickle a batch. Return the bytes, and the numbers of the blocks with its large tensors."""
    file = BytesIO()
    packer = _Packer(file, blocks)
    try:
        packer.dump(batch)
    except BaseException:
        blocks.give_back(packer.numbers())
        raise
    return file.getvalue(), packer.numbers()


def unpack(data: bytes, numbers: Iterable[int], blocks: LoopBlocks) -> Any:
    """Unpickle a batch from `pack`. Its tensors belong to the current scope."""
    unpacker = _Unpacker(BytesIO(data), blocks)
    try:
        return unpacker.load()
    except BaseException:
        blocks.give_back([number for number in numbers if number not in unpacker.made])
        raise


_Reference = tuple[int, str, tuple[int, ...]]


class _Packer(pickle.Pickler):
    def __init__(self, file: BytesIO, blocks: WorkerBlocks) -> None:
        super().__init__(file, protocol=5)
        self._blocks = blocks
        # By id, so that a tensor that occurs twice is one tensor in the loop's process too. Keep the tensor
        # alive, so that its id is not reused.
        self._written: dict[int, tuple[Tensor, _Reference]] = {}

    def numbers(self) -> list[int]:
        return [written[0] for _, written in self._written.values()]

    def persistent_id(self, obj: object) -> _Reference | None:
        if type(obj) is not Tensor or obj.requires_grad or obj.nbytes < _MIN_BYTES:
            return None
        if id(obj) not in self._written:
            array = snapshot(obj)
            written = self._blocks.write(array), array.dtype.str, array.shape
            self._written[id(obj)] = obj, written
        return self._written[id(obj)][1]


class _Unpacker(pickle.Unpickler):
    def __init__(self, file: BytesIO, blocks: LoopBlocks) -> None:
        super().__init__(file)
        self._blocks = blocks
        self.made: dict[int, Tensor] = {}

    def persistent_load(self, pid: _Reference) -> Tensor:
        number, dtype, shape = pid
        if number not in self.made:
            self.made[number] = self._blocks.read(number, dtype, shape)
        return self.made[number]
