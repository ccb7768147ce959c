"""Find modules of a project that shadow our packages."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("scopes", "tensor", "nn")
_OURS = Path(__file__).resolve().parents[1]


def shadows(names: tuple[str, ...] = PACKAGES) -> dict[str, Path]:
    """Return those `names` that Python finds outside of this installation, with paths. Import nothing."""
    found = {}
    for name in names:
        module = sys.modules.get(name)
        try:
            spec = find_spec(name) if module is None else module.__spec__
        except (ImportError, ValueError, AttributeError):
            spec = None
        places = [] if spec is None else [spec.origin, *(spec.submodule_search_locations or ())]
        files = [Path(place) for place in places if place not in (None, "namespace")]
        if files and not any(_is_in(file, _OURS / name) for file in files):
            found[name] = files[0]
    return found


def modules_in(folder: Path) -> dict[str, Path]:
    """Return the modules in `folder` that shadow our packages, with their paths."""
    found = {}
    for name in PACKAGES:
        for path in (folder / f"{name}.py", folder / name / "__init__.py", folder / name):
            is_module = path.is_file() or (path.name == name and path.is_dir() and any(path.glob("*.py")))
            if is_module and not _is_in(path, _OURS / name):
                found[name] = path
                break
    return found


def _is_in(path: Path, folder: Path) -> bool:
    return path.resolve().is_relative_to(folder)


def shadowing_message(name: str, path: Path) -> str:
    """Return the message about a module that shadows one of our packages."""
    return f"{path} has the name of the package `{name}` of disposescope, and Python finds it instead"
