"""Samples of arithmetic, activations, reductions and linear algebra, for the gradient checker."""

from __future__ import annotations

from functools import partial
from math import inf

import numpy as np

import tensor
from tensor import Tensor
from tensor.ops.gamma import bessel_i, erfcx, log_ndtr
from tests.tensor.gradients import Function, Sample

MASK = tensor.tensor([[True, False, True], [False, True, True]])

M = (2, 3)
SHAPES = (M, (), (2, 1, 3))
_PAIRS = [(M, M), (M, (3,)), ((2, 1), M), (M, ()), ((), ())]


def _doubled_row(x: Tensor) -> Tensor:
    y = x.clone()
    y[0].mul_(2)
    return y


def _doubled_view(x: Tensor) -> Tensor:
    y = x.clone()
    row = y[0]
    row.mul_(2)
    return row


def _unary(*names: str, domain: str = "any") -> list[Sample]:
    return [Sample(name, getattr(tensor, name), (shape,), domain) for name in names for shape in SHAPES]


def _over(name: str, **options: object) -> Function:
    function = getattr(tensor, name)
    return lambda x: function(x, **options)


def _binary(*names: str, domain: str = "any") -> list[Sample]:
    return [Sample(name, getattr(tensor, name), shapes, domain) for name in names for shapes in _PAIRS]


ELEMENTWISE: list[Sample] = [
    *_binary("add", "subtract", "multiply", "divide", "remainder", "atan2", "hypot", "logaddexp"),
    *_binary("maximum", "minimum", "copysign", "floor_divide", "nextafter"),
    *_binary("pow", domain="positive"),
    *_unary("negative", "positive", "abs", "square", "reciprocal", "conj", "exp", "exp2", "expm1"),
    *_unary("sin", "cos", "tan", "atan", "sinh", "cosh", "tanh", "asinh"),
    *_unary("asin", "acos", "atanh", "erfinv", domain="unit"),
    *_unary("acosh", domain="above one"),
    *_unary("log", "log1p", "log2", "log10", "sqrt", "rsqrt", domain="positive"),
    Sample("bessel_i", lambda x: x.i0(), (M,)),
    Sample("bessel_i", lambda x: bessel_i(1, True, x), (M,)),
    Sample("erfcx", erfcx, (M,)),
    Sample("log_ndtr", log_ndtr, (M,)),
    Sample("lgamma", lambda x: x.lgamma(), (M,), "positive"),
    Sample("polygamma", lambda x: x.digamma(), (M,), "positive"),
    Sample("polygamma", lambda x: x.polygamma(2), (M,), "positive"),
    *_unary("ceil", "floor", "round", "sign", "trunc"),
    *_unary("relu", "leaky_relu", "elu", "sigmoid", "logsigmoid", "silu", "gelu", "erf", "erfc"),
    *[Sample("softplus_with_bend", tensor.softplus, (shape,)) for shape in SHAPES],
    Sample("pow", lambda x: x**2, (M,)),
    Sample("pow", lambda x: x**0, (M,)),
    Sample("pow", lambda x: x**-1.5, (M,), "positive"),
    Sample("pow", lambda x: 2**x, (M,)),
    Sample("subtract", lambda x: 1 - x, (M,)),
    Sample("divide", lambda x: 1 / x, (M,)),
    Sample("remainder", lambda x: 2.5 % x, (M,)),
    Sample("gelu_by_tanh", lambda x: tensor.gelu(x, "tanh"), (M,)),
    Sample("leaky_relu_by_input", lambda x: tensor.leaky_relu(x, -0.3), (M,)),
    Sample("elu", lambda x: tensor.elu(x, 0.7), (M,)),
    Sample("elu_by_input", lambda x: tensor.elu(x, -0.7), (M,)),
    Sample("softplus", lambda x: tensor.softplus(x, 3.0, 40.0), (M,)),
    Sample("softplus", lambda x: tensor.softplus(x, -1.0, 40.0), (M,)),
    Sample("softplus_with_bend", lambda x: tensor.softplus(x, 3.0, 2.0), (M,)),
    Sample("clip", lambda x: x.clamp(-0.5, 0.5), (M,)),
    Sample("clip", lambda x: x.clamp(max=0.5), (M,)),
    Sample("clip", lambda x, low: x.clamp(low), (M, (3,))),
    Sample("clip", lambda x, low, high: x.clamp(low, high), (M, (3,), ())),
    Sample("where", lambda x, y: tensor.where(MASK, x, y), (M, M)),
    Sample("where", lambda x, y: tensor.where(MASK, x, y), ((3,), ())),
    Sample("where", lambda x: x.where(MASK, 0.0), (M,)),
    Sample("lerp", tensor.lerp, (M, (3,), ())),
    Sample("copy", lambda x, y: x.clone().copy_(y), (M, (3,))),
    Sample("fill", lambda x: x.clone().zero_() + 0 * x, (M,)),
    Sample("overlay", _doubled_row, (M,)),
    Sample("read_places", _doubled_view, (M,)),
]

REDUCTIONS: list[Sample] = [
    Sample("logcumsumexp", lambda x: x.logcumsumexp(1), (M,)),
    Sample("logcumsumexp", lambda x: x.logcumsumexp(0), (M,)),
    *[
        Sample(
            name,
            _over(name, axis=axis, keepdims=keep),
            (shape,),
        )
        for name in ("sum", "mean", "prod", "var", "std", "max", "min", "logsumexp")
        for shape, axis in (((2, 3, 2), None), ((2, 3, 2), 1), ((2, 3, 2), (0, -1)), ((2, 3, 2), -1))
        for keep in (False, True)
    ],
    *[
        Sample(name, getattr(tensor, name), ((),))
        for name in ("sum", "mean", "prod", "max", "min", "logsumexp")
    ],
    *[
        Sample(name, _over(name, axis=axis), ((2, 3, 2),))
        for name in ("softmax", "log_softmax", "cumulative_sum", "cumulative_prod")
        for axis in (0, 1, -1)
    ],
    *[Sample("prod", _over("prod", axis=axis), (M,), "with zeros") for axis in (None, 0, 1)],
    *[Sample("cumulative_prod", _over("cumulative_prod", axis=axis), (M,), "with zeros") for axis in (0, 1)],
    Sample("var", lambda x: x.var(), (M,)),
    Sample("std", lambda x: x.std(dim=0, correction=0), (M,)),
    Sample("sum", lambda x: x.sum(1, dtype=tensor.float64), (M,)),
    Sample("max_along", lambda x: x.max(1).values, (M,)),
    Sample("max_along", lambda x: x.max(0).values, ((),)),
    Sample("min_along", lambda x: x.min(0, keepdim=True)[0], ((2, 3, 2),)),
    Sample("max", lambda x: x.max(), (M,)),
    *[
        Sample("vector_norm", _over("vector_norm", ord=ord, axis=axis), (M,))
        for ord in (2, 1, 0, 3, 0.5, inf, -inf)
        for axis in (None, 1)
    ],
    Sample("cumulative_sum", lambda x: x.cumsum(0), ((),)),
    Sample("cumulative_prod", lambda x: x.cumprod(0), ((),)),
]

LINEAR_ALGEBRA: list[Sample] = [
    *[
        Sample("matmul", tensor.matmul, shapes)
        for shapes in (
            ((2, 3), (3, 4)),
            ((3,), (3, 2)),
            ((2, 3), (3,)),
            ((3,), (3,)),
            ((5, 2, 3), (3, 4)),
            ((2, 3), (5, 3, 4)),
            ((2, 1, 2, 3), (5, 3, 4)),
            ((3,), (5, 3, 2)),
            ((5, 2, 3), (3,)),
        )
    ],
    Sample("matmul", lambda x, y: x.mT @ y.mT, ((3, 2), (4, 3))),
    Sample("matmul", lambda x: x @ x, ((3, 3),)),
    Sample("matmul", lambda x, y: x.bmm(y), ((2, 3, 2), (2, 2, 3))),
    Sample("matmul", lambda x, y: tensor.tensordot(x, y, axes=((0, 2), (1, 0))), ((2, 3, 4), (4, 2))),
    Sample("multiply", tensor.outer, ((2,), (3,))),
    Sample("matmul", tensor.vecdot, ((2, 3), (2, 3))),
    Sample("sum", lambda x, y: tensor.vecdot(x, y, axis=0), ((2, 3), (2, 3))),
    *[
        Sample("einsum", partial(tensor.einsum, equation), tuple(shapes))
        for equation, *shapes in (
            ("ij,jk->ik", (2, 3), (3, 4)),
            ("ij,kj", (2, 3), (4, 3)),
            ("ij->ji", (2, 3)),
            ("ij->", (2, 3)),
            ("ii->i", (3, 3)),
            ("ii", (3, 3)),
            ("iji,k->j", (2, 3, 2), (4,)),
            ("i,j,k->ijk", (2,), (3,), (2,)),
            ("bij,bjk->bik", (2, 2, 3), (2, 3, 2)),
            ("...ij,...jk", (4, 1, 2, 3), (5, 3, 2)),
            ("...i,i->...", (2, 3), (3,)),
            ("ij,ij->", (1, 3), (2, 3)),
        )
    ],
    Sample("diagonal", tensor.trace, ((3, 3),)),
    Sample("roll", tensor.cross, ((2, 3), (3,))),
]

_HOLOMORPHIC = (
    "negative", "positive", "square", "reciprocal", "exp", "expm1", "log", "log1p", "log2", "log10", "sqrt",
    "rsqrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh",
)  # fmt: skip

COMPLEX: list[Sample] = [
    sample._replace(dtype=np.complex128)
    for sample in [
        *_unary(*_HOLOMORPHIC),
        *_unary("abs", "conj", "sign", "sigmoid"),
        *_binary("add", "subtract", "multiply", "divide", "pow"),
        Sample("pow", lambda x: x**3, (M,)),
        Sample("pow", lambda x: 2**x, (M,)),
        Sample("pow", lambda x: (1 + 2j) ** x, (M,)),
        Sample("multiply", lambda x: x * (1 - 2j), (M,)),
        Sample("where", lambda x, y: tensor.where(MASK, x, y), (M, ())),
        Sample("lerp", tensor.lerp, (M, (3,), ())),
        *[
            Sample(name, _over(name, axis=1), (M,))
            for name in ("sum", "mean", "prod", "var", "std", "cumulative_sum", "cumulative_prod")
        ],
        *[Sample(name, _over(name, axis=1), (M,), "with zeros") for name in ("prod", "cumulative_prod")],
        *LINEAR_ALGEBRA,
        *[Sample("vector_norm", _over("vector_norm", ord=ord), (M,)) for ord in (2, 1, 3)],
    ]
]
