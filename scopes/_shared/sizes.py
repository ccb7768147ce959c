"""Convert sizes of memory: ``"1.5 GB"`` to bytes, and bytes to text."""

from __future__ import annotations

import re
from contextlib import suppress
from operator import index

from scopes._shared.naming import set_module

_UNITS = {
    "b": 1,
    "byte": 1,
    "bytes": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}
# Compiled at first use, because `re.compile` takes 0.5 ms.
_TEXT = r"\s*([0-9]+)(?:\.([0-9]+))?\s*([A-Za-z]*)\s*"


@set_module("scopes.lowlevel")
def parse_size(size: int | str, name: str = "size") -> int:
    """Return the number of bytes of an int, or of text such as ``"512 MiB"``, ``"1.5 GB"``, ``"64kB"``.

    kB, MB, GB and TB are powers of 1000, KiB, MiB, GiB and TiB powers of 1024, in upper or lower case. B,
    byte and bytes are bytes. Text needs a unit, except ``"0"``. Fractions of a byte are dropped. `name` is
    the argument's name in errors.

    Raises
    ------
    ValueError
        If `size` is anything else, or negative, or text without a unit.

    Examples
    --------
    >>> from scopes._shared.sizes import parse_size
    >>> parse_size("1.5 KiB"), parse_size("64kB"), parse_size(100)
    (1536, 64000, 100)
    """
    if isinstance(size, str):
        match = re.fullmatch(_TEXT, size)
        factor = _UNITS.get(match[3].lower()) if match else None
        if match and factor is not None:
            decimals = match[2] or ""
            # Use whole numbers, because a float would round large sizes.
            return int(match[1] + decimals) * factor // int(10 ** len(decimals))
        if match and not match[3]:
            number = match[0].strip()
            if float(number) == 0:
                return 0
            in_bytes = f"'{number} B', an int for bytes, or " if match[2] is None else ""
            raise ValueError(f"{name}: {size!r} has no unit: write {in_bytes}'{number} MiB'")
    elif not isinstance(size, bool):
        with suppress(TypeError):
            nbytes = index(size)
            if nbytes >= 0:
                return nbytes
    raise ValueError(
        f"{name}: {size!r} is not a size: write a whole number of bytes, or text such as '512 MiB', '1.5 GB' "
        "or '64 kB'"
    )


@set_module("scopes.lowlevel")
def format_bytes(nbytes: int) -> str:
    """Return `nbytes` as text, in units of 1024.

    Examples
    --------
    >>> from scopes._shared.sizes import format_bytes
    >>> format_bytes(100), format_bytes(1536), format_bytes(3 * 2**30)
    ('100 bytes', '1.5 KiB', '3 GiB')
    """
    size = float(nbytes)
    unit = "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if abs(size) < 1024:
            break
        size /= 1024
        unit = larger
    if unit == "bytes":
        return f"{nbytes} bytes"
    return f"{size:.4g} {unit}" if abs(size) < 1000 else f"{size:.0f} {unit}"
