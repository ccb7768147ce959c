"""Matrix products: square, with transposes, skinny, stacked; ours inside a dispose scope."""

import operator
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks.contenders import Library
from benchmarks.harness import Case, Timer, in_scope, repeated

Shape = tuple[int, ...]

# The shapes of the operands in memory. An operand with a T is transposed before the product.
PRODUCTS: dict[str, tuple[Shape, Shape]] = {
    "512 x 512 @ 512 x 512": ((512, 512), (512, 512)),
    "256 x 784 @ (512 x 784).T": ((256, 784), (512, 784)),
    "(256 x 784).T @ 256 x 512": ((256, 784), (256, 512)),
    "(256 x 784).T @ (512 x 256).T": ((256, 784), (512, 256)),
    "64 x 64 @ (128 x 64).T": ((64, 64), (128, 64)),
    "1 x 784 @ (512 x 784).T": ((1, 784), (512, 784)),
    "64 x 4 @ (8,096 x 4).T": ((64, 4), (8096, 4)),
    "64 x 8,096 @ (4 x 8,096).T": ((64, 8096), (4, 8096)),
    "(64 x 4).T @ 64 x 8,096": ((64, 4), (64, 8096)),
    "100,000 x 4 @ 4 x 4": ((100_000, 4), (4, 4)),
    "2,048 x 2,048 @ 2,048": ((2048, 2048), (2048,)),
    "64 x 32 x 32 @ 64 x 32 x 32": ((64, 32, 32), (64, 32, 32)),
    "8 x 64 x 64 @ (8 x 64 x 64).T": ((8, 64, 64), (8, 64, 64)),
}


def cases() -> Iterator[Case]:
    """Yield a case for each product."""
    for name in PRODUCTS:
        make = partial(_product, name)
        yield Case(
            f"products/{name}",
            partial(_timer, make),
            check=partial(_sum, make),
            rounds=16,
            round_seconds=0.01,
        )


def _timer(make: Callable[[Library], Callable[[], Any]], library: Library) -> Timer:
    return in_scope(library, repeated(make(library)))


def _sum(make: Callable[[Library], Callable[[], Any]], library: Library) -> Sequence[float]:
    return [float(make(library)().sum())]


def _product(name: str, library: Library) -> Callable[[], Any]:
    random = np.random.default_rng(0)
    factors = []
    for shape, factor in zip(PRODUCTS[name], name.split("@"), strict=True):
        x = library.array(random.uniform(0, 1, shape).astype(np.float32))
        factors.append(x.mT if ".T" in factor else x)
    return partial(operator.matmul, *factors)
