"""The base class of adapters: how a library's objects end, their sizes and their devices."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from scopes._shared.extras import how_to_install
from scopes.adapters.foreign import how_it_ended
from scopes.core.errors import TensorDisposedError
from scopes.tracking.tracking import record_of

if TYPE_CHECKING:
    from scopes.core.scope import DisposeScope


class Adapter:
    """Base class of adapters: how the objects of another library end, their memory and their devices.

    Define a subclass for a library, and pass an instance to ``scopes.adapters.foreign.add_adapter``. Then
    scopes own the objects of `kinds` like any disposable: ``attach``, ``detach``, ``move_to_outer``,
    ``@disposing``, statistics, tracking. New objects are found in one of three ways. An `Adopter` gets the
    result of each function (or code calls ``adopt(x)``), `harvest` searches for new objects, or their
    allocations are noted. A *keeper* is an object that may hold others for longer than a scope, such as
    a module or an optimizer.
    """

    #: The name of the library's package.
    library: ClassVar[str]
    #: The library's word for its objects, for errors.
    noun: ClassVar[str] = "tensor"
    #: The classes whose instances scopes may own. They must support weak references.
    kinds: ClassVar[tuple[type, ...]]
    #: Calls ``adopt`` for all new objects. It runs when a scope begins or ends, and when its members are
    #: read. None if the library reports new objects itself.
    harvest: ClassVar[Callable[[], None] | None] = None
    #: Returns an object that separates the keepers so far from later ones. It runs when a scope begins.
    mark: ClassVar[Callable[[], object] | None] = None
    #: Returns whether objects that outlive their block have no other references than locals of running
    #: functions of the program. Then the scope disposes them, else `find_kept` decides. The list has the
    #: only references that are not the program's.
    are_explained: Callable[[list[Any]], bool] | None = None
    #: Returns the objects that outlive their scope, because a keeper holds them. It runs when the scope
    #: ends. The arguments are the scope, the objects by id, the result of `mark`, and whether to be strict.
    #: The result has the ids, each with True if the object gets no owner, or False if the outer scope owns
    #: it. None: the scope disposes all objects. An adapter with it has `mark` and `are_explained` too.
    find_kept: Callable[[DisposeScope, dict[int, Any], Any, bool], dict[int, bool]] | None = None
    #: Called with each object that a weak reference returned, before its use, if the library requires that.
    revive: ClassVar[Callable[[Any], object] | None] = None

    #: Returns whether a new object of exactly one of `kinds` is a wrapper, which is not counted or tracked.
    #: None: `may_own_new` decides about these objects too.
    is_wrapper: ClassVar[Callable[[Any], bool] | None] = None

    def count_keepers(self) -> int:
        """Return a number that separates the keepers so far from later ones; see `find_kept_by_older`."""
        return -1

    def find_kept_by_older(self, objects: dict[int, Any], older: int) -> set[int]:  # noqa: ARG002
        """Return the ids of objects that a keeper from before `older` holds.

        `older` is a result of `count_keepers`. Unlike in `find_kept`, newer keepers of any kind are ignored.
        """
        return set()

    def end(self, x: Any, is_safe: bool) -> object:
        """Release the memory of `x`. Later uses of it raise ``disposed_error(x)``.

        Called once for each object. It must not raise.

        Parameters
        ----------
        is_safe
            False if another thread may be using `x` now, because its scope ended on a thread that did not
            open it.

        Returns
        -------
        The data for `describe`.
        """
        raise NotImplementedError

    def describe(self, ending: Any) -> str:
        """Return a description of a disposed object, with shape and dtype, from the result of `end`."""
        raise NotImplementedError

    def footprint(self, x: Any) -> tuple[int, int]:
        """Return a key that identifies the memory of `x`, and its size in bytes."""
        raise NotImplementedError

    def device(self, x: Any) -> str:
        """Return the name of the device that the memory of `x` is on."""
        raise NotImplementedError

    def keeps(self, x: Any, seen: set[int]) -> Iterable[tuple[int, int | None]]:  # noqa: ARG002
        """Yield the `footprint` of all memory that `x` and its graph keep.

        A recorded operation is added to `seen`, so that it is not visited again. It is yielded with None
        instead of bytes.
        """
        yield self.footprint(x)

    def last_op(self, x: Any) -> object:  # noqa: ARG002
        """Return an object that lives as long as the operation that created `x`, or None."""
        return None

    def is_kept_by_library(self, x: Any, references: int) -> bool:  # noqa: ARG002
        """Return whether only objects of the library keep `x`, such as a view of it or a graph.

        `references` is the result of ``scopes.tracking.counts.reference_counts`` for `x`.
        """
        return False

    def is_adoptable(self, x: Any) -> bool:  # noqa: ARG002
        """Return whether scopes may adopt `x`, an instance of a subclass of the usual class."""
        return True

    def may_own_new(self, x: Any) -> bool | None:
        """Return whether a scope may own `x`, whose allocation was noted; None: do not count or track `x`.

        For new objects of exactly one of `kinds`, `is_wrapper` decides, if there is one.
        """
        return self.is_adoptable(x)

    def disposed_error(self, x: Any) -> TensorDisposedError:
        """Return the error for a use of the disposed `x`."""
        how, ending = how_it_ended(x) or ("it was disposed", None)
        record = record_of(x)
        where = "" if record is None else f". It was created by {record.site}"
        if record is not None and record.ended_at is not None:
            where += f", and ended by {record.ended_at}"
        cure = (
            "Move it out before that scope ends: call that scope's move_to_outer(x) or detach(x), or return "
            "it from a function decorated with @disposing"
            if "scope" in how
            else "Dispose it after its last use"
        )
        what = "" if ending is None else f" ({self.describe(ending)})"
        return TensorDisposedError(f"this {self.library} {self.noun}{what} is empty: {how}{where}. {cure}")


class NotSupportedError(ImportError):
    """The installed version of a library lacks a feature that its adapter needs."""


def import_library(name: str, title: str, extra: str) -> ModuleType:
    """Import and return the library `name`.

    Raises
    ------
    ModuleNotFoundError
        If it is not installed. The message gives the command that installs it.
    NotSupportedError
        If a file or folder of the user has the same name.
    """
    install = how_to_install(extra)
    try:
        library = import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise ModuleNotFoundError(
            f"scopes.{name} requires {title}, which is not installed: {install}", name=name
        ) from None
    if not hasattr(library, "__version__"):
        where = getattr(library, "__file__", None) or ", ".join(library.__path__)
        raise NotSupportedError(
            f"scopes.{name} requires {title}, but 'import {name}' loads another module, {where}. Rename "
            f"that, or remove it from sys.path. If {title} is not installed: {install}",
            name=name,
        )
    return library


def raise_unsupported(name: str, version: str, why: object) -> NoReturn:
    """Raise the error for a version that is not supported."""
    raise NotSupportedError(
        f"scopes.{name} does not support {name} {version}: {why}. Install a tested version: "
        f"{how_to_install(name)}",
        name=name,
    )


def check_version(name: str, version: str, oldest: tuple[int, int]) -> None:
    """Raise an error if `version` is older than `oldest`."""
    parts = version.split(".")[:2]
    if tuple(int(part) for part in parts if part.isdigit()) < oldest:
        raise_unsupported(name, version, f"it requires {oldest[0]}.{oldest[1]} or later")
