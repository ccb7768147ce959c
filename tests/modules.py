"""The modules of our packages, and which of them users import."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("scopes", "tensor", "nn", "tensor.torch")
# Folders that users don't import from: each shows a part of the architecture, and its `__init__` says which.
INNER = {
    "nn.layers",
    "nn.module",
    "scopes._shared",
    "scopes.adapters",
    "scopes.command",
    "scopes.core",
    "scopes.integrations",
    "scopes.reports",
    "scopes.tracking",
    "tensor.core",
    "tensor.creation",
    "tensor.io",
    "tensor.methods",
    "tensor.ops",
    "tensor.tape",
}
# Modules inside of folders that users import.
IN_FOLDERS = {
    "nn.optim.lr_scheduler",
    "nn.optim.swa_utils",
    "nn.utils.parametrizations",
    "nn.utils.parametrize",
    "nn.utils.rnn",
    "nn.utils.stateless",
    "scopes.integrations.accelerate",
    "scopes.integrations.ignite",
    "scopes.integrations.lightning",
    "scopes.integrations.skorch",
    "scopes.integrations.stable_baselines3",
    "scopes.integrations.transformers",
    "tensor.torch.accelerator",
    "tensor.autograd.graph",
    "tensor.torch.autograd",
    "tensor.torch.autograd.graph",
    "tensor.torch.backends",
    "tensor.torch.backends.cuda",
    "tensor.torch.backends.cudnn",
    "tensor.torch.backends.mps",
    "tensor.torch.cuda",
    "tensor.torch.distributions",
    "tensor.torch.fft",
    "tensor.torch.linalg",
    "tensor.torch.nn",
    "tensor.torch.nn.functional",
    "tensor.torch.nn.init",
    "tensor.torch.nn.modules",
    "tensor.torch.nn.parallel",
    "tensor.torch.nn.parameter",
    "tensor.torch.nn.utils",
    "tensor.torch.nn.utils.parametrizations",
    "tensor.torch.nn.utils.parametrize",
    "tensor.torch.nn.utils.rnn",
    "tensor.torch.onnx",
    "tensor.torch.optim",
    "tensor.torch.optim.lr_scheduler",
    "tensor.torch.optim.swa_utils",
    "tensor.torch.serialization",
    "tensor.torch.utils",
    "tensor.torch.utils.checkpoint",
    "tensor.torch.utils.data",
    "tensor.torch.utils.data.dataloader",
    "tensor.torch.utils.data.dataset",
    "tensor.torch.utils.data.sampler",
}


@cache
def modules_of(package: str) -> Mapping[str, Path]:
    """Each module of `package`, compiled ones too, by its dotted name; without packages inside it."""
    found = {}
    folder = ROOT.joinpath(*package.split("."))
    for path in sorted(p for p in folder.rglob("*.p*") if p.suffix in {".py", ".pxd", ".pyx"}):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if package_of(name) == package:
            found[name] = path
    return found


def package_of(module: str) -> str:
    """Return the one of `PACKAGES` that `module` is in, else its first part: another library's name."""
    own = [package for package in PACKAGES if f"{module}.".startswith(f"{package}.")]
    return max(own, key=len, default=module.partition(".")[0])


# Modules that work with another library's objects, and the library, which their import needs.
HOSTED = {
    "nn.parallel.jobs": "ray",
    "scopes.cupy": "cupy",
    "scopes.adapters.cupy": "cupy",
    "scopes.integrations._steps": "torch",
    "scopes.integrations.accelerate": "accelerate",
    "scopes.integrations.ignite": "ignite",
    "scopes.integrations.lightning": "lightning",
    "scopes.integrations.skorch": "skorch",
    "scopes.integrations.stable_baselines3": "stable_baselines3",
    "scopes.integrations.transformers": "transformers",
    "scopes.jax": "jax",
    "scopes.adapters.jax": "jax",
    "scopes.torch": "torch",
    "scopes.adapters.torch": "torch",
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
