"""Find the holder of objects: the shortest path of references from one of the user's names.

The search begins at the user's modules, the user's frames on all threads and the last error; a second search
may begin at libraries. A search follows the references that the garbage collector sees first, then those in
C++ that a library's adapter knows: graphs, bases of views, gradients. It follows a limited number. It runs
user code only for properties such as ``__dict__``.

Objects that no name leads to are looked at from the other side: by the objects that refer to them, see
`scopes.tracking.unnamed`.
"""

from __future__ import annotations

import gc
import sys
import sysconfig
import threading
import weakref
from collections import deque
from collections.abc import Callable, Container, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from types import (
    AsyncGeneratorType,
    BuiltinFunctionType,
    CellType,
    CodeType,
    CoroutineType,
    FrameType,
    FunctionType,
    GeneratorType,
    MappingProxyType,
    MethodType,
    ModuleType,
    TracebackType,
)
from typing import Any, NamedTuple

from scopes._shared.tracebacks import is_ours, is_ours_by_name
from scopes.tracking.ancestors import Referrers
from scopes.tracking.hidden import GRAPH, has_hidden, hidden_references
from scopes.tracking.members import members_of
from scopes.tracking.sites import is_skipped

# The number of objects of each group that a search looks for, in runs of neighbours that are spread from the
# oldest to the newest.
_MAX_SEARCHED, _RUN = 1024, 8
# The maximum number of references that a report follows. Following them takes a few tenths of a second.
MAX_REFERENCES = 100_000
# The maximum number of references of a search that follows only objects that lead to the wanted ones.
_MAX_GUIDED = 3_000_000
# The maximum number of references of a second search that follows all. It needs some 400 bytes for each.
_MAX_UNGUIDED = 500_000
_ATOMS = frozenset(
    {int, float, complex, str, bytes, bytearray, bool, type(None), range, slice, type(...), CodeType}
)
_SKIPPED: tuple[type, ...] = (weakref.ref, *weakref.ProxyTypes, ModuleType, BuiltinFunctionType, Path)
_OPTIMIZED = 0x1  # CO_OPTIMIZED: the code of a function, whose locals are not a dict


class _Step(NamedTuple):
    """One reference of a path: its text, and what kind it is."""

    text: str
    #: Whether it is an item of a container.
    is_item: bool = False
    #: Whether it is a member of a module: a parameter, a buffer or another module.
    is_member: bool = False


class Holder(NamedTuple):
    """The holder of most objects of a group."""

    #: A path of references from a name, a reference cycle, or words for what has no name. Empty if the search
    #: found none.
    text: str
    #: How many of the objects it holds, and how many were looked for.
    held_count: int
    searched_count: int
    #: The number of references after which a search ended that found none; 0 if it found one.
    followed_count: int = 0


class _Root(NamedTuple):
    """The start of a path: an object, and the format of the path's text."""

    holder: Any
    # For example "{}, a local of main()".
    form: str


# The format of the root, and the references from the root to the object.
_Path = tuple[str, tuple[_Step, ...]]
_Entry = tuple[Any, int, _Step | None, str]


class Effort:
    """The number of references that a search may still follow, and has followed.

    It is not a time limit, so a search finds the same on a slow machine.
    """

    __slots__ = ("followed", "left")

    def __init__(self, left: int) -> None:
        self.left = left
        self.followed = 0

    def spend(self, count: int) -> None:
        """Count `count` followed references."""
        self.left -= count
        self.followed += count


def holders_of(
    groups: Mapping[Any, Sequence[Any]],
    effort: Effort,
    *,
    in_libraries: bool = True,
    explain: Callable[[list[Any], Referrers], dict[int, str]] | None = None,
    explained: Container[Any] = (),
) -> dict[Any, Holder]:
    """Return the holder of most objects of each group.

    A group without a holder is omitted. But if a search ended before it had followed all references, or if
    even names of libraries lead to no object of the group, the group has a `Holder` without text.

    A search from the user's names may meet many objects that hold none of the groups. When its effort is used
    up, another search follows only the objects that lead to the groups, see `Referrers`. If ``gc.freeze()``
    hides objects, these are not all known: then the other search follows all references, or finds less if not
    `in_libraries`.

    Parameters
    ----------
    groups
        Objects for each key, oldest first.
    effort
        The number of references to follow.
    in_libraries
        Whether to search from names of libraries too, for objects not found from the user's names.
    explain
        Called with the objects to which none of the user's names leads, and with all objects that lead to
        them. It returns texts for those that no name holds, by id.
    explained
        The keys of the groups to explain.
    """
    searched = {key: _spread(objects) for key, objects in groups.items()}
    keys: dict[int, list[Hashable]] = {}
    for key, objects in searched.items():
        for x in objects:
            keys.setdefault(id(x), []).append(key)
    found: dict[Any, list[_Path]] = {key: [] for key in groups}
    wanted = set(keys)
    if wanted:
        _look_for(_own_roots, wanted, effort, keys, found)
    is_complete = effort.left > 0
    way: Referrers | None = None
    unknown = _of(searched, groups if effort.left <= 0 else explained, wanted)
    if unknown and (effort.left <= 0 or explain is not None):
        way = Referrers(unknown, {*map(id, searched.values()), *map(id, groups.values())})
        try:
            if not is_complete:
                # Frozen objects are not among the referrers: follow all references, if there is time for it.
                has_frozen = gc.get_freeze_count() > 0
                follows_all = has_frozen and in_libraries
                effort.left = _MAX_UNGUIDED if follows_all else _MAX_GUIDED
                _look_for(_own_roots, wanted, effort, keys, found, None if follows_all else way)
                is_complete = way.is_complete and effort.left > 0 and (follows_all or not has_frozen)
            if explain is not None and way.is_complete and is_complete:
                unknown = _of(searched, explained, wanted)
                for address, text in explain(unknown, way).items():
                    wanted.discard(address)
                    for key in keys[address]:
                        found[key].append((_escaped(text), ()))
            if wanted and in_libraries:
                _look_for(_library_roots, wanted, effort, keys, found, None if is_complete else way)
        finally:
            way.objects.clear()  # they may refer to themselves
    elif wanted and in_libraries:
        _look_for(_library_roots, wanted, effort, keys, found)
    holders = {key: _most_common(paths, len(searched[key])) for key, paths in found.items() if paths}
    if in_libraries or not is_complete:
        for key, objects in searched.items():
            if key not in holders and objects:
                holders[key] = Holder("", 0, len(objects), effort.followed)
    return holders


def _of(groups: Mapping[Any, Sequence[Any]], keys: Container[Any], wanted: set[int]) -> list[Any]:
    return [x for key, objects in groups.items() if key in keys for x in objects if id(x) in wanted]


def _look_for(
    roots: Callable[[], Iterator[_Root]],
    wanted: set[int],
    effort: Effort,
    keys: dict[int, list[Hashable]],
    found: dict[Any, list[_Path]],
    way: Referrers | None = None,
) -> None:
    for address, path in _search(list(roots()), set(wanted), effort, way):
        wanted.discard(address)
        for key in keys[address]:
            found[key].append(path)


def _spread(objects: Sequence[Any]) -> list[Any]:
    if len(objects) <= _MAX_SEARCHED:
        return list(objects)
    # Single objects would be misleading: a line that creates two tensors in a step would often show only the
    # first ones.
    run_count = _MAX_SEARCHED // _RUN
    last = len(objects) - _RUN
    return [objects[last * n // (run_count - 1) + k] for n in range(run_count) for k in range(_RUN)]


def _most_common(paths: list[_Path], searched_count: int) -> Holder:
    """Return the most common of `paths`. Paths that differ only in items count as equal.

    A path counts with those that go on through the graph of its end: a line that keeps its results also
    creates operands, which only the graphs of these results hold.
    """
    groups: dict[tuple[str, tuple[str, ...]], list[tuple[_Step, ...]]] = {}
    for form, steps in paths:
        groups.setdefault((form, _general(_before_graph(steps))), []).append(steps)
    (form, _), alike = max(groups.items(), key=lambda item: len(item[1]))
    direct = [steps for steps in alike if _before_graph(steps) == steps]
    is_by_graph = 3 * len(direct) < len(alike)
    shown = alike if is_by_graph else direct
    texts = []
    for place, step in enumerate(_before_graph(shown[0])):
        is_same = all(steps[place] == step for steps in shown)
        if is_same:
            texts.append(step.text)
        elif step.is_member:
            texts.append(".*")  # several parameters
        else:
            texts.append("[...]")
    text = "".join(texts).removeprefix(".").removesuffix(".*")
    return Holder(form.format(text + GRAPH * is_by_graph), len(alike), searched_count)


def _before_graph(steps: tuple[_Step, ...]) -> tuple[_Step, ...]:
    return next((steps[:n] for n, step in enumerate(steps) if step.text == GRAPH), steps)


def _general(steps: tuple[_Step, ...]) -> tuple[str, ...]:
    return tuple(["[...]" if step.is_item else ".*" if step.is_member else step.text for step in steps])


# --- The search -------------------------------------------------------------------------------------------


def _search(
    roots: list[_Root], wanted: set[int], effort: Effort, way: Referrers | None
) -> Iterator[tuple[int, _Path]]:
    """Yield each found address of `wanted` with the shortest path to it, on the `way` if given."""
    # One entry for each visited object: the object, its parent entry, the step, and the root's format.
    entries: list[_Entry] = [(root.holder, -1, None, root.form) for root in roots]
    # Skip the search's own lists, which refer to everything.
    seen = {id(entries), id(roots), id(wanted)}
    seen.update([id(root.holder) for root in roots])
    roots.clear()
    try:
        yield from _found(entries, seen, wanted, effort, way)
    finally:
        entries.clear()  # the search may have visited itself: break the cycle


def _found(
    entries: list[_Entry], seen: set[int], wanted: set[int], effort: Effort, way: Referrers | None
) -> Iterator[tuple[int, _Path]]:
    # Follow references in C++ after the others, so that a name that holds an object directly comes first. But
    # keep half of the effort for them.
    later: deque[int] = deque()
    enough = effort.left // 2
    operations: set[int] = set()
    place = 0
    while wanted and effort.left > 0:
        if place < len(entries) and (effort.left > enough or not later):
            at, is_later = place, False
            place += 1
        elif later:
            at, is_later = later.popleft(), True
        else:
            break
        holder, _, step_to, form = entries[at]
        try:
            if is_later:
                references = [
                    (_Step(text), x) for text, x in islice(hidden_references(holder, operations), effort.left)
                ]
                effort.spend(len(references))
            else:
                references = _references_on(way, holder, effort, is_root=step_to is None)
                if has_hidden(holder):
                    later.append(at)
        # Another thread changed the object, or user code raises.
        except Exception:  # noqa: BLE001
            references = []
        for step, x in references:
            address = id(x)
            if address in seen or type(x) in _ATOMS:
                continue
            seen.add(address)
            entries.append((x, at, step, form))
            if address in wanted:
                wanted.discard(address)
                yield address, (form, _steps_to(entries, len(entries) - 1))


def _references_on(
    way: Referrers | None, holder: Any, effort: Effort, is_root: bool
) -> list[tuple[_Step, Any]]:
    """Return the references of `holder` to objects of `way`, or all of them."""
    references = islice(references_of(holder, is_root), effort.left)
    found = list(references) if way is None else []
    followed_count = len(found)
    if way is not None:
        for reference in references:
            followed_count += 1
            if way.has(reference[1]):
                found.append(reference)
    effort.spend(followed_count)
    return found


def _steps_to(entries: list[_Entry], place: int) -> tuple[_Step, ...]:
    steps: list[_Step] = []
    while True:
        _, before, step, _ = entries[place]
        if step is None:
            return tuple(reversed(steps))
        if step.is_member and steps and steps[-1].is_member:
            steps[-1] = _Step(step.text + steps[-1].text, is_member=True)
        elif step.text:
            steps.append(step)
        place = before


# These functions ask for `type(x)`. `isinstance` also asks for ``x.__class__``, which runs code of lazy
# proxies, and warns for some objects of PyTorch.
def references_of(x: Any, is_root: bool = False) -> Iterator[tuple[_Step, Any]]:
    kind = type(x)
    if kind is dict or issubclass(kind, (dict, MappingProxyType)):
        yield from _named(x) if is_root else _items(x)
        if kind is dict:
            return
    elif issubclass(kind, (list, tuple, deque)):
        for place, item in enumerate(_members_of(x)):
            yield _Step(f"[{place}]", True), item
        if kind in (list, tuple, deque):
            return
    elif issubclass(kind, (set, frozenset)):
        for item in _members_of(x):
            yield _Step("{...}", True), item
        return
    elif issubclass(kind, FrameType):
        for name, value in _locals_of(x):
            yield _Step(f".{name}"), value
        return
    elif issubclass(kind, FunctionType):
        yield from _of_function(x)
        return
    elif issubclass(kind, TracebackType):
        yield from _of_traceback(x)
        return
    elif issubclass(kind, (GeneratorType, CoroutineType, AsyncGeneratorType)):
        for attribute in ("gi_frame", "cr_frame", "ag_frame"):
            frame = getattr(x, attribute, None)
            for name, value in () if frame is None else _locals_of(frame):
                yield _Step(f" (local {name!r} of {x.__name__}())"), value
        return
    elif issubclass(kind, type):
        if is_of_user(x.__module__):
            for name, value in list(vars(x).items()):
                yield _Step(f".{name}"), value
        return
    elif issubclass(kind, _SKIPPED) or kind.__module__.startswith("scopes.tracking"):
        return
    yield from _of_object(x)


def _named(namespace: Mapping[Any, Any]) -> Iterator[tuple[_Step, Any]]:
    """Yield the objects of a module's namespace, private names last; ``_12`` of a notebook as ``Out[12]``."""
    is_notebook = "Out" in namespace and "In" in namespace
    for is_private in (False, True):
        for name, value in list(namespace.items()):
            if not isinstance(name, str) or name.startswith("_") != is_private:
                continue
            if is_notebook and is_private and not name.strip("_0123456789"):
                if name.strip("_"):  # `_`, `__` and `___` are the last outputs
                    yield _Step(f".Out[{name[1:]}]"), value
            else:
                yield _Step(f".{name}"), value


def _members_of(x: Any) -> list[Any]:
    """Return the members of a container. Methods that its class overrides are not called."""
    base: Any = next(each for each in (list, tuple, deque, set, frozenset) if issubclass(type(x), each))
    return list(base.__iter__(x))


def _items(mapping: Mapping[Any, Any]) -> Iterator[tuple[_Step, Any]]:
    read: Any = dict.items if issubclass(type(mapping), dict) else type(mapping).items
    items = read(mapping)
    for key, value in list(items):
        yield _Step(f"[{_short(key)}]", True), value
        if type(key) not in _ATOMS:
            yield _Step(" (a key)", True), key


def _short(key: object) -> str:
    if type(key) in (int, str, float, bool, type(None)):
        text = repr(key)
        return text if len(text) <= 30 else f"{text[:27]}..."
    return "..."


def _of_function(function: FunctionType) -> Iterator[tuple[_Step, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield _Step(f" (closure variable {name!r})"), cell.cell_contents
        except ValueError:
            continue  # the cell is empty
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    defaults = function.__defaults__ or ()
    for name, value in zip(names[len(names) - len(defaults) :], defaults, strict=False):
        yield _Step(f" (default of {name!r})"), value
    for name, value in (function.__kwdefaults__ or {}).items():
        yield _Step(f" (default of {name!r})"), value
    for name, value in list(vars(function).items()):
        yield _Step(f".{name}"), value


def _of_traceback(traceback: TracebackType) -> Iterator[tuple[_Step, Any]]:
    tb: TracebackType | None = traceback
    while tb is not None:
        frame = tb.tb_frame
        if not is_ours(frame):
            for name, value in _locals_of(frame):
                yield _Step(f" (local {name!r} of {frame.f_code.co_name}() in the traceback)"), value
        tb = tb.tb_next


_EXCEPTION = ("__traceback__", "__context__", "__cause__", "args", "exceptions")


def _of_object(x: Any) -> Iterator[tuple[_Step, Any]]:
    """Yield the references of any object, with attribute names if it has them."""
    named: set[int] = set()
    for name, value in members_of(x):
        named.add(id(value))
        yield _Step(f".{name}", is_member=True), value
    for name, value in _attributes_of(x):
        if id(value) not in named:
            named.add(id(value))
            yield _Step(f".{name}"), value
    for value in gc.get_referents(x):
        if id(value) not in named and not issubclass(type(value), type):
            if type(value) is dict and value is _namespace_of(x):
                continue
            yield _Step(""), value


def _namespace_of(x: Any) -> Any:
    """Return the dict of attributes of `x`, or None, without running code of its class."""
    try:
        # The attributes of this thread. A subclass is not asked, because that may run its constructor.
        return x.__dict__ if type(x) is threading.local else object.__getattribute__(x, "__dict__")
    except AttributeError:
        return None


def _attributes_of(x: Any) -> Iterator[tuple[str, Any]]:
    kind = type(x)
    if issubclass(kind, BaseException):
        yield from [(name, getattr(x, name)) for name in _EXCEPTION if hasattr(x, name)]
    elif issubclass(kind, MethodType):
        yield "__self__", x.__self__
        yield "__func__", x.__func__
        return
    elif issubclass(kind, partial):
        yield from (("func", x.func), ("args", x.args), ("keywords", x.keywords))
    elif issubclass(kind, CellType):
        return
    namespace = _namespace_of(x)
    if type(namespace) is dict:
        yield from [(name, value) for name, value in namespace.items() if isinstance(name, str)]
    for cls in type(x).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else tuple(slots):
            member = cls.__dict__.get(name)
            if isinstance(member, _MEMBER):
                try:
                    yield name, member.__get__(x)
                except AttributeError:
                    continue  # not set


class _Slotted:
    __slots__ = ("slot",)


_MEMBER = type(_Slotted.slot)  # type: ignore[attr-defined]


# To the dict of a frame's variables: from the frame, from a variable, and from the argument of getrefcount.
_REFERENCES_HERE = 3


def _locals_of(frame: FrameType) -> list[tuple[str, Any]]:
    """Return a frame's variables, and leave no dict in the frame that would keep them alive."""
    if frame.f_code.co_flags & _OPTIMIZED:
        # Up to Python 3.12 the frame keeps the dict and its values. If the dict has another reference, it
        # belongs to the user: from locals(), or a debugger.
        namespace = frame.f_locals
        variables = [(name, namespace[name]) for name in list(namespace)]
        if type(namespace) is dict:
            if sys.getrefcount(namespace) == _REFERENCES_HERE:
                namespace.clear()
            else:  # Python has brought it up to date: it must not become part of a reference cycle
                for name in [name for name, value in variables if value is namespace]:
                    del namespace[name]
        return variables
    # The frame of a class body or a module, whose locals are a dict. For a module return nothing, because its
    # namespace is another root.
    namespace = frame.f_locals
    return [] if namespace is frame.f_globals else list(namespace.items())


# --- The roots, where searches begin ----------------------------------------------------------------------


def _own_roots() -> Iterator[_Root]:
    modules = sorted(
        [(name, module) for name, module in list(sys.modules.items()) if is_of_user(name)],
        key=lambda item: item[0] != "__main__",
    )
    for name, module in modules:
        yield _Root(vars(module), _form_of_module(name, module))
    yield from _frames(_is_users)
    yield from _coroutines()
    error = getattr(sys, "last_value", None)
    if error is not None:
        yield _Root(error, "sys.last_value.{}")
    for error in _errors:
        if error.__traceback__ is not None:
            yield _Root(error.__traceback__, "the error{}")


# Errors that are on their way, whose tracebacks hold the locals of functions that have ended.
_errors: list[BaseException] = []


@contextmanager
def searching_error(error: BaseException) -> Iterator[None]:
    """Make searches in the block begin at the traceback of `error` too."""
    _errors.append(error)
    try:
        yield
    finally:
        _errors.remove(error)


def _library_roots() -> Iterator[_Root]:
    yield from _frames(lambda frame: not _is_users(frame) and not is_ours(frame))
    for name, module in list(sys.modules.items()):
        namespace = getattr(module, "__dict__", None)
        if isinstance(namespace, dict) and not is_of_user(name) and not is_ours_by_name(name):
            yield _Root(namespace, f"{name}.{{}}")


def _form_of_module(name: str, module: ModuleType) -> str:
    if name != "__main__":
        return f"{name}.{{}}"
    file = getattr(module, "__file__", None)
    return "{}, a global" if file is None else f"{{}}, a global of {_escaped(Path(file).name)}"


def _frames(is_wanted: Callable[[FrameType], bool]) -> Iterator[_Root]:
    here = threading.get_ident()
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in _running(is_wanted):
        where = "" if ident == here else f" in thread {names.get(ident, ident)!r}"
        yield _Root(frame, f"{{}}, a local of {_escaped(frame.f_code.co_name)}(){_escaped(where)}")


def _coroutines() -> Iterator[_Root]:
    """Yield the frames of the user's coroutines that wait, in tasks of this thread's event loop."""
    asyncio = sys.modules.get("asyncio")
    loop = None if asyncio is None else asyncio._get_running_loop()
    if asyncio is None or loop is None:
        return
    for task in sorted(asyncio.all_tasks(loop), key=lambda task: str(task.get_name())):
        waiting = task.get_coro()
        while isinstance(waiting, CoroutineType):
            frame = waiting.cr_frame
            if frame is not None and not waiting.cr_running and _is_users(frame):
                name = _escaped(frame.f_code.co_name)
                yield _Root(frame, f"{{}}, a local of {name}() in task {_escaped(repr(task.get_name()))}")
            waiting = waiting.cr_await


def _running(is_wanted: Callable[[FrameType], bool]) -> list[tuple[int, FrameType]]:
    """Return the frames of running functions with their thread's ident, outermost first."""
    found: list[tuple[int, FrameType]] = []
    # Leave no variable that refers to this function's own frame: that would be a cycle.
    for ident, innermost in sys._current_frames().items():
        frame: FrameType | None = innermost
        del innermost
        chain: list[tuple[int, FrameType]] = []
        while frame is not None:
            if is_wanted(frame) and frame.f_code.co_flags & _OPTIMIZED:
                chain.append((ident, frame))
            frame = frame.f_back
        found += reversed(chain)
        chain.clear()
    return found


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _is_users(frame: FrameType) -> bool:
    name = frame.f_globals.get("__name__")
    return isinstance(name, str) and not is_skipped(frame) and is_of_user(name)


def is_of_user(name: object) -> bool:
    """Return whether a module of this name belongs to the user, not to Python, a library or this library."""
    module = sys.modules.get(name) if isinstance(name, str) else None
    if not isinstance(module, ModuleType) or is_ours_by_name(name):
        return False
    if name == "__main__":
        return True
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and not _is_installed(file)


@lru_cache(maxsize=4096)
def _is_installed(file: str) -> bool:
    parts = Path(file).parts
    return "site-packages" in parts or "dist-packages" in parts or file.startswith(_PYTHONS) or file[0] == "<"


_PYTHONS = tuple({sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib")})
