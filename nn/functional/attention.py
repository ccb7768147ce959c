"""Scaled dot-product attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import tensor as tn
from nn.functional.checks import array_of, check_probability, floating_array_of, is_wanted
from nn.functional.derivatives import RULES, attention_weights
from nn.functional.dropouts import dropout
from tensor import Generator, Tensor
from tensor._dtypes import Array, is_floating
from tensor._errors import InvalidArgumentError
from tensor.creation.generators import numbers_of
from tensor.kernels import attention_forward, run_kernel
from tensor.tape.recording import record, remember, wrap_recorded

_NAME = "scaled_dot_product_attention"


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    generator: Generator | None = None,
) -> Tensor:
    """Return ``softmax(scale * query @ key.mT + mask) @ value``, in memory that is linear in the lengths.

    Forward and backward compute the scores in blocks of queries and keys, and do not store them
    (FlashAttention, Dao et al. 2022). If the mask requires gradients, they store whole matrices of scores.
    The result is 0 for a query whose keys are all masked.

    Parameters
    ----------
    query
        Shape ``(*, queries, features)``. The leading dimensions of `query`, `key` and `value` broadcast.
    key
        Shape ``(*, keys, features)``.
    value
        Shape ``(*, keys, value features)``.
    attn_mask
        Broadcasts to ``(*, queries, keys)``. A boolean mask is true for keys to attend to. Floating numbers
        are added to the scores.
    dropout_p
        The probability of dropping each weight, also in evaluation, as in PyTorch.
    is_causal
        Mask keys after position i for query i. It can't be combined with `attn_mask`.
    scale
        The factor of the scores; ``features ** -0.5`` for None.
    enable_gqa
        Share each head of keys and values (dimension -3) among several consecutive heads of queries.
    generator
        The generator of the dropout; the default one for None.

    Raises
    ------
    ValueError
        If shapes or dtypes do not fit together, or if `is_causal` is combined with a mask.

    Examples
    --------
    >>> import nn, tensor
    >>> x = tensor.tensor([[0.0, 0.0], [0.0, 0.0]])
    >>> value = tensor.tensor([[1.0], [3.0]])
    >>> nn.functional.scaled_dot_product_attention(x, x, value).tolist()
    [[2.0], [2.0]]
    >>> nn.functional.scaled_dot_product_attention(x, x, value, is_causal=True).tolist()
    [[1.0], [2.0]]
    """
    arrays = [
        floating_array_of(_NAME, what, x) for what, x in (("query", query), ("key", key), ("value", value))
    ]
    check_probability(_NAME, "dropout_p", dropout_p)
    lead = _leading(arrays, enable_gqa)
    q, k, v = arrays
    if attn_mask is not None:
        _check_mask(attn_mask, (*lead, q.shape[-2], k.shape[-2]))
        if is_causal:
            raise InvalidArgumentError(
                f"{_NAME}: attn_mask and is_causal=True can't be combined: omit one of them. Boolean masks "
                "become causal with attn_mask.tril()"
            )
    factor = float(scale if scale is not None else q.shape[-1] ** -0.5 if q.shape[-1] else 1.0)
    if is_wanted(attn_mask):
        return _by_matrices(query, key, value, attn_mask, dropout_p, factor, enable_gqa, generator)
    own = lead or (1,)
    of_keys = (*own[:-1], k.shape[-3]) if enable_gqa else own
    leads = (own, of_keys, of_keys)
    four = tuple(_in_4d(x, lead) for x, lead in zip((query, key, value), leads, strict=True))
    mask = None if attn_mask is None else _mask_in_4d(attn_mask.detach(), own)
    out = _recorded(four, mask, is_causal, factor, dropout_p, generator)
    return out if len(lead) == 2 else out.reshape((*lead, q.shape[-2], v.shape[-1]))


def _leading(arrays: list[Array], enable_gqa: bool) -> tuple[int, ...]:
    """Return the leading dimensions of the result."""
    q, k, v = arrays
    shapes = f"query has shape {q.shape}, key {k.shape} and value {v.shape}"
    if len({x.dtype for x in arrays}) > 1:
        raise InvalidArgumentError(
            f"{_NAME}: query, key and value must have one dtype, not {q.dtype}, {k.dtype} and "
            f"{v.dtype}: write key.to(query.dtype) and value.to(query.dtype)"
        )
    if min(x.ndim for x in arrays) < 2:
        raise InvalidArgumentError(f"{_NAME}: all shapes must be (*, length, features), but {shapes}")
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise InvalidArgumentError(
            f"{_NAME}: query and key must have the same number of features, and key and value the same "
            f"length, but {shapes}"
        )
    leads = [x.shape[:-2] for x in arrays]
    if enable_gqa:
        heads = [x.shape[-3] if x.ndim > 2 else 0 for x in arrays]
        if not heads[1] or heads[1] != heads[2] or heads[0] % heads[1]:
            raise InvalidArgumentError(
                f"{_NAME}: with enable_gqa, key and value must have the same number of heads (dimension -3), "
                f"and it must divide that of query, but {shapes}"
            )
        leads = [(*lead[:-1], heads[0]) for lead in leads]
    try:
        return np.broadcast_shapes(*leads)
    except ValueError:
        raise InvalidArgumentError(f"{_NAME}: leading dimensions must broadcast, but {shapes}") from None


def _check_mask(attn_mask: Tensor, shape: tuple[int, ...]) -> None:
    mask = array_of(_NAME, "attn_mask", attn_mask)
    if mask.dtype != np.bool_ and not is_floating(mask.dtype):
        raise TypeError(
            f"{_NAME}: attn_mask must be boolean or floating, not {mask.dtype}: write attn_mask.bool()"
        )
    try:
        fits = np.broadcast_shapes(mask.shape, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise InvalidArgumentError(
            f"{_NAME}: attn_mask must broadcast to {shape}, (*, queries, keys), but its shape is {mask.shape}"
        )


def _in_4d(x: Tensor, lead: tuple[int, ...]) -> Tensor:
    """Expand `x` to the leading dimensions `lead`, and join all of them but the last."""
    whole = (*lead, *x.shape[-2:])
    if x.shape != whole:
        x = x.expand(whole)
    return x if len(lead) == 2 else x.reshape((math.prod(lead[:-1]), *whole[-3:]))


def _mask_in_4d(mask: Tensor, lead: tuple[int, ...]) -> Tensor:
    """Return `mask` with four dimensions. Expand only the dimensions to join."""
    mask = mask.reshape((1,) * (len(lead) + 2 - mask.ndim) + mask.shape)
    if len(lead) == 2:
        return mask
    return _in_4d(mask, (*lead[:-1], mask.shape[-3]))


def _recorded(
    inputs: tuple[Tensor, ...],
    mask: Tensor | None,
    is_causal: bool,
    scale: float,
    p: float,
    generator: Generator | None,
) -> Tensor:
    """Run the kernel on tensors of four dimensions. The result has the memory layout of the query."""
    q, k, v = (array_of(_NAME, "an argument", x) for x in inputs)
    m = None if mask is None else array_of(_NAME, "attn_mask", mask)
    dtype = q.dtype
    if dtype.itemsize == 2:
        q, k, v = (x.astype(np.float32) for x in (q, k, v))
    seed = int(numbers_of(generator).bit_generator.random_raw()) if p else 0
    options = (is_causal, scale, seed, p)
    out, logsumexp = run_kernel(attention_forward, q, k, v, m, *options)
    out = out if out.dtype == dtype else out.astype(dtype)
    parameters = {"mask": mask, "options": options, "logsumexp": logsumexp}
    node = record(RULES["attention"], inputs, out, parameters)

    def again(q: Array, k: Array, v: Array, m: Array | None) -> Array:
        if dtype.itemsize == 2:
            q, k, v = (x.astype(np.float32) for x in (q, k, v))
        return attention_forward(q, k, v, m, *options)[0].astype(dtype, copy=False)

    remember(node, again, (*inputs, mask))
    return wrap_recorded(out, node)


def _by_matrices(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Any,
    p: float,
    scale: float,
    enable_gqa: bool,
    generator: Generator | None,
) -> Tensor:
    """Compute the attention with ops on whole matrices of scores, for a mask that requires gradients."""
    if enable_gqa:
        group = query.shape[-3] // key.shape[-3]
        key, value = (x.repeat_interleave(group, -3) for x in (key, value))
    weights = attention_weights(tn, query, key, mask.to(query.dtype), False, scale)
    return dropout(weights, p, generator=generator) @ value
