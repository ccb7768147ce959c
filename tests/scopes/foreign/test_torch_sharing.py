"""Our tensors and PyTorch's over the same memory, each side's scopes owning their own."""

from __future__ import annotations

from typing import Any

import pytest

import scopes
import tensor
from scopes import TensorDisposedError, new_dispose_scope, statistics
from tensor import memory

torch = pytest.importorskip("torch")
import scopes.torch  # noqa: E402


@pytest.mark.parametrize("survivor", ["ours", "theirs"])
@pytest.mark.parametrize("maker", ["ours", "theirs"])
def test_one_memory_stays_valid_for_either_when_the_other_is_disposed(maker: str, survivor: str) -> None:
    with scopes.torch.owning(), new_dispose_scope("outer") as outer:
        with new_dispose_scope("inner") as inner:
            if maker == "ours":
                ours = tensor.arange(4.0)
                theirs = torch.from_dlpack(ours)
            else:
                theirs = torch.arange(4.0)
                ours = tensor.from_dlpack(theirs)
            assert ours.data_ptr() == theirs.data_ptr()
            theirs[0] = 5.0
            stays, ends = (ours, theirs) if survivor == "ours" else (theirs, ours)
            inner.move_to_outer(stays)
            assert stays in outer
            assert ends in inner
        with pytest.raises(TensorDisposedError, match="'inner' ended"):
            ends.sum()
        assert stays.tolist() == [5.0, 1.0, 2.0, 3.0]
    with pytest.raises(TensorDisposedError, match="'outer' ended"):
        stays.sum()


def test_our_memory_that_theirs_still_uses_counts_as_pinned_until_theirs_is_disposed() -> None:
    before = memory.statistics()
    with scopes.torch.owning(), new_dispose_scope():
        with new_dispose_scope() as inner:
            ours = tensor.arange(1000.0)
            theirs = inner.move_to_outer(torch.from_dlpack(ours))
            assert scopes.torch.memory_by_device(inner).nbytes == 0
        now = memory.statistics()
        assert now.bytes_live == before.bytes_live
        assert now.bytes_pinned == before.bytes_pinned + 4000
        assert scopes.torch.memory_by_device().nbytes == 4000
        assert theirs[1].item() == 1.0
    assert memory.statistics().bytes_pinned == before.bytes_pinned


def held_by_this_test() -> list[Any]:
    """Return the rows of what tensors of this file left: other tests leave memory that PyTorch keeps."""
    return [row for row in scopes.torch.still_held().rows if "test_torch_sharing.py" in str(row.site)]


def test_their_memory_that_ours_still_uses_counts_as_external_until_ours_is_disposed() -> None:
    before = memory.statistics()
    with scopes.track(), scopes.torch.owning(), new_dispose_scope():
        with new_dispose_scope() as inner:
            theirs = torch.ones(1000)
            ours = inner.move_to_outer(tensor.from_dlpack(theirs))
        assert theirs.is_invalid
        now = memory.statistics()
        assert now.bytes_live == before.bytes_live
        assert now.bytes_external == before.bytes_external + 4000
        (row,) = held_by_this_test()
        assert row.nbytes == 4000
        assert "DLPack" in row.by
        assert ours[1].item() == 1.0
    assert memory.statistics().bytes_external == before.bytes_external
    assert held_by_this_test() == []


def test_each_side_counts_its_own() -> None:
    ours_before = statistics.of(tensor.Tensor).snapshot()
    theirs_before = statistics.of(torch.Tensor).snapshot()
    with scopes.torch.owning(), new_dispose_scope():
        ours = tensor.arange(4.0)
        theirs = torch.from_dlpack(ours)
        again = tensor.from_dlpack(theirs)
    for before, kind, count in ((ours_before, tensor.Tensor, 2), (theirs_before, torch.Tensor, 1)):
        change = statistics.of(kind).snapshot() - before
        assert (change.created_in_scope_count, change.disposed_in_scope_count) == (count, count)
    assert ours.is_invalid
    assert again.is_invalid
    assert theirs.is_invalid
