"""Linear maps, look-ups and dropout."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Self

import tensor as tn
from nn import functional as F
from nn import init
from nn.functional.checks import check_probability
from nn.functional.maps import row_of
from nn.module.module import Module
from nn.module.parameter import Parameter
from tensor import Tensor
from tensor.lowlevel import InvalidArgumentError, TensorCore, require_cpu, shown

if TYPE_CHECKING:
    from tensor.lowlevel import DtypeLike


def new_parameter(shape: tuple[int, ...], dtype: DtypeLike | None) -> Parameter:
    """Return a parameter of zeros, for a layer to initialize."""
    return Parameter(tn.zeros(shape, dtype=dtype))


def require_size(name: str, what: str, size: int) -> None:
    """Raise ValueError unless `size` is a number of elements."""
    if type(size) is not int or size < 0:
        raise InvalidArgumentError(
            f"{name}: {what} is a number of elements, an integer of at least 0, not {shown(size)}"
        )


class Linear(Module):
    """``x @ weight.T + bias``.

    Input ``(*, in_features)``, output ``(*, out_features)``. Both parameters start evenly distributed within
    +-1 / sqrt(in_features), as in PyTorch.

    Parameters
    ----------
    in_features, out_features
        The sizes of the last dimension.
    bias
        Whether there is a bias.
    dtype
        The dtype of the parameters; float32 for None.

    Examples
    --------
    >>> import nn, tensor
    >>> layer = nn.Linear(3, 2)
    >>> layer(tensor.ones((4, 3))).shape
    (4, 2)
    """

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: str | None = None,
        dtype: DtypeLike | None = None,
    ) -> None:
        super().__init__()
        require_cpu(device)
        require_size("Linear", "in_features", in_features)
        require_size("Linear", "out_features", out_features)
        self.in_features = in_features
        self.out_features = out_features
        self.weight = new_parameter((out_features, in_features), dtype)
        self.register_parameter("bias", new_parameter((out_features,), dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw both parameters anew."""
        bound = 1 / math.sqrt(self.in_features) if self.in_features else 0.0
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        """Map the last dimension."""
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Return the sizes."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
        )


class Embedding(Module):
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
    dtype
        The dtype of the weight; float32 for None.

    Examples
    --------
    >>> import nn, tensor
    >>> words = nn.Embedding(10, 3, padding_idx=0)
    >>> words(tensor.tensor([[1, 2], [0, 0]])).shape
    (2, 2, 3)
    """

    weight: Parameter

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        device: str | None = None,
        dtype: DtypeLike | None = None,
    ) -> None:
        super().__init__()
        require_cpu(device)
        require_size("Embedding", "num_embeddings", num_embeddings)
        require_size("Embedding", "embedding_dim", embedding_dim)
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx: int | None = None if padding_idx is None else row_of(padding_idx, num_embeddings)
        self.weight = new_parameter((num_embeddings, embedding_dim), dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all rows anew; the padding row is 0."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with tn.no_grad():
                self.weight[self.padding_idx] = 0

    @classmethod
    def from_pretrained(cls, embeddings: Tensor, freeze: bool = True, padding_idx: int | None = None) -> Self:
        """Return a table with the rows `embeddings`, whose memory it shares; with `freeze` it is not trained.

        Examples
        --------
        >>> import nn, tensor
        >>> nn.Embedding.from_pretrained(tensor.ones((4, 2)))
        Embedding(4, 2)
        """
        if not isinstance(embeddings, TensorCore):
            raise TypeError(f"from_pretrained() takes a tensor, not {type(embeddings).__name__}")
        if len(embeddings.shape) != 2:
            raise InvalidArgumentError(f"from_pretrained() takes shape (rows, size), not {embeddings.shape}")
        rows, size = embeddings.shape
        table = cls(0, size, None)
        table.num_embeddings = rows
        table.padding_idx = None if padding_idx is None else row_of(padding_idx, rows)
        table.weight = Parameter(embeddings.detach(), requires_grad=not freeze)
        return table

    def forward(self, input: Tensor) -> Tensor:
        """Look the rows up."""
        return F.embedding(input, self.weight, self.padding_idx)

    def extra_repr(self) -> str:
        """Return the sizes."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"


class Dropout(Module):
    """Zeroes each element with probability `p` in training, and scales the others by 1 / (1 - p).

    Parameters
    ----------
    p
        From 0 to 1.
    inplace
        Write over the input.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.Dropout(0.9).eval()(tensor.ones((3,))).tolist()
    [1.0, 1.0, 1.0]
    """

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        check_probability("Dropout", p)
        self.p = p
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Draw a mask and apply it; in evaluation, return the input itself."""
        return F.dropout(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        """Return the probability."""
        return f"p={self.p}, inplace={self.inplace}"


class Identity(Module):
    """Returns its input; takes any arguments and ignores them.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.Identity(54, unused=True)(tensor.ones((1,))).tolist()
    [1.0]
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        del args, kwargs
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        """Return `input` itself."""
        return input


class Flatten(Module):
    """Joins the dimensions from `start_dim` to `end_dim` into one: a view where the layout allows it.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.Flatten()(tensor.ones((5, 2, 3))).shape
    (5, 6)
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        """Join the dimensions."""
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """Return the dimensions."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Splits dimension `dim` into the sizes `unflattened_size`; one of them may be -1.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.Unflatten(1, (2, 3))(tensor.ones((5, 6))).shape
    (5, 2, 3)
    """

    def __init__(self, dim: int, unflattened_size: tuple[int, ...]) -> None:
        super().__init__()
        if not isinstance(dim, int):
            raise TypeError(f"Unflatten: dim is an integer, not {type(dim).__name__}")
        self.dim = dim
        self.unflattened_size: tuple[int, ...] = tuple(unflattened_size)

    def forward(self, input: Tensor) -> Tensor:
        """Split the dimension."""
        rank = len(input.shape)
        if not -rank <= self.dim < rank:
            raise IndexError(f"Unflatten: there is no dimension {self.dim} in shape {input.shape}")
        dim = self.dim % rank
        return input.reshape((*input.shape[:dim], *self.unflattened_size, *input.shape[dim + 1 :]))

    def extra_repr(self) -> str:
        """Return the dimension and the sizes."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
