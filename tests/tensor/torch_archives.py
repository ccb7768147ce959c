"""Files in the format of ``torch.save``, assembled here, so that tests need no PyTorch."""

from __future__ import annotations

import io
import struct
import zipfile
from typing import Any, NamedTuple

import numpy as np


class Stored(NamedTuple):
    """A tensor for `pickled`: elements of the storage `key`, and how they are named in PyTorch."""

    key: str
    count: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int = 0
    storage: str = "FloatStorage"
    requires_grad: bool = False


class Raw(NamedTuple):
    """Opcodes as they are."""

    code: bytes


def pickled(x: object) -> bytes:
    """Return a pickle of `x` as PyTorch writes them: protocol 2."""
    return b"\x80\x02" + _code(x) + b"."


def _code(x: Any) -> bytes:
    match x:
        case Raw():
            return x.code
        case Stored():
            name = _code(Raw(f"ctorch\n{x.storage}\n".encode()))
            storage = b"(" + _code("storage") + name + _code(x.key) + _code("cpu") + _code(x.count) + b"tQ"
            numbers = _code(x.offset) + _code(x.shape) + _code(x.stride) + _code(x.requires_grad)
            hooks = b"ccollections\nOrderedDict\n)R"
            return b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + numbers + hooks + b"tR"
        case None:
            return b"N"
        case bool():
            return b"\x88" if x else b"\x89"
        case int():
            size = x.bit_length() // 8 + 1
            return b"\x8a" + bytes([size]) + x.to_bytes(size, "little", signed=True)
        case float():
            return b"G" + struct.pack(">d", x)
        case str():
            return b"X" + struct.pack("<I", len(x.encode())) + x.encode()
        case tuple():
            return b"(" + b"".join(map(_code, x)) + b"t"
        case list():
            return b"](" + b"".join(map(_code, x)) + b"e"
        case dict():
            return b"}(" + b"".join(_code(key) + _code(value) for key, value in x.items()) + b"u"
    raise TypeError(type(x))


def archive(
    pickle: bytes,
    storages: dict[str, bytes] | None = None,
    *,
    compression: int = zipfile.ZIP_STORED,
    **members: bytes,
) -> bytes:
    """Return a file of ``torch.save``."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as made:
        made.writestr("archive/data.pkl", pickle)
        for key, data in (storages or {}).items():
            made.writestr(f"archive/data/{key}", data)
        for name, data in members.items():
            made.writestr(f"archive/{name.replace('__', '.')}", data)
    return file.getvalue()


def legacy(
    pickle: bytes,
    storages: dict[str, tuple[int, bytes]] | None = None,
    *,
    magic: int = 0x1950A86A20F9469CFC6C,
    protocol: int = 1001,
    machine: object = None,
) -> bytes:
    """Return a file of ``torch.save`` before PyTorch 1.6. `storages` have their counts of elements."""
    described = {"protocol_version": 1001, "little_endian": True} if machine is None else machine
    head = b"".join(map(pickled, (magic, protocol, described)))
    stored = [struct.pack("<q", count) + data for count, data in (storages or {}).values()]
    return head + pickle + pickled(list(storages or {})) + b"".join(stored)


def one_tensor(values: Any = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0), **options: Any) -> bytes:
    """Return a file of a dict with one tensor under "x", of shape (2, 3) unless `options` say else."""
    array = np.asarray(values, np.float32)
    stored = Stored(**{"key": "0", "count": array.size, "shape": (2, 3), "stride": (3, 1), **options})
    return archive(pickled({"x": stored}), {"0": array.tobytes()})
