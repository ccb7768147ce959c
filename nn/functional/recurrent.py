"""One recurrent layer in one direction: one op computes all time steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import tensor as tn
from nn.functional.checks import floating_array_of
from tensor import Tensor, autograd
from tensor._dtypes import Array
from tensor.core.tensor import wrap
from tensor.kernels import as_one_dtype, recurrent_backward, recurrent_forward, run_kernel
from tensor.tape.modes import is_recording

# The last arguments of `Recurrent`, in order: those that can have gradients.
NAMES = ("input", "h0", "c0", "weight_ih", "weight_hh", "weight_hr", "bias_ih", "bias_hh")


def _array(name: str, x: Any) -> Array | None:
    return None if x is None else np.ascontiguousarray(floating_array_of("recurrent layer", name, x))


class Recurrent(autograd.Function):
    """All time steps of a layer. Returns the output, the last states, and for an LSTM the last cell states.

    The input is packed, ``(sum of sizes, features)``: the first step of all sequences, then the second step,
    and so on. `sizes` has the number of sequences at each step. Weights have PyTorch's layout.
    """

    @staticmethod
    def forward(ctx: Any, cell: str, sizes: tuple[int, ...], is_reversed: bool, *tensors: Any) -> Any:
        """Run the kernel, and save the values that its gradient needs."""
        given: list[Any] = [_array(name, x) for name, x in zip(NAMES, tensors, strict=True)]
        dtype, arrays = given[0].dtype, as_one_dtype(*given)
        out, last, last_cell, kept = run_kernel(recurrent_forward, cell, sizes, is_reversed, *arrays)
        results = [wrap(x.astype(dtype, copy=False)) for x in (out, last, last_cell) if x is not None]
        if any(ctx.needs_input_grad):
            ctx.set_materialize_grads(False)
            ctx.what = cell, sizes, is_reversed
            ctx.save_for_backward(*tensors, results[0], *(None if x is None else wrap(x) for x in kept))
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        """Run the backward kernel. If backward itself is recorded, differentiate `composed` instead."""
        wanted = ctx.needs_input_grad[3:]
        if is_recording():
            return None, None, None, *_derived(ctx.what, ctx.saved_tensors[:8], wanted, gradients)
        saved = [_array("a saved value", x) for x in ctx.saved_tensors]
        given = [_array("a gradient", x) for x in (*gradients, None)[:3]]
        arrays: Sequence[Any] = as_one_dtype(*saved, *given)
        # The inputs without biases, the output, the data of the kernel, and the gradients of the results.
        arguments: Sequence[Any] = (*ctx.what, wanted, *arrays[:6], arrays[8], arrays[9:12], *arrays[12:])
        found = run_kernel(recurrent_backward, *arguments)
        return None, None, None, *(None if x is None else wrap(x) for x in found)


# --- The same steps composed of ops, which have derivatives of any order ------------------------------------


def _derived(
    what: tuple[str, tuple[int, ...], bool],
    inputs: Sequence[Tensor | None],
    wanted: Sequence[bool],
    gradients: Sequence[Tensor | None],
) -> list[Tensor | None]:
    # Use aliases, so that a tensor that is passed twice has a gradient for each position.
    given = [None if x is None else x.alias() for x in inputs]
    results = composed(*what, *given)
    pairs = [(y, g) for y, g in zip(results, gradients, strict=True) if g is not None]
    targets = [x for x, is_wanted in zip(given, wanted, strict=True) if is_wanted and x is not None]
    outputs, grads = [y for y, _ in pairs], [g for _, g in pairs]
    derived = iter(autograd.grad(outputs, targets, grads, create_graph=True, allow_unused=True))
    return [next(derived) if is_wanted else None for is_wanted in wanted]


def composed(
    cell: str,
    sizes: tuple[int, ...],
    is_reversed: bool,
    x: Any,
    h0: Any,
    c0: Any,
    w_ih: Any,
    w_hh: Any,
    w_hr: Any,
    b_ih: Any,
    b_hh: Any,
) -> tuple[Tensor, ...]:
    """Return the result of `Recurrent`, computed step by step with ops on tensors."""
    count, width = sizes[0], w_hh.shape[1]
    h = tn.zeros((count, width), dtype=x.dtype) if h0 is None else h0
    c = tn.zeros((count, w_hh.shape[0] // 4), dtype=x.dtype) if c0 is None and cell == "lstm" else c0
    starts = np.cumsum((0, *sizes)).tolist()
    outs: list[Any] = [None] * len(sizes)
    steps = range(len(sizes))
    for t in reversed(steps) if is_reversed else steps:
        now, rest_h = h[: sizes[t]], h[sizes[t] :]
        by_input, by_state = _affine(x[starts[t] : starts[t + 1]], w_ih, b_ih), _affine(now, w_hh, b_hh)
        if cell == "lstm":
            i, f, g, o = (by_input + by_state).chunk(4, 1)
            cell_now = f.sigmoid() * c[: sizes[t]] + i.sigmoid() * g.tanh()
            c = tn.concat([cell_now, c[sizes[t] :]])
            now = o.sigmoid() * cell_now.tanh()
            now = now if w_hr is None else now @ w_hr.mT
        elif cell == "gru":
            (r1, z1, n1), (r2, z2, n2) = by_input.chunk(3, 1), by_state.chunk(3, 1)
            update, fresh = (z1 + z2).sigmoid(), (n1 + (r1 + r2).sigmoid() * n2).tanh()
            now = update * (now - fresh) + fresh
        else:
            now = (by_input + by_state).tanh() if cell == "tanh" else (by_input + by_state).relu()
        outs[t] = now
        h = tn.concat([now, rest_h])
    results = (tn.concat(outs), h)
    return (*results, c) if cell == "lstm" else results


def _affine(x: Any, weight: Any, bias: Any) -> Any:
    product = x @ weight.mT
    return product if bias is None else product + bias
