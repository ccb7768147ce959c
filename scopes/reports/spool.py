"""A small file with the latest record of a run, which outlives the process.

The file has a header and two slots. A record is written into the slot that does not hold the latest one: its
bytes first, then the slot's head, with the number, the length and a checksum. So a process that is killed at
any moment leaves at least the record before. What the process has written is in the system's memory, which
SIGKILL does not touch. The file is not mapped: a write to a mapped page ends the process by SIGBUS if another
process has shortened the file, or if the disk is full. A write with ``os.pwrite`` is an error that the run
survives.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from pathlib import Path
from typing import Self

from scopes._shared.descriptors import above_streams
from scopes.reports.run_record import NoRecordError, RunRecord

try:
    import fcntl
except ImportError:  # Windows: two runs into one file are not noticed there
    fcntl = None  # type: ignore[assignment]

#: What the names of these files end with.
SUFFIX = ".dspool"
_MAGIC = b"disposescope run\n"
_HEADER = struct.Struct("<17sIQ")  # magic, version, bytes of a slot
_SLOT = struct.Struct("<QQI")  # number of the record, bytes, checksum of number, bytes and content
_VERSION = 1
_DEFAULT_SIZE = 2 * 2**20
_BEGINNING = 4096


class Spool:
    """The open file of a running process, which is locked until then.

    Parameters
    ----------
    path
        The file. An older record of a run is replaced, anything else is an error.
    size
        The bytes of the file, which never grows.

    Raises
    ------
    OSError
        If the file can't be made: a read-only folder, a full disk.
    FileExistsError
        If `path` exists and is not a record of a run, or if another run writes it now.
    """

    def __init__(self, path: str | os.PathLike[str], size: int = _DEFAULT_SIZE) -> None:
        self.path = Path(path)
        self._slot_size = (size - _HEADER.size) // 2
        self._number = 0
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0)
        self._descriptor = above_streams(os.open(self.path, flags, 0o600))
        try:
            self._lock()
            if not is_spool(self.path):
                raise FileExistsError(
                    f"{os.fspath(path)!r} exists, and is not a record of a run: choose another name"
                )
        except OSError:
            os.close(self._descriptor)
            raise
        try:
            os.ftruncate(self._descriptor, 0)
            # Now, because a disk that becomes full later would leave no record of the end.
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self._descriptor, 0, size)
            else:
                os.ftruncate(self._descriptor, size)
            self._file = self._identity()
            self._put(_HEADER.pack(_MAGIC, _VERSION, self._slot_size), 0)
        except OSError:
            self.close(remove=True)
            raise

    def _lock(self) -> None:
        if fcntl is None:
            return
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FileExistsError(
                f"another run writes its record to {os.fspath(self.path)!r} now: choose another name"
            ) from None
        except OSError:
            pass  # a file system without locks

    def _identity(self) -> tuple[int, int]:
        status = os.fstat(self._descriptor)
        return status.st_dev, status.st_ino

    def _put(self, data: bytes, at: int) -> None:
        if hasattr(os, "pwrite"):
            written = os.pwrite(self._descriptor, data, at)
        else:
            os.lseek(self._descriptor, at, os.SEEK_SET)
            written = os.write(self._descriptor, data)
        if written != len(data):
            raise OSError(f"only {written} of {len(data)} bytes were written to {os.fspath(self.path)!r}")

    def write(self, content: str) -> bool:
        """Store `content` as the latest record. Return False if it does not fit: the one before stays.

        Raises
        ------
        OSError
            If it can't be written. The record before stays.
        """
        data = zlib.compress(content.encode("utf-8", "backslashreplace"), 1)
        if _SLOT.size + len(data) > self._slot_size:
            return False
        # A program that closes all files, as a daemon does, may have opened its own under this number.
        if self._identity() != self._file:
            raise OSError(f"the program has closed {os.fspath(self.path)!r}")
        self._number += 1
        begin = _HEADER.size + (self._number % 2) * self._slot_size
        checksum = _checksum(self._number, data)
        self._put(data, begin + _SLOT.size)
        self._put(_SLOT.pack(self._number, len(data), checksum), begin)
        return True

    def close(self, *, remove: bool = False) -> None:
        """Close the file, and remove it if asked."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            try:
                status = os.fstat(descriptor)
                if (status.st_dev, status.st_ino) == getattr(self, "_file", (status.st_dev, status.st_ino)):
                    os.close(descriptor)
            except OSError:
                pass  # the program has closed it
        if remove:
            self.path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def write_spool(path: Path, content: str) -> None:
    """Write a file with the record `content` for ``read_spool()``. It replaces `path` when it is whole.

    Raises
    ------
    OSError
        If the file can't be written.
    """
    data = zlib.compress(content.encode("utf-8", "backslashreplace"), 1)
    head = _HEADER.pack(_MAGIC, _VERSION, _SLOT.size + len(data))
    partial = path.with_suffix(".partial")
    try:
        partial.write_bytes(head + _SLOT.pack(1, len(data), _checksum(1, data)) + data)
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def is_spool(path: Path) -> bool:
    """Return whether the file is a record of a run, or empty."""
    with path.open("rb") as file:
        begin = file.read(len(_MAGIC))
    return not begin or begin == _MAGIC


def read_spool(path: str | os.PathLike[str]) -> str:
    """Return the latest whole record in the file, also while or after another process writes it.

    Raises
    ------
    OSError
        If the file can't be read.
    NoRecordError
        If the file is not a record of a run, or holds none yet.
    """
    data = Path(path).read_bytes()
    if not data.startswith(_MAGIC) or len(data) < _HEADER.size:
        raise NoRecordError(f"{os.fspath(path)!r} is not a record of a run")
    _, version, slot_size = _HEADER.unpack_from(data)
    if version > _VERSION:
        raise NoRecordError(f"a later version of disposescope wrote {os.fspath(path)!r}: update disposescope")
    found: list[tuple[int, bytes]] = []
    for begin in (_HEADER.size, _HEADER.size + slot_size):
        if begin + _SLOT.size > len(data):
            continue
        number, length, checksum = _SLOT.unpack_from(data, begin)
        content = data[begin + _SLOT.size : begin + _SLOT.size + length]
        if number and len(content) == length and _checksum(number, content) == checksum:
            found.append((number, content))
    if not found:
        raise NoRecordError(
            f"{os.fspath(path)!r} holds no record yet: the run had ended before the first one"
        )
    return zlib.decompress(max(found)[1]).decode("utf-8")


def is_record(path: str | os.PathLike[str]) -> bool:
    """Return whether the file is a record of a run: a spool, or the JSON of one.

    Raises
    ------
    OSError
        If the file can't be read.
    """
    with Path(path).open("rb") as file:
        begin = file.read(_BEGINNING)
    return begin.startswith(_MAGIC) or (b'"recorder": "disposescope"' in begin and b'"schema":' in begin)


def read_record(path: str | os.PathLike[str]) -> RunRecord:
    """Return the record of a run in the file: a spool, or the JSON of one.

    Raises
    ------
    OSError
        If the file can't be read.
    NoRecordError
        If the file is not a record of a run, or holds none yet.
    """
    with Path(path).open("rb") as file:
        begin = file.read(len(_MAGIC))
    text = read_spool(path) if begin == _MAGIC else Path(path).read_text(encoding="utf-8", errors="replace")
    try:
        data = json.loads(text)
    except ValueError:
        raise NoRecordError(
            f"{os.fspath(path)!r} is not the record of a run: write one with "
            "`disposescope run --record run.dspool script.py`"
        ) from None
    try:
        return RunRecord.from_dict(data)
    except NoRecordError as error:
        raise NoRecordError(f"{os.fspath(path)!r}: {error}") from error


def _checksum(number: int, content: bytes) -> int:
    return zlib.crc32(content, zlib.crc32(struct.pack("<QQ", number, len(content))))
