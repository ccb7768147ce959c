"""Which names of PyTorch the programs use, and which of them `tensor.torch` has, with the arguments used."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections import defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

# Not counted: what is for several devices, for CUDA, or for programs about programs.
_FOLDERS = ("distributed", "fx", "cpp", "docs")
_MODULES = (
    "torch.distributed",
    "torch.fx",
    "torch.cuda",
    "torch.multiprocessing",
    "torch.jit",
    "torch.utils.data.distributed",
    "torch.nn.parallel",
)
NEEDED = 0.95
# What the face takes before it calls a function of `tensor`, whose signature is shown.
_OF_FACE = {"device", "pin_memory", "layout", "memory_format", "out", "input", "size"}


def used_names(folders: list[Path]) -> dict[str, set[tuple[str, ...]]]:
    """Return the names ``torch.*`` in the programs, each with the keywords of its calls."""
    found: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for folder in folders:
        for path in folder.rglob("*.py"):
            if not any(part in _FOLDERS for part in path.relative_to(folder).parts):
                _look_through(ast.parse(path.read_text(encoding="utf-8")), found)
    return {name: calls for name, calls in found.items() if not name.startswith(_MODULES)}


def _look_through(tree: ast.Module, found: dict[str, set[tuple[str, ...]]]) -> None:
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == "torch":
                    names[alias.asname or "torch"] = alias.name if alias.asname else "torch"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "torch":
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    for name in names.values():
        found[name] |= set()
    inner: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = _full_name(node.func, names)
            if name:
                found[name].add(tuple(sorted(word.arg for word in node.keywords if word.arg)))
        # For ``torch.nn.Linear`` only the whole name. The walk reaches the outermost node first.
        if isinstance(node, (ast.Attribute, ast.Name)) and id(node) not in inner:
            name = _full_name(node, names)
            if name:
                found[name] |= set()
                part: ast.expr = node
                while isinstance(part, ast.Attribute):
                    part = part.value
                    inner.add(id(part))


def _full_name(node: ast.expr, names: dict[str, str]) -> str:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in names:
        return ""
    return ".".join([names[node.id], *reversed(parts)])


def missing_of(name: str, calls: set[tuple[str, ...]]) -> str:
    """Return what `tensor.torch` has not: the name, some of its keywords, or "" if all is there."""
    found = _found(f"tensor.{name}")
    if found is None:
        return name
    try:
        parameters = inspect.signature(found).parameters
    except (TypeError, ValueError):
        return ""
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return ""
    outer = inspect.signature(found, follow_wrapped=False).parameters
    of_face = _OF_FACE if any(p.kind is p.VAR_KEYWORD for p in outer.values()) else set()
    unknown = {word for call in calls for word in call} - set(parameters) - of_face
    return f"{name}({', '.join(sorted(unknown))}=)" if unknown else ""


def _found(name: str) -> Any:
    parts = name.split(".")
    found: Any = importlib.import_module("tensor.torch")
    for end in range(3, len(parts) + 1):
        if not hasattr(found, parts[end - 1]):
            try:
                importlib.import_module(".".join(parts[:end]))
            except ImportError:
                return None
        found = getattr(found, parts[end - 1])
    return found


def report_on_names(examples: Path, mingpt: Path) -> bool:
    """Print how many of the names there are, and which not; tell whether they are enough."""
    used = used_names([examples, mingpt])
    missing = sorted(filter(None, [missing_of(name, calls) for name, calls in used.items()]))
    there = len(used) - len(missing)
    print(
        f"\nOf {len(used)} names of torch that they use, {there} are there: {there / len(used):.0%}.", end=" "
    )
    print(f"Missing: {', '.join(missing)}" if missing else "")
    return there >= NEEDED * len(used)
