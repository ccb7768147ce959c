"""Load names and modules when they are first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec


def names_on_demand(
    namespace: MutableMapping[str, Any],
    origins: Mapping[str, str],
    *,
    prepare: Callable[[MutableMapping[str, Any], Iterable[str]], None] | None = None,
    advice: Callable[[str], str] | None = None,
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for a package that loads some names on first use.

    Type checkers need the names too: let ``.ci/write-stubs`` write a stub.

    Parameters
    ----------
    namespace : dict
        The package's ``globals()``.
    origins : dict
        Maps each name to the module that defines it, and the name of a submodule to ``"package.name"``.
    prepare : callable, optional
        Called with `namespace` and the names just added to it.
    advice : callable, optional
        Called with a missing name; returns the message of the ``AttributeError``.

    Examples
    --------
    >>> from scopes._shared.on_demand import names_on_demand
    >>> face = {"__name__": "a_package_of_mine"}
    >>> get, names = names_on_demand(face, {"Fraction": "fractions"})
    >>> get("Fraction")("0.5"), "Fraction" in names()
    (Fraction(1, 2), True)
    """
    package = namespace["__name__"]

    def find(name: str) -> Any:
        if name not in origins:
            missing = f"module {package!r} has no attribute {name!r}"
            text = advice(name) if advice is not None else missing
            similar = _similar(name, {*namespace, *origins}) if text == missing else None
            # Leave no variable that refers to the error: with its traceback that would be a cycle, which
            # keeps the callers' tensors.
            if similar is not None:
                raise AttributeError(f"{text}: did you mean {similar!r}?", name=name)
            raise AttributeError(text, name=name, obj=sys.modules.get(package))
        module = import_module(origins[name])
        if origins[name] == f"{package}.{name}":
            return module
        namespace[name] = getattr(module, name)
        if prepare is not None:
            prepare(namespace, [name])
        return namespace[name]

    return find, lambda: sorted({*namespace, *origins})


def _similar(name: str, names: Collection[str]) -> str | None:
    """Return the public name that is most similar to `name`. Python itself finds no swapped letters."""
    if name.startswith("_"):
        return None
    if (python_name := in_snake_case(name)) in names:
        return python_name
    from difflib import get_close_matches  # takes a millisecond, and only mistakes need it

    close = get_close_matches(name, [each for each in names if not each.startswith("_")], n=1)
    return close[0] if close else None


def in_snake_case(name: str) -> str:
    """Return the name in Python's style of a name in C#'s.

    Examples
    --------
    >>> from scopes._shared.on_demand import in_snake_case
    >>> in_snake_case("NewDisposeScope")
    'new_dispose_scope'
    """
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


def origins_of(modules: Mapping[str, str]) -> dict[str, str]:
    """Return a dict from names to modules, from a dict from modules to names separated by spaces.

    Examples
    --------
    >>> from scopes._shared.on_demand import origins_of
    >>> origins_of({"fractions": "Fraction", "math": "pi tau"})
    {'Fraction': 'fractions', 'pi': 'math', 'tau': 'math'}
    """
    return {name: module for module, names in modules.items() for name in names.split()}


def public_names(namespace: Mapping[str, Any], origins: Iterable[str] = ()) -> list[str]:
    """Return ``__all__`` for a module that re-exports names: its public names except modules, and `origins`.

    Parameters
    ----------
    namespace : dict
        The module's ``globals()``, after its imports.
    origins : iterable of str, optional
        The names that it loads on demand.

    Examples
    --------
    >>> from math import pi
    >>> from scopes._shared.on_demand import public_names
    >>> public_names({"__name__": "a_package_of_mine", "pi": pi}, ["Fraction"])
    ['Fraction', 'pi']
    """
    own = {name for name, value in namespace.items() if not isinstance(value, ModuleType)}
    return sorted(name for name in own.union(origins) if not name.startswith("_"))


class ModuleOnDemand:
    """Proxy for a module that is loaded at its first attribute access.

    Import the module under ``TYPE_CHECKING`` too, for type checkers.

    Examples
    --------
    >>> from scopes._shared.on_demand import ModuleOnDemand
    >>> fractions = ModuleOnDemand("fractions")
    >>> fractions.Fraction("0.5")
    Fraction(1, 2)
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(import_module(self._name), attribute)
        setattr(self, attribute, found)
        return found


def when_imported(name: str, then: Callable[[ModuleType], object]) -> None:
    """Call `then` with the module `name` now if it is loaded, else after its import.

    Examples
    --------
    >>> from scopes._shared.on_demand import when_imported
    >>> when_imported("sys", lambda module: print(module.__name__))
    sys
    """
    module = sys.modules.get(name)
    if module is not None:
        then(module)
    else:
        sys.meta_path.insert(0, _Watch(name, then))


class _Watch:
    """Import hook that calls `then` after the module `name` is loaded. Other finders locate the module."""

    def __init__(self, name: str, then: Callable[[ModuleType], object]) -> None:
        self._name = name
        self._then = then

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self._name:
            return None
        others = [finder for finder in sys.meta_path if finder is not self]
        specs = (finder.find_spec(name, path, target) for finder in others)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def run_and_tell(module: ModuleType) -> None:
                run(module)
                if self in sys.meta_path:
                    sys.meta_path.remove(self)
                self._then(module)

            spec.loader.exec_module = run_and_tell  # type: ignore[method-assign]
        return spec
