"""xarray, einops and opt_einsum with tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensor
from scopes import new_dispose_scope, statistics
from tensor import Tensor

X = np.random.default_rng(0).uniform(0.2, 0.9, (3, 4))


def test_xarray_keeps_tensors_and_their_scope() -> None:
    xarray = pytest.importorskip("xarray")
    before = statistics.live_count
    with new_dispose_scope():
        data = xarray.DataArray(tensor.tensor(X), dims=("a", "b"), coords={"a": [1, 2, 3]})
        mean = (data * 2 + data.T).mean("a", skipna=False).sel(b=1)
        assert isinstance(mean.data, Tensor)
        assert float(mean) == pytest.approx(3 * X[:, 1].mean())
        del data, mean
    assert statistics.live_count == before


def test_einops_takes_tensors_and_gradients_go_through() -> None:
    einops = pytest.importorskip("einops")
    from einops import array_api

    x = tensor.tensor(X, requires_grad=True)
    y = array_api.rearrange(x, "a (b c) -> b a c", b=2)
    assert (type(y), y.shape) == (Tensor, (2, 3, 2))
    np.testing.assert_array_equal(y.detach().numpy(), einops.rearrange(X, "a (b c) -> b a c", b=2))
    array_api.reduce(x, "a b -> a", "sum").sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == np.ones((3, 4)).tolist()


def test_opt_einsum_contracts_tensors_with_their_gradients() -> None:
    opt_einsum: Any = pytest.importorskip("opt_einsum")
    x, y = tensor.tensor(X, requires_grad=True), tensor.tensor(X.T)
    product = opt_einsum.contract("ij,jk,kl->il", x, y, x.detach())
    assert isinstance(product, Tensor)
    np.testing.assert_allclose(product.detach().numpy(), X @ X.T @ X)
    product.sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), np.ones((3, 4)) @ (X.T @ X).T)
