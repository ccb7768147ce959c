"""The rise of live bytes during functions whose state is donated, in operands.

``python -m benchmarks.donations`` prints a table.
"""

from collections.abc import Callable
from typing import Any

import tensor
from tensor import memory

SIZE = (1000, 1000)
OPERAND = 4 * SIZE[0] * SIZE[1]


def adam(weights: list[Any], states: list[tuple[Any, Any]], gradients: list[Any]) -> Any:
    """Do a step of Adam, in place."""
    for weight, (mean, square), gradient in zip(weights, states, gradients, strict=True):
        mean.mul_(0.9).add_(gradient * 0.1)
        square.mul_(0.999).add_((gradient * gradient).mul_(0.001))
        weight.sub_(square.sqrt().add_(1e-8).reciprocal_().mul_(mean).mul_(1e-3))
    return weights, states


def plain_adam(weights: list[Any], states: list[tuple[Any, Any]], gradients: list[Any]) -> Any:
    """Do the same by expressions, which leave the caller's tensors as they are."""
    found: list[Any] = []
    kept: list[Any] = []
    for weight, (mean, square), gradient in zip(weights, states, gradients, strict=True):
        after = mean * 0.9 + gradient * 0.1
        second = square * 0.999 + gradient * gradient * 0.001
        found.append(weight - after / (second.sqrt() + 1e-8) * 1e-3)
        kept.append((after, second))
    return found, kept


def cell(state: Any, x: Any, w: Any, u: Any) -> Any:
    """Return the next state of a recurrent network. Dispose the last one after its last use."""
    after = state @ u
    state.dispose()
    return after.add_(x @ w).tanh_()


def plain_cell(state: Any, x: Any, w: Any, u: Any) -> Any:
    """Return the same, and leave the caller's state as it is."""
    return (state @ u + x @ w).tanh()


def _rise(function: Callable[..., Any], *arguments: Any) -> tuple[float, float]:
    """Return the highest rise of live bytes, and the rise at the end, in operands."""
    with memory.measure() as measured:
        result = function(*arguments)
    del result
    return measured.peak_bytes_change / OPERAND, measured.live_bytes_change / OPERAND


def _rows() -> list[tuple[str, Callable[..., Any], Callable[[], tuple[Any, ...]]]]:
    def ones() -> Any:
        return tensor.full(SIZE, 0.001)

    def of_adam() -> tuple[Any, ...]:
        return [ones() for _ in range(4)], [(ones(), ones()) for _ in range(4)], [ones() for _ in range(4)]

    def of_cell() -> tuple[Any, ...]:
        return ones(), ones(), ones(), ones()

    return [
        ("Adam, 4 weights, expressions", plain_adam, of_adam),
        ("Adam, 4 weights, donated", memory.donating("weights", "states")(adam), of_adam),
        ("recurrent state, expressions", plain_cell, of_cell),
        ("recurrent state, donated", memory.donating("state")(cell), of_cell),
    ]


def main() -> None:
    """Print the table."""
    print("| function | highest rise, in operands | rise at its end |\n|---|---:|---:|")
    for name, function, arguments in _rows():
        given = arguments()
        peak, end = _rise(function, *given)
        print(f"| {name} | {peak:.2f} | {end:.2f} |")


if __name__ == "__main__":
    main()
