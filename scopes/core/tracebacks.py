"""Clear the frames of this library out of a stored exception, so that it keeps no tensor memory alive."""

from __future__ import annotations

import inspect
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType, TracebackType

_packages = {"scopes"}
_SUSPENDABLE = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def clear_frames_of(package: str) -> None:
    """Let scopes clear the frames of `package` (a top-level package) when an exception leaves them.

    Examples
    --------
    >>> from scopes.lowlevel import clear_frames_of
    >>> clear_frames_of("a_package_of_mine")
    """
    _packages.add(package)


def clear_library_frames(error: BaseException) -> None:
    """Clear the locals of this library's finished frames in `error`, its causes, contexts and groups."""
    stack: list[BaseException | None] = [error]
    seen: set[int] = set()
    while stack:
        current = stack.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        _clear_traceback(current.__traceback__)
        stack += (current.__cause__, current.__context__)
        if isinstance(current, BaseExceptionGroup):
            stack.extend(current.exceptions)


def _clear_traceback(traceback: TracebackType | None) -> None:
    while traceback is not None:
        frame = traceback.tb_frame
        if is_ours(frame) and not frame.f_code.co_flags & _SUSPENDABLE:
            # Leave a generator's frame alone: it may have caught the error and go on. Also leave a frame
            # that is running, a library function around the scope's block; clear() raises for it.
            with suppress(RuntimeError):
                frame.clear()
        traceback = traceback.tb_next


def is_ours(frame: FrameType) -> bool:
    """Tell whether a frame is this library's."""
    return is_ours_by_name(frame.f_globals.get("__name__"))


def is_ours_by_name(name: object) -> bool:
    """Tell whether a module of this name is this library's."""
    return isinstance(name, str) and name.partition(".")[0] in _packages
