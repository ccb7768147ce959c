"""Ops of a user: what the tests of ``autograd.Function`` call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensor
from tensor import Tensor, autograd


class Multiply(autograd.Function):
    """Saves its inputs; the product with a number that is no tensor."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, factor: float = 1.0) -> Tensor:
        ctx.save_for_backward(x, y)
        ctx.factor = factor
        return x * y * factor

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        x, y = ctx.saved_tensors
        return grad * y * ctx.factor, grad * x * ctx.factor, None


class Exp(autograd.Function):
    """Saves its output."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        (y,) = ctx.saved_tensors
        return grad * y


class SinCos(autograd.Function):
    """Two outputs, each saved, beside a text and an index."""

    given: tuple[Any, ...] = ()

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Any:
        sine, cosine = x.sin(), x.cos()
        ctx.save_for_backward(sine, None, cosine)
        return sine, "a text", cosine, x.argmax()

    @staticmethod
    def backward(ctx: Any, sine_grad: Tensor, none: None, cosine_grad: Tensor, index_grad: Tensor) -> Any:
        SinCos.given = tuple(
            [g if g is None else g.tolist() for g in (sine_grad, none, cosine_grad, index_grad)]
        )
        sine, nothing, cosine = ctx.saved_tensors
        assert nothing is None
        return sine_grad * cosine - cosine_grad * sine


class ExpInPlace(autograd.Function):
    """Writes to its argument, and saves what it wrote."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.mark_dirty(x)
        x.exp_()
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return grad * ctx.saved_tensors[0]


class SquareInPlace(autograd.Function):
    """Saves its argument, and then writes to it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        x.square_()
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return grad * 2 * ctx.saved_tensors[0]


class Linear(autograd.Function):
    """In the form with ``setup_context``; asks which gradients are needed."""

    needed: tuple[bool, ...] = ()

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        y = x @ weight.mT
        return y if bias is None else y + bias

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, weight, _ = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        x, weight = ctx.saved_tensors
        Linear.needed = ctx.needs_input_grad
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        return (
            grad @ weight if needs_x else None,
            grad.mT @ x if needs_weight else None,
            grad if needs_bias else None,
        )


class Identity(autograd.Function):
    """Returns its argument."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return grad * 10


class Returning(autograd.Function):
    """Of two arguments; backward returns what ``of`` makes of the gradient."""

    of: Any = staticmethod(lambda grad: (grad, grad))

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Any) -> Tensor:
        return x * 1

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return Returning.of(grad)


def doubles(*shape: int, seed: int = 0) -> Tensor:
    return tensor.from_numpy(np.random.default_rng(seed).uniform(0.5, 2, shape)).requires_grad_()


def returning(monkeypatch: pytest.MonkeyPatch, of: Any) -> None:
    monkeypatch.setattr(Returning, "of", staticmethod(of))
