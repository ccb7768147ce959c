"""Reductions of a matrix, softmax and cross entropy; ours inside a dispose scope."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks import plain_numpy
from benchmarks.contenders import NUMPY, OURS, TORCH, Library
from benchmarks.harness import Case, Timer, in_scope, repeated

SHAPE = (1_000, 1_000)
REDUCTIONS = ("sum", "mean", "max", "argmax", "var")
AXES = {"": {}, ", axis 0": {"axis": 0}, ", axis 1": {"axis": 1}}
ROWS = ((64, 10), (256, 1_000), (64, 32_000))


def cases() -> Iterator[Case]:
    """Yield each reduction of all elements, of columns and of rows; then softmax and cross entropy."""
    for name in REDUCTIONS:
        for words, axis in AXES.items():
            make = partial(_reduction, name, axis)
            yield _case(f"{name} of 1,000 x 1,000{words}", make)
    yield _case("sum of 10,000,000", _large_sum, rounds=12)
    for rows, columns in ROWS:
        size = f"{rows:,} x {columns:,}"
        yield _case(f"softmax {size}", partial(_softmax, (rows, columns)))
        for recorded in (False, True):
            yield _case(
                f"cross entropy {size}{' and backward' if recorded else ''}",
                partial(_cross_entropy, (rows, columns), recorded=recorded),
                # Plain NumPy computes both at once.
                contenders=(OURS, NUMPY, TORCH) if recorded else (OURS, TORCH),
            )
            for words in ("log_softmax", "layer norm", "batch norm"):
                make = partial(_gradients if recorded else _outputs, words, (rows, columns))
                name = f"{words} {size}{' and backward' if recorded else ''}"
                yield _case(name, make, contenders=(OURS, TORCH))


def _case(name: str, make: Callable[[Library], Callable[[], Any]], **settings: Any) -> Case:
    def build(library: Library) -> Timer:
        return in_scope(library, repeated(make(library)))

    def check(library: Library) -> Sequence[float]:
        result = make(library)()
        return [float((result * result).sum())]

    return Case(f"reductions/{name}", build, check=check, **settings)


def _matrix(shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).uniform(0, 1, shape).astype(np.float32)


def _reduction(name: str, axis: dict[str, int], library: Library) -> Callable[[], Any]:
    # PyTorch's `max` along an axis also returns the indices, and its `var` divides by n - 1.
    extra = {"correction": 0} if name == "var" else {}
    reduce = getattr(library.xp, "amax" if name == "max" and library.name == TORCH else name)
    return partial(reduce, library.array(_matrix(SHAPE)), **axis, **extra)


def _large_sum(library: Library) -> Callable[[], Any]:
    return partial(library.xp.sum, library.array(_matrix((10_000_000,))))


def _softmax(shape: tuple[int, int], library: Library) -> Callable[[], Any]:
    x = library.array(_matrix(shape))
    if library.name == NUMPY:
        return partial(plain_numpy.softmax, x)
    return partial(library.nn.functional.softmax, x, dim=1)


def _function(words: str, columns: int, library: Library, recorded: bool) -> Callable[[Any], Any]:
    functional = library.nn.functional
    if words == "log_softmax":
        return partial(functional.log_softmax, dim=1)
    gradient = {"requires_grad": True} if recorded else {}
    weight, bias = (library.array(np.full(columns, value, np.float32), **gradient) for value in (0.5, 0.1))
    if words == "layer norm":
        return lambda x: functional.layer_norm(x, (columns,), weight, bias)
    return lambda x: functional.batch_norm(x, None, None, weight, bias, True)


def _outputs(words: str, shape: tuple[int, int], library: Library) -> Callable[[], Any]:
    return partial(_function(words, shape[1], library, False), library.array(_matrix(shape)))


def _gradients(words: str, shape: tuple[int, int], library: Library) -> Callable[[], Any]:
    """Return a step that ends with the gradient of the input, for a gradient of the output that varies."""
    function = _function(words, shape[1], library, True)
    x = library.array(_matrix(shape), requires_grad=True)
    slope = library.array(_matrix((shape[0] + 1, shape[1]))[1:])

    def step() -> Any:
        x.grad = None
        function(x).backward(slope)
        return x.grad

    return step


def _cross_entropy(shape: tuple[int, int], library: Library, *, recorded: bool) -> Callable[[], Any]:
    """Return a step that ends with the loss, or with the gradient of the logits."""
    logits, classes = _matrix(shape), np.random.default_rng(1).integers(0, shape[1], shape[0])
    if library.name == NUMPY:
        return lambda: plain_numpy.cross_entropy(logits, classes)[1]
    gradient = {"requires_grad": True} if recorded else {}
    x, targets = library.array(logits, **gradient), library.array(classes)
    cross_entropy = library.nn.functional.cross_entropy

    def step() -> Any:
        loss = cross_entropy(x, targets)
        if not recorded:
            return loss
        x.grad = None
        loss.backward()
        return x.grad

    return step
