"""A temporary file for bytes that do not fit in memory."""

from __future__ import annotations

import errno
import os
import tempfile
import weakref
import zlib
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from scopes._shared.guard import Guard
from scopes._shared.naming import set_module
from scopes._shared.sizes import format_bytes

if TYPE_CHECKING:
    from typing_extensions import Buffer

# Values are aligned to this many bytes, so that the system reads and writes whole pages.
_PAGE = 4096
# Bytes for each read or write. A block of this size stays in the processor's cache for its checksum, and
# Ctrl-C waits for one block at most.
_BLOCK = 1 << 20
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) if hasattr(errno, "EDQUOT") else (errno.ENOSPC, errno.EFBIG)
# The errors of file systems that can't reserve space. Then writes only extend the file.
_CANT_RESERVE = (errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL, errno.ENOSYS)


@set_module("scopes")
class SpillError(OSError):
    """A spill file could not be created, written or read. The bytes that are in the file stay there.

    Attributes
    ----------
    errno : int
        The error number: ``errno.ENOSPC`` for a full disk, ``errno.EIO`` for corrupted bytes.
    folder : str
        The folder of the file.

    Examples
    --------
    >>> from scopes._shared.spill import SpillFile
    >>> SpillFile("/no/such/folder")
    Traceback (most recent call last):
        ...
    scopes.SpillError: [Errno 2] no spill file can be created in '/no/such/folder' ...
    """

    def __init__(self, number: int, message: str, folder: str = "") -> None:
        super().__init__(number, message)
        self.folder = folder

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (*self.args, self.folder)


@dataclass(frozen=True, slots=True)
class SpillStatistics:
    """Statistics of a spill file at one moment, in bytes."""

    #: Total bytes written and read.
    bytes_written: int
    bytes_read: int
    #: Bytes in use, rounded up to whole pages.
    bytes_held: int
    #: The size of the file, including freed space that later writes reuse.
    bytes_in_file: int


class _Extent(weakref.ref["Spilled"]):
    """An extent: a range of bytes in the file.

    It is a weak reference to its `Spilled`. When the `Spilled` is deleted, the callback ``_freed.append``
    marks the extent as freed. The callback is C code: in a ``__del__`` an interrupt could lose the space.
    """

    __slots__ = ("offset", "serial", "size")

    offset: int
    serial: int
    size: int


class Spilled:
    """Bytes in a spill file. Their space is reused after ``free()``, or when this object is deleted.

    Attributes
    ----------
    nbytes : int
        The number of bytes.
    """

    __slots__ = ("__weakref__", "_checksum", "_extent", "_file", "nbytes")

    def __init__(self, file: SpillFile, nbytes: int) -> None:
        self._file = file
        self._extent: _Extent | None = None
        self._checksum = 0
        self.nbytes = nbytes

    def read_into(self, buffer: Buffer) -> None:
        """Copy the bytes into `buffer`, which must be writable, contiguous and of the same size.

        Raises
        ------
        SpillError
            If the file can't be read, or the checksum differs. The contents of `buffer` are then undefined.
            The bytes stay in the file, so you may try again.
        """
        self._file._read(self, buffer)

    def read_ahead(self) -> None:
        """Ask the system to read the bytes into its cache in the background, if it can."""
        extent = self._extent
        if extent is not None and hasattr(os, "posix_fadvise") and not self._file.is_closed:
            os.posix_fadvise(self._file._file.fileno(), extent.offset, self.nbytes, os.POSIX_FADV_WILLNEED)

    def free(self) -> None:
        """Free the space in the file. A second call does nothing."""
        extent, self._extent = self._extent, None
        if extent is not None:
            self._file._freed.append(extent)

    def __repr__(self) -> str:
        state = "freed" if self._extent is None else f"at {self._extent.offset}"
        return f"<Spilled: {format_bytes(self.nbytes)}, {state}>"


class SpillFile:
    """Temporary file without a name, for bytes that are needed later.

    The system removes the file when it is closed, and when the process ends for any reason. Several threads
    may use it at the same time. A forked child gets an error.

    Parameters
    ----------
    folder
        A folder on a disk with free space. A folder in memory saves no memory: ``/dev/shm`` is one, on some
        systems also ``/tmp``.

    Raises
    ------
    SpillError
        If no file can be created there.

    Examples
    --------
    >>> import tempfile
    >>> from scopes._shared.spill import SpillFile
    >>> with SpillFile(tempfile.gettempdir()) as file:
    ...     spilled = file.write(b"some bytes")
    ...     back = bytearray(10)
    ...     spilled.read_into(back)
    ...     spilled.free()
    ...     file.statistics().bytes_held
    0
    >>> bytes(back)
    b'some bytes'
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder: Final[str] = os.fspath(folder)
        self._guard = Guard()
        self._process = os.getpid()
        # (offset, serial number, extent) of all values in the file, in order. The gaps are free. One call in
        # C inserts or removes an entry, so an interrupt never leaves the list half changed.
        self._extents: list[tuple[int, int, _Extent]] = []
        # Finalizers may run at any point, so they append here without the lock.
        self._freed: deque[_Extent] = deque()
        self._serials = count(1)
        # The offset where the search for a gap begins: the end of the extent that was assigned last.
        self._cursor = 0
        self._size = 0
        self._written = self._read_bytes = 0
        try:
            self._file = tempfile.TemporaryFile(buffering=0, prefix="disposescope-", dir=self.folder)  # noqa: SIM115
        except OSError as error:
            number = error.errno or errno.EIO
            raise SpillError(
                number,
                f"no spill file can be created in {self.folder!r} ({os.strerror(number)}): name a folder "
                "that exists, that you may write to, and that has free space",
                self.folder,
            ) from None

    def write(self, data: Buffer) -> Spilled:
        """Write the bytes of the contiguous `data`, and return the object that reads them back.

        Raises
        ------
        SpillError
            If the disk is full or fails. The bytes written earlier are unchanged.
        """
        view = _bytes_of(data)
        self._check_open()
        spilled = Spilled(self, view.nbytes)
        try:
            start_of_all = self._take_space(spilled)
            checksum = 0
            for start in range(0, view.nbytes, _BLOCK):
                block = view[start : start + _BLOCK]
                checksum = zlib.crc32(block, checksum)
                self._move(self._write_at, block, start_of_all + start)
        except OSError as error:
            spilled.free()
            raise self._write_error(error, view.nbytes) from error
        except BaseException:
            spilled.free()
            raise
        spilled._checksum = checksum
        self._guard.run(self._count_moved, view.nbytes, 0)
        return spilled

    def statistics(self) -> SpillStatistics:
        """Return the current statistics."""
        return self._guard.run(self._statistics)

    def _statistics(self) -> SpillStatistics:
        self._collect_freed()
        held = sum(extent.size for _, _, extent in self._extents)
        return SpillStatistics(self._written, self._read_bytes, held, self._size)

    def close(self) -> None:
        """Remove the file and its contents. A second call does nothing."""
        self._file.close()

    @property
    def is_closed(self) -> bool:
        """Whether the file is closed."""
        return self._file.closed

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self.close()

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else f"{format_bytes(self.statistics().bytes_held)} held"
        return f"<SpillFile in {self.folder!r}: {state}>"

    def _check_open(self) -> None:
        if self._file.closed:
            raise ValueError("this spill file is closed and its contents are lost: open a new one")
        if self._process != os.getpid():
            raise RuntimeError(
                "this spill file belongs to the process that forked this one: open one in each process"
            )

    def _read(self, spilled: Spilled, buffer: Buffer) -> None:
        target = _bytes_of(buffer)
        self._check_open()
        extent = spilled._extent
        if extent is None:
            raise ValueError("these bytes were freed in the spill file: read them before free()")
        if target.readonly or target.nbytes != spilled.nbytes:
            kind = "read-only buffer" if target.readonly else "buffer"
            raise ValueError(
                f"{spilled.nbytes:,} bytes can't be read into a {kind} of {target.nbytes:,} bytes: give a "
                "writable one of the same size"
            )
        checksum = 0
        try:
            for start in range(0, target.nbytes, _BLOCK):
                block = target[start : start + _BLOCK]
                self._move(self._read_at, block, extent.offset + start)
                checksum = zlib.crc32(block, checksum)
            if checksum != spilled._checksum:
                raise OSError(errno.EIO, "the bytes are not those that were written: the disk may be faulty")
        except OSError as error:
            raise SpillError(
                error.errno or errno.EIO,
                f"{format_bytes(spilled.nbytes)} can't be read back from the spill file in {self.folder!r} "
                f"({error.strerror}). They are still in the file: try again, or repeat the step with a spill "
                "file on another disk",
                self.folder,
            ) from error
        self._guard.run(self._count_moved, 0, spilled.nbytes)

    def _count_moved(self, written: int, read: int) -> None:
        self._written += written
        self._read_bytes += read

    def _take_space(self, spilled: Spilled) -> int:
        """Assign `spilled` an extent of the file, and return its offset."""
        extent = _Extent(spilled, self._freed.append)
        extent.offset, extent.serial = 0, next(self._serials)
        extent.size = max(-(-spilled.nbytes // _PAGE), 1) * _PAGE
        return self._guard.run(self._assign, spilled, extent)

    def _assign(self, spilled: Spilled, extent: _Extent) -> int:
        """Use a gap after the cursor, an earlier gap, or the end of the file, and return its offset."""
        self._collect_freed()
        extents, size = self._extents, extent.size
        next_index = bisect_left(extents, (self._cursor,))
        offset = self._gap(next_index, len(extents), size)
        if offset is None:
            offset = self._gap(0, next_index, size)
        if offset is None:
            offset = self._end_before(len(extents))
        extent.offset = offset
        insort(extents, (offset, extent.serial, extent))
        spilled._extent = extent
        self._cursor = offset + size
        if offset + size > self._size:
            self._grow(offset + size)
        return offset

    def _gap(self, first: int, last: int, size: int) -> int | None:
        """Return the offset of the first gap of at least `size` bytes, or None.

        Search the gaps before the entries from `first` to ``last - 1``. If `last` is the number of entries,
        also search the gap before the end of the file.
        """
        extents = self._extents
        for i in range(first, last + (last == len(extents))):
            before = self._end_before(i)
            after = extents[i][0] if i < len(extents) else self._size
            if after - before >= size:
                return before
        return None

    def _end_before(self, i: int) -> int:
        """Return the offset at which entry ``i - 1`` ends."""
        if i == 0:
            return 0
        offset, _, extent = self._extents[i - 1]
        return offset + extent.size

    def _grow(self, size: int) -> None:
        """Reserve space up to `size`, so that a full disk raises before anything is written."""
        if hasattr(os, "posix_fallocate"):
            try:
                os.posix_fallocate(self._file.fileno(), self._size, size - self._size)
            except OSError as error:
                if error.errno not in _CANT_RESERVE:
                    raise
        self._size = size

    def _collect_freed(self) -> None:
        """Remove the freed extents from the list of extents. Call it under the guard."""
        while self._freed:
            extent = self._freed[0]
            i = bisect_left(self._extents, (extent.offset, extent.serial))
            if i < len(self._extents) and self._extents[i][2] is extent:
                del self._extents[i]
            self._freed.popleft()

    def _move(self, move: Callable[[memoryview, int], int], block: memoryview, offset: int) -> None:
        """Write or read all of `block`, in several system calls if needed."""
        while block.nbytes:
            moved = move(block, offset)
            if moved <= 0:
                raise OSError(errno.EIO, "the file is shorter than what was written")
            block, offset = block[moved:], offset + moved

    if hasattr(os, "pwrite") and hasattr(os, "preadv"):

        def _write_at(self, block: memoryview, offset: int) -> int:
            return os.pwrite(self._file.fileno(), block, offset)

        def _read_at(self, block: memoryview, offset: int) -> int:
            return os.preadv(self._file.fileno(), [block], offset)

    else:  # Windows: threads share the file's position

        def _write_at(self, block: memoryview, offset: int) -> int:
            return self._guard.run(self._seek_and_move, offset, self._file.write, block)

        def _read_at(self, block: memoryview, offset: int) -> int:
            return self._guard.run(self._seek_and_move, offset, self._file.readinto, block)

        def _seek_and_move(
            self, offset: int, move: Callable[[memoryview], int | None], block: memoryview
        ) -> int:
            self._file.seek(offset)
            return move(block) or 0

    def _write_error(self, error: OSError, nbytes: int) -> SpillError:
        number = error.errno or errno.EIO
        reason = "the disk is full, or the file reached a size limit" if number in _FULL else error.strerror
        held = format_bytes(self.statistics().bytes_held)
        return SpillError(
            number,
            f"{format_bytes(nbytes)} can't be written to the spill file in {self.folder!r}, which holds "
            f"{held} ({reason}). Nothing has changed. Free space, name a folder on a larger disk, or use "
            "a smaller batch",
            self.folder,
        )


def _bytes_of(data: Buffer) -> memoryview:
    view = memoryview(data)
    if not view.c_contiguous:
        raise ValueError("a spill file takes contiguous bytes: copy them first")
    return view.cast("B") if view.nbytes else memoryview(bytearray())
