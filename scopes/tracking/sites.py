"""Find the lines of the user's code in the call stack."""

from __future__ import annotations

import linecache
import os
import sys
from types import CodeType, FrameType
from weakref import ref

from scopes._shared.naming import set_module
from scopes._shared.tracebacks import is_ours


@set_module("scopes")
class Line:
    """One line of the user's code, in a function. Equal lines of this process are one object.

    A line that was read from a file of a run has the source text of that run.
    """

    __slots__ = ("_recorded_text", "file", "function", "number")

    def __init__(self, file: str, number: int, function: str, recorded_text: str | None = None) -> None:
        self.file: str = file
        self.number: int = number
        self.function: str = function
        self._recorded_text = recorded_text

    @property
    def text(self) -> str:
        """The source line, stripped; empty if it is not available."""
        if self._recorded_text is not None:
            return self._recorded_text
        return linecache.getline(self.file, self.number).strip()

    def __str__(self) -> str:
        return f"{_short(self.file)}:{self.number} in {self.function}"


@set_module("scopes")
class Site:
    """A stack of user lines, innermost first. Equal stacks are one object."""

    __slots__ = ("lines",)

    def __init__(self, lines: tuple[Line, ...]) -> None:
        self.lines: tuple[Line, ...] = lines

    @property
    def file(self) -> str:
        """The file of the innermost line; ``"<unknown>"`` without a user's line."""
        return self.lines[0].file if self.lines else "<unknown>"

    @property
    def line(self) -> int:
        """The number of the innermost line."""
        return self.lines[0].number if self.lines else 0

    @property
    def function(self) -> str:
        """The function of the innermost line."""
        return self.lines[0].function if self.lines else "<unknown>"

    @property
    def text(self) -> str:
        """The source of the innermost line."""
        return self.lines[0].text if self.lines else ""

    def __str__(self) -> str:
        return " < ".join(map(str, self.lines)) if self.lines else "<unknown>"

    def __repr__(self) -> str:
        return f"<Site {self}>"


_lines: dict[tuple[str, int, str], Line] = {}
_sites: dict[tuple[Line, ...], Site] = {}
_sites[()] = Site(())

# Cache by id of the code object, because hashing a code object reads all its instructions. The value is the
# site of each known instruction, or None for code of this library or of `_skipped`. The entry is removed
# with the code object.
known: dict[int, dict[int, Site] | None] = {}
_codes: dict[int, ref[CodeType]] = {}


# Packages whose lines are not reported: libraries that call the user's code and are called by it.
_skipped: set[str] = set()


def skip_package(package: str) -> None:
    """Do not report lines of `package` (a top-level package)."""
    _skipped.add(package)
    known.clear()
    _codes.clear()


def is_skipped(frame: FrameType) -> bool:
    """Return whether the frame belongs to a package of ``skip_package``."""
    name = frame.f_globals.get("__name__")
    return isinstance(name, str) and name.partition(".")[0] in _skipped


# The folder of the standard library, and that of other packages inside it.
_STANDARD = os.__file__.removesuffix("os.py")
_PACKAGES = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))


def is_of_python(file: str) -> bool:
    """Return whether `file` belongs to the standard library: its lines call the user's code for the user."""
    if file.startswith("<frozen "):
        return True
    return file.startswith(_STANDARD) and not any(name in file for name in _PACKAGES)


def site_without_user() -> Site:
    """Return the innermost line of the standard library, for a call stack without a line of the user's."""
    frame = sys._getframe(0).f_back  # not _getframe(1), which raises if there is no other frame
    while frame is not None and (is_ours(frame) or is_skipped(frame)):
        frame = frame.f_back
    return _sites[()] if frame is None else site_at(frame)


def callers(most: int) -> list[FrameType]:
    """Return the frames of the user's code on the call stack, innermost first, at most `most`."""
    frame: FrameType | None = sys._getframe(1)
    found: list[FrameType] = []
    while frame is not None and len(found) < most:
        if places_in(frame) is not None:
            found.append(frame)
        frame = frame.f_back
    return found


def site_at(frame: FrameType) -> Site:
    """Return the frame's current line as a site."""
    return _site_of((_line_of(frame),))


def site_of_several(sites: list[Site]) -> Site:
    """Return the site of the lines of `sites`, the innermost first."""
    return _site_of(tuple([site.lines[0] for site in sites]))


def places_in(frame: FrameType) -> dict[int, Site] | None:
    """Return the cache entry of the frame's code: its sites by instruction, or None if not a user's code."""
    code = frame.f_code
    key = id(code)
    if key in known:
        return known[key]
    is_hidden = is_ours(frame) or is_skipped(frame) or is_of_python(code.co_filename)
    places: dict[int, Site] | None = None if is_hidden else {}

    def forget(_: ref[CodeType]) -> None:
        known.pop(key, None)
        _codes.pop(key, None)

    _codes[key] = ref(code, forget)
    known[key] = places
    return places


def _line_of(frame: FrameType) -> Line:
    code = frame.f_code
    number = frame.f_lineno or code.co_firstlineno  # None for instructions without a line
    key = (code.co_filename, number, code.co_qualname)
    return _lines.get(key) or _lines.setdefault(key, Line(*key))


def _site_of(lines: tuple[Line, ...]) -> Site:
    return _sites.get(lines) or _sites.setdefault(lines, Site(lines))


def _cell(file: str) -> str | None:
    """Return the name of the notebook cell that was compiled as `file`: ``In[3]``."""
    if not file.startswith("<ipython") and "ipykernel" not in file:
        return None
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    name = getattr(getattr(shell, "compile", None), "format_code_name", lambda _: None)(file)
    return None if name is None else str(name[1])


def _short(file: str) -> str:
    """Return `file` relative to the working directory if it is below it. Name notebook cells by number."""
    cell = _cell(file)
    if cell is not None:
        return cell
    from pathlib import Path  # here, since it takes 4 ms to load, and few programs ask for lines

    try:
        return str(Path(file).relative_to(Path.cwd()))
    except (ValueError, OSError):  # OSError: the working directory was removed
        return file
