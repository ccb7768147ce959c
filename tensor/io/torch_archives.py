"""The archives of ``torch.save``: a zip file with a pickle, and the uncompressed bytes of each storage.

The layout is that of `torch.serialization` (PyTorch 1.6 and later): ``<name>/data.pkl``,
``<name>/data/<key>`` for each storage, ``<name>/byteorder`` and ``<name>/version``.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from tensor._dtypes import Array
from tensor._errors import shown
from tensor.io.unpickling import CheckpointError

if TYPE_CHECKING:
    import zipfile
    from typing import BinaryIO

SIGNATURE = b"PK\x03\x04"
# The local header of a zip member: signature, and the sizes of the name and of the extra field.
_LOCAL = struct.Struct("<4s22xHH")
# The compression method "none".
_STORED = 0
# Exceptions of Python's reader for truncated or malicious archives.
_BROKEN_ARCHIVE = (NotImplementedError, ValueError, OSError, EOFError, struct.error)
# The alignment of the bytes of each storage, so that they can be mapped.
_ALIGNMENT = 64
# The header of PyTorch's padding, an extra field of the zip member: identifier and size.
_PADDING = struct.Struct("<2sH")
# The size of the field that Python adds before the padding for members of about 2 GiB or more.
_ZIP64_FIELD, _ZIP64_FROM = 20, 1 << 31


class Archive:
    """The members of a zip archive, as views of the memory of the file."""

    def __init__(self, memory: Array, file: BinaryIO) -> None:
        import zipfile  # imported here and below, because it makes `import tensor` a tenth slower

        self._memory = memory
        try:
            with zipfile.ZipFile(file) as archive:
                self._members = {member.filename: member for member in archive.infolist()}
        except (zipfile.BadZipFile, *_BROKEN_ARCHIVE) as error:
            _fail(f"its zip archive is broken: {error}")
        pickles = [name for name in self._members if name.endswith("/data.pkl")]
        if len(pickles) != 1:
            _fail("it is a zip archive, but not of torch.save: it has no <name>/data.pkl")
        self._folder = pickles[0].removesuffix("data.pkl")
        if f"{self._folder}constants.pkl" in self._members:
            _fail(
                "it is a TorchScript program, which would run code. In PyTorch, load it with torch.jit.load "
                "and save its state_dict()"
            )
        order = bytes(self.member("byteorder")) if f"{self._folder}byteorder" in self._members else b"little"
        if order not in (b"little", b"big"):
            _fail(f"expected a byte order of 'little' or 'big', found {shown(order)}")
        self.is_swapped = order.decode() != sys.byteorder

    @property
    def code(self) -> bytes:
        """The pickle."""
        return self.member("data.pkl").tobytes()

    def storage(self, key: str) -> Array:
        """Return the bytes of a storage, without reading or copying them."""
        return self.member(f"data/{key}")

    def member(self, name: str) -> Array:
        """Return the bytes of a member, without reading or copying them."""
        found = self._members.get(self._folder + name)
        if found is None:
            _fail(f"its archive has no {shown(name)}: it is truncated, or torch.save did not write it")
        if found.compress_type != _STORED or found.flag_bits & 1:
            _fail(
                f"{shown(name)} in its archive is compressed or encrypted, which torch.save never does. "
                "Unpack it, and zip it again without compression (zip -0)"
            )
        start, size = found.header_offset, self._memory.nbytes
        if not 0 <= start <= size - _LOCAL.size:
            _fail(f"{shown(name)} is outside the file")
        signature, name_size, extra_size = _LOCAL.unpack(self._memory[start : start + _LOCAL.size].tobytes())
        begin = start + _LOCAL.size + name_size + extra_size
        end = begin + found.file_size
        if signature != SIGNATURE or end > size:
            _fail(f"{shown(name)} is not at the position that its archive says")
        return self._memory[begin:end]


def write_archive(file: BinaryIO, pickle: bytes, storages: Sequence[Array]) -> None:
    """Write an archive. The storages get the keys "0", "1", ..., in native byte order."""
    import zipfile

    with zipfile.ZipFile(file, "w") as archive:
        _write(archive, file, "data.pkl", np.frombuffer(pickle, np.uint8))
        _write(archive, file, "byteorder", np.frombuffer(sys.byteorder.encode(), np.uint8))
        for key, array in enumerate(storages):
            _write(archive, file, f"data/{key}", array)
        _write(archive, file, "version", np.frombuffer(b"3\n", np.uint8))


def _write(archive: zipfile.ZipFile, file: BinaryIO, name: str, array: Array) -> None:
    import zipfile

    # Without a time stamp, so that equal checkpoints give equal files.
    member = zipfile.ZipInfo(f"archive/{name}")
    member.file_size = array.nbytes
    fields = _PADDING.size + (_ZIP64_FIELD if array.nbytes * 1.05 > _ZIP64_FROM else 0)
    begin = file.tell() + _LOCAL.size + len(member.filename) + fields
    padding = -begin % _ALIGNMENT
    member.extra = _PADDING.pack(b"FB", padding) + b"Z" * padding
    with archive.open(member, "w") as stream:
        if array.nbytes:
            stream.write(array.reshape(-1).view(np.uint8).data)


def _fail(what: str) -> NoReturn:
    raise CheckpointError(what) from None
