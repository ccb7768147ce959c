"""Samples of the ops that move, join, select and share elements, for the gradient checker.

Each is the name of a rule, a function of tensors that uses it, and the shapes of its arguments.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import tensor
from tensor import Tensor
from tensor.autograd.recorded_functions import Functions
from tensor.ops.rare.complex_views import view_as_complex, view_as_real

Sample = tuple[str, Callable[..., Tensor], tuple[tuple[int, ...], ...]]

ROWS = tensor.tensor([2, 0, 2])
MASK = tensor.tensor([[True, False, True], [False, True, True]])
PLACES = tensor.tensor([[1, 0, 1], [1, 1, 0]])


def _written(key: object) -> Callable[[Tensor, Tensor], Tensor]:
    def write(x: Tensor, value: Tensor) -> Tensor:
        y = x.clone()
        y[key] = value
        return y

    return write


SAMPLES: list[Sample] = [
    ("alias", lambda x: x.alias(), ((2, 3),)),
    ("clone", lambda x: x.clone(), ((2, 3),)),
    ("reshape", lambda x: x.reshape(3, -1), ((2, 3),)),
    ("reshape", lambda x: x.T.reshape(-1), ((2, 3),)),
    ("reshape", lambda x: x.T.contiguous(), ((2, 3),)),
    ("squeeze", lambda x: x.squeeze(), ((1, 3, 1),)),
    ("expand_dims", lambda x: x.unsqueeze(1), ((2, 3),)),
    ("permute_dims", lambda x: x.permute(2, 0, 1), ((2, 3, 4),)),
    ("permute_dims", lambda x: x.transpose(0, -1), ((2, 3, 4),)),
    ("permute_dims", lambda x: x.movedim((0, 1), (2, 0)), ((2, 3, 4),)),
    ("permute_dims", lambda x: x.mT, ((2, 3, 4),)),
    ("getitem", lambda x: x[0], ((2, 3),)),
    ("getitem", lambda x: x[1, 2], ((2, 3),)),
    ("getitem", lambda x: x[..., None, ::-2], ((2, 3),)),
    ("getitem", lambda x: x[ROWS], ((3, 2),)),
    ("getitem", lambda x: x[:, ROWS, 1:], ((2, 3, 2),)),
    ("getitem", lambda x: x[ROWS, [0, 1, 0]], ((3, 2),)),
    ("getitem", lambda x: x[MASK], ((2, 3),)),
    ("getitem", lambda x: x.gather(0, PLACES), ((2, 3),)),
    ("getitem", lambda x: x.sort(1, descending=True).values, ((2, 3),)),
    ("getitem", lambda x: x.topk(2).values, ((2, 3),)),
    ("getitem", lambda x: tensor.concat(x.split(2, 1)[::-1], axis=1), ((2, 3),)),
    ("setitem", _written(0), ((2, 3), (3,))),
    ("setitem", _written((slice(None), slice(1, None))), ((2, 3), (1,))),
    ("setitem", _written((0, 0)), ((2, 3), ())),
    ("setitem", _written(0), ((2, 3), (1, 1, 3))),
    ("setitem", _written([1, 0]), ((2, 3), (2, 3))),
    ("setitem", _written(MASK), ((2, 3), (4,))),
    ("setitem", lambda x: x.clone().masked_fill_(MASK, 0.5), ((2, 3),)),
    ("setitem", lambda x, y: x.scatter(1, tensor.tensor([[2, 0], [1, 2]]), y), ((2, 3), (2, 2))),
    ("add_at", lambda x, y: x.scatter_add(0, PLACES, y), ((2, 3), (2, 3))),
    ("add_at", lambda x, y: x.index_add(0, ROWS, y, alpha=2), ((3, 2), (3, 2))),
    ("scatter_add", lambda x: Functions.scatter_add(x, (ROWS.numpy(),), (4, 2)), ((3, 2),)),
    ("scatter_add", lambda x: Functions.scatter_add(x, (slice(None), ROWS.numpy()), (2, 4)), ((2, 3),)),
    ("scatter_add", lambda x: Functions.scatter_add(x, (MASK.numpy(),), (2, 3)), ((4,),)),
    ("take", lambda x: x.index_select(0, ROWS), ((3, 2),)),
    ("take", lambda x: x.repeat_interleave(tensor.tensor([0, 2, 1]), 1), ((2, 3),)),
    ("astype", lambda x: x.to(tensor.complex128).real, ((2, 3),)),
    ("broadcast_to", lambda x: x.expand(4, -1, 3), ((2, 1),)),
    ("broadcast_to", lambda x, y: tensor.meshgrid(x, y)[0] * tensor.meshgrid(x, y)[1], ((2,), (3,))),
    ("tile", lambda x: x.repeat(2, 1, 3), ((2, 3),)),
    ("tile", lambda x: x.tile(2), ((2, 3),)),
    ("concat", lambda x, y: tensor.concat([x, y, x], axis=1), ((2, 3), (2, 1))),
    ("concat", lambda x, y: tensor.concat([x, y], axis=None), ((2, 3), (4,))),
    ("stack", lambda x, y: tensor.stack([x, y], axis=1), ((2, 3), (2, 3))),
    ("flip", lambda x: x.flip(0, 1), ((2, 3),)),
    ("flip", lambda x: x.rot90(), ((2, 3),)),
    ("roll", lambda x: x.roll(2, 1), ((2, 3),)),
    ("roll", lambda x: x.roll((1, -1), (0, 1)), ((2, 3),)),
    ("roll", lambda x: x.roll(2), ((2, 3),)),
    ("tril", lambda x: x.tril(-1), ((3, 3),)),
    ("triu", lambda x: x.triu(1), ((2, 3, 3),)),
    ("diagonal", lambda x: x.diagonal(), ((3, 3),)),
    ("as_strided", lambda x: x.contiguous().as_strided((3, 2), (1, 1)), ((2, 3),)),
    ("view_as_complex", lambda x: view_as_real(view_as_complex(x.contiguous()) ** 2), ((3, 2),)),
    ("diagonal", lambda x: x.diagonal(-1, 2, 0), ((2, 3, 4),)),
]

# Of complex arguments.
COMPLEX_SAMPLES: list[Sample] = [
    ("real", lambda x: x.real, ((2, 3),)),
    ("imag", lambda x: x.imag, ((2, 3),)),
    ("view_as_real", view_as_real, ((2, 3),)),
    ("permute_dims", lambda x: x.T, ((2, 3),)),
    ("setitem", _written(np.s_[:, 0]), ((2, 3), (2,))),
]
