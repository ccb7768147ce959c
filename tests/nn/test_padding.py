"""Padding is NumPy's, of every mode; negative pads; errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import tensor
from nn import functional as F

IN_NUMPY = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


@given(
    mode=st.sampled_from(sorted(IN_NUMPY)),
    sizes=st.lists(st.integers(3, 5), min_size=1, max_size=3),
    drawn=st.lists(st.integers(-1, 2), min_size=6, max_size=6),
    dtype=st.sampled_from(["float32", "int64", "bool", "complex128"]),
)
def test_padding_is_numpys(mode: str, sizes: list[int], drawn: list[int], dtype: str) -> None:
    x = (np.random.default_rng(0).standard_normal((2, *sizes)) * 4).astype(dtype)
    pads = drawn[: 2 * len(sizes)]
    pairs = [(pads[2 * i], pads[2 * i + 1]) for i in reversed(range(len(sizes)))]
    cut = x[
        (slice(None), *[slice(max(-a, 0), n - max(-b, 0)) for n, (a, b) in zip(sizes, pairs, strict=True)])
    ]
    wanted = [(0, 0), *[(max(a, 0), max(b, 0)) for a, b in pairs]]
    most = {"reflect": -1, "circular": 0}.get(mode, 100)
    assume(all(max(p) <= n + most for n, p in zip(cut.shape[1:], wanted[1:], strict=True)))
    found = F.pad(tensor.tensor(x), pads, mode)
    np.testing.assert_array_equal(found.numpy(), np.pad(cut, wanted, IN_NUMPY[mode]))  # type: ignore[call-overload]
    assert found.dtype == dtype


@pytest.mark.parametrize("mode", sorted(IN_NUMPY))
def test_the_gradient_counts_each_element_as_often_as_it_appears(mode: str) -> None:
    x = tensor.arange(4.0, dtype=tensor.float64).reshape((1, 4)).requires_grad_()
    y = F.pad(x, (2, 3), mode)
    y.sum().backward()
    values = y.detach().numpy()[0].tolist()
    assert x.grad is not None
    shown = [float(values.count(v)) for v in (0.0, 1.0, 2.0, 3.0)]
    assert x.grad.tolist() == [[1.0] * 4 if mode == "constant" else shown]


def test_pad_fills_with_the_value_and_copies_without_padding() -> None:
    x = tensor.tensor([1, 2])
    assert F.pad(x, (1, 0), value=7).tolist() == [7, 1, 2]
    y = F.pad(x, (0, 0))
    y[0] = 5
    assert x.tolist() == [1, 2]
    assert F.pad(x, ()).tolist() == [1, 2]


@pytest.mark.parametrize(
    ("pads", "options", "error", "message"),
    [
        ((1,), {}, ValueError, "two integers for each padded dimension"),
        ((1,) * 8, {}, ValueError, "at most 6 for this input with 3 dimensions, not 8"),
        ((-3, -2), {}, ValueError, r"\(-3, -2\) removes more elements than"),
        ((1.0, 2), {}, TypeError, "a tuple of integers"),
        (1, {}, TypeError, "a tuple of integers"),
        ((1, 1), {"mode": "mirror"}, NotImplementedError, "mode must be one of"),
        ((1, 1), {"mode": "reflect", "value": 1.0}, ValueError, "value requires mode 'constant'"),
        ((1, 4), {"mode": "reflect"}, ValueError, "at most 3 elements on each side of a dimension of size 4"),
        (
            (5, 1),
            {"mode": "circular"},
            ValueError,
            "at most 4 elements on each side of a dimension of size 4",
        ),
        (
            (-4, 1),
            {"mode": "replicate"},
            ValueError,
            "at most 0 elements on each side of a dimension of size 0",
        ),
        (
            (1, 1, 1, 1, 1, 1),
            {"mode": "reflect"},
            NotImplementedError,
            "sizes for 3 dimensions, and the input has 3",
        ),
    ],
)
def test_arguments_that_do_not_fit_raise_an_error_that_says_why(
    pads: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        F.pad(tensor.ones((2, 3, 4)), pads, **options)
