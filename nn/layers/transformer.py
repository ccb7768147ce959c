"""Transformers (Vaswani et al., 2017): encoder and decoder layers and stacks."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

import tensor as tn
from nn import functional as F
from nn import init
from nn.layers.attention import MultiheadAttention
from nn.layers.containers import ModuleList
from nn.layers.dropouts import Dropout
from nn.layers.linear import Linear
from nn.layers.normalizations import LayerNorm
from nn.module.module import Module
from scopes._shared.naming import set_module
from tensor import Tensor
from tensor._devices import require_cpu
from tensor._dtypes import DtypeLike
from tensor._errors import InvalidArgumentError, shown

Activation = str | Callable[[Tensor], Tensor]

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu}


def _activation_of(activation: Activation) -> Callable[[Tensor], Tensor]:
    if not isinstance(activation, str):
        return activation
    if activation not in _ACTIVATIONS:
        raise InvalidArgumentError(
            f"Transformer: activation must be 'relu', 'gelu' or a function, not {shown(activation)}"
        )
    return _ACTIVATIONS[activation]


def _copies(layer: Module, count: int) -> ModuleList:
    if type(count) is not int or count < 0:
        raise InvalidArgumentError(
            f"Transformer: the number of layers must be an integer of at least 0, not {shown(count)}"
        )
    return ModuleList([copy.deepcopy(layer) for _ in range(count)])


def _is_causal(mask: Tensor | None, is_causal: bool | None) -> bool:
    """Return `is_causal` if it is not None, otherwise whether `mask` is causal."""
    if is_causal is not None or mask is None:
        return bool(is_causal)
    rows, columns = mask.shape[-2:]
    if mask.ndim != 2 or rows != columns:
        return False
    array = mask.detach().numpy()
    later = np.triu(np.ones((rows, rows), np.bool_), 1)
    expected = later if array.dtype == np.bool_ else np.where(later, -np.inf, 0)
    return bool((array == expected).all())


class _Layer(Module):
    """Base class of encoder and decoder layers."""

    activation: Callable[[Tensor], Tensor]

    def __init__(self, norm_first: bool) -> None:
        super().__init__()
        self.norm_first = norm_first

    def _residual(self, x: Tensor, norm: Module, block: Callable[[Tensor], Tensor]) -> Tensor:
        """Return `x` plus ``block(x)``, with the norm before the block or after the sum."""
        if self.norm_first:
            return x + block(norm(x))
        found: Tensor = norm(x + block(x))
        return found


@set_module("nn")
class TransformerEncoderLayer(_Layer):
    """Encoder layer: self-attention and a feedforward network, with residual connections.

    Input and output: ``(length, batch, d_model)``, or ``(batch, length, d_model)`` with `batch_first`, or
    ``(length, d_model)``.

    Parameters
    ----------
    d_model
        The number of features of input and output.
    nhead
        The number of attention heads.
    dim_feedforward
        The number of features of the feedforward network.
    dropout
        The probability of each dropout.
    activation
        The activation of the feedforward network: ``"relu"``, ``"gelu"``, or a function.
    layer_norm_eps
        The number that the layer norms add to variances.
    batch_first
        Whether the batch is the first dimension.
    norm_first
        Whether to normalize the input of each attention and feedforward block, instead of the sum after it.
    bias
        Whether linear layers and norms have biases.
    dtype
        The dtype of the parameters; float32 for None.

    Examples
    --------
    >>> import nn, tensor
    >>> layer = nn.TransformerEncoderLayer(8, 2, dim_feedforward=16, batch_first=True)
    >>> layer(tensor.ones((4, 5, 8))).shape
    (4, 5, 8)
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: str | None = None,
        dtype: DtypeLike | None = None,
    ) -> None:
        super().__init__(norm_first)
        require_cpu(device)
        self.self_attn: MultiheadAttention = MultiheadAttention(
            d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, dtype=dtype
        )
        self.linear1: Linear = Linear(d_model, dim_feedforward, bias=bias, dtype=dtype)
        self.dropout: Dropout = Dropout(dropout)
        self.linear2: Linear = Linear(dim_feedforward, d_model, bias=bias, dtype=dtype)
        self.norm1: LayerNorm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, dtype=dtype)
        self.norm2: LayerNorm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, dtype=dtype)
        self.dropout1: Dropout = Dropout(dropout)
        self.dropout2: Dropout = Dropout(dropout)
        self.activation: Callable[[Tensor], Tensor] = _activation_of(activation)

    def _feed_forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.linear2(self.dropout(self.activation(self.linear1(x))))
        return found

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """Run the layer. For the masks, see `MultiheadAttention`."""

        def attend(x: Tensor) -> Tensor:
            found = self.self_attn(x, x, x, src_key_padding_mask, False, src_mask, is_causal=is_causal)
            attended: Tensor = self.dropout1(found[0])
            return attended

        x = self._residual(src, self.norm1, attend)
        return self._residual(x, self.norm2, lambda x: self.dropout2(self._feed_forward(x)))


@set_module("nn")
class TransformerDecoderLayer(_Layer):
    """Decoder layer: self-attention, attention to the encoder's output, and a feedforward network.

    The parameters are as in `TransformerEncoderLayer`.

    Examples
    --------
    >>> import nn, tensor
    >>> layer = nn.TransformerDecoderLayer(8, 2, dim_feedforward=16)
    >>> layer(tensor.ones((3, 1, 8)), tensor.ones((5, 1, 8))).shape
    (3, 1, 8)
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: str | None = None,
        dtype: DtypeLike | None = None,
    ) -> None:
        super().__init__(norm_first)
        require_cpu(device)
        self.self_attn: MultiheadAttention = MultiheadAttention(
            d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, dtype=dtype
        )
        self.multihead_attn: MultiheadAttention = MultiheadAttention(
            d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, dtype=dtype
        )
        self.linear1: Linear = Linear(d_model, dim_feedforward, bias=bias, dtype=dtype)
        self.dropout: Dropout = Dropout(dropout)
        self.linear2: Linear = Linear(dim_feedforward, d_model, bias=bias, dtype=dtype)
        self.norm1: LayerNorm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, dtype=dtype)
        self.norm2: LayerNorm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, dtype=dtype)
        self.norm3: LayerNorm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, dtype=dtype)
        self.dropout1: Dropout = Dropout(dropout)
        self.dropout2: Dropout = Dropout(dropout)
        self.dropout3: Dropout = Dropout(dropout)
        self.activation: Callable[[Tensor], Tensor] = _activation_of(activation)

    def _feed_forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.linear2(self.dropout(self.activation(self.linear1(x))))
        return found

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Run the layer. For the masks, see `MultiheadAttention`."""

        def attend(x: Tensor) -> Tensor:
            found = self.self_attn(x, x, x, tgt_key_padding_mask, False, tgt_mask, is_causal=tgt_is_causal)
            attended: Tensor = self.dropout1(found[0])
            return attended

        def look_up(x: Tensor) -> Tensor:
            found = self.multihead_attn(
                x, memory, memory, memory_key_padding_mask, False, memory_mask, is_causal=memory_is_causal
            )
            attended: Tensor = self.dropout2(found[0])
            return attended

        x = self._residual(tgt, self.norm1, attend)
        x = self._residual(x, self.norm2, look_up)
        return self._residual(x, self.norm3, lambda x: self.dropout3(self._feed_forward(x)))


@set_module("nn")
class TransformerEncoder(Module):
    """Stack of copies of an encoder layer.

    All copies have the same initial parameters, as in PyTorch.

    Parameters
    ----------
    encoder_layer
        The layer to copy. You may dispose it afterwards.
    num_layers
        The number of copies.
    norm
        A module that is applied to the output.
    enable_nested_tensor, mask_check
        No effect; accepted as in PyTorch. Outputs at padded positions are computed, where PyTorch may
        write 0.

    Examples
    --------
    >>> import nn, tensor
    >>> encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), num_layers=2)
    >>> encoder(tensor.ones((5, 1, 8))).shape
    (5, 1, 8)
    """

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers: ModuleList = _copies(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """Run all layers. With ``is_causal=None``, check whether `mask` is causal."""
        causal = _is_causal(mask, is_causal)
        for layer in self.layers:
            src = layer(src, src_mask=mask, src_key_padding_mask=src_key_padding_mask, is_causal=causal)
        return src if self.norm is None else self.norm(src)


@set_module("nn")
class TransformerDecoder(Module):
    """Stack of copies of a decoder layer.

    Parameters
    ----------
    decoder_layer
        The layer to copy. You may dispose it afterwards.
    num_layers
        The number of copies.
    norm
        A module that is applied to the output.

    Examples
    --------
    >>> import nn, tensor
    >>> decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16), num_layers=2)
    >>> decoder(tensor.ones((3, 1, 8)), tensor.ones((5, 1, 8))).shape
    (3, 1, 8)
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers: ModuleList = _copies(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Run all layers. With ``tgt_is_causal=None``, check whether `tgt_mask` is causal."""
        causal = _is_causal(tgt_mask, tgt_is_causal)
        for layer in self.layers:
            tgt = layer(
                tgt,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=causal,
                memory_is_causal=memory_is_causal,
            )
        return tgt if self.norm is None else self.norm(tgt)


@set_module("nn")
class Transformer(Module):
    """Transformer: an encoder, and a decoder that attends to its output.

    Inputs: ``(source length, batch, d_model)`` and ``(target length, batch, d_model)``. With `batch_first`
    the batch is the first dimension. Inputs without a batch dimension are also valid. The output has the
    shape of the target. `nn.init.xavier_uniform_` initializes all matrices.

    Parameters
    ----------
    d_model
        The number of features of input and output.
    nhead
        The number of attention heads.
    num_encoder_layers, num_decoder_layers
        The numbers of encoder and decoder layers.
    dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias, dtype
        As for `TransformerEncoderLayer`.
    custom_encoder, custom_decoder
        Modules to use as the encoder and the decoder.

    Examples
    --------
    >>> import nn, tensor
    >>> model = nn.Transformer(8, 2, 1, 1, dim_feedforward=16)
    >>> mask = model.generate_square_subsequent_mask(3)
    >>> model(tensor.ones((5, 1, 8)), tensor.ones((3, 1, 8)), tgt_mask=mask).shape
    (3, 1, 8)
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        custom_encoder: Any | None = None,
        custom_decoder: Any | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: str | None = None,
        dtype: DtypeLike | None = None,
    ) -> None:
        super().__init__()
        require_cpu(device)
        options: dict[str, Any] = {
            "dim_feedforward": dim_feedforward,
            "dropout": dropout,
            "activation": activation,
            "layer_norm_eps": layer_norm_eps,
            "batch_first": batch_first,
            "norm_first": norm_first,
            "bias": bias,
            "dtype": dtype,
        }

        def norm() -> LayerNorm:
            return LayerNorm(d_model, eps=layer_norm_eps, bias=bias, dtype=dtype)

        if custom_encoder is None:
            with TransformerEncoderLayer(d_model, nhead, **options) as encoding:
                custom_encoder = TransformerEncoder(encoding, num_encoder_layers, norm(), False)
        if custom_decoder is None:
            with TransformerDecoderLayer(d_model, nhead, **options) as decoding:
                custom_decoder = TransformerDecoder(decoding, num_decoder_layers, norm())
        self.encoder = custom_encoder
        self.decoder = custom_decoder
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter)
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Encode `src`, and decode `tgt` with the result. For the masks, see `MultiheadAttention`."""
        batch = 0 if self.batch_first else 1
        are_batched = len(src.shape) == len(tgt.shape) == 3
        if are_batched and src.shape[batch] != tgt.shape[batch]:
            raise InvalidArgumentError(
                f"Transformer: src and tgt must have the same batch size, but with "
                f"batch_first={self.batch_first} their shapes are {src.shape} and {tgt.shape}"
            )
        if {src.shape[-1], tgt.shape[-1]} != {self.d_model}:
            raise InvalidArgumentError(
                f"Transformer: src and tgt must have d_model={self.d_model} features, but their shapes are "
                f"{src.shape} and {tgt.shape}"
            )
        memory = self.encoder(
            src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal
        )
        found: Tensor = self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )
        return found

    @staticmethod
    def generate_square_subsequent_mask(
        sz: int, device: str | None = None, dtype: DtypeLike | None = None
    ) -> Tensor:
        """Return a mask ``(sz, sz)`` that hides later keys: -infinity there, 0 elsewhere.

        Examples
        --------
        >>> import nn
        >>> nn.Transformer.generate_square_subsequent_mask(2).tolist()
        [[0.0, -inf], [0.0, 0.0]]
        """
        require_cpu(device)
        return tn.triu(tn.full((sz, sz), -np.inf, dtype=dtype), k=1)
