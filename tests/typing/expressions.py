"""What users write, and the types that mypy and Pyright must find in it (`make check`); nothing runs it."""

from __future__ import annotations

from typing import Any, assert_type

import numpy as np
import numpy.typing as npt

import nn
import nn.functional as F
import tensor
import tensor.torch as torch
from nn.data import DataLoader, Dataset, TensorDataset
from scopes import (
    DisposeScope,
    DisposeStatistics,
    current_dispose_scope,
    disposing,
    new_dispose_scope,
    statistics,
)
from tensor import Tensor


def tensors(a: Tensor, b: Tensor) -> None:
    assert_type(a == b, Tensor)
    assert_type(a != 1, Tensor)
    assert_type((a == b).float(), Tensor)
    assert_type((a == b).float().mean().item(), Any)
    assert_type(a + 1, Tensor)
    assert_type(1 / a, Tensor)
    assert_type(a @ b, Tensor)
    assert_type(-a, Tensor)
    assert_type(a[0], Tensor)
    assert_type(a[:, None, ..., 1:], Tensor)
    assert_type(a[a > 0], Tensor)
    assert_type(list(a), list[Tensor])
    assert_type(len(a), int)
    assert_type(a.T, Tensor)
    assert_type(a.exp(), Tensor)
    assert_type(a.exp_(), Tensor)
    assert_type(a.mul_(b), Tensor)
    assert_type(a.squeeze_(0).clamp_(min=0.0), Tensor)
    assert_type(tensor.exp(a), Tensor)
    assert_type(nn.Parameter(a).mul_(2), nn.Parameter)
    assert_type(nn.Parameter(a).mul(2), Tensor)
    assert_type(a.shape, tuple[int, ...])
    assert_type(a.size(0), int)
    assert_type(a.size(), tuple[int, ...])
    assert_type(a.view(-1), Tensor)
    assert_type(a.permute(1, 0).unsqueeze(0), Tensor)
    assert_type(a.sum(dim=1, keepdim=True), Tensor)
    assert_type(a.max(), Tensor)
    assert_type(a.max(dim=1).values, Tensor)
    assert_type(a.max(1).indices, Tensor)
    values, indices = a.max(dim=1)
    assert_type(values, Tensor)
    assert_type(indices, Tensor)
    assert_type(a.min(dim=1).values, Tensor)
    assert_type(a.sort().values, Tensor)
    assert_type(a.topk(3).indices, Tensor)
    assert_type(a.argmax(dim=1), Tensor)
    assert_type(a.split(2), tuple[Tensor, ...])
    assert_type(a.unbind(), tuple[Tensor, ...])
    assert_type(a.exp().log_().clamp_(min=0), Tensor)
    assert_type(a.add_(1), Tensor)
    assert_type(a.requires_grad_(), Tensor)
    assert_type(a.grad, Tensor | None)
    assert_type(a.detach().clone(), Tensor)
    assert_type(a.tolist(), Any)
    assert_type(a.to(tensor.float64), Tensor)
    assert_type(a.unique(), Tensor)
    assert_type(a.unique(return_counts=True), tuple[Tensor, Tensor])
    assert_type(a.median(dim=0).values, Tensor)
    array: npt.NDArray[Any] = a.numpy()
    assert_type(tensor.from_numpy(array), Tensor)
    np.asarray(a)


def functions(a: Tensor, b: Tensor) -> None:
    assert_type(tensor.zeros((2, 3)), Tensor)
    assert_type(tensor.tensor([1.0, 2.0], dtype=tensor.float64), Tensor)
    assert_type(tensor.exp(a), Tensor)
    assert_type(tensor.add(a, 1), Tensor)
    assert_type(tensor.where(a > 0, a, 0.0), Tensor)
    assert_type(tensor.sum(a, axis=0, keepdims=True), Tensor)
    assert_type(tensor.max(a, axis=0), Tensor)
    assert_type(tensor.concat([a, b]), Tensor)
    assert_type(tensor.cat([a, b], 1), Tensor)
    assert_type(tensor.randn(2, 3), Tensor)
    assert_type(tensor.einsum("ij,jk", a, b), Tensor)
    assert_type(tensor.float32.itemsize, int)


def pytorch(a: Tensor, b: Tensor) -> None:
    assert_type(torch.zeros(2, 3), Tensor)
    assert_type(torch.sum(a, dim=1), Tensor)
    assert_type(torch.exp(a), Tensor)
    assert_type(torch.stack([a, b], 1), Tensor)
    assert_type(torch.max(a, dim=1).values, Tensor)
    assert_type(torch.equal(a, b), bool)


def gradients(a: Tensor, b: Tensor) -> None:
    a.backward()
    assert_type(tensor.autograd.grad(a, b), tuple[Tensor, ...])
    with tensor.no_grad():
        pass

    @tensor.no_grad()
    def evaluate(x: Tensor, scale: float = 1.0) -> Tensor:
        return x * scale

    assert_type(evaluate(a, scale=2.0), Tensor)


def scopes(a: Tensor, b: Tensor) -> None:
    with new_dispose_scope("step") as scope:
        assert_type(scope, DisposeScope)
        assert_type(scope.move_to_outer(a), Tensor)
        assert_type(scope.move_to_outer(a, b), tuple[Tensor, Tensor])
        assert_type(scope.attach([a, b]), list[Tensor])
        assert_type(scope.nbytes, int)
    assert_type(current_dispose_scope(), DisposeScope | None)
    assert_type(a.move_to_outer_dispose_scope(), Tensor)

    @disposing
    def loss_of(x: Tensor, y: Tensor) -> Tensor:
        return (x - y).square().mean()

    assert_type(loss_of(a, b), Tensor)
    assert_type(statistics.snapshot(), DisposeStatistics)
    assert_type(statistics.live_count, int)
    with a as same:
        assert_type(same, Tensor)


class Scaled(nn.Module):
    def forward(self, x: Tensor, factor: float = 1.0) -> Tensor:
        return x * factor


def networks(a: Tensor, b: Tensor) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    assert_type(model, nn.Sequential)
    assert_type(model(a), Tensor)
    assert_type(nn.Linear(4, 2)(a), Tensor)
    assert_type(nn.LSTM(4, 2)(a), tuple[Tensor, tuple[Tensor, Tensor]])
    assert_type(Scaled()(a, 2.0), Tensor)
    assert_type(nn.Linear(4, 2).weight, nn.Parameter)
    assert_type(nn.Linear(4, 2, bias=False).bias, nn.Parameter | None)
    assert_type(nn.Conv2d(3, 8, kernel_size=3, padding="same").kernel_size, tuple[int, ...])
    assert_type(nn.LazyConv2d(8, 3).in_channels, int)
    assert_type(nn.LayerNorm([2, 3]).normalized_shape, tuple[int, ...])
    assert_type(next(model.parameters()), nn.Parameter)
    assert_type(dict(model.named_parameters()), dict[str, nn.Parameter])
    assert_type(model.train(), nn.Sequential)
    assert_type(model.to(tensor.float64), nn.Sequential)
    assert_type(model.valid(), nn.Sequential)
    assert_type(F.cross_entropy(a, b), Tensor)
    assert_type(F.softmax(a, dim=-1), Tensor)
    loss: Tensor = nn.CrossEntropyLoss()(a, b)
    loss.backward()
    optimizer = nn.optim.Adam(model.parameters(), lr=1e-3)
    optimizer.zero_grad()
    optimizer.step()


def data(a: Tensor, b: Tensor) -> None:
    for x, y in DataLoader(TensorDataset(a, b), batch_size=2, shuffle=True):
        assert_type(x, Tensor)
        assert_type(y, Tensor)
    assert_type(TensorDataset(a, b)[0], tuple[Tensor, ...])
    assert_type(len(DataLoader(TensorDataset(a))), int)


def size_of(samples: list[tuple[Tensor, Tensor]]) -> int:
    return len(samples)


def batches_of_others(pairs: Dataset[tuple[Tensor, Tensor]], singles: list[Tensor], words: list[str]) -> None:
    for x, y in DataLoader(pairs, batch_size=4):
        assert_type(x, Tensor)
        assert_type(y, Tensor)
    for z in DataLoader(singles, 4):
        assert_type(z, Tensor)
    for word in DataLoader(words, 4):
        assert_type(word, Any)
    for size in DataLoader(pairs, collate_fn=size_of):
        assert_type(size, int)
