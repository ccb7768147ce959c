"""Embeddings of single indices and of bags of indices."""

from __future__ import annotations

from dataclasses import InitVar
from typing import Any, ClassVar, Self

import tensor as tn
from nn import functional as F
from nn import init
from nn.functional.linear_maps import row_of
from nn.layers.weighted import Weighted, new_parameter, require_size
from nn.module.docstrings import example
from nn.module.options import options
from nn.module.parameter import Parameter
from tensor import Tensor
from tensor.lowlevel import DtypeLike, InvalidArgumentError


class _Table(Weighted):
    """Base class of `Embedding` and `EmbeddingBag`: the weight and the lookup options."""

    weight: Parameter
    padding_idx: int | None
    max_norm: float | None
    norm_type: float
    scale_grad_by_freq: bool

    _texts: ClassVar = {
        "num_embeddings": "The number of embedding vectors, the rows of the weight.",
        "embedding_dim": "The size of each embedding vector.",
        **dict.fromkeys(
            ("max_norm", "norm_type"),
            "Scale rows with a norm above `max_norm` down to it, in place, when they are looked up.\n"
            "    `norm_type` is the degree of the norm.",
        ),
        "scale_grad_by_freq": "Divide the gradient of each row by the frequency of its index in the batch.",
        "sparse": "No effect, for compatibility with PyTorch; gradients are dense.",
        "dtype": "The dtype of the weight; float32 for None.",
    }

    def _set_options(self, given: dict[str, Any]) -> None:
        super().__init__(given.pop("device"))
        rows, dtype, is_frozen = given.pop("_weight"), given.pop("dtype"), given.pop("_freeze", False)
        for name in ("num_embeddings", "embedding_dim"):
            require_size(type(self).__name__, name, given[name])
        shape = (given["num_embeddings"], given["embedding_dim"])
        if given["padding_idx"] is not None:
            given["padding_idx"] = row_of(given["padding_idx"], shape[0])
        for name, value in given.items():
            setattr(self, name, value)
        if rows is None:
            self.weight = new_parameter(shape, dtype)
            self.reset_parameters()
        elif rows.shape != shape:
            raise InvalidArgumentError(
                f"{type(self).__name__}: _weight must have shape {shape}, not {rows.shape}"
            )
        else:
            self.weight = Parameter(rows.detach())
        self.weight.requires_grad_(not is_frozen)

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


@options
@example(
    "words = nn.Embedding(10, 3, padding_idx=0); words(tensor.tensor([[1, 2], [0, 0]])).shape", (2, 2, 3)
)
class Embedding(_Table):
    """Lookup table of embedding vectors.

    Input: integers of any shape ``(*)``. Output: ``(*, embedding_dim)``. The weight is initialized from a
    standard normal distribution.

    Parameters
    ----------
    padding_idx
        The index of a row that is initially 0 and gets no gradient. Negative indices count from the end.
    """

    num_embeddings: int
    embedding_dim: int
    padding_idx: int | None = None
    max_norm: float | None = None
    norm_type: float = 2.0
    scale_grad_by_freq: bool = False
    sparse: bool = False
    _weight: InitVar[Tensor | None] = None
    _freeze: InitVar[bool] = False
    device: InitVar[str | None] = None
    dtype: InitVar[DtypeLike | None] = None

    @classmethod
    @example("str(nn.Embedding.from_pretrained(tensor.ones((4, 2))))", "Embedding(4, 2)")
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
        """Return a layer with the weight `embeddings`, without a copy. With `freeze` it is not trained."""
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


@options
class EmbeddingBag(_Table):
    """Lookup table that reduces the embedding vectors of each bag to their sum, mean or maximum.

    It does not store the single embedding vectors. Input: integers ``(bags, entries)``, or one dimension with
    all entries and `offsets` where the bags begin. Output: ``(bags, embedding_dim)``. The weight is
    initialized from a standard normal distribution.

    Parameters
    ----------
    mode
        ``"sum"``, ``"mean"`` or ``"max"``.
    include_last_offset
        Whether the last offset is the end of the last bag.
    padding_idx
        The index of a row that is initially 0, and that the reduction ignores.

    Examples
    --------
    >>> import nn, tensor
    >>> words = nn.EmbeddingBag(10, 3, mode="sum")
    >>> words(tensor.tensor([1, 2, 4, 5, 4]), tensor.tensor([0, 2])).shape
    (2, 3)
    """

    num_embeddings: int
    embedding_dim: int
    max_norm: float | None = None
    norm_type: float = 2.0
    scale_grad_by_freq: bool = False
    mode: str = "mean"
    sparse: bool = False
    _weight: InitVar[Tensor | None] = None
    include_last_offset: bool = False
    padding_idx: int | None = None
    device: InitVar[str | None] = None
    dtype: InitVar[DtypeLike | None] = None

    @classmethod
    @example(
        "str(nn.EmbeddingBag.from_pretrained(tensor.ones((4, 2)), mode='sum'))",
        "EmbeddingBag(4, 2, mode='sum')",
    )
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
        """Return a layer with the weight `embeddings`, without a copy. With `freeze` it is not trained."""
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
