"""Multi-head attention: input projections, masks, attention, and the output projection."""

from __future__ import annotations

from typing import Any

import numpy as np

import tensor as tn
from nn.functional.attention import scaled_dot_product_attention
from nn.functional.checks import array_of, floating_array_of
from nn.functional.dropouts import dropout
from nn.functional.linear_maps import linear
from tensor import Tensor
from tensor._dtypes import Array, is_floating
from tensor._errors import InvalidArgumentError
from tensor.core.tensor import widening

_NAME = "multi_head_attention_forward"


@widening
def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
    *,
    batch_first: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Return the output of `nn.MultiheadAttention` with these parameters, and the attention weights or None.

    Parameters
    ----------
    query
        Shape ``(queries, batch, embed_dim)``, ``(batch, queries, embed_dim)`` with `batch_first`, or
        ``(queries, embed_dim)``.
    key, value
        As `query`, with keys instead of queries, and their own numbers of features.
    embed_dim_to_check
        Must be equal to the features of `query`.
    num_heads
        The number of heads.
    in_proj_weight, in_proj_bias
        Shapes ``(3 * embed_dim, embed_dim)`` and ``(3 * embed_dim,)``: for queries, keys and values.
    bias_k, bias_v
        Shape ``(1, 1, embed_dim)``: an additional key and value.
    add_zero_attn
        Whether to add a key and a value of zeros.
    dropout_p, training
        The probability of dropping each attention weight, used if `training` is true.
    out_proj_weight, out_proj_bias
        Shapes ``(embed_dim, embed_dim)`` and ``(embed_dim,)``.
    key_padding_mask
        Shape ``(batch, keys)`` or ``(keys,)``: true for keys to ignore, or numbers to add to the scores.
    need_weights
        Whether to return the attention weights. They need memory for whole matrices.
    attn_mask
        Like `key_padding_mask`, of shape ``(queries, keys)`` or ``(batch * num_heads, queries, keys)``.
    use_separate_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight
        Separate projection weights, for keys and values with other numbers of features than queries.
    average_attn_weights
        Whether to average the attention weights over heads.
    is_causal
        Whether `attn_mask` is the causal mask. If it is, the function can ignore its values.
    batch_first
        Whether the batch is the first dimension. PyTorch's function does not have this parameter.

    Examples
    --------
    >>> import nn, tensor
    >>> layer = nn.MultiheadAttention(4, 2)
    >>> x = tensor.ones((3, 1, 4))
    >>> weight, bias, out = layer.in_proj_weight, layer.in_proj_bias, layer.out_proj
    >>> y, weights = nn.functional.multi_head_attention_forward(
    ...     x, x, x, 4, 2, weight, bias, None, None, False, 0.0, out.weight, out.bias
    ... )
    >>> y.shape, weights.shape
    ((3, 1, 4), (1, 3, 3))
    """
    given = [floating_array_of(_NAME, n, x) for n, x in (("query", query), ("key", key), ("value", value))]
    _check_shapes(given, embed_dim_to_check, num_heads, batch_first)
    is_batched = given[0].ndim == 3
    if not is_batched:
        batch_first = False
        same = query is key and key is value
        query = query.unsqueeze(1)
        key, value = (query, query) if same else (key.unsqueeze(1), value.unsqueeze(1))
    along = int(batch_first)  # the sequence dimension
    batch, queries, keys = query.shape[1 - along], query.shape[along], key.shape[along]
    if use_separate_proj_weight:
        biases = (None,) * 3 if in_proj_bias is None else in_proj_bias.chunk(3)
        weights: tuple[Any, ...] = (q_proj_weight, k_proj_weight, v_proj_weight)
        q, k, v = (linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True))
    else:
        q, k, v = _projected(query, key, value, in_proj_weight, in_proj_bias)
    added = (bias_k is not None) + bool(add_zero_attn)
    if bias_k is not None and bias_v is not None:
        k, v = (_with_one_more_key(x, bias, along) for x, bias in ((k, bias_k), (v, bias_v)))
    if add_zero_attn:
        nothing = tn.zeros((1, 1, k.shape[2]), dtype=k.dtype)
        k, v = (_with_one_more_key(x, nothing, along) for x in (k, v))
    q, k, v = (_by_head(x, num_heads, batch_first) for x in (q, k, v))
    if is_causal and attn_mask is None:
        raise InvalidArgumentError(
            "MultiheadAttention: is_causal=True requires attn_mask: pass "
            "attn_mask=nn.Transformer.generate_square_subsequent_mask(length)"
        )
    uses_causal_kernel = is_causal and key_padding_mask is None and not need_weights and not added
    masks = (
        [] if uses_causal_kernel else _masks(attn_mask, key_padding_mask, (batch, num_heads, queries, keys))
    )
    mask = _merged(masks, added, q)
    p = dropout_p if training else 0.0
    attn_weights: Tensor | None = None
    if need_weights:
        scores = (q * q.shape[-1] ** -0.5) @ k.mT
        if mask is not None:
            scores = scores + mask if mask.dtype != tn.bool else scores.masked_fill(~mask, -np.inf)
        attn_weights = dropout(scores.softmax(-1), p)
        heads_out = attn_weights @ v
        attn_weights = attn_weights.mean(1) if average_attn_weights else attn_weights
        attn_weights = attn_weights if is_batched else attn_weights.squeeze(0)
    else:
        heads_out = scaled_dot_product_attention(q, k, v, mask, p, uses_causal_kernel)
    heads_out = heads_out.permute(0, 2, 1, 3) if batch_first else heads_out.permute(2, 0, 1, 3)
    out = linear(heads_out.reshape(query.shape), out_proj_weight, out_proj_bias)
    return out if is_batched else out.squeeze(1), attn_weights


def _check_shapes(given: list[Array], embed_dim: int, num_heads: int, batch_first: bool) -> None:
    q, k, v = given
    shapes = f"query has shape {q.shape}, key {k.shape} and value {v.shape}"
    if q.ndim not in (2, 3) or {k.ndim, v.ndim} != {q.ndim}:
        raise InvalidArgumentError(
            "MultiheadAttention: all three shapes must be (length, batch, features), (batch, length, "
            f"features) with batch_first=True, or (length, features), but {shapes}"
        )
    if k.shape[:-1] != v.shape[:-1] or (q.ndim == 3 and q.shape[1 - batch_first] != k.shape[1 - batch_first]):
        raise InvalidArgumentError(
            "MultiheadAttention: key and value must have the same length, and all three the same batch size, "
            f"but with batch_first={batch_first} {shapes}"
        )
    if q.shape[-1] != embed_dim:
        raise InvalidArgumentError(
            f"MultiheadAttention: query must have embed_dim={embed_dim} features, but its shape is {q.shape}"
        )
    if embed_dim % num_heads:
        raise InvalidArgumentError(
            f"MultiheadAttention: embed_dim ({embed_dim}) must be divisible by num_heads ({num_heads})"
        )


def _projected(query: Tensor, key: Tensor, value: Tensor, weight: Any, bias: Any) -> tuple[Tensor, ...]:
    """Return the projections of the three tensors, with one product for tensors that are the same."""
    size = weight.shape[0] // 3
    if key is value:
        if query is key:
            return linear(query, weight, bias).split(size, -1)
        first, rest = weight.split([size, 2 * size])
        biases = (None, None) if bias is None else bias.split([size, 2 * size])
        return linear(query, first, biases[0]), *linear(key, rest, biases[1]).split(size, -1)
    biases = (None,) * 3 if bias is None else bias.chunk(3)
    parts = zip((query, key, value), weight.chunk(3), biases, strict=True)
    return tuple(linear(x, w, b) for x, w, b in parts)


def _with_one_more_key(x: Tensor, by: Tensor, along: int) -> Tensor:
    """Return `x` with one more key, the same for the whole batch."""
    return tn.concat([x, by.expand((x.shape[0], 1, -1) if along else (1, x.shape[1], -1))], axis=along)


def _by_head(x: Tensor, num_heads: int, batch_first: bool) -> Tensor:
    """Return a view of shape ``(batch, heads, length, features of a head)``."""
    x = x.reshape((*x.shape[:2], num_heads, x.shape[2] // num_heads))
    return x.permute(0, 2, 1, 3) if batch_first else x.permute(1, 2, 0, 3)


def _masks(attn_mask: Any, key_padding_mask: Any, shape: tuple[int, ...]) -> list[Tensor]:
    """Return the given masks with four dimensions. A boolean mask is true for keys to ignore."""
    batch, heads, queries, keys = shape
    found = []
    if attn_mask is not None:
        array = array_of("MultiheadAttention", "attn_mask", attn_mask)
        allowed = (queries, keys), (batch * heads, queries, keys)
        if array.shape not in allowed:
            raise InvalidArgumentError(
                f"MultiheadAttention: attn_mask must have shape {allowed[0]} or {allowed[1]}, not "
                f"{array.shape}"
            )
        found.append(attn_mask.reshape((1, 1, queries, keys) if array.ndim == 2 else shape))
    if key_padding_mask is not None:
        array = array_of("MultiheadAttention", "key_padding_mask", key_padding_mask)
        if array.shape != (batch, keys) and not (array.shape == (keys,) and batch == 1):
            raise InvalidArgumentError(
                f"MultiheadAttention: key_padding_mask must have shape {(batch, keys)}, (batch, keys), not "
                f"{array.shape}"
            )
        found.append(key_padding_mask.reshape((batch, 1, 1, keys)))
    for mask in found:
        if mask.dtype != tn.bool and not is_floating(mask.dtype):
            raise TypeError(
                f"MultiheadAttention: masks must be boolean or floating, not {mask.dtype}: write mask.bool()"
            )
    return found


def _merged(masks: list[Tensor], added: int, query: Tensor) -> Tensor | None:
    """Return one mask for `scaled_dot_product_attention`, which ignores none of the `added` keys."""
    if not masks:
        return None
    if all(mask.dtype == tn.bool for mask in masks):
        merged = ~masks[0] if len(masks) == 1 else ~(masks[0] | masks[1])
        more = tn.ones((*merged.shape[:3], added), dtype=tn.bool)
    else:
        terms = [added_to_scores(mask, query) for mask in masks]
        merged = terms[0] if len(terms) == 1 else terms[0] + terms[1]
        more = tn.zeros((*merged.shape[:3], added), dtype=merged.dtype)
    return tn.concat([merged, more], axis=3) if added else merged


def added_to_scores(mask: Tensor, like: Tensor) -> Tensor:
    """Return a mask to add to the scores: -infinity where a boolean mask is True."""
    if mask.dtype != tn.bool:
        return mask
    return tn.zeros(mask.shape, dtype=like.dtype).masked_fill(mask, -np.inf)
