"""Errors of empty tensors name the dtype and the shape, and blocks of ``with`` end any disposable."""

from __future__ import annotations

import numpy as np
import pytest

import nn
import tensor
from nn.utils.rnn import pack_sequence
from scopes import Disposable, TensorDisposedError, new_dispose_scope


@pytest.mark.parametrize(
    ("shape", "dtype", "said"),
    [
        ((), "float32", r"float32 tensor of shape \(\)"),
        ((2,), "int64", r"int64 tensor of shape \(2,\)"),
        ((1, 3), "bool", r"bool tensor of shape \(1, 3\)"),
        ((300, 70_000), "bool", r"bool tensor of shape \(300, 70000\)"),
        ((0, 5), "complex64", r"complex64 tensor of shape \(0, 5\)"),
        ((1, 2, 1, 2, 1, 2), "float16", r"float16 tensor of shape \(1, 2, 1, 2, \.\.\.\)"),
    ],
)
def test_the_error_names_dtype_and_shape(shape, dtype, said) -> None:
    x = tensor.zeros(shape, dtype=dtype)
    x.dispose()
    with pytest.raises(TensorDisposedError, match=f"this {said} is empty: it was disposed by dispose"):
        x + x


def test_the_error_names_them_after_a_scope_a_donation_and_a_parameter() -> None:
    with new_dispose_scope("step"):
        x, small = tensor.ones((3, 2)), tensor.ones((2,)) + 1.0
    donated, given = tensor.ones((4,)), tensor.ones((5,))
    donated.donate() + 1.0
    nn.Parameter(given)
    for empty, said in [
        (x, r"\(3, 2\) is empty: its dispose scope 'step' ended"),
        (small, r"float32 tensor of shape \(2,\) is empty"),
        (donated, r"\(4,\) is empty: its memory was donated"),
        (given, r"\(5,\) is empty"),
    ]:
        with pytest.raises(TensorDisposedError, match=said):
            empty.sum()


class Lease(Disposable):
    def __init__(self) -> None:
        self.ended = 0
        super().__init__()

    def _release(self) -> None:
        self.ended += 1


def test_a_disposable_of_the_users_own_ends_with_its_block() -> None:
    with Lease() as lease:
        assert lease.ended == 0
    assert (lease.ended, lease.is_invalid) == (1, True)
    with pytest.raises(TensorDisposedError), lease:
        pass


def test_a_packed_sequence_ends_with_its_block() -> None:
    with pack_sequence([tensor.ones((2,)), tensor.ones((1,))]) as packed:
        data = packed.data
    assert packed.is_invalid
    assert data.is_invalid


def test_from_blob_takes_a_device_and_no_strides_as_tch_does() -> None:
    data = np.arange(6, dtype=np.float32)
    x = tensor.from_blob(data, (2, 3), "float32", strides=(), device="cpu")
    assert x.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    with pytest.raises(tensor.InvalidArgumentError, match="device 'cuda' does not exist"):
        tensor.from_blob(data, (2, 3), "float32", device="cuda")
