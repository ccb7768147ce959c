"""Random programs, compared with NumPy (values) and, if installed, PyTorch (values, gradients, in place).

``python -m tests.fuzz --programs 50000 --seed 1`` prints each difference that `NAMED` does not explain, with
the program that shows it, and ends with 1 if there is one.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import tensor as tn

# Values that are drawn as often as all others together.
EXTREMES = [0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, 1e-310, 1e-40, -1e-40, 1e300, -1e300, 1e38, 1.0, -1.0]
SHAPES = [(), (1,), (3,), (0,), (2, 3), (1, 3), (2, 1), (0, 3), (2, 0), (2, 2, 3)]


class Op(NamedTuple):
    """One operation in three libraries; `torch` is given PyTorch, then the operands."""

    operands: int
    ours: Callable[..., Any]
    numpy: Callable[..., Any]
    torch: Callable[..., Any]


def _method(name: str, numpy: Callable[..., Any], *arguments: Any) -> Op:
    return Op(
        1,
        lambda x: getattr(x, name)(*arguments),
        numpy,
        lambda _, x: getattr(x, name)(*arguments),
    )


def _function(name: str, numpy: Callable[..., Any], torch_name: str = "") -> Op:
    return Op(2, getattr(tn, name), numpy, lambda torch, x, y: getattr(torch, torch_name or name)(x, y))


def _in_place(name: str, operands: int, numpy: Callable[..., Any], *arguments: Any) -> Op:
    """Return an op that writes over a copy, which the first operand is not."""
    return Op(
        operands,
        lambda x, *more: getattr(x.clone(), name)(*more, *arguments),
        numpy,
        lambda _, x, *more: getattr(x.clone(), name)(*more, *arguments),
    )


def _softmax(x: Any) -> Any:
    if not x.size:
        return x * 1
    e = np.exp(x - np.max(x, -1, keepdims=True)) if x.ndim else x * 0 + 1
    return e / np.sum(e, -1, keepdims=True) if x.ndim else np.where(np.isfinite(x), 1.0, np.nan)


def _norm(x: Any) -> Any:
    return np.sqrt(np.sum(x * x))


def _inner_products(library: Any, x: Any, *stack: int) -> Any:
    """Return what x has with itself, often enough for the kernels of large products, of strides 0."""
    size = x.size if library is np else x.numel()
    spread = np.broadcast_to if library is np else lambda y, shape: y.expand(shape)
    return spread(x.reshape(1, size), (*stack, 9, size)) @ spread(x.reshape(size, 1), (*stack, size, 9))


OPS: dict[str, Op] = {
    "clamp": _method("clamp", lambda x: np.clip(x, 0, None), 0),
    "clamp to 1": _method("clamp", lambda x: np.clip(x, -1, 1), -1, 1),
    "relu": _method("relu", lambda x: np.maximum(x, 0)),
    "abs": _method("abs", np.abs),
    "neg": _method("neg", np.negative),
    "sqrt": _method("sqrt", np.sqrt),
    "rsqrt": _method("rsqrt", lambda x: 1 / np.sqrt(x)),
    "log": _method("log", np.log),
    "log1p": _method("log1p", np.log1p),
    "exp": _method("exp", np.exp),
    "expm1": _method("expm1", np.expm1),
    "reciprocal": _method("reciprocal", lambda x: 1 / x),
    "square": _method("square", np.square),
    "power 3": _method("pow", lambda x: x**3, 3),
    "power 0": _method("pow", lambda x: x**0.0, 0),
    "root": _method("pow", np.sqrt, 0.5),
    "sin": _method("sin", np.sin),
    "tanh": _method("tanh", np.tanh),
    "atan": _method("atan", np.arctan),
    "sigmoid": _method("sigmoid", lambda x: np.exp(-np.logaddexp(0, -x))),
    "floor": _method("floor", np.floor),
    "sum": _method("sum", np.sum),
    "mean": _method("mean", lambda x: np.mean(x) if x.size else np.float64(np.nan)),
    "amax": Op(1, lambda x: x.max() if x.numel() else x.sum(), lambda x: np.max(x) if x.size else np.sum(x),
               lambda _, x: x.max() if x.numel() else x.sum()),
    "max along": Op(1, lambda x: x.max(-1)[0] if x.ndim and x.shape[-1] else x.sum(),
                    lambda x: np.max(x, -1) if x.ndim and x.shape[-1] else np.sum(x),
                    lambda _, x: x.max(-1)[0] if x.ndim and x.shape[-1] else x.sum()),
    "sort": Op(1, lambda x: x.sort(-1)[0], lambda x: np.sort(x, -1) if x.ndim else x * 1,
               lambda _, x: x.sort(dim=-1, stable=True)[0]),
    "softmax": _method("softmax", _softmax, -1),
    "norm": _method("norm", _norm),
    "cumsum": Op(1, lambda x: x.cumsum(-1), lambda x: np.cumsum(x, -1) if x.ndim else x * 1,
                 lambda _, x: x.cumsum(-1)),
    "flatten": _method("flatten", np.ravel),
    "where": Op(1, lambda x: tn.where(x > 0, x, 0.0), lambda x: np.where(x > 0, x, 0.0),
                lambda torch, x: torch.where(x > 0, x, 0.0)),
    "masked_fill": Op(1, lambda x: x.masked_fill(x < 0, 1.0), lambda x: np.where(x < 0, 1.0, x),
                      lambda _, x: x.masked_fill(x < 0, 1.0)),
    "add": _function("add", np.add),
    "subtract": _function("subtract", np.subtract),
    "multiply": _function("multiply", np.multiply),
    "divide": _function("divide", np.divide),
    "maximum": _function("maximum", np.maximum),
    "minimum": _function("minimum", np.minimum),
    "matmul": Op(2, lambda x, y: x.reshape(-1, 1) @ y.reshape(1, -1),
                 lambda x, y: x.reshape(x.size, 1) @ y.reshape(1, y.size),
                 lambda _, x, y: x.reshape(-1, 1) @ y.reshape(1, -1)),
    "empty product": Op(2, lambda x, y: x.flatten()[:, None].expand(-1, 0) @ y.flatten()[None].expand(0, -1),
                        lambda x, y: np.zeros((x.size, y.size)),
                        lambda _, x, y: x.flatten()[:, None].expand(-1, 0) @ y.flatten()[None].expand(0, -1)),
    "inner products": Op(1, lambda x: _inner_products(tn, x), lambda x: _inner_products(np, x),
                         _inner_products),
    "stacked products": Op(1, lambda x: _inner_products(tn, x, 2), lambda x: _inner_products(np, x, 2),
                           lambda torch, x: _inner_products(torch, x, 2)),
    "add_": _in_place("add_", 1, lambda x: x + 1, 1),
    "mul_": _in_place("mul_", 1, lambda x: x * 2, 2),
    "relu_": _in_place("relu_", 1, lambda x: np.maximum(x, 0)),
    "clamp_": _in_place("clamp_", 1, lambda x: np.clip(x, 0, 2), 0, 2),
    "sqrt_": _in_place("sqrt_", 1, np.sqrt),
    "zero_": _in_place("zero_", 1, np.zeros_like),
}  # fmt: skip

# Ops whose result, or gradient, tells 0 from -0.
_TELL_ZEROS = {"sqrt", "rsqrt", "log", "reciprocal", "divide", "root", "sqrt_", "power 3", "atan", "norm"}
_MIX_ZEROS = {
    "clamp", "clamp to 1", "clamp_", "relu", "relu_", "maximum", "minimum", "amax", "max along", "sort",
    "where", "zero_", "multiply", "neg", "abs", "sum", "add", "subtract", "mean", "norm", "floor",
    "matmul", "masked_fill", "cumsum", "inner products", "stacked products",
}  # fmt: skip


def _names(program: Program) -> set[str]:
    return {name for name, _ in program.steps}


def _signs_of_zeros(program: Program, ours: Any, theirs: Any) -> bool:
    names = _names(program)
    if not (names & _TELL_ZEROS and names & _MIX_ZEROS) or ours.shape != theirs.shape:
        return False
    # exp and log turn inf and -inf into inf and 0, or inf and nan.
    at_ends = [~np.isfinite(x) | (x == 0) for x in (ours, theirs)]
    both = at_ends[0] & at_ends[1]
    if _alike(np.where(both, 0, np.abs(ours)), np.where(both, 0, np.abs(theirs))):
        return True
    # A maximum of inf here, and of another value there, leads the gradient elsewhere.
    zeros = [x == 0 for x in program.leaves if x.shape == ours.shape]
    return any(_alike(np.where(at, 0, ours), np.where(at, 0, theirs)) for at in zeros)


def _theirs_is_nan(program: Program, ours: Any, theirs: Any) -> bool:
    masked = {"amax", "norm", "softmax", "sigmoid", "root", "power 0", "where"}
    return bool(_names(program) & masked) and _alike(np.where(np.isnan(theirs), np.nan, ours), theirs)


def _power_of_a_half(program: Program, ours: Any, theirs: Any) -> bool:
    if "root" not in _names(program) or ours.shape != theirs.shape:
        return False
    return _alike(np.abs(np.where(np.isnan(theirs), np.nan, ours)), np.abs(theirs))


def _sign_of_nan(program: Program, ours: Any, theirs: Any) -> bool:
    return "abs" in _names(program) and _alike(np.where(np.isnan(ours), theirs, ours), theirs)


def _root_of_squares(program: Program, ours: Any, theirs: Any) -> bool:
    del ours, theirs
    far = [(np.abs(x) > 1e150) | ((np.abs(x) < 1e-150) & (x != 0)) for x in program.leaves]
    return "norm" in _names(program) and any(x.any() for x in far)


def _flushed(program: Program, ours: Any, theirs: Any) -> bool:
    # Logarithms of such numbers are where sigmoid is one.
    del ours, theirs
    return bool(_names(program) & {"log1p", "sigmoid"}) and any(
        ((np.abs(x) < 1e-300) & (x != 0)).any() for x in program.leaves
    )


def _cancelled(program: Program, ours: Any, theirs: Any) -> bool:
    # A gradient of what was broadcast is a sum too.
    sums = {
        "sum", "mean", "cumsum", "matmul", "norm", "softmax", "add", "multiply", "divide", "inner products",
        "stacked products",
    }  # fmt: skip
    if not _names(program) & sums or ours.shape != theirs.shape:
        return False
    if any(_has_opposites(x) for x in program.leaves):
        return True  # the rest may have gone through a root, or a logarithm
    sizes = [np.abs(x[np.isfinite(x) & (x != 0)]) for x in program.leaves]
    if "divide" in _names(program):
        sizes += [1 / x[x > 1e-300] for x in sizes]
    finite = [x.max(initial=1.0) for x in sizes]
    apart = np.abs(np.where((ours == theirs) | (np.isnan(ours) & np.isnan(theirs)), 0, ours - theirs))
    return max(finite) > 1e30 and bool((apart <= 1e-9 * max(finite)).all())


def _has_opposites(x: Any) -> bool:
    """Tell whether there are x and -x that are huge, or whose quotients are."""
    far = x[np.isfinite(x) & (x != 0) & ((np.abs(x) > 1e30) | (np.abs(x) < 1e-30))]
    return bool(np.isin(far, -far).any())


def _beyond_range(program: Program, ours: Any, theirs: Any) -> bool:
    del program
    if ours.shape != theirs.shape:
        return False
    far = _is_far(ours) & _is_far(theirs)
    return _alike(np.where(far, 0, ours), np.where(far, 0, theirs), 1e-12)


def _is_far(x: Any) -> Any:
    return ~np.isfinite(x) | (np.abs(x) > 1e150)


# Differences that are meant: why, where (values or gradients), and how to know them.
NAMED: dict[str, tuple[str, Callable[[Program, Any, Any], bool]]] = {
    "which of 0 and -0 is the larger is not defined, and 1 / x and slopes of roots tell them apart": (
        "both",
        _signs_of_zeros,
    ),
    "the sign of nan is nan, as in the array API standard, and with it the slope of abs": (
        "gradients",
        _sign_of_nan,
    ),
    "a mask selects, where PyTorch multiplies an infinite or undefined gradient by 0": (
        "gradients",
        _theirs_is_nan,
    ),
    "x ** -0.5 is C's power, inf at -0 and 0 at -inf; PyTorch takes 1 / sqrt(x), the slope of x ** 0.5": (
        "gradients",
        _power_of_a_half,
    ),
    "a norm is the root of a sum of squares, which may leave the range; PyTorch takes one element's size": (
        "both",
        _root_of_squares,
    ),
    "PyTorch's log1p and sigmoid take denormal numbers for 0": ("both", _flushed),
    "the order of additions decides what is left where huge terms cancel": ("both", _cancelled),
    "outside of the range of numbers infinity and nan depend on the order of factors": (
        "gradients",
        _beyond_range,
    ),
}


def _alike(ours: Any, theirs: Any, atol: float = 1e-30) -> bool:
    return ours.shape == theirs.shape and np.allclose(ours, theirs, rtol=1e-6, atol=atol, equal_nan=True)


def _value(rng: np.random.Generator) -> float:
    return float(rng.choice(EXTREMES) if rng.random() < 0.5 else rng.normal() * 2)


class Program(NamedTuple):
    """Leaves, and steps: the name of an op, and which values before it takes."""

    leaves: list[np.ndarray[Any, Any]]
    steps: list[tuple[str, tuple[int, ...]]]

    @classmethod
    def drawn(cls, rng: np.random.Generator) -> Program:
        """Draw a program whose shapes fit."""
        shapes = [SHAPES[int(rng.integers(len(SHAPES)))] for _ in range(int(rng.integers(1, 4)))]
        leaves = [np.array([_value(rng) for _ in range(int(np.prod(s)))]).reshape(s) for s in shapes]
        made = cls(leaves, [])
        values: list[Any] = list(leaves)
        names = list(OPS)
        for _ in range(int(rng.integers(1, 6))):
            name = names[int(rng.integers(len(names)))]
            places = tuple(int(rng.integers(len(values))) for _ in range(OPS[name].operands))
            try:
                np.broadcast_shapes(*[values[p].shape for p in places])
                out = np.asarray(OPS[name].numpy(*[values[p] for p in places]))
            except ValueError:
                continue
            values.append(out)
            made.steps.append((name, places))
        return made

    def run(self, leaves: list[Any], library: Callable[[Op], Callable[..., Any]]) -> list[Any]:
        """Return all values, with the ops of a library."""
        values = list(leaves)
        for name, places in self.steps:
            values.append(library(OPS[name])(*[values[p] for p in places]))
        return values

    def differences(self, torch: Any) -> Iterator[tuple[str, Any, Any]]:
        """Yield what differs: where, our values, theirs."""
        inputs = [tn.tensor(x, requires_grad=True) for x in self.leaves]
        ours = self.run(inputs, lambda op: op.ours)
        arrays = [np.asarray(x) for x in self.run(self.leaves, lambda op: op.numpy)]
        for i, (x, y) in enumerate(zip(ours, arrays, strict=True)):
            if not _alike(x.detach().numpy(), y):
                yield f"values of {i}, NumPy", x.detach().numpy(), y
        if torch is None:
            return
        others = [torch.tensor(x, requires_grad=True) for x in self.leaves]
        theirs = self.run(others, lambda op: lambda *x: op.torch(torch, *x))
        for i, (x, y) in enumerate(zip(ours, theirs, strict=True)):
            if not _alike(x.detach().numpy(), y.detach().numpy()):
                yield f"values of {i}, PyTorch", x.detach().numpy(), y.detach().numpy()
        if not ours[-1].requires_grad or not theirs[-1].requires_grad:
            return
        ours[-1].sum().backward()
        theirs[-1].sum().backward()
        for i, (x, y) in enumerate(zip(inputs, others, strict=True)):
            mine = np.zeros(x.shape) if x.grad is None else x.grad.numpy()
            other = np.zeros(x.shape) if y.grad is None else y.grad.numpy()
            if not _alike(mine, other, 1e-12):
                yield f"gradients of {i}", mine, other


def compare(programs: int, seed: int, torch: Any = None) -> tuple[list[str], Counter[str]]:
    """Run random programs; return what nobody has explained, and how often each named difference came."""
    rng = np.random.default_rng(seed)
    found: list[str] = []
    explained: Counter[str] = Counter()
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for i in range(programs):
            program = Program.drawn(rng)
            for where, ours, theirs in program.differences(torch):
                for reason, (kind, explains) in NAMED.items():
                    if kind in ("both", where.split()[0]) and explains(program, ours, theirs):
                        explained[reason] += 1
                        break
                else:
                    found.append(
                        f"program {i} of seed {seed}, {where}:\n{program}\n ours {ours}\n theirs {theirs}"
                    )
    return found, explained


def main() -> int:
    """Run as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    try:
        import torch
    except ImportError:
        torch = None
    found, explained = compare(options.programs, options.seed, torch)
    print("\n".join(found[:20]))
    without = "" if torch else ", without PyTorch"
    print(f"{options.programs} programs{without}: {len(found)} unexplained differences")
    for reason, count in explained.items():
        print(f"{count} named: {reason}")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
