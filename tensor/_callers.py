"""The user's lines that led here: frames that are not this library's."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_OURS = frozenset({"scopes", "tensor", "nn"})


def callers() -> Iterator[FrameType]:
    """Yield the frames of the user's code, the innermost first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__")
        if not isinstance(name, str) or name.partition(".")[0] not in _OURS:
            yield frame
        frame = frame.f_back
