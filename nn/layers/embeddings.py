"""Tables of embeddings: rows that indices look up, one by one or in bags."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import tensor as tn
from nn import functional as F
from nn import init
from nn.functional.linear_maps import row_of
from nn.layers.linear import new_parameter, require_size
from nn.module.module import Module
from nn.module.parameter import Parameter
from tensor.lowlevel import InvalidArgumentError, require_cpu

if TYPE_CHECKING:
    from tensor import Tensor
    from tensor.lowlevel import DtypeLike


class _Table(Module):
    """What both share: the rows, and the options of looking them up."""

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
        rows: Tensor | None,
        requires_grad: bool,
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
        self.max_norm: float | None = max_norm
        self.norm_type: float = norm_type
        self.scale_grad_by_freq: bool = scale_grad_by_freq
        self.sparse: bool = sparse
        if rows is None:
            self.weight = new_parameter((num_embeddings, embedding_dim), dtype)
            self.reset_parameters()
        elif rows.shape != (num_embeddings, embedding_dim):
            raise InvalidArgumentError(
                f"{type(self).__name__}: rows have shape {(num_embeddings, embedding_dim)}, not {rows.shape}"
            )
        else:
            self.weight = Parameter(rows.detach())
        self.weight.requires_grad_(requires_grad)

    def reset_parameters(self) -> None:
        """Draw all rows again; the padding row is 0."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with tn.no_grad():
                self.weight[self.padding_idx] = 0

    def _options(self) -> str:
        """Return the options of looking rows up, those that are not the usual ones."""
        parts = "" if self.max_norm is None else f", max_norm={self.max_norm}"
        parts += "" if self.norm_type == 2 else f", norm_type={self.norm_type}"
        return parts + (f", scale_grad_by_freq={self.scale_grad_by_freq}" if self.scale_grad_by_freq else "")


def _rows_of(embeddings: Tensor) -> tuple[int, int]:
    """Return the sizes of a given, trained table."""
    if not isinstance(embeddings, tn.Tensor):
        raise TypeError(f"from_pretrained() takes a tensor, not {type(embeddings).__name__}")
    if len(embeddings.shape) != 2:
        raise InvalidArgumentError(f"from_pretrained() takes shape (rows, size), not {embeddings.shape}")
    rows, size = embeddings.shape
    return rows, size


class Embedding(_Table):
    """A table of rows that indices look up.

    Input: integers of any shape ``(*)``; output ``(*, embedding_dim)``. Rows start normally distributed.

    Parameters
    ----------
    num_embeddings
        How many rows there are.
    embedding_dim
        How long each is.
    padding_idx
        A row that starts at 0 and gets no gradient; negative ones count from the end.
    max_norm, norm_type
        Rows that are used and longer than `max_norm`, by the norm of degree `norm_type`, are scaled down to
        it when they are looked up.
    scale_grad_by_freq
        Divide the gradient of each row by how often it is used in the batch.
    sparse
        Taken for PyTorch's programs; gradients are dense.
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
            not _freeze,
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
        """Return a table with the rows `embeddings`, whose memory it shares; with `freeze` it is not trained.

        Examples
        --------
        >>> import nn, tensor
        >>> nn.Embedding.from_pretrained(tensor.ones((4, 2)))
        Embedding(4, 2)
        """
        rows, size = _rows_of(embeddings)
        return cls(
            rows,
            size,
            padding_idx,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            sparse,
            _weight=embeddings,
            _freeze=freeze,
        )

    def forward(self, input: Tensor) -> Tensor:
        """Look the rows up."""
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
        """Return the sizes, and the options that are not the usual ones."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        sparse = ", sparse=True" if self.sparse else ""
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}{self._options()}{sparse}"


class EmbeddingBag(_Table):
    """A table of which each bag of indices gets the sum, the mean or the largest elements of its rows.

    The rows are not copied on the way. Input: integers ``(bags, entries)``, or all entries in one dimension
    with `offsets` where bags begin; output ``(bags, embedding_dim)``. Rows start normally distributed.

    Parameters
    ----------
    num_embeddings
        How many rows there are.
    embedding_dim
        How long each is.
    max_norm, norm_type
        Rows that are used and longer than `max_norm`, by the norm of degree `norm_type`, are scaled down to
        it when they are looked up.
    scale_grad_by_freq
        Divide the gradient of each row by how often it is used in the batch.
    mode
        ``"sum"``, ``"mean"`` or ``"max"``.
    sparse
        Taken for PyTorch's programs; gradients are dense.
    include_last_offset
        The last of the offsets is where the last bag ends.
    padding_idx
        A row that is left out of every bag; it starts at 0.
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
            True,
            device,
            dtype,
        )
        self.mode: str = mode
        self.include_last_offset: bool = include_last_offset

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
        """Return a table with the rows `embeddings`, whose memory it shares; with `freeze` it is not trained.

        Examples
        --------
        >>> import nn, tensor
        >>> nn.EmbeddingBag.from_pretrained(tensor.ones((4, 2)))
        EmbeddingBag(4, 2, mode='mean')
        """
        rows, size = _rows_of(embeddings)
        table = cls(
            rows,
            size,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            mode,
            sparse,
            embeddings,
            include_last_offset,
            padding_idx,
        )
        table.weight.requires_grad_(not freeze)
        return table

    def forward(
        self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None
    ) -> Tensor:
        """Look the rows up, and join those of each bag."""
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
        """Return the sizes, the mode, and the options that are not the usual ones."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{self._options()}, mode={self.mode!r}{padding}"
