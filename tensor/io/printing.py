"""Tensors as strings, in PyTorch's format."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isfinite
from typing import Any, NamedTuple

import numpy as np

from scopes.core.scope import ending_by
from tensor._dtypes import Array, bool_, complex64, float32, int64, is_floating
from tensor._errors import shown
from tensor.core.tensor import TensorCore
from tensor.tape.recording import Leaf

# Dtypes that are not printed: tensors of Python numbers have them by default.
_PLAIN = (bool_, int64, float32, complex64)


class PrintOptions(NamedTuple):
    """Options for printing tensors; see `set_printoptions`."""

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


_PROFILES = {
    "default": PrintOptions(),
    "short": PrintOptions(precision=2, edgeitems=2),
    "full": PrintOptions(threshold=inf),
}
_options = [PrintOptions()]


def set_printoptions(
    *,
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set options for printing tensors, for the whole process.

    Options that are not given do not change, except that `sci_mode` becomes None.

    Parameters
    ----------
    precision
        The number of digits after the decimal point (4).
    threshold
        The number of elements above which a tensor is summarised (1000).
    edgeitems
        The number of items that a summary shows at each end of each dimension (3).
    linewidth
        The number of characters in a line (80).
    profile
        The defaults for the other options: ``"default"``, ``"short"`` or ``"full"``.
    sci_mode
        Whether to use scientific notation. None: choose by the values.

    Examples
    --------
    >>> import tensor
    >>> tensor.set_printoptions(precision=2)
    >>> tensor.tensor([1.23456])
    tensor([1.23])
    >>> tensor.set_printoptions(profile="default")
    """
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    if profile is not None and profile not in _PROFILES:
        raise ValueError(f"profile must be one of {', '.join(map(repr, _PROFILES))}, not {shown(profile)}")
    start = _options[0] if profile is None else _PROFILES[profile]
    for name, value in given.items():
        if value is not None and not value >= 0:
            raise ValueError(f"{name} must be a number of at least 0, not {value}")
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    _options[0] = start._replace(sci_mode=sci_mode, **changes)


def get_printoptions() -> dict[str, Any]:
    """Return the options for printing tensors, as arguments of `set_printoptions`.

    Examples
    --------
    >>> import tensor
    >>> tensor.get_printoptions()["precision"]
    4
    """
    return _options[0]._asdict()


def repr_of(x: TensorCore) -> str:
    """Return `x` as text: its values, and its shape, dtype and history if they are not the usual ones."""
    array, options = x._array, _options[0]
    if array is None:
        return f"tensor(<disposed: {_why_empty(x)}>)"
    prefix = "tensor("
    suffixes = []
    if array.size == 0:
        text = "[]"
        if array.ndim != 1:
            suffixes.append(f"size={array.shape}")
    else:
        text = text_of(array, len(prefix), options)
    if array.dtype not in _PLAIN or (array.size == 0 and array.dtype != float32):
        suffixes.append(f"dtype={array.dtype}")
    node = x._node
    if isinstance(node, Leaf):
        suffixes.append("requires_grad=True")
    elif node is not None:
        suffixes.append(f"grad_fn={node!r}")
    return _with_suffixes(prefix + text, suffixes, len(prefix), options.linewidth)


def _why_empty(x: TensorCore) -> str:
    if x._ending is not None:
        return x._ending
    scope = x._ended_scope
    return "by dispose()" if scope is None else ending_by(scope)


def _with_suffixes(text: str, suffixes: list[str], indent: int, linewidth: int) -> str:
    last = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if last + len(suffix) + 2 > linewidth:
            text += ",\n" + " " * indent + suffix
            last = indent + len(suffix)
        else:
            text += ", " + suffix
            last += len(suffix) + 2
    return text + ")"


def text_of(array: Array, indent: int, options: PrintOptions) -> str:
    """Return the elements of `array` in brackets. Lines after the first are indented by `indent`."""
    is_summary = array.size > options.threshold
    shown = _edges(array, options.edgeitems) if is_summary else array
    if array.dtype.kind == "c":
        real, imaginary = _Column(shown.real, options), _Column(shown.imag, options)

        def write(value: Any) -> str:
            second = imaginary.write(value.imag).lstrip() + "j"
            return real.write(value.real) + (second if second[0] in "+-" else "+" + second)

        width = real.width + imaginary.width + 1
    else:
        column = _Column(shown, options)
        write, width = column.write, column.width
    return _nested(array, indent, options, is_summary, write, width + 2)


def _edges(array: Array, edgeitems: int) -> Array:
    """Return the elements that a summary of `array` shows."""
    kept = [
        [*range(edgeitems), *range(n - edgeitems, n)] if n > 2 * edgeitems else range(n) for n in array.shape
    ]
    return np.asarray(array[np.ix_(*[np.asarray(places, np.intp) for places in kept])])


class _Column:
    """The number format of all elements of a tensor."""

    def __init__(self, array: Array, options: PrintOptions) -> None:
        self.width = 1
        self._form: Callable[[Any], str] = str
        values = array.reshape(-1)
        if not is_floating(array.dtype):
            self.width = max([1, *map(len, map(str, values.tolist()))])
            return
        self._form = self._whole
        precision = options.precision
        kept = values[np.isfinite(values) & (values != 0)].astype(np.float64)
        if kept.size == 0:
            return
        sizes = np.abs(kept)
        low, high = float(sizes.min()), float(sizes.max())
        is_scientific = options.sci_mode
        if is_scientific is None:
            is_scientific = high / 1000.0 > low or high > 1.0e8 or low < 1.0e-4
        if is_scientific:
            self._form = lambda value: f"{value:.{precision}e}"
        elif (kept != np.ceil(kept)).any():
            self._form = lambda value: f"{value:.{precision}f}"
        self.width = max(len(self._form(value)) for value in kept.tolist())

    @staticmethod
    def _whole(value: float) -> str:
        return f"{value:.0f}." if isfinite(value) else f"{value:.0f}"

    def write(self, value: Any) -> str:
        return self._form(value).rjust(self.width)


def _nested(
    array: Array,
    indent: int,
    options: PrintOptions,
    is_summary: bool,
    write: Callable[[Any], str],
    width: int,
) -> str:
    if array.ndim == 0:
        return write(array.item())
    edge = options.edgeitems
    is_cut = is_summary and len(array) > 2 * edge
    starts = array[:edge] if is_cut else array
    ends = array[len(array) - edge :] if is_cut else array[:0]
    if array.ndim == 1:
        items = [write(value) for value in starts.tolist()]
        if is_cut:
            items += [" ..." if edge else "...", *map(write, ends.tolist())]
        in_line = max(1, (options.linewidth - indent) // width)
        lines = [", ".join(items[i : i + in_line]) for i in range(0, len(items), in_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
    parts = [_nested(part, indent + 1, options, is_summary, write, width) for part in starts]
    if is_cut:
        parts += ["...", *(_nested(part, indent + 1, options, is_summary, write, width) for part in ends)]
    between = "," + "\n" * (array.ndim - 1) + " " * (indent + 1)
    return "[" + between.join(parts) + "]"
