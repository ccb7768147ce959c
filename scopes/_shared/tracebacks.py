"""Clear the local variables of library frames in a stored exception, so that it keeps no tensor alive."""

from __future__ import annotations

import inspect
from contextlib import suppress
from types import FrameType, TracebackType

from scopes._shared.naming import set_module

_packages = {"scopes"}
_SUSPENDABLE = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


@set_module("scopes.lowlevel")
def clear_frames_of(package: str) -> None:
    """Make scopes clear the frames of `package`, a top-level package, in exceptions.

    Examples
    --------
    >>> from scopes._shared.tracebacks import clear_frames_of
    >>> clear_frames_of("a_package_of_mine")
    """
    _packages.add(package)


def clear_library_frames(error: BaseException) -> None:
    """Clear the variables of this library's finished frames in `error`, its causes, contexts and groups."""
    for each in _related(error):
        _clear_traceback(each.__traceback__, only_ours=True)


def clear_all_frames(error: BaseException, handled: BaseException | None) -> None:
    """Clear the variables of all finished frames in `error`, its causes, contexts and groups.

    `handled` is the error that was handled when the code that failed began. Leave it and its causes as they
    are.
    """
    for each in _related(error, handled):
        _clear_traceback(each.__traceback__, only_ours=False)


def _related(error: BaseException, but: BaseException | None = None) -> list[BaseException]:
    """Return `error`, its causes and contexts, and the errors of groups, without those of `but`."""
    stack: list[BaseException | None] = [error]
    found: dict[int, BaseException] = {}
    while stack:
        current = stack.pop()
        if current is None or current is but or id(current) in found:
            continue
        found[id(current)] = current
        stack += (current.__cause__, current.__context__)
        if isinstance(current, BaseExceptionGroup):
            stack.extend(current.exceptions)
    return list(found.values())


def _clear_traceback(traceback: TracebackType | None, *, only_ours: bool) -> None:
    while traceback is not None:
        frame = traceback.tb_frame
        if (is_ours(frame) or not only_ours) and not frame.f_code.co_flags & _SUSPENDABLE:
            # Skip frames of generators, which may have caught the error and may continue. A frame that still
            # runs, such as a library function around the scope's block, makes clear() raise.
            with suppress(RuntimeError):
                frame.clear()
        traceback = traceback.tb_next


def is_ours(frame: FrameType) -> bool:
    """Return whether a frame runs code of this library."""
    return is_ours_by_name(frame.f_globals.get("__name__"))


def is_ours_by_name(name: object) -> bool:
    """Return whether a module of this name belongs to this library."""
    return isinstance(name, str) and name.partition(".")[0] in _packages
