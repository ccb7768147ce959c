"""Adaptive softmax for very many classes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import tensor as tn
from nn import functional as F
from nn.layers.containers import ModuleList, Sequential
from nn.layers.linear import Linear
from nn.module.module import Module
from scopes._shared.naming import set_module
from tensor import Tensor
from tensor._dtypes import DtypeLike
from tensor._errors import InvalidArgumentError, shown


class ASMoutput(NamedTuple):
    """The log-probability of each target, ``(batch,)``, and the loss, which is their negative mean."""

    output: Tensor
    loss: Tensor


@set_module("nn")
class AdaptiveLogSoftmaxWithLoss(Module):
    """Adaptive softmax loss: rare classes are grouped in clusters (E. Grave et al., 2017).

    Classes must be sorted by descending frequency. Each of the first classes has an output in `head`. The
    other classes are in clusters. A cluster has one output in `head`, and a projection to a smaller size in
    `tail`.

    Parameters
    ----------
    in_features
        The size of an input.
    n_classes
        The number of classes.
    cutoffs
        The first class of each cluster, ascending, from 1 to ``n_classes - 1``.
    div_value
        Cluster `i`, from 0, has a projection to ``in_features // div_value ** (i + 1)`` features.
    head_bias
        Whether `head` has a bias.
    dtype, device
        The dtype and device of the parameters; ``device`` must be ``"cpu"``.

    Raises
    ------
    ValueError
        If the cutoffs are not ascending integers in that range.

    Examples
    --------
    >>> import nn, tensor
    >>> layer = nn.AdaptiveLogSoftmaxWithLoss(8, 20, cutoffs=[4, 10])
    >>> output, loss = layer(tensor.randn(3, 8), tensor.tensor([0, 5, 19]))
    >>> output.shape, loss.shape
    ((3,), ())
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: str | None = None,
        dtype: DtypeLike | None = None,
    ) -> None:
        super().__init__()
        ends = list(cutoffs)
        is_sorted = all(a < b for a, b in pairwise(ends))
        if not ends or not is_sorted or any(type(n) is not int or not 0 < n < n_classes for n in ends):
            raise InvalidArgumentError(
                "AdaptiveLogSoftmaxWithLoss: cutoffs must be ascending integers from 1 to n_classes - 1, "
                f"{n_classes - 1}, not {shown(cutoffs)}"
            )
        self.in_features: int = in_features
        self.n_classes: int = n_classes
        self.cutoffs: list[int] = [*ends, n_classes]
        self.div_value: float = div_value
        self.head_bias: bool = head_bias
        self.shortlist_size: int = self.cutoffs[0]
        self.n_clusters: int = len(self.cutoffs) - 1
        self.head_size: int = self.shortlist_size + self.n_clusters
        self.head: Linear = Linear(in_features, self.head_size, bias=head_bias, device=device, dtype=dtype)
        self.tail: ModuleList = ModuleList()
        for i, (begin, end) in enumerate(pairwise(self.cutoffs)):
            inner = int(in_features // div_value ** (i + 1))
            self.tail.append(
                Sequential(
                    Linear(in_features, inner, bias=False, device=device, dtype=dtype),
                    Linear(inner, end - begin, bias=False, device=device, dtype=dtype),
                )
            )

    def reset_parameters(self) -> None:
        """Initialize the parameters."""
        self.head.reset_parameters()
        for layers in self.tail:
            for layer in layers.children():
                if isinstance(layer, Linear):
                    layer.reset_parameters()

    def forward(self, input: Tensor, target: Tensor) -> ASMoutput:
        """Return the log-probabilities of the targets, and the loss.

        Parameters
        ----------
        input
            Shape ``(batch, in_features)``, or ``(in_features,)``.
        target
            Classes, int64, of shape ``(batch,)``, or ``()``.

        Raises
        ------
        ValueError
            If shapes do not match, or a target is not a class.
        """
        x, wanted = (input, target) if input.ndim == 2 else (input.unsqueeze(0), target.reshape(-1))
        if x.ndim != 2 or wanted.shape != (x.shape[0],) or target.ndim != input.ndim - 1:
            raise InvalidArgumentError(
                f"{type(self).__name__}: the shapes of input and target must be (batch, in_features) and "
                f"(batch,), or (in_features,) and (), not {input.shape} and {target.shape}"
            )
        with tn.no_grad():
            if wanted.numel() and not (wanted.min().item() >= 0 and wanted.max().item() < self.n_classes):
                raise InvalidArgumentError(
                    f"{type(self).__name__}: targets must be from 0 to {self.n_classes - 1}, but they are "
                    f"from {wanted.min().item()} to {wanted.max().item()}"
                )
            place = wanted
            for i, begin in enumerate(self.cutoffs[:-1]):
                place = tn.where(wanted >= begin, tn.full_like(wanted, self.shortlist_size + i), place)
        found = F.log_softmax(self.head(x), dim=1).gather(1, place.unsqueeze(1)).squeeze(1)
        for i, layers in enumerate(self.tail):
            rows = ((wanted >= self.cutoffs[i]) & (wanted < self.cutoffs[i + 1])).nonzero().squeeze(1)
            if rows.numel():
                inner = F.log_softmax(layers(x.index_select(0, rows)), dim=1)
                own = wanted.index_select(0, rows) - self.cutoffs[i]
                found = found.index_add(0, rows, inner.gather(1, own.unsqueeze(1)).squeeze(1))
        loss = -found.mean()
        return ASMoutput(found if input.ndim == 2 else found.squeeze(0), loss)

    def log_prob(self, input: Tensor) -> Tensor:
        """Return the log-probabilities of all classes, ``(batch, n_classes)``."""
        return self._all(input, self.head(input))

    def _all(self, input: Tensor, head: Tensor) -> Tensor:
        of_head = F.log_softmax(head, dim=1)
        parts = [of_head[:, : self.shortlist_size]]
        for i, layers in enumerate(self.tail):
            inner = F.log_softmax(layers(input), dim=1)
            parts.append(inner + of_head[:, self.shortlist_size + i].unsqueeze(1))
        return tn.concat(parts, axis=1)

    def predict(self, input: Tensor) -> Tensor:
        """Return the most likely class, ``(batch,)``, for inputs ``(batch, in_features)``."""
        head = self.head(input)
        found: Tensor = head.argmax(dim=1)
        if (found < self.shortlist_size).all().item():
            return found
        # If the head's largest output belongs to a class, this class is the most likely one. If it belongs
        # to a cluster, compare all classes.
        return tn.where(found < self.shortlist_size, found, self._all(input, head).argmax(dim=1))
