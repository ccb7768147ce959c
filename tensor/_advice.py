"""Advice for calls and names that users of other libraries expect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tensor._errors import shown
from tensor.core.tensor import TensorCore

if TYPE_CHECKING:
    from inspect import Parameter

# Parameter names of other functions and libraries, with replacements. Advice names the first replacement
# that is a parameter of the function.
_SYNONYMS = {
    "axis": ("dim", "dims", "axes"),
    "axes": ("dims", "axis", "dim"),
    "dim": ("axis", "axes", "dims"),
    "dims": ("axes", "axis", "dim"),
    "ddof": ("correction",),
    "end": ("stop",),
    "keepdim": ("keepdims",),
    "keepdims": ("keepdim",),
    "learning_rate": ("lr",),
    "size": ("shape",),
    "steps": ("num",),
    "train": ("training",),
}
# Names that differ between the array API standard and PyTorch.
_OF_DIALECTS = {"axis", "axes", "dim", "dims", "keepdim", "keepdims"}
_NUMBERS = (bool, int, float, complex)
_NO_DEVICE = "all tensors are on the CPU"


def call_advice(
    name: str, parameters: Mapping[str, Parameter], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> str | None:
    """Return advice for a call that does not match `parameters`, or None.

    `name` is the function as users write it: ``tensor.sum``, ``x.sum`` for a method, ``nn.Linear``.
    """
    named = {word for word, p in parameters.items() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
    unknown = [word for word in kwargs if word not in named]
    if unknown:
        return _instead_of_word(name, unknown[0], args, kwargs, parameters)
    if len(args) > sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters.values()):
        return _instead_of_many(name, parameters, args)
    return None


def _instead_of_word(
    name: str,
    word: str,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    parameters: Mapping[str, Parameter],
) -> str | None:
    other = _known(word, parameters)
    if word in ("dims", "shape", "size") and any(p.kind is p.VAR_POSITIONAL for p in parameters.values()):
        sizes = kwargs[word] if isinstance(kwargs[word], (tuple, list)) else [kwargs[word]]
        return f"write {name}({', '.join(map(shown, sizes))})"
    if other is not None and word not in _OF_DIALECTS:
        return f"write {other}= instead of {word}="
    if other is not None:
        named = [f"{_known(key, parameters) or key}={shown(value)}" for key, value in kwargs.items()]
        call = f"{name}({', '.join([*_first(name, args), *named])})"
        return (
            f"write {call}. Functions of `tensor` use axis and keepdims, as in the array API standard; "
            "methods and all of `nn` use dim and keepdim, as in PyTorch"
        )
    plain = name.rpartition(".")[2]
    if word == "device":
        return f"omit device=, because {_NO_DEVICE}"
    if word == "inplace":
        return f"write x.{plain}_(), which changes x itself"
    if word == "alpha" and plain in ("add", "subtract"):
        return f"write {name}(x, alpha * y), or x.{plain}(y, alpha=alpha)"
    if word == "unbiased":
        return "write correction=1 for unbiased=True, correction=0 for unbiased=False"
    if word == "input":
        return f"the tensor is the first positional argument: write {name}(x)"
    from difflib import get_close_matches

    close = get_close_matches(word, parameters, n=1, cutoff=0.7)
    return f"write {close[0]}=" if close else f"omit {word}="


def _known(word: str, parameters: Mapping[str, Parameter]) -> str | None:
    return next((other for other in _SYNONYMS.get(word, ()) if other in parameters), None)


def _first(name: str, args: tuple[Any, ...]) -> list[str]:
    """Return the first argument as advice shows it, in a list: empty for a method, called as ``x.name()``."""
    if not args or name.startswith("x."):
        return []
    return ["[x, y]" if isinstance(args[0], (list, tuple)) else "x"]


def _instead_of_many(name: str, parameters: Mapping[str, Parameter], args: tuple[Any, ...]) -> str | None:
    first = next(iter(parameters), None)
    rest = args[1:]
    if first is None:
        if isinstance(args[0], TensorCore) and name[0].isupper():
            return f"create the module first: write nn.{name}()(x)"
        return f"write @{name}() above a def, with parentheses" if callable(args[0]) else None
    if first == "reduction" and isinstance(args[0], TensorCore):
        return f"create the loss first: write nn.{name}()(input, target)"
    if first == "shape" or [*parameters] == ["size"]:
        sizes, others = (args[:-1], f", {shown(args[-1])}") if "fill_value" in parameters else (args, "")
        if all(isinstance(size, int) for size in sizes):
            return f"the sizes must be one tuple: write {name}({sizes}{others})"
    if first in ("arrays", "tensors") and all(isinstance(x, TensorCore) for x in args):
        return f"the tensors must be one list: write {name}([x, y])"
    if first == "modules":
        return f"the modules must be one list: write {name}([a, b])"
    if first == "data" and all(isinstance(number, _NUMBERS) for number in args):
        return f"the numbers must be one list: write {name}({list(args)})"
    if {"shape", "axes"} & parameters.keys() and all(isinstance(size, int) for size in rest):
        return f"the numbers must be one tuple: write {name}(x, {rest})"
    if "axis" in parameters:
        return f"write {name}(x, axis={shown(args[-1])}): axis is a keyword argument"
    return None


# Names of PyTorch and NumPy that `tensor` does not have, with advice.
_NAMES = {
    "array": "write tensor.tensor(data)",
    "as_tensor": "write tensor.asarray(data)",
    "cuda": f"omit it, because {_NO_DEVICE}; `tensor.torch` has cuda.is_available(), which returns False",
    "device": f"omit it, because {_NO_DEVICE}",
    "double": "write tensor.float64",
    "float": "write tensor.float32",
    "half": "write tensor.float16",
    "int": "write tensor.int32",
    "is_tensor": "write isinstance(x, tensor.Tensor)",
    "long": "write tensor.int64",
    "ndarray": "write tensor.Tensor",
    "nn": "write import nn",
    "optim": "write import nn, and nn.optim",
    "random": "write tensor.rand, tensor.randn, tensor.randint or tensor.manual_seed",
    "set_default_device": f"omit it, because {_NO_DEVICE}",
    "set_default_dtype": "pass dtype=tensor.float64 when you create a tensor",
    "utils": "write from nn.data import DataLoader; other helpers are in nn.utils",
}
_MODULES = {"fft", "linalg", "lowlevel", "torch"}
# Names of TorchSharp's `torch` that are in `scopes`.
_OF_SCOPES = {
    "CurrentDisposeScope": "write scopes.current_dispose_scope()",
    "NewDisposeScope": "write scopes.new_dispose_scope()",
    "WrappedTensorDisposeScope": "write scopes.disposing(function, ...)",
}


def name_advice(name: str, methods: type) -> str:
    """Return the error message for a missing name. Advise a method if the class `methods` has it."""
    missing = f"module 'tensor' has no attribute {name!r}"
    advice = _NAMES.get(name) or _OF_SCOPES.get(name)
    if advice is not None:
        return f"{missing}: {advice}"
    if name in _MODULES:
        return f"{missing} before it is imported: write import tensor.{name}"
    if not name.startswith("_") and callable(getattr(methods, name, None)):
        return (
            f"{missing}: write x.{name}(...), because it is a method. `import tensor.torch as torch` has "
            "PyTorch's functions"
        )
    return missing


def torch_name_advice(name: str) -> str:
    """Return the error message for a name that `tensor.torch` does not have."""
    missing = f"module 'tensor.torch' has no attribute {name!r}"
    return f"{missing}: {_OF_SCOPES[name]}" if name in _OF_SCOPES else missing
