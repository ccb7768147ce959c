"""Bags of embeddings against plain loops; options of tables; errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nn
import tensor
from nn import functional as F
from tensor import memory

ROWS = np.random.default_rng(0).standard_normal((5, 3))
REDUCE: dict[str, Any] = {"sum": np.sum, "mean": np.mean, "max": np.max}


@given(
    bags=st.lists(st.lists(st.integers(0, 4), max_size=4), max_size=4),
    mode=st.sampled_from(sorted(REDUCE)),
    padding=st.sampled_from([None, 1, -1]),
    with_end=st.booleans(),
)
def test_a_bag_is_the_sum_the_mean_or_the_largest_of_its_rows(
    bags: list[list[int]], mode: str, padding: int | None, with_end: bool
) -> None:
    ends = np.cumsum([0, *map(len, bags)])
    entries = np.array([i for bag in bags for i in bag], np.int64)
    found = F.embedding_bag(
        tensor.tensor(entries),
        tensor.tensor(ROWS),
        tensor.tensor(ends if with_end else ends[:-1]),
        mode=mode,
        include_last_offset=with_end,
        padding_idx=padding,
    )
    assert found.shape == (len(bags), 3)
    left_out = None if padding is None else padding % 5
    for bag, row in zip(bags, found.numpy(), strict=True):
        kept = [i for i in bag if i != left_out]
        expected = REDUCE[mode](ROWS[kept], axis=0) if kept else np.zeros(3)
        np.testing.assert_allclose(row, expected, atol=1e-12)


def test_a_gradient_by_frequency_is_divided_by_it() -> None:
    entries = tensor.tensor([[2, 0, 2], [1, 2, 4]])
    for table in (
        nn.EmbeddingBag(5, 3, mode="sum", scale_grad_by_freq=True),
        nn.Embedding(5, 3, scale_grad_by_freq=True),
    ):
        table(entries).sum().backward()
        assert table.weight.grad is not None
        assert table.weight.grad[:, 0].tolist() == [1.0, 1.0, pytest.approx(1.0), 0.0, 1.0]


def test_rows_that_are_too_long_are_shortened_in_the_table() -> None:
    table = nn.Embedding(3, 2, max_norm=1.0)
    with tensor.no_grad():
        table.weight.copy_(tensor.tensor([[3.0, 4.0], [0.3, 0.4], [30.0, 40.0]]))
    found = table(tensor.tensor([0, 1]))
    np.testing.assert_allclose(found.detach().numpy(), [[0.6, 0.8], [0.3, 0.4]], rtol=1e-6)
    np.testing.assert_allclose(table.weight.detach().numpy()[2], [30.0, 40.0])


def test_rows_are_not_copied_on_the_way() -> None:
    weight, entries = tensor.ones((1000, 64)), tensor.zeros((4, 5000), dtype="int64")
    with memory.measure() as step:
        F.embedding_bag(entries, weight, mode="sum")
    assert step.peak_bytes_change < entries.numel() * 64  # the rows are 5 MB


def test_indices_written_to_later_change_no_gradient() -> None:
    entries, weight = tensor.tensor([[1, 1]]), tensor.ones((3, 2), requires_grad=True)
    y = F.embedding_bag(entries, weight, mode="sum")
    entries.zero_()
    y.sum().backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [[0.0, 0.0], [2.0, 2.0], [0.0, 0.0]]


def test_a_table_shares_the_rows_it_is_made_of() -> None:
    rows = tensor.ones((4, 2))
    table = nn.EmbeddingBag.from_pretrained(rows, mode="sum")
    rows[0] = 5
    assert table(tensor.tensor([[0, 1]])).tolist() == [[6.0, 6.0]]
    assert not table.weight.requires_grad


FLAT = tensor.tensor([0, 1, 2])


@pytest.mark.parametrize(
    ("input", "options", "error", "message"),
    [
        (FLAT, {}, ValueError, "requires offsets"),
        (
            FLAT,
            {"offsets": tensor.tensor([1])},
            ValueError,
            "start with 0, must not decrease, and must be at most 3",
        ),
        (FLAT, {"offsets": tensor.tensor([0, 4])}, ValueError, "must not decrease"),
        (FLAT, {"offsets": tensor.tensor([0, 2, 1])}, ValueError, "must not decrease"),
        (FLAT, {"offsets": tensor.tensor([0.0])}, TypeError, "offsets must hold integers"),
        (FLAT, {"offsets": tensor.tensor([[0]])}, ValueError, "offsets must have one dimension"),
        (FLAT.reshape((1, 3)), {"offsets": tensor.tensor([0])}, ValueError, "omit offsets"),
        (FLAT.reshape((1, 1, 3)), {}, ValueError, "one or two dimensions"),
        (tensor.tensor([[5]]), {}, IndexError, "indices must be from 0 to 4, but input holds 5"),
        (tensor.tensor([[0.5]]), {}, TypeError, r"input must hold integers, not float32"),
        (tensor.tensor([[0]]), {"mode": "prod"}, ValueError, "mode must be 'sum', 'mean' or 'max'"),
        (tensor.tensor([[0]]), {"mode": "max", "sparse": True}, ValueError, "'max' supports neither"),
        (
            tensor.tensor([[0]]),
            {"per_sample_weights": tensor.ones((1, 1))},
            NotImplementedError,
            "requires mode 'sum', not 'mean'",
        ),
        (
            tensor.tensor([[0]]),
            {"per_sample_weights": tensor.ones((1,)), "mode": "sum"},
            ValueError,
            "have the shape of input",
        ),
    ],
)
def test_arguments_that_do_not_fit_raise_an_error_that_says_why(
    input: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        F.embedding_bag(input, tensor.tensor(ROWS), **options)
