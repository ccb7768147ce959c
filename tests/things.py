"""Disposables made for tests: one that scopes hold weakly, and resources of a user's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from scopes import Disposable


class ThingDisposedError(RuntimeError):
    """A thing was used after its disposal."""


class Thing(Disposable):
    """The least that a tensor is for a scope."""

    __slots__ = ("partner", "size", "when_cleared", "whole")

    def __init__(self, size: int = 4, when_cleared: Callable[[Thing], object] | None = None) -> None:
        self.size = size
        self.partner: object = None
        self.when_cleared = when_cleared
        self.whole = True
        super().__init__()

    __del__ = Disposable._finalize

    def _release(self) -> None:
        self.whole = False
        if self.when_cleared is not None:
            self.when_cleared(self)

    def _raise_if_disposed(self) -> None:
        if not self.whole:
            raise ThingDisposedError("the thing is disposed")

    def _footprint(self) -> tuple[int, int]:
        return id(self), self.size


class SpecialThing(Thing):
    """A subclass, for figures by type."""

    __slots__ = ()


class Resource:
    """A user's own disposable; `log` tells the order of disposals."""

    def __init__(self, log: list[object] | None = None, error: BaseException | None = None) -> None:
        self.log: list[object] = [] if log is None else log
        self.error = error

    def dispose(self) -> None:
        self.log.append(self)
        if self.error is not None:
            raise self.error


class Channel:
    """A user's own resource with close() alone."""

    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


class Holder:
    """Holds disposables and is none itself."""

    def __init__(self, *held: object) -> None:
        self.held = held

    def __disposables__(self) -> Iterable[object]:
        return self.held


class Module(Holder):
    """As a module: one disposable that holds others."""

    def __init__(self, *held: object) -> None:
        super().__init__(*held)
        self.disposed = 0

    def dispose(self) -> None:
        self.disposed += 1
        for x in self.held:
            if isinstance(x, Thing):
                x.dispose()
