"""Packing and padding of sequences: values, gradients and errors; PyTorch's where that is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensor
from nn.utils.rnn import (
    pack_padded_sequence,
    pack_sequence,
    pad_packed_sequence,
    pad_sequence,
    unpack_sequence,
    unpad_sequence,
)

LENGTHS = st.lists(st.integers(1, 6), min_size=1, max_size=7)
REST = st.sampled_from([(), (3,), (2, 2), (0,)])


def sequences_of(lengths: list[int], rest: tuple[int, ...]) -> list[np.ndarray[Any, Any]]:
    numbers = np.random.default_rng(1)
    return [numbers.normal(size=(n, *rest)).astype(np.float32) for n in lengths]


@given(LENGTHS, REST, st.booleans(), st.sampled_from([None, 6, 9]))
def test_a_packed_sequence_unpacks_to_the_same_values(lengths, rest, batch_first, total) -> None:
    arrays = sequences_of(lengths, rest)
    packed = pack_sequence([tensor.tensor(x) for x in arrays], enforce_sorted=False)
    for x, array in zip(unpack_sequence(packed), arrays, strict=True):
        np.testing.assert_array_equal(x.numpy(), array)
    padded, found = pad_packed_sequence(packed, batch_first, 7.0, total)
    assert found.tolist() == lengths
    steps = padded.numpy() if batch_first else padded.numpy().swapaxes(0, 1)
    assert steps.shape == (len(lengths), total or max(lengths), *rest)
    for x, array in zip(steps, arrays, strict=True):
        np.testing.assert_array_equal(x[: len(array)], array)
        assert (x[len(array) :] == 7).all()


@given(LENGTHS, REST, st.booleans())
def test_a_padded_batch_packs_as_its_sequences_do(lengths, rest, batch_first) -> None:
    xs = [tensor.tensor(x) for x in sequences_of(lengths, rest)]
    padded = pad_sequence(xs, batch_first, padding_value=3.0)
    one = pack_padded_sequence(padded, lengths, batch_first, enforce_sorted=False)
    for x, y in zip(one, pack_sequence(xs, enforce_sorted=False), strict=True):
        assert x is not None
        assert y is not None
        np.testing.assert_array_equal(x.numpy(), y.numpy())
    for x, y in zip(unpad_sequence(padded, tensor.tensor(lengths), batch_first), xs, strict=True):
        np.testing.assert_array_equal(x.numpy(), y.numpy())


@given(LENGTHS, st.booleans(), st.booleans())
def test_all_parts_and_gradients_are_pytorch_s(lengths, batch_first, enforce_sorted) -> None:
    torch = pytest.importorskip("torch")
    rnn = torch.nn.utils.rnn
    if enforce_sorted:
        lengths = sorted(lengths, reverse=True)
    arrays = sequences_of(lengths, (2,))
    ours = [tensor.tensor(x, requires_grad=True) for x in arrays]
    theirs = [torch.tensor(x, requires_grad=True) for x in arrays]
    packed = pack_sequence(ours, enforce_sorted)
    wanted = rnn.pack_sequence(theirs, enforce_sorted)
    np.testing.assert_array_equal(packed.data.detach().numpy(), wanted.data.detach().numpy())
    assert packed.batch_sizes.tolist() == wanted.batch_sizes.tolist()
    for x, y in ((packed.sorted_indices, wanted.sorted_indices), (packed.unsorted_indices, wanted[3])):
        assert (None if x is None else x.tolist()) == (None if y is None else y.tolist())
    padded, _ = pad_packed_sequence(packed, batch_first)
    expected, _ = rnn.pad_packed_sequence(wanted, batch_first)
    np.testing.assert_array_equal(padded.detach().numpy(), expected.detach().numpy())
    (padded**2).sum().backward()
    (expected**2).sum().backward()
    for x, y in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-6)


def test_padding_stands_on_the_left_if_asked_for() -> None:
    xs = [tensor.tensor([1, 2, 3]), tensor.tensor([4])]
    assert pad_sequence(xs, True, -1, padding_side="left").tolist() == [[1, 2, 3], [-1, -1, 4]]


def test_the_rows_of_a_tensor_are_sequences_too() -> None:
    assert pad_sequence(tensor.tensor([[1, 2], [3, 4]])).tolist() == [[1, 3], [2, 4]]


def test_unpadded_sequences_are_views() -> None:
    padded = tensor.tensor([[1, 2], [3, 0]])
    _, second = unpad_sequence(padded, [2, 1], batch_first=True)
    second.fill_(9)
    assert padded.tolist() == [[1, 2], [9, 0]]


def test_arguments_that_do_not_fit_raise_an_error_that_explains() -> None:
    x = tensor.zeros((3, 2, 1))
    for lengths, message in (
        ([3], r"it holds 1, and with batch_first=False an input of shape \(3, 2, 1\) has 2"),
        ([3, 0], "lengths must be from 1 to 3.*not 0"),
        ([4, 3], "lengths must be from 1 to 3.*not 4"),
        (
            [2, 3],
            "lengths must not increase, but they are .2, 3.: sort the sequences by descending length",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            pack_padded_sequence(x, lengths)
    with pytest.raises(TypeError, match="lengths must be integers in one dimension"):
        pack_padded_sequence(x, [1.5, 1.0])  # type: ignore[list-item]
    with pytest.raises(ValueError, match=r"not shape \(3,\)"):
        pack_padded_sequence(tensor.zeros((3,)), [3])
    with pytest.raises(ValueError, match="requires at least one sequence"):
        pack_sequence([])
    with pytest.raises(ValueError, match="sequence 1 is empty"):
        pack_sequence([tensor.zeros((2,)), tensor.zeros((0,))])
    with pytest.raises(ValueError, match=r"sequence 0 has shape \(2, 3\), and sequence 1 \(2, 4\)"):
        pack_sequence([tensor.zeros((2, 3)), tensor.zeros((2, 4))])
    with pytest.raises(TypeError, match="sequence 1 must be a tensor, not list"):
        pack_sequence([tensor.zeros((2,)), [1.0]])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="padding_side must be 'right' or 'left', not 'both'"):
        pad_sequence([tensor.zeros((2,))], padding_side="both")
    with pytest.raises(ValueError, match="it holds 1, and padded_sequences has shape"):
        unpad_sequence(x, [1])
    with pytest.raises(TypeError, match="requires a PackedSequence, not Tensor"):
        pad_packed_sequence(x)  # type: ignore[arg-type]
