"""The modules of our packages, and which of them users import."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("scopes", "tensor", "nn")
# Folders that users don't import from: each shows a part of the architecture, and its `__init__` says which.
INNER = {
    "nn.layers",
    "nn.module",
    "scopes.core",
    "scopes.foreign",
    "scopes.tracking",
    "tensor.core",
    "tensor.creation",
    "tensor.io",
    "tensor.ops",
    "tensor.tape",
}
# Modules inside of folders that users import.
IN_FOLDERS = {"nn.optim.lr_scheduler", "scopes.testing.plugin"}


def modules_of(package: str) -> dict[str, Path]:
    """Each module of `package`, compiled ones too, by its dotted name."""
    found = {}
    for path in sorted(p for p in (ROOT / package).rglob("*.p*") if p.suffix in {".py", ".pxd", ".pyx"}):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


# Who works with another library's objects, and is imported where that is installed.
HOSTED = {
    "scopes.cupy": "cupy",
    "scopes.foreign.cupy": "cupy",
    "scopes.jax": "jax",
    "scopes.foreign.jax": "jax",
    "scopes.torch": "torch",
    "scopes.foreign.torch": "torch",
}


def host_of(module: str) -> str | None:
    """Return the library that a module can't do without beside our own."""
    for name, host in HOSTED.items():
        if f"{module}.".startswith(f"{name}."):
            return host
    return None


def is_public(name: str) -> bool:
    """Tell whether users import the module: a package, or a namespace in one."""
    depth = name.count(".")
    return depth == 0 or name in IN_FOLDERS or (depth == 1 and "._" not in name and name not in INNER)
