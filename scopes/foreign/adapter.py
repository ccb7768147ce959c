"""What scopes need to know of another library: how its objects end, how large they are, where they are."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from scopes.core.errors import TensorDisposedError
from scopes.core.foreign import how_it_ended
from scopes.tracking.tracking import record_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import ModuleType

    from scopes.core.scope import DisposeScope


class Adapter:
    """Derive one for a library, and hand an instance to ``scopes.core.foreign.add_adapter``.

    From then on scopes own the objects of `kinds` like any disposable: ``attach``, ``detach``,
    ``move_to_outer``, ``@disposing``, statistics, tracking. New ones are noticed in one of two ways: the
    library tells of them (an `Adopter`, called with the result of each function, or ``adopt(x)``), or
    `harvest` looks for them.
    """

    #: The name of the library, as one imports it.
    library: ClassVar[str]
    #: The classes whose instances scopes may own. Their objects take weak references.
    kinds: ClassVar[tuple[type, ...]]
    #: Calls ``adopt`` for all that is new, where the library does not tell of it; asked whenever a scope
    #: begins, ends, or is asked for its members. None: the library tells.
    harvest: ClassVar[Callable[[], None] | None] = None
    #: Registers births that ``scopes.core.births`` has noted; asked as `harvest` is. None: nothing is noted.
    look: ClassVar[Callable[[], object] | None] = None
    #: Returns which objects outlive their scope, since something else keeps them; called when the scope ends.
    #: Its arguments: the scope, objects by their ids, what `count_keepers` returned when the scope began, and
    #: whether to be strict. It returns ids, and whether each has no owner from then on, or the outer scope.
    #: None: the scope disposes all.
    find_kept: Callable[[DisposeScope, dict[int, Any], int, bool], dict[int, bool]] | None = None
    #: Called with each object that a weak reference returned, where the library asks for that before a use.
    revive: ClassVar[Callable[[Any], object] | None] = None

    def count_keepers(self) -> int:
        """Return a number that tells keepers made until now from later ones; see `find_kept`."""
        return -1

    def find_kept_by_older(self, objects: dict[int, Any], older: int) -> set[int]:  # noqa: ARG002
        """Return the ids of those that something keeps which is older than `count_keepers` returned `older`.

        Unlike in `find_kept`, a newer keeper counts for nothing, whatever it is.
        """
        return set()

    def end(self, x: Any, is_safe: bool) -> object:
        """Give back the memory of `x`, and let each later use of it raise ``disposed_error(x)``.

        Called once for each object. It must not raise.

        Parameters
        ----------
        is_safe
            False: another thread may be using `x` at this moment, for its scope ended on a thread that did
            not open it.

        Returns
        -------
        What `describe` needs afterwards.
        """
        raise NotImplementedError

    def describe(self, ending: Any) -> str:
        """Return, in words, what a disposed object was, from what `end` returned: shape and dtype."""
        raise NotImplementedError

    def footprint(self, x: Any) -> tuple[int, int]:
        """Return what tells the memory of `x` from other memory, and its size in bytes."""
        raise NotImplementedError

    def device(self, x: Any) -> str:
        """Return the name of the device that the memory of `x` is on."""
        raise NotImplementedError

    def keeps(self, x: Any, seen: set[int]) -> Iterable[tuple[int, int | None]]:  # noqa: ARG002
        """Yield `footprint` of all memory that `x` keeps: its own, and what its graph keeps for backward.

        A recorded operation is put into `seen`, past which nothing goes, and yielded with None for its bytes.
        """
        yield self.footprint(x)

    def last_op(self, x: Any) -> object:  # noqa: ARG002
        """Return what lives as long as the operation that made `x`, for weak references, or None."""
        return None

    def is_adoptable(self, x: Any) -> bool:  # noqa: ARG002
        """Tell whether a scope may own `x`, which is of a subclass of the usual class, without being told."""
        return True

    def is_new(self, x: Any) -> bool:
        """Tell whether a scope may own `x`, whose birth was noted."""
        return self.is_adoptable(x)

    def disposed_error(self, x: Any) -> TensorDisposedError:
        """Return the error for a use of the disposed `x`."""
        how, ending = how_it_ended(x) or ("it was disposed", None)
        record = record_of(x)
        where = "" if record is None else f". It was created by {record.site}"
        if record is not None and record.ended_at is not None:
            where += f", and ended by {record.ended_at}"
        cure = (
            "Move it out before the scope ends: scope.move_to_outer(x), scope.detach(x), or return it from a "
            "function decorated with @disposing"
            if "scope" in how
            else "Dispose it after its last use"
        )
        what = "" if ending is None else f" ({self.describe(ending)})"
        return TensorDisposedError(f"this {self.library} tensor{what} is empty: {how}{where}. {cure}")


class NotSupportedError(ImportError):
    """The installed version of a library lacks something that its adapter relies on."""


def import_library(name: str, title: str, extra: str) -> ModuleType:
    """Return the library `name`.

    Raises
    ------
    ModuleNotFoundError
        If it is not installed: with the command that installs it.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise ModuleNotFoundError(
            f"scopes.{name} needs {title}, which is not installed: pip install 'disposescope[{extra}]'",
            name=name,
        ) from None


def raise_unsupported(name: str, version: str, why: object) -> NoReturn:
    """Raise what says that this version can't be used."""
    raise NotSupportedError(
        f"scopes.{name} can't work with {name} {version}: {why}. Install a version that it was tested with: "
        f"pip install 'disposescope[{name}]'",
        name=name,
    )


def check_version(name: str, version: str, oldest: tuple[int, int]) -> None:
    """Raise an error if `version` is older than `oldest`."""
    parts = version.split(".")[:2]
    if tuple(int(part) for part in parts if part.isdigit()) < oldest:
        raise_unsupported(name, version, f"it needs {oldest[0]}.{oldest[1]} or newer")
