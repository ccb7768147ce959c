"""Multi-head attention."""

from __future__ import annotations

from nn import functional as F
from nn import init
from nn.functional.checks import check_probability
from nn.layers.linear import Linear
from nn.layers.weighted import new_parameter
from nn.module.module import Module
from nn.module.parameter import Parameter
from scopes._shared.naming import set_module
from tensor import Tensor
from tensor._devices import require_cpu
from tensor._dtypes import DtypeLike
from tensor._errors import InvalidArgumentError, shown


@set_module("nn")
class NonDynamicallyQuantizableLinear(Linear):
    """The output projection of `MultiheadAttention`, with the class name that PyTorch's ``repr`` shows."""


@set_module("nn")
class MultiheadAttention(Module):
    """Multi-head attention (Vaswani et al., 2017).

    Shapes: query ``(queries, batch, embed_dim)``, key ``(keys, batch, kdim)``, value ``(keys, batch, vdim)``.
    The batch is the first dimension with `batch_first`. Inputs without a batch dimension are also valid. The
    output has the shape of the query; the attention weights have shape ``(batch, queries, keys)``, including
    appended keys. With ``need_weights=False`` no weights are stored, and memory is linear in the lengths.

    Parameters
    ----------
    embed_dim
        The number of features of queries and output; divisible by `num_heads`.
    num_heads
        The number of attention heads.
    dropout
        The dropout probability of attention weights in training.
    bias
        Whether the projections have biases.
    add_bias_kv
        Whether to append a learned key and value.
    add_zero_attn
        Whether to append a key and value of zeros.
    kdim, vdim
        The number of features of keys and values; `embed_dim` for None.
    batch_first
        Whether the batch is the first dimension.
    dtype
        The dtype of the parameters; float32 for None.

    Examples
    --------
    >>> import nn, tensor
    >>> layer = nn.MultiheadAttention(8, 2, batch_first=True)
    >>> x = tensor.ones((4, 5, 8))
    >>> output, weights = layer(x, x, x)
    >>> output.shape, weights.shape
    ((4, 5, 8), (4, 5, 5))
    """

    in_proj_weight: Parameter | None
    in_proj_bias: Parameter | None
    q_proj_weight: Parameter | None
    k_proj_weight: Parameter | None
    v_proj_weight: Parameter | None
    bias_k: Parameter | None
    bias_v: Parameter | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: str | None = None,
        dtype: DtypeLike | None = None,
    ) -> None:
        super().__init__()
        require_cpu(device)
        for what, given in (("embed_dim", embed_dim), ("num_heads", num_heads)):
            if type(given) is not int or given < 1:
                raise InvalidArgumentError(
                    f"MultiheadAttention: {what} must be an integer of at least 1, not {shown(given)}"
                )
        if embed_dim % num_heads:
            raise InvalidArgumentError(
                f"MultiheadAttention: embed_dim ({embed_dim}) must be divisible by num_heads ({num_heads})"
            )
        check_probability("MultiheadAttention", "dropout", dropout)
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.add_zero_attn = add_zero_attn
        self.batch_first = batch_first
        self.kdim: int = embed_dim if kdim is None else kdim
        self.vdim: int = embed_dim if vdim is None else vdim
        self.head_dim: int = embed_dim // num_heads
        self._is_packed = self.kdim == embed_dim and self.vdim == embed_dim
        if self._is_packed:
            self.in_proj_weight = new_parameter((3 * embed_dim, embed_dim), dtype)
            for name in ("q_proj_weight", "k_proj_weight", "v_proj_weight"):
                self.register_parameter(name, None)
        else:
            self.register_parameter("in_proj_weight", None)
            self.q_proj_weight = new_parameter((embed_dim, embed_dim), dtype)
            self.k_proj_weight = new_parameter((embed_dim, self.kdim), dtype)
            self.v_proj_weight = new_parameter((embed_dim, self.vdim), dtype)
        self.register_parameter("in_proj_bias", new_parameter((3 * embed_dim,), dtype) if bias else None)
        self.out_proj: NonDynamicallyQuantizableLinear = NonDynamicallyQuantizableLinear(
            embed_dim, embed_dim, bias=bias, dtype=dtype
        )
        for name in ("bias_k", "bias_v"):
            self.register_parameter(name, new_parameter((1, 1, embed_dim), dtype) if add_bias_kv else None)
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                init.zeros_(bias)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the output and the attention weights, or None for the weights if `need_weights` is False.

        Parameters
        ----------
        query, key, value
            The inputs, with the shapes of the class docstring.
        key_padding_mask
            Shape ``(batch, keys)``: True for keys to ignore, or numbers to add to the scores.
        need_weights
            Whether to return the attention weights.
        attn_mask
            Shape ``(queries, keys)`` or ``(batch * num_heads, queries, keys)``: True where a query
            ignores a key, or numbers to add to the scores.
        average_attn_weights
            Whether weights are the mean over heads; else their shape is ``(batch, num_heads, queries,
            keys)``.
        is_causal
            Whether `attn_mask` hides later keys. If so, the layer may skip reading the mask.
        """
        return F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=not self._is_packed,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
            batch_first=self.batch_first,
        )
