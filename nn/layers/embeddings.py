"""Embeddings of single indices and of bags of indices."""

from __future__ import annotations

from typing import Self

import tensor as tn
from nn import functional as F
from nn import init
from nn.functional.linear_maps import row_of
from nn.layers.weighted import new_parameter, require_size
from nn.module.module import Module
from nn.module.parameter import Parameter
from scopes._shared.naming import set_module
from tensor import Tensor
from tensor._devices import require_cpu
from tensor._dtypes import DtypeLike
from tensor._errors import InvalidArgumentError


class _Table(Module):
    """Base class of `Embedding` and `EmbeddingBag`: the weight and the lookup options."""

    weight: Parameter

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None,
        max_norm: float | None,
        norm_type: float,
        scale_grad_by_freq: bool,
        sparse: bool,
        weight: Tensor | None,
        freeze: bool,
        device: str | None,
        dtype: DtypeLike | None,
    ) -> None:
        super().__init__()
        require_cpu(device)
        require_size(type(self).__name__, "num_embeddings", num_embeddings)
        require_size(type(self).__name__, "embedding_dim", embedding_dim)
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx: int | None = None if padding_idx is None else row_of(padding_idx, num_embeddings)
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        shape = (num_embeddings, embedding_dim)
        if weight is None:
            self.weight = new_parameter(shape, dtype)
            self.reset_parameters()
        elif weight.shape != shape:
            raise InvalidArgumentError(
                f"{type(self).__name__}: _weight must have shape {shape}, not {weight.shape}"
            )
        else:
            self.weight = Parameter(weight.detach())
        self.weight.requires_grad_(not freeze)

    def reset_parameters(self) -> None:
        """Initialize the weight from a standard normal distribution; the padding row is 0."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with tn.no_grad():
                self.weight[self.padding_idx] = 0

    def _options(self) -> str:
        """Return the lookup options that are not defaults."""
        parts = "" if self.max_norm is None else f", max_norm={self.max_norm}"
        parts += "" if self.norm_type == 2 else f", norm_type={self.norm_type}"
        return parts + (f", scale_grad_by_freq={self.scale_grad_by_freq}" if self.scale_grad_by_freq else "")


def _rows_of(embeddings: Tensor) -> tuple[int, int]:
    """Return the shape of a pretrained weight."""
    if not isinstance(embeddings, tn.Tensor):
        raise TypeError(
            f"from_pretrained() requires a tensor, not {type(embeddings).__name__}: write tensor.tensor(data)"
        )
    if len(embeddings.shape) != 2:
        raise InvalidArgumentError(
            "from_pretrained() requires a tensor of shape (num_embeddings, embedding_dim), not "
            f"{embeddings.shape}"
        )
    rows, size = embeddings.shape
    return rows, size


@set_module("nn")
class Embedding(_Table):
    """Lookup table of embedding vectors.

    Input: integers of any shape ``(*)``. Output: ``(*, embedding_dim)``. The weight is initialized from a
    standard normal distribution.

    Parameters
    ----------
    num_embeddings
        The number of embedding vectors, the rows of the weight.
    embedding_dim
        The size of each embedding vector.
    padding_idx
        The index of a row that is initially 0 and gets no gradient. Negative indices count from the end.
    max_norm, norm_type
        Scale rows with a norm above `max_norm` down to it, in place, when they are looked up.
        `norm_type` is the degree of the norm.
    scale_grad_by_freq
        Divide the gradient of each row by the frequency of its index in the batch.
    sparse
        No effect, for compatibility with PyTorch; gradients are dense.
    dtype
        The dtype of the weight; float32 for None.

    Examples
    --------
    >>> import nn, tensor
    >>> words = nn.Embedding(10, 3, padding_idx=0)
    >>> words(tensor.tensor([[1, 2], [0, 0]])).shape
    (2, 2, 3)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: str | None = None,
        dtype: DtypeLike | None = None,
    ) -> None:
        super().__init__(
            num_embeddings,
            embedding_dim,
            padding_idx,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            sparse,
            _weight,
            _freeze,
            device,
            dtype,
        )

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Self:
        """Return a layer with the weight `embeddings`, without a copy. With `freeze` it is not trained.

        Examples
        --------
        >>> import nn, tensor
        >>> str(nn.Embedding.from_pretrained(tensor.ones((4, 2))))
        'Embedding(4, 2)'
        """
        rows, size = _rows_of(embeddings)
        lookup = (padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)
        return cls(rows, size, *lookup, _weight=embeddings, _freeze=freeze)

    def forward(self, input: Tensor) -> Tensor:
        """Return the embedding vectors of the indices."""
        return F.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )

    def extra_repr(self) -> str:
        """Return the sizes, and the options that are not defaults."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        sparse = ", sparse=True" if self.sparse else ""
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}{self._options()}{sparse}"


@set_module("nn")
class EmbeddingBag(_Table):
    """Lookup table that reduces the embedding vectors of each bag to their sum, mean or maximum.

    It does not store the single embedding vectors. Input: integers ``(bags, entries)``, or one dimension with
    all entries and `offsets` where the bags begin. Output: ``(bags, embedding_dim)``. The weight is
    initialized from a standard normal distribution.

    Parameters
    ----------
    num_embeddings
        The number of embedding vectors, the rows of the weight.
    embedding_dim
        The size of each embedding vector.
    max_norm, norm_type
        Scale rows with a norm above `max_norm` down to it, in place, when they are looked up.
        `norm_type` is the degree of the norm.
    scale_grad_by_freq
        Divide the gradient of each row by the frequency of its index in the batch.
    mode
        ``"sum"``, ``"mean"`` or ``"max"``.
    sparse
        No effect, for compatibility with PyTorch; gradients are dense.
    include_last_offset
        Whether the last offset is the end of the last bag.
    padding_idx
        The index of a row that is initially 0, and that the reduction ignores.
    dtype
        The dtype of the weight; float32 for None.

    Examples
    --------
    >>> import nn, tensor
    >>> words = nn.EmbeddingBag(10, 3, mode="sum")
    >>> words(tensor.tensor([1, 2, 4, 5, 4]), tensor.tensor([0, 2])).shape
    (2, 3)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: str | None = None,
        dtype: DtypeLike | None = None,
    ) -> None:
        super().__init__(
            num_embeddings,
            embedding_dim,
            padding_idx,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            sparse,
            _weight,
            False,
            device,
            dtype,
        )
        self.mode = mode
        self.include_last_offset = include_last_offset

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> Self:
        """Return a layer with the weight `embeddings`, without a copy. With `freeze` it is not trained.

        Examples
        --------
        >>> import nn, tensor
        >>> str(nn.EmbeddingBag.from_pretrained(tensor.ones((4, 2)), mode="sum"))
        "EmbeddingBag(4, 2, mode='sum')"
        """
        rows, size = _rows_of(embeddings)
        lookup = (max_norm, norm_type, scale_grad_by_freq, mode, sparse)
        table = cls(rows, size, *lookup, embeddings, include_last_offset, padding_idx)
        table.weight.requires_grad_(not freeze)
        return table

    def forward(
        self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None
    ) -> Tensor:
        """Return the reduced embedding vectors of each bag."""
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    def extra_repr(self) -> str:
        """Return the sizes, the mode, and the options that are not defaults."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{self._options()}, mode={self.mode!r}{padding}"
