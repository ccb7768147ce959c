"""Comparison of gradients from backward with central differences, number by number.

A complex output counts as two real ones. The gradient of a real output with respect to a complex input is its
slope along the real axis plus 1j times its slope along the imaginary axis (the conjugate Wirtinger
derivative, as in PyTorch). Backward with weight 1 gives the gradient of the real part, and with weight 1j
that of the imaginary part.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

import numpy as np

from scopes._shared.naming import set_module
from tensor._dtypes import Array, is_inexact
from tensor.autograd.gradients import grad
from tensor.core.tensor import TensorCore, snapshot, wrap, writing
from tensor.tape.rules.overlay import Places

if TYPE_CHECKING:
    from tensor._tensor import Tensor


@set_module("tensor.autograd")
class GradcheckError(RuntimeError):
    """A gradient does not match the differences. The message has output, input, element and both values."""


class _Row(NamedTuple):
    """A real number among the outputs: an element, or its imaginary part if `unit` is 1j."""

    output: int
    place: tuple[int, ...]
    unit: complex
    has_history: bool


class Comparison:
    """Compares the derivatives of `func` with central differences, for `arguments` that require grad.

    `names` are those of the arguments, `results` those of the outputs. Outputs are freed before an input is
    changed, so that no output shares its memory.
    """

    def __init__(
        self,
        name: str,
        func: Callable[..., Tensor | Sequence[Tensor]],
        arguments: tuple[object, ...],
        names: list[str],
        eps: float,
        atol: float,
        rtol: float,
        results: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.func = func
        self.arguments = arguments
        self.eps = eps
        self.atol = atol
        self.rtol = rtol
        self.results = results
        named = zip(names, arguments, strict=True)
        self.tensors: list[tuple[str, Tensor]] = [(name, x) for name, x in named if is_tensor(x)]
        # The inputs to differentiate with respect to.
        self.by: list[tuple[str, Tensor]] = [(name, x) for name, x in self.tensors if x.requires_grad]

    def run(self) -> None:
        """Raise an error unless all derivatives match the differences. Restore the inputs in any case."""
        self._require_inputs()
        self._require_equal_results_of_two_calls()
        outputs = self._outputs()
        rows = list(_rows(outputs))
        analytic = self._by_backward(outputs, rows)
        del outputs
        for (name, x), gradients in zip(self.by, analytic, strict=True):
            numeric = self._by_differences(x, len(rows))
            self._compare(name, x.shape, rows, gradients, numeric)
        self._require_zeros_from_zeros()

    def _require_inputs(self) -> None:
        for name, x in self.by:
            if _shares_with_itself(x._live_array()):
                raise ValueError(
                    f"{self.name}: elements of {name} share memory, so none can be changed alone. Pass its "
                    "clone()"
                )
            with writing(x):
                pass  # copies memory shared with clones
        for (first, x), (second, y) in combinations(self.tensors, 2):
            if x is y or not (x.requires_grad or y.requires_grad):
                continue
            if np.shares_memory(x._live_array(), y._live_array()):
                raise ValueError(
                    f"{self.name}: {first} and {second} share memory, so neither can be changed alone. Clone "
                    "one"
                )
        narrow = [f"{name} ({x.dtype})" for name, x in self.by if x.dtype not in (np.float64, np.complex128)]
        if narrow:
            warnings.warn(
                f"{self.name} compares with differences, which need double precision: {', '.join(narrow)} "
                "will likely fail. Convert with x.double(), complex ones with x.to(tensor.complex128)",
                stacklevel=7,
            )

    def _outputs(self) -> list[Tensor]:
        return floating(self.name, self.func(*self.arguments))

    def _gradients(self, ends: list[Tensor], weights: list[Array], retain_graph: bool) -> list[Array]:
        """Return the gradient of the sum of `weights` times `ends` with respect to each input."""
        by = [x for _, x in self.by]
        given = [wrap(weight) for weight in weights]
        found = grad(ends, by, given, retain_graph=retain_graph, create_graph=False, allow_unused=True)
        return [np.zeros(x.shape) if g is None else snapshot(g) for x, g in zip(by, found, strict=True)]

    def _by_backward(self, outputs: list[Tensor], rows: list[_Row]) -> list[Array]:
        """Return the gradients from backward for each input, with shape ``(rows, elements)``."""
        found = [np.zeros((len(rows), x.numel()), _double(snapshot(x))) for _, x in self.by]
        for r, (k, place, unit, has_history) in enumerate(rows):
            if has_history:
                end = outputs[k]
                weight = np.zeros(end.shape, end.dtype)
                weight[place] = unit
                for whole, g in zip(found, self._gradients([end], [weight], True), strict=True):
                    whole[r] = g.reshape(-1)
        return found

    def _by_differences(self, x: Tensor, count: int) -> Array:
        """Return the gradients from differences for one input, as `_by_backward` does."""
        before = snapshot(x).copy()
        columns: Array = np.zeros((before.size, count), _double(before))
        for column, place in zip(columns, np.ndindex(before.shape), strict=True):
            for unit in _units(before):
                step = self.eps * unit
                try:
                    _write(x, place, before[place] + step)
                    ahead = self._numbers(count)
                    _write(x, place, before[place] - step)
                    behind = self._numbers(count)
                finally:
                    _write(x, place, before[place])
                with np.errstate(all="ignore"):
                    column += (ahead - behind) / (2 * self.eps) * unit
        return columns.T

    def _numbers(self, count: int) -> Array:
        """Return all outputs as real numbers, in the order of `_rows`."""
        flat = [snapshot(x).reshape(-1) for x in self._outputs()]
        numbers = np.concatenate([np.ascontiguousarray(x, _double(x)).view(np.float64) for x in flat])
        if numbers.size != count:
            raise GradcheckError(
                f"{self.name}: the outputs have {count} elements in total, but {numbers.size} when an input "
                f"changes by {self.eps}: their shapes must not depend on values"
            )
        return numbers

    def _require_equal_results_of_two_calls(self) -> None:
        for (name, _), a, b in zip(self.by, self._together(1), self._together(1), strict=True):
            if not np.array_equal(a, b, equal_nan=True):
                raise GradcheckError(
                    f"{self.name}: two calls of the function and backward gave different gradients of "
                    f"{name}. Seed random numbers in each call"
                )

    def _require_zeros_from_zeros(self) -> None:
        for (name, _), zeros in zip(self.by, self._together(0), strict=True):
            if zeros.any():
                raise GradcheckError(
                    f"{self.name}: with a gradient of zeros, the gradient of {name} has the value "
                    f"{zeros[zeros != 0].flat[0]}: a derivative must multiply by the gradient it gets"
                )

    def _together(self, weight: int) -> list[Array]:
        """Return the gradients of all outputs at once, each element with the same weight."""
        ends = [x for x in self._outputs() if x.requires_grad]
        if not ends:
            return [np.zeros(x.shape) for _, x in self.by]
        return self._gradients(ends, [np.full(x.shape, weight, x.dtype) for x in ends], False)

    def _compare(
        self, name: str, shape: tuple[int, ...], rows: list[_Row], analytic: Array, numeric: Array
    ) -> None:
        with np.errstate(all="ignore"):
            excess = np.abs(analytic - numeric) / (self.atol + self.rtol * np.abs(numeric))
        # Equal infinities match; nan never matches.
        excess = np.where(analytic == numeric, 0, np.nan_to_num(excess, nan=np.inf))
        if not (excess > 1).any():
            return
        r, j = divmod(int(np.argmax(excess)), analytic.shape[1])
        k, place, unit, has_history = rows[r]
        result = self.results[k] if self.results else f"outputs[{k}]"
        part = "the imaginary part of " if unit == 1j else ""
        element = tuple(int(n) for n in np.unravel_index(j, shape))
        raise GradcheckError(
            f"{self.name}: the derivative of {result} with respect to {name} does not match the differences "
            f"at {np.sum(excess > 1)} of {excess.size} elements. The largest error is that of "
            f"{part}{_at(result, place)} with respect to {_at(name, element)}: backward gives "
            f"{analytic[r, j]:.6g}, differences give {numeric[r, j]:.6g}. "
            + (
                f"Either a derivative is wrong, or the function has a kink or jump within {self.eps} of the "
                "inputs: then use other inputs"
                if has_history
                else "The output has no gradient history (was it detached?), and counts as a constant"
            )
        )


def is_tensor(x: object) -> TypeGuard[Tensor]:
    """Return whether `x` is a tensor."""
    return isinstance(x, TensorCore)


def _write(x: Tensor, place: tuple[int, ...], value: Any) -> None:
    with writing(x) as array:
        array[place] = value


def as_tuple(inputs: object) -> tuple[Any, ...]:
    """Return the inputs of a function as a tuple; a single input may be given alone."""
    return tuple(inputs) if isinstance(inputs, (list, tuple)) else (inputs,)


def _at(name: str, place: tuple[int, ...]) -> str:
    return f"{name} at {list(place)}" if place else name


def floating(name: str, returned: object) -> list[Tensor]:
    """Return the outputs that can have gradients."""
    outputs = as_tuple(returned)
    for k, x in enumerate(outputs):
        if not is_tensor(x):
            raise TypeError(
                f"{name}: the function must return a tensor or a tuple of tensors, but outputs[{k}] is a "
                f"{type(x).__name__}"
            )
    found = [x for x in outputs if is_inexact(x.dtype)]
    if not found:
        raise ValueError(f"{name}: the function returned no floating or complex tensor to differentiate")
    return found


def _rows(outputs: list[Tensor]) -> Iterator[_Row]:
    for k, x in enumerate(outputs):
        for place in np.ndindex(x.shape):
            for unit in _units(snapshot(x)):
                yield _Row(k, place, unit, x.requires_grad)


def _units(array: Array) -> tuple[complex, ...]:
    return (1, 1j) if array.dtype.kind == "c" else (1,)


def _double(array: Array) -> type[np.complex128] | type[np.float64]:
    return np.complex128 if array.dtype.kind == "c" else np.float64


def _shares_with_itself(array: Array) -> bool:
    places = Places(array, array.__array_interface__["data"][0]).indices()
    return np.unique(places).size < array.size
