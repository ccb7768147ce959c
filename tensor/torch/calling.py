"""PyTorch's call forms: functions from methods, ``out=``, and separate sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from inspect import Parameter, signature
from typing import Any, ParamSpec, TypeVar

from scopes._shared.clearing import without_frames
from tensor import Tensor, no_grad
from tensor._devices import require_cpu
from tensor._dtypes import fits
from tensor.core.dims import sizes_of
from tensor.core.tensor import TensorCore

P = ParamSpec("P")
R = TypeVar("R")

# Other names of arguments: NumPy's names, and one name that differs between a function and its method.
_ARGUMENT_ALIASES = {
    "axis": "dim",
    "axis0": "dim0",
    "axis1": "dim1",
    "keepdims": "keepdim",
    "split_size_or_sections": "split_size",
}
# PyTorch's names of operands that the methods take only by position or under another name. In a function that
# is not listed, an operand that its method takes only by position is called `other`.
_OPERANDS = {
    "bmm": ("mat2",),
    "dot": ("tensor",),
    "ger": ("vec2",),
    "lerp": ("end", "weight"),
    "max": ("other",),
    "min": ("other",),
    "mm": ("mat2",),
    "mv": ("vec",),
    "orgqr": ("tau",),
    "outer": ("vec2",),
    "pow": ("exponent",),
}
# Arguments of functions whose methods take separate values: torch.permute(x, dims=(1, 0)) is
# x.permute(1, 0).
_SIZES_OR_DIMS = ("dims", "shape")
# Functions whose first operand may be a number: torch.pow(2, x).
_NUMBER_FIRST = frozenset({"float_power", "pow", "remainder", "xlogy"})
# Functions whose result is not cast for ``out=``.
_SAME_DTYPE = frozenset({"amax", "amin", "aminmax", "gather", "multinomial"})


def transformed(func: Callable[..., Any], call: Callable[..., R]) -> Callable[..., R]:
    """Return `call` with the name and docstring of `func`. Its stored errors keep no tensor alive."""
    return without_frames(wraps(func)(call))


def function(method: Callable[P, R]) -> Callable[P, R]:
    """Return PyTorch's function for a method of tensors: ``torch.mm(x, y)`` for ``x.mm(y)``.

    The tensor is the first argument, or ``input=``. Other operands have PyTorch's names too, such as
    ``other=``. With ``out=``, write the result to that tensor, without recording gradients.
    """
    return function_named(method.__name__, method)


def function_named(name: str, method: Callable[P, R]) -> Callable[P, R]:
    """Return ``function(method)`` with `name` for error messages."""
    call_method: Callable[..., R] = method
    parameters = signature(method).parameters
    kinds = [p.kind for p in parameters.values()]
    aliases = {word: name for word, name in _ARGUMENT_ALIASES.items() if word not in parameters}
    takes_separate_sizes = Parameter.VAR_POSITIONAL in kinds
    takes_operand = Parameter.POSITIONAL_ONLY in kinds[1:]
    operands = _OPERANDS.get(name, ("other",) if takes_operand else ())
    first = "tensor" if name == "split" else "input"

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        options: dict[str, Any] = dict(kwargs)
        given: tuple[Any, ...] = args
        if first in options:
            given = (options.pop(first), *given)
        for word in aliases.keys() & options.keys():
            options[aliases[word]] = options.pop(word)
        if takes_separate_sizes:
            given = (*given, *[options.pop(word) for word in _SIZES_OR_DIMS if word in options])
        given = (*given, *[options.pop(word) for word in operands if word in options])
        if not given:
            raise TypeError(f"{name}() takes a tensor first: write torch.{name}(x)")
        if not isinstance(given[0], TensorCore) and name not in _NUMBER_FIRST:
            raise TypeError(
                f"{name}() takes a tensor first, not {type(given[0]).__name__}: write "
                f"torch.{name}(torch.tensor(x))"
            )
        if options.get("out") is None:
            options.pop("out", None)
            return call_method(*given, **options)
        out = options.pop("out")
        with no_grad():
            written: R = _write_out(name, call_method(*given, **options), out)
        return written

    call.__name__ = call.__qualname__ = name
    return call


def place(namespace: dict[str, Any], names: Iterable[str]) -> None:
    """Name functions after their module and their names in it, where ``pickle`` looks for them.

    Wrappers otherwise have the names of the functions that they call.
    """
    for name in names:
        function = namespace[name]
        function.__module__, function.__name__, function.__qualname__ = namespace["__name__"], name, name


def _write_out(name: str, result: Any, out: Any) -> Any:
    """Write one or several results to ``out=``, and return `out`."""
    if isinstance(result, TensorCore) and isinstance(out, TensorCore):
        values: Any = result
        target: Any = out
        if name in _SAME_DTYPE and values.dtype != target.dtype:
            raise TypeError(
                f"{name}: out= must have the dtype of the result, {values.dtype}, not {target.dtype}"
            )
        if not fits(values.dtype, target.dtype):
            raise TypeError(
                f"{name}: the result is {values.dtype}, which does not fit out= of {target.dtype}: pass an "
                f"out= of {values.dtype}, or remove out= and write result.to(dtype)"
            )
        if target.shape != values.shape:
            target.data = values.to(target.dtype)
        else:
            target.copy_(values)
        values.dispose()
        return out
    if not isinstance(result, tuple) or not isinstance(out, (tuple, list)) or len(out) != len(result):
        wanted = f"a tuple of {len(result)} tensors" if isinstance(result, tuple) else "a tensor"
        given = f"{len(out)} tensors" if isinstance(out, (tuple, list)) else type(out).__name__
        raise TypeError(f"{name}(): out= must be {wanted}, not {given}")
    written = [_write_out(name, y, target) for y, target in zip(result, out, strict=True)]
    return type(result)(*written) if hasattr(result, "_fields") else type(result)(written)


def with_out(make: Callable[P, R]) -> Callable[P, R]:
    """Return `make` with PyTorch's ``out=``: write the result to that tensor, without recording gradients.

    NumPy's names ``axis`` and ``keepdims`` are taken for ``dim`` and ``keepdim``, and ``input`` for the first
    argument, as in PyTorch.
    """
    parameters = signature(make).parameters
    # PyTorch documents `A` as the matrix of most functions of ``linalg``. Its functions call many `input`.
    aliases = {
        word: name
        for word, name in {**_ARGUMENT_ALIASES, "input": next(iter(parameters), "")}.items()
        if name in parameters and word not in parameters
    }

    @wraps(make)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        for word in aliases.keys() & kwargs.keys():
            kwargs[aliases[word]] = kwargs.pop(word)
        out = kwargs.pop("out", None)
        if out is None:
            return make(*args, **kwargs)
        with no_grad():
            written: R = _write_out(make.__name__, make(*args, **kwargs), out)
        return written

    return call


# Of these ``out=`` keeps its shape if it has as many elements as the result.
_LINES = ("arange", "linspace", "logspace")


def filling(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return a creation function with ``out=``, whose dtype is that of the result unless it is given."""

    @wraps(make)
    def call(*args: Any, **options: Any) -> Tensor:
        out = options.pop("out", None)
        if out is None:
            return make(*args, **options)
        with no_grad():
            made = make(*args, **_of_dtype(out, options))
            if make.__name__ in _LINES and made.numel() == out.numel():
                made = made.reshape(out.shape)
            written: Tensor = _write_out(make.__name__, made, out)
        return written

    return call


def _of_dtype(out: object, options: dict[str, Any]) -> dict[str, Any]:
    dtype = getattr(out, "dtype", None)
    return options if dtype is None else {"dtype": dtype, **options}


def options_for_cpu(given: Any) -> dict[str, Any]:
    """Check and remove ``device=``, ``layout=`` and similar options. Return all other options."""
    options = dict(given)
    require_cpu(options.pop("device", None))
    layout = options.pop("layout", None)
    if layout is not None and not str(layout).endswith("strided"):
        raise TypeError(f"layout must be torch.strided, not {layout}: all tensors are dense")
    for name in ("pin_memory", "memory_format"):
        options.pop(name, None)
    return options


def sized(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return a creation function with separate sizes: ``torch.zeros(2, 3)``."""
    name = make.__name__

    @wraps(make)
    def call(*size: int | Sequence[int], **given: Any) -> Tensor:
        options = options_for_cpu(given)
        out = options.pop("out", None)
        if "size" in options:
            size = (*size, options.pop("size"))
        if not size:
            raise TypeError(f"{name}() takes sizes: write torch.{name}(2, 3) or torch.{name}((2, 3))")
        if out is None:
            return make(sizes_of(name, size), **options)
        with no_grad():
            written: Tensor = _write_out(name, make(sizes_of(name, size), **_of_dtype(out, options)), out)
        return written

    return call


def placed_like(make: Callable[P, Tensor]) -> Callable[P, Tensor]:
    """Return ``placed(make)`` for a function whose first argument, a tensor, may be given as `input`."""
    create: Callable[..., Tensor] = placed(make)

    @wraps(make)
    def call(*args: P.args, **kwargs: P.kwargs) -> Tensor:
        options: dict[str, Any] = dict(kwargs)
        given: tuple[Any, ...] = args
        if "input" in options:
            given = (options.pop("input"), *given)
        return create(*given, **options)

    return call


def placed(make: Callable[P, Tensor]) -> Callable[P, Tensor]:
    """Return a creation function that accepts ``device=`` and similar options."""

    @wraps(make)
    def call(*args: P.args, **kwargs: P.kwargs) -> Tensor:
        options = options_for_cpu(kwargs)
        return make(*args, **options)

    return call
