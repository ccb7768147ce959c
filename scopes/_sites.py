"""Where in the user's code something happened: the lines that are not this library's."""

from __future__ import annotations

import linecache
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from scopes._tracebacks import is_ours

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FrameType

    Place = tuple[CodeType, int]


class Line:
    """One line of the user's code, in a function."""

    __slots__ = ("file", "function", "number")

    def __init__(self, file: str, number: int, function: str) -> None:
        self.file = file
        self.number = number
        self.function = function

    @property
    def text(self) -> str:
        """The source, stripped; empty where there is none."""
        return linecache.getline(self.file, self.number).strip()

    def __str__(self) -> str:
        return f"{_short(self.file)}:{self.number} in {self.function}"


class Site:
    """The user's lines that led somewhere, the innermost first. One object for each place in the code."""

    __slots__ = ("lines",)

    def __init__(self, lines: tuple[Line, ...]) -> None:
        self.lines = lines

    @property
    def file(self) -> str:
        """The file of the innermost line; ``"<unknown>"`` where no line is the user's."""
        return self.lines[0].file if self.lines else "<unknown>"

    @property
    def line(self) -> int:
        """The number of the innermost line."""
        return self.lines[0].number if self.lines else 0

    @property
    def function(self) -> str:
        """The function that the innermost line is in."""
        return self.lines[0].function if self.lines else "<unknown>"

    @property
    def text(self) -> str:
        """The source of the innermost line."""
        return self.lines[0].text if self.lines else ""

    def __str__(self) -> str:
        return " < ".join(map(str, self.lines)) if self.lines else "<unknown>"

    def __repr__(self) -> str:
        return f"<Site {self}>"


_known: dict[tuple[Place, ...], Site] = {}
_ours: dict[CodeType, bool] = {}


def callers() -> Iterator[FrameType]:
    """Yield the frames of the user's code that led here, the innermost first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        ours = _ours.get(code)
        if ours is None:
            ours = _ours[code] = is_ours(frame)
        if not ours:
            yield frame
        frame = frame.f_back


def site_here(depth: int = 1) -> Site:
    """Return where the user's code is now, `depth` lines of it."""
    frames = []
    for frame in callers():
        frames.append(frame)
        if len(frames) == depth:
            break
    key = tuple([(frame.f_code, frame.f_lasti) for frame in frames])
    site = _known.get(key)
    if site is None:
        lines = [Line(f.f_code.co_filename, f.f_lineno, f.f_code.co_qualname) for f in frames]
        site = _known.setdefault(key, Site(tuple(lines)))
    return site


def _short(file: str) -> str:
    """Return `file` from the working directory, where it is below it."""
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except ValueError:
        return file
