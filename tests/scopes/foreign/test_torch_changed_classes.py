"""Modules, optimizers and other keepers may change their class, before, between and in scopes."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from scopes import new_dispose_scope

torch = pytest.importorskip("torch")
from torch.nn.utils import parametrizations, parametrize  # noqa: E402

import scopes.torch  # noqa: E402

both = pytest.mark.parametrize("exact", [False, True], ids=["functions", "operators"])


class Halved(torch.nn.Module):  # type: ignore[misc, name-defined]
    def forward(self, x: Any) -> Any:
        return x * 0.5


def with_a_new_class(x: Any) -> Any:
    x.__class__ = type(f"Changed{type(x).__name__}", (type(x),), {})
    return x


def without_its_parametrization(module: Any) -> Any:
    parametrize.register_parametrization(module, "weight", Halved())
    module(torch.ones(2, 3))
    return parametrize.remove_parametrizations(module, "weight")


CHANGES: dict[str, Callable[[Any], Any]] = {
    "weight_norm": parametrizations.weight_norm,
    "spectral_norm": parametrizations.spectral_norm,
    "orthogonal": parametrizations.orthogonal,
    "register_parametrization": lambda it: parametrize.register_parametrization(it, "weight", Halved()),
    "remove_parametrizations": without_its_parametrization,
    "__class__": with_a_new_class,
}


@both
@pytest.mark.parametrize("place", ["before", "between", "inside"])
@pytest.mark.parametrize("way", CHANGES)
def test_a_module_that_changes_its_class_trains_as_without_scopes(way: str, place: str, exact: bool) -> None:
    def train(*, owned: bool) -> list[float]:
        torch.manual_seed(0)
        net = torch.nn.Linear(3, 3)
        optimizer = torch.optim.Adam(net.parameters())
        gc.collect()  # young objects are found again in each scope
        losses = []
        for step in range(3):
            changes = place in ("before", "between") and step == (place == "between")
            if changes:
                CHANGES[way](net)
            with scopes.torch.owning(exact=exact), new_dispose_scope() as scope:
                if place == "inside" and step == 1:
                    CHANGES[way](net)
                loss = net(torch.ones(2, 3)).square().sum()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
                if not owned:
                    scope.detach(scope.disposables_view)
        return losses

    assert train(owned=True) == train(owned=False)


LAZY: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "LazyLinear": (lambda: torch.nn.LazyLinear(4), (2, 3)),
    "LazyConv1d": (lambda: torch.nn.LazyConv1d(4, 3), (2, 3, 8)),
    "LazyConv2d": (lambda: torch.nn.LazyConv2d(4, 3), (2, 3, 8, 8)),
    "LazyConv3d": (lambda: torch.nn.LazyConv3d(4, 3), (2, 3, 8, 8, 8)),
    "LazyConvTranspose1d": (lambda: torch.nn.LazyConvTranspose1d(4, 3), (2, 3, 8)),
    "LazyConvTranspose2d": (lambda: torch.nn.LazyConvTranspose2d(4, 3), (2, 3, 8, 8)),
    "LazyConvTranspose3d": (lambda: torch.nn.LazyConvTranspose3d(4, 3), (2, 3, 8, 8, 8)),
    "LazyBatchNorm1d": (torch.nn.LazyBatchNorm1d, (2, 3, 8)),
    "LazyBatchNorm2d": (torch.nn.LazyBatchNorm2d, (2, 3, 8, 8)),
    "LazyBatchNorm3d": (torch.nn.LazyBatchNorm3d, (2, 3, 8, 8, 8)),
    "LazyInstanceNorm1d": (lambda: torch.nn.LazyInstanceNorm1d(affine=True), (2, 3, 8)),
    "LazyInstanceNorm2d": (lambda: torch.nn.LazyInstanceNorm2d(affine=True), (2, 3, 8, 8)),
    "LazyInstanceNorm3d": (lambda: torch.nn.LazyInstanceNorm3d(affine=True), (2, 3, 8, 8, 8)),
}


@both
@pytest.mark.parametrize("name", LAZY)
def test_a_lazy_module_may_learn_its_shapes_in_a_scope(name: str, exact: bool) -> None:
    make, shape = LAZY[name]
    net = make()
    gc.collect()
    for _ in range(2):
        with scopes.torch.owning(exact=exact), new_dispose_scope():
            out = net(torch.ones(shape))
            assert out.isfinite().all()
    assert all(x.isfinite().all() for x in [*net.parameters(), *net.buffers()])


@both
def test_an_optimizer_and_a_data_set_may_change_their_class_in_a_scope(exact: bool) -> None:
    net = torch.nn.Linear(2, 2)
    optimizer = torch.optim.Adam(net.parameters())
    data: Any = torch.utils.data.TensorDataset(torch.ones(2))
    gc.collect()
    with scopes.torch.owning(exact=exact), new_dispose_scope():
        net(torch.ones(1, 2)).sum().backward()
        with_a_new_class(optimizer).step()
        with_a_new_class(data).mask = torch.ones(2)
    assert optimizer.state[net.weight]["exp_avg"].isfinite().all()
    assert data.mask.tolist() == [1.0, 1.0]


FAULT = """
import warnings

import torch

import scopes.torch
from scopes import new_dispose_scope
from scopes.adapters.torch import keepers


class Meta(type):
    @property
    def __module__(cls):
        raise LookupError("no module")


warnings.simplefilter("always")
net = torch.nn.Linear(2, 2)
with warnings.catch_warnings(record=True) as caught, scopes.torch.owning():
    for _ in range(3):
        with new_dispose_scope():
            x = torch.ones(2)
            net.mask, net.odd = torch.zeros(2), Meta("Odd", (), {})()
        assert x.tolist() == [1.0, 1.0] and net.mask.tolist() == [0.0, 0.0]
    del net.odd
    with new_dispose_scope():
        y = torch.ones(2)
        net.mask = torch.zeros(2)
    print(type(y).__name__, net.mask.tolist())
for each in caught:
    print(each.category.__name__, each.message)
"""


def test_a_fault_of_the_search_keeps_all_tensors_and_warns_once() -> None:
    done = subprocess.run([sys.executable, "-c", FAULT], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    result, *warned = done.stdout.splitlines()
    assert result == "DisposedTensor [0.0, 0.0]"
    assert sum(line.startswith("RuntimeWarning") for line in warned) == 1
    assert "LookupError: no module" in warned[0]
    assert "Please report it" in warned[0]
