"""The keepers of PyTorch's tensors, which may keep them beyond a scope.

- Modules, optimizers, gradient scalers and graphs keep their tensors.
- Data sets, schedulers, distributions, caches of functions, and objects and generators of installed libraries
  that use PyTorch keep their tensors if they are older than the scope.
- Globals of those libraries keep their tensors in every scope.

An object of a user's class keeps only tensors without a graph, such as a mask, a table or a detached state. A
tensor with a graph belongs to one step, and ends with the scope.
"""

from __future__ import annotations

import dis
import functools
import gc
import itertools
import json
import os
import re
import site
import sys
import sysconfig
import weakref
from collections import deque
from enum import Enum
from importlib.metadata import distributions
from pathlib import Path
from types import CellType, FrameType, FunctionType, GeneratorType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

from scopes.adapters import keepers
from scopes.adapters.torch.disposal import DisposedTensor
from scopes.adapters.torch.library import torch, tried
from scopes.tracking.records import UNNAMED

if TYPE_CHECKING:
    from scopes.core.scope import DisposeScope

_Module = torch.nn.Module
_Optimizer = torch.optim.Optimizer
_Scaler = torch.amp.GradScaler
# Classes whose objects keep their tensors in every scope, even if the scope is older.
_ALWAYS = (_Module, _Optimizer, _Scaler, torch.export.ExportedProgram)
# Recorded calls of a `torch.autograd.Function`: backward needs their attributes, with or without a graph.
_Recorded = torch.autograd.function.BackwardCFunction
# Classes whose objects keep their tensors if they are older than the scope, including users' subclasses.
_OLDER = (
    torch.utils.data.Dataset,
    torch.utils.data.DataLoader,
    torch.utils.data.Sampler,
    torch.optim.lr_scheduler.LRScheduler,
    torch.distributions.Distribution,
)
# The attributes that hold parts of a module, an optimizer or a gradient scaler.
_PARTS = {
    _Module: ("_parameters", "_buffers"),
    _Optimizer: ("state", "param_groups"),
    _Scaler: ("_scale", "_growth_tracker"),
}
# Classes without inner tensors. The inner tensors of another class end with the outer tensor.
_WITHOUT_PARTS = (torch.Tensor, torch.nn.Parameter)
_WRAPPER = keepers.SOUGHT | keepers.ATTRIBUTES | keepers.ALWAYS | keepers.FOREIGN_CODE
_Cache = type(functools.lru_cache(abs))
# The folders of installed libraries.
_INSTALLED = tuple(
    folder + os.sep
    for folder in {
        *(sysconfig.get_path(name) for name in ("purelib", "platlib")),
        *site.getsitepackages(),
        site.getusersitepackages(),
    }
)
# The folders of Python's own modules.
_STANDARD = tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib"))
# The names of other packages that count as libraries, such as an editable install or a plain folder.
_NAMED = frozenset(filter(None, re.split(r"[\s,]+", os.environ.get("DISPOSESCOPE_TORCH_LIBRARIES", ""))))
# Other classes of Python whose objects refer to others.
_REFERRING = {CellType, functools.partial, *map(type, (iter([]), iter(()), map(abs, ()), zip()))}
_CONTAINERS = {"collections", "types", "weakref"}
_PLAIN = {
    *(FunctionType, MethodType, torch.library.Library, torch.autograd.grad_mode.no_grad),
    *(torch.autograd.grad_mode.set_grad_enabled, torch.autograd.grad_mode.inference_mode),
    *(torch.distributions.utils.lazy_property, torch.distributions.constraints._DependentProperty),
}
# Classes and cached functions of libraries that hold only constants and names. Some hold thousands.
_CONSTANTS = {
    "torch.ao.quantization.observer._PartialWrapper",
    "torch.backends.ContextProp",
    "torch.cuda._CompatInterval",
    "torch.cuda._CompatSet",
    "torch.distributed.tensor.placement_types.Partial",
    "torch.distributed.tensor.placement_types.Replicate",
    "transformers.models.auto.auto_factory._LazyAutoMapping",
    "transformers.models.auto.configuration_auto._LazyConfigMapping",
    "transformers.utils.import_utils.create_import_structure_from_path",
    "transformers.utils.import_utils.define_import_structure",
}
# Packages that hold results for the user, such as `Out` and `_` of a notebook: they count as the user's code.
_SHELLS = {"IPython", "ipykernel"}
_OURS = {"scopes", "tensor", "nn", "disposescope"}
_NoFunctions = torch._C.DisableTorchFunction


# By package: whether one of its modules uses PyTorch, and the number of loaded modules at the last check.
_uses: dict[str, tuple[bool, int]] = {}


def _uses_torch(package: str) -> bool:
    """Return whether an installed package uses PyTorch. IPython and pytest, for example, do not."""
    uses, module_count = _uses.get(package, (False, -1))
    # A package that loads its modules lazily may use PyTorch later.
    if not uses and module_count != len(sys.modules):
        uses = _has_torch(package)
        _uses[package] = uses, len(sys.modules)
    return uses


def _has_torch(package: str) -> bool:
    prefix = package + "."
    modules: dict[str, Any] = dict(sys.modules)
    return package not in _OURS and any(
        any(value is torch for value in list(vars(module).values()))
        for name, module in modules.items()
        if isinstance(module, ModuleType) and (name == package or name.startswith(prefix))
    )


def _is_installed(name: str) -> bool:
    """Return whether a module belongs to a library: an installer wrote it, or the user named its package."""
    file = getattr(sys.modules.get(name), "__file__", None)
    # A class that code creates without a module has no file.
    return file is not None and (_is_installed_at(name, file) or _is_editable(name.partition(".")[0]))


# Scopes check each new generator and cache. Without `functools.cache`, the path operations take 10 us.
@functools.cache
def _is_installed_at(name: str, file: str) -> bool:
    package = name.partition(".")[0]
    return file.startswith(_INSTALLED) or package in _NAMED or package in _packages_in(_folder_of(name, file))


def _folder_of(name: str, file: str) -> str:
    """Return the folder on `sys.path` that has the package of a module."""
    path = Path(file)
    levels = name.count(".") + path.name.startswith("__init__.")
    return str(path.parents[: levels + 1][-1])


@functools.cache
def _packages_in(folder: str) -> frozenset[str]:
    """Return the packages that an installer has put into a folder, from the installer's lists of files.

    This finds `pip install --target` if a `.pth` file or `PYTHONPATH` names the folder.
    """
    records = [each.read_text("RECORD") for each in distributions(path=[folder])]
    lines = itertools.chain.from_iterable(record.splitlines() for record in records if record)
    return frozenset(re.split("[/.,]", line, maxsplit=1)[0] for line in lines)


def _is_editable(package: str) -> bool:
    """Return whether a package is an editable install of a library.

    A package that imports `scopes` is the user's own: many install the project that they work on like this.
    """
    return package in _editable_packages() and not opens_scopes(package)


@functools.cache
def _editable_packages() -> frozenset[str]:
    """Return the packages of editable installs, and of checkouts with metadata, from their distributions."""
    found: set[str] = set()
    for each in distributions():
        about = json.loads(each.read_text("direct_url.json") or "{}")
        record = each.read_text("RECORD")
        # A checkout that setuptools has built has metadata without a list of files.
        is_editable = about.get("dir_info", {}).get("editable", False) or record is None
        if is_editable or re.search(r"^[^/,]*\.pth,", record or "", re.MULTILINE):
            found.update((each.read_text("top_level.txt") or "").split())
            found.add(re.sub(r"[-.]+", "_", each.name))
    return frozenset(found - _OURS)


_opening: dict[str, tuple[bool, int]] = {}


def opens_scopes(package: str) -> bool:
    """Return whether a module of a package imports `scopes`."""
    opens, module_count = _opening.get(package, (False, -1))
    if not opens and module_count != len(sys.modules):
        modules: dict[str, Any] = dict(sys.modules)
        opens = any(
            isinstance(value, (ModuleType, type, FunctionType)) and _package_of(value) == "scopes"
            for name, module in modules.items()
            if isinstance(module, ModuleType) and name.partition(".")[0] == package
            for value in list(vars(module).values())
        )
        _opening[package] = opens, len(sys.modules)
    return opens


def _package_of(x: Any) -> str:
    return str(x.__name__ if isinstance(x, ModuleType) else x.__module__).partition(".")[0]


def _is_library(name: str) -> bool:
    return _is_installed(name) and _uses_torch(name.partition(".")[0])


def _may_keep(name: str) -> bool:
    """Return whether objects of a module's classes may keep tensors. PyTorch's private modules may not."""
    return _is_library(name) and not (name.startswith("torch.") and "._" in name)


def _is_users(name: str) -> bool:
    """Return whether the user wrote a module, rather than Python, an installer, or this package."""
    package = name.partition(".")[0]
    if package in _SHELLS:
        return True
    is_brought = package in sys.stdlib_module_names or package in _OURS
    return not is_brought and not _is_installed(name) and not _is_installed(package)


def author_of_file(file: str) -> int:
    """Return whose code a file contains; see ``keepers.Keepers``."""
    for folder in sorted(sys.path, key=len, reverse=True):
        if folder and file.startswith(folder.rstrip(os.sep) + os.sep):
            parts = Path(file).relative_to(folder).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            package = parts[0]
            break
    else:
        name = package = ""
    if package in _SHELLS:
        return keepers.USER
    if package and (_is_installed_at(name, file) or _is_editable(package)):
        return keepers.LIBRARIES if _uses_torch(package) else keepers.MIXED
    is_brought = package in _OURS or file.startswith((*_STANDARD, "<frozen "))
    return keepers.MIXED if is_brought else keepers.USER


def _set_by_libraries(kind: type) -> frozenset[str]:
    """Return the names of the attributes that a user's class gets from code of its libraries' classes."""
    return frozenset(
        each.argval
        for base in kind.__mro__
        if _is_library(base.__module__)
        for method in vars(base).values()
        if isinstance(method, FunctionType)
        for each in dis.get_instructions(method)
        if each.opname == "STORE_ATTR"
    )


def _holds_constants(of: Any) -> bool:
    return f"{getattr(of, '__module__', None)}.{getattr(of, '__qualname__', None)}" in _CONSTANTS


def _verdict_on(kind: type) -> int:
    # No `in kind.__mro__`: it compares classes with `==`, and a metaclass may define that.
    name = str(kind.__module__)  # code may create a class without a module
    if issubclass(kind, torch.Tensor):
        if issubclass(kind, DisposedTensor) or kind.__module__.startswith("torch._subclasses."):
            return 0
        return keepers.SOUGHT if kind in _WITHOUT_PARTS else _WRAPPER
    verdict = keepers.OWN if _is_users(name) else 0
    if issubclass(kind, (type, ModuleType, weakref.ref, BaseException)):
        return verdict
    if issubclass(kind, Enum) or kind in _PLAIN or _holds_constants(kind):
        return verdict
    if issubclass(kind, dict):
        verdict |= keepers.VALUES
    elif issubclass(kind, (list, tuple, set, frozenset, deque)) or kind in _REFERRING:
        verdict |= keepers.ITEMS
    if kind is _Cache or kind is GeneratorType:
        return keepers.REFERENTS | keepers.KEEPER | keepers.ASK
    if name in _CONTAINERS:
        return verdict | keepers.ATTRIBUTES
    if issubclass(kind, _Recorded):
        return keepers.ATTRIBUTES | keepers.ALWAYS | keepers.FOREIGN_CODE
    if issubclass(kind, _ALWAYS):
        verdict |= keepers.ATTRIBUTES | keepers.ALWAYS
    elif issubclass(kind, _OLDER) or (
        not issubclass(kind, (tuple, frozenset)) and any(_may_keep(base.__module__) for base in kind.__mro__)
    ):
        verdict |= keepers.ATTRIBUTES | keepers.KEEPER
    if _is_library(name):
        verdict |= keepers.FOREIGN_CODE
    if _is_library(name.partition(".")[0]):
        verdict |= keepers.LIBRARY
    return verdict


def _is_keeper(x: Any) -> bool:
    """Return whether a generator or a cache may keep tensors: those of libraries, and the user's caches.

    The caches of this package hold no tensors.
    """
    if isinstance(x, GeneratorType):
        frame = x.gi_frame  # None if another thread has ended the generator
        return frame is not None and _may_keep(str(frame.f_globals.get("__name__")))
    name = str(getattr(x, "__module__", None))
    package = name.partition(".")[0]
    if package in _OURS or _holds_constants(x):
        return False
    is_users = package not in sys.stdlib_module_names and not _is_installed(name)
    return is_users or _may_keep(name)


def _is_transient(x: Any) -> bool:
    with _NoFunctions():
        return x.grad_fn is not None


def _globals_with_tensors(name: str, module: Any) -> tuple[str, ...]:
    """Return the globals of a library that hold tensors, or may hold some later: None or empty containers."""
    if not isinstance(module, ModuleType) or not _is_library(name):
        return ()
    return tuple(
        key
        for key, value in list(vars(module).items())
        if not key.startswith("__")
        and (value is None or _is_tensor(value) or (type(value) in (list, dict) and _may_hold_tensors(value)))
    )


# Check the class: `isinstance` may run code of lazily imported objects.
def _is_tensor(value: Any) -> bool:
    return issubclass(type(value), torch.Tensor)


def _may_hold_tensors(value: Any) -> bool:
    return not value or _is_tensor(next(iter(value.values() if type(value) is dict else value)))


def _parts(kind: type) -> tuple[str, ...]:
    return tuple(name for base, names in _PARTS.items() if issubclass(kind, base) for name in names)


def _is_shared(x: Any) -> bool:
    with _NoFunctions():
        return _OWNED_BY_CPP and x._use_count() > 1


def _is_owned_by_cpp() -> bool:
    """Return whether C++ code that uses a tensor refers to its Python object too."""
    x = torch.ones(1, requires_grad=True) * 2
    before = sys.getrefcount(x)
    graph = x.exp() * x
    return graph is not None and sys.getrefcount(x) > before


_OWNED_BY_CPP = tried(_is_owned_by_cpp)


# How many searches for holders a process makes, because each reads all objects several times, and how often.
_MOST_SEARCHES, _MOST_STEPS = 50, 5
_searches = itertools.count()
_UNKNOWN = "an unknown holder", None, ""


def _find_holders(objects: dict[int, Any]) -> dict[int, tuple[str, Any, str]]:
    """Return by id what holds each of the `objects`; see ``keepers.Keepers``."""
    found: dict[int, tuple[str, Any, str]] = {}
    if next(_searches) < _MOST_SEARCHES:
        modules = {
            id(vars(module)): module for module in list(sys.modules.values()) if type(module) is ModuleType
        }
        # By the id of an object: the objects that it leads to.
        leads_to = {key: {key} for key in objects}
        layer = list(objects.values())
        skipped = {id(each) for each in (objects, found, modules, leads_to)}
        for _ in range(_MOST_STEPS):
            # Since Python 3.13, the tuple of arguments is one of the referrers. It is this tuple, not a copy.
            arguments = tuple(layer)
            referrers = gc.get_referrers(*arguments)
            skipped |= {id(layer), id(arguments), id(referrers)}
            layer = []
            for each in referrers:
                if id(each) in skipped or isinstance(each, FrameType):
                    continue
                skipped.add(id(each))
                held = [leads_to[id(x)] for x in gc.get_referents(each) if id(x) in leads_to]
                keys = set().union(*held) - found.keys()
                holder = modules.get(id(each), each)
                name = _name_of_holder(holder)
                if name is not None:
                    held_by_name = getattr(holder, "__dict__", {})
                    attribute = next((key for key, x in held_by_name.items() if id(x) in leads_to), None)
                    label = name if attribute is None else f"{name}.{attribute}"
                    found.update(dict.fromkeys(keys, (label, holder, name)))
                elif keys:
                    leads_to[id(each)] = keys
                    layer.append(each)
            if not layer or len(found) == len(objects):
                break
    return {key: found.get(key, _UNKNOWN) for key in objects}


def _name_of_holder(x: Any) -> str | None:
    """Return the name of an object of a library that holds others, or None for other objects."""
    if isinstance(x, ModuleType):
        return x.__name__ if _is_library(x.__name__) else None
    if isinstance(x, (FunctionType, GeneratorType)):
        code = x.__code__ if isinstance(x, FunctionType) else x.gi_code
        is_library = author_of_file(code.co_filename) == keepers.LIBRARIES
        return f"{x.__qualname__}()" if is_library else None
    if isinstance(x, type):
        return x.__qualname__ if _is_library(x.__module__) else None
    return type(x).__qualname__ if _is_library(str(type(x).__module__)) else None


KEEPERS = keepers.Keepers(
    _verdict_on,
    _is_keeper,
    _is_transient,
    _globals_with_tensors,
    _parts,
    _set_by_libraries,
    author_of_file,
    _is_users,
    _is_shared,
    _find_holders,
)


# Tensors that scopes did not dispose at their end, because something else keeps them.


class Entry:
    """Counts the tensors that one holder kept from scopes of one name."""

    def __init__(self) -> None:
        self.count = 0
        self.alive: dict[int, weakref.ref[Any]] = {}

    def note(self, x: Any) -> None:
        self.count += 1
        key = id(x)
        self.alive[key] = weakref.ref(x, lambda _: self.alive.pop(key, None))


kept_entries: dict[tuple[str, str], Entry] = {}
# The most rows. Further ones are not recorded, because a longer report is not useful.
_MAX_ENTRIES = 1000


def find_kept(scope: DisposeScope, sought: dict[int, Any], mark: Any, is_strict: bool) -> dict[int, bool]:
    """Find the tensors in `sought` that outlive `scope`, and record them for ``scopes.torch.kept``.

    The result has their ids, with True for tensors that then have no owner; see ``Adapter.find_kept``.
    """
    found = KEEPERS.find(sought, KEEPERS.count_older(mark), is_strict, hidden=globals())
    for key, (holder, _) in found.items():
        row = holder, scope.name or UNNAMED
        if holder and (row in kept_entries or len(kept_entries) < _MAX_ENTRIES):
            kept_entries.setdefault(row, Entry()).note(sought[key])
    return {key: is_good for key, (_, is_good) in found.items()}
