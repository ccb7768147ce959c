"""A small file, mapped into memory, with the latest record of a run. It outlives the process.

The file has a header and two slots. A record is written into the slot that does not hold the latest one: its
bytes first, then the slot's head, with the number, the length and a checksum. So a process that is killed at
any moment leaves at least the record before. The system writes the pages to the file when the process is
gone, also after SIGKILL; the process writes memory only.
"""

from __future__ import annotations

import mmap
import os
import struct
import zlib
from pathlib import Path
from typing import Self

from scopes.reports.run_record import NoRecordError

#: What the names of these files end with.
SUFFIX = ".dspool"
_MAGIC = b"disposescope run\n"
_HEADER = struct.Struct("<17sIQ")  # magic, version, bytes of a slot
_SLOT = struct.Struct("<QQI")  # number of the record, bytes, checksum of number, bytes and content
_VERSION = 1
_DEFAULT_SIZE = 2 * 2**20


class Spool:
    """The open file of a running process.

    Parameters
    ----------
    path
        The file. An older record of a run is replaced, anything else is an error.
    size
        The bytes of the file, which never grows.

    Raises
    ------
    OSError
        If the file can't be made or mapped: a read-only folder, a full disk.
    FileExistsError
        If `path` exists and is not a record of a run.
    """

    def __init__(self, path: str | os.PathLike[str], size: int = _DEFAULT_SIZE) -> None:
        self.path = Path(path)
        self._slot_size = (size - _HEADER.size) // 2
        if self.path.exists() and not is_spool(self.path):
            raise FileExistsError(
                f"{os.fspath(path)!r} exists, and is not a record of a run: choose another name"
            )
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
        try:
            os.truncate(descriptor, 0)
            if hasattr(os, "posix_fallocate"):
                # A write to a mapped page for which the disk has no room ends the process by SIGBUS.
                os.posix_fallocate(descriptor, 0, size)
            else:
                os.truncate(descriptor, size)
            self._memory = mmap.mmap(descriptor, size)
        except OSError:
            os.close(descriptor)
            self.path.unlink(missing_ok=True)
            raise
        os.close(descriptor)
        self._memory[: _HEADER.size] = _HEADER.pack(_MAGIC, _VERSION, self._slot_size)
        self._number = 0

    def write(self, content: str) -> bool:
        """Store `content` as the latest record. Return False if it does not fit: the one before stays."""
        data = zlib.compress(content.encode("utf-8", "backslashreplace"), 1)
        if _SLOT.size + len(data) > self._slot_size:
            return False
        self._number += 1
        begin = _HEADER.size + (self._number % 2) * self._slot_size
        checksum = _checksum(self._number, data)
        self._memory[begin + _SLOT.size : begin + _SLOT.size + len(data)] = data
        self._memory[begin : begin + _SLOT.size] = _SLOT.pack(self._number, len(data), checksum)
        return True

    def close(self, *, remove: bool = False) -> None:
        """Unmap the file, and remove it if asked."""
        self._memory.close()
        if remove:
            self.path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


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


def _checksum(number: int, content: bytes) -> int:
    return zlib.crc32(content, zlib.crc32(struct.pack("<QQ", number, len(content))))
