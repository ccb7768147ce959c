"""The packed sequence as a disposable: its figures are TorchSharp's."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensor
from nn.utils.rnn import PackedSequence, pack_sequence, pad_packed_sequence, unpack_sequence
from scopes import TensorDisposedError, disposing, new_dispose_scope, statistics
from tensor import Tensor, memory

Figures = tuple[int, ...]
KINDS = (Tensor, PackedSequence)


def figures(after: Any, before: Any) -> Figures:
    """Return created outside, disposed outside, created in, disposed in, attached, detached, live."""
    now = after - before
    return (
        now.created_outside_scope_count,
        now.disposed_outside_scope_count,
        now.created_in_scope_count,
        now.disposed_in_scope_count,
        now.attached_to_scope_count,
        now.detached_from_scope_count,
        now.live_count,
    )


@pytest.fixture
def counted() -> Callable[[], tuple[Figures, Figures]]:
    """Return a function that gives the figures of tensors and of packed sequences since the test began."""
    gc.collect()
    before = [statistics.of(kind).snapshot() for kind in KINDS]
    return lambda: tuple(  # type: ignore[return-value]  # of two
        figures(statistics.of(kind).snapshot(), past) for kind, past in zip(KINDS, before, strict=True)
    )


def create() -> PackedSequence:
    """Return a packed sequence, made as TorchSharp's tests do: of two tensors that go after that."""
    sequences = [tensor.tensor([1, 2, 3, 4]), tensor.tensor([5, 6])]
    packed = pack_sequence(sequences, enforce_sorted=False)
    for x in sequences:
        x.dispose()
    return packed


def all_are_disposed(packed: PackedSequence) -> bool:
    answers = {packed.is_invalid, *(x.is_invalid for x in packed if x is not None)}
    assert len(answers) == 1
    return answers.pop()


# --- TorchSharp's figures, step by step ---------------------------------------------------------------------


def test_created_in_a_scope(counted: Any) -> None:
    with new_dispose_scope() as scope:
        packed = create()
        assert counted() == ((0, 0, 6, 2, 0, 4, 4), (0, 0, 1, 0, 0, 0, 1))
        assert scope.disposables_view == (packed,)


def test_attach_to_the_current_owner_changes_no_counter(counted: Any) -> None:
    with new_dispose_scope() as scope:
        packed = scope.attach(create())
        assert counted() == ((0, 0, 6, 2, 0, 4, 4), (0, 0, 1, 0, 0, 0, 1))
        assert packed in scope


def test_detached_from_its_scope(counted: Any) -> None:
    with new_dispose_scope() as scope:
        packed = scope.detach(create())
        assert counted() == ((0, 0, 6, 2, 0, 4, 4), (0, 0, 1, 0, 0, 1, 1))
    assert counted() == ((0, 0, 6, 2, 0, 4, 4), (0, 0, 1, 0, 0, 1, 1))
    assert not all_are_disposed(packed)


def test_disposed_in_a_scope_and_once(counted: Any) -> None:
    with new_dispose_scope():
        packed = create()
        for _ in range(2):
            packed.dispose()
            assert counted() == ((0, 0, 6, 6, 0, 4, 0), (0, 0, 1, 1, 0, 0, 0))


def test_its_scope_is_disposed(counted: Any) -> None:
    with new_dispose_scope():
        packed = create()
    assert counted() == ((0, 0, 6, 6, 0, 4, 0), (0, 0, 1, 1, 0, 0, 0))
    assert all_are_disposed(packed)


def test_created_outside_and_disposed(counted: Any) -> None:
    packed = create()
    assert counted() == ((6, 2, 0, 0, 0, 0, 4), (1, 0, 0, 0, 0, 0, 1))
    for _ in range(2):
        packed.dispose()
        assert counted() == ((6, 6, 0, 0, 0, 0, 0), (1, 1, 0, 0, 0, 0, 0))


def test_attached_and_disposed(counted: Any) -> None:
    packed = create()
    with new_dispose_scope() as scope:
        scope.attach(packed)
        assert counted() == ((6, 2, 0, 0, 0, 0, 4), (1, 0, 0, 0, 1, 0, 1))
        packed.dispose()
        assert counted() == ((6, 2, 0, 4, 0, 0, 0), (1, 0, 0, 1, 1, 0, 0))


def test_the_scope_that_it_is_attached_to_is_disposed(counted: Any) -> None:
    packed = create()
    with new_dispose_scope() as scope:
        scope.attach(packed)
    assert counted() == ((6, 2, 0, 4, 0, 0, 0), (1, 0, 0, 1, 1, 0, 0))
    assert all_are_disposed(packed)


def test_attached_and_detached_again(counted: Any) -> None:
    packed = create()
    with new_dispose_scope() as scope:
        scope.attach(packed)
        scope.detach(packed)
    assert counted() == ((6, 2, 0, 0, 0, 0, 4), (1, 0, 0, 0, 1, 1, 1))
    assert not all_are_disposed(packed)


def test_detaching_a_sequence_that_no_scope_owns_counts_nothing(counted: Any) -> None:
    packed = create()
    with new_dispose_scope() as scope:
        scope.detach(packed)
    assert counted() == ((6, 2, 0, 0, 0, 0, 4), (1, 0, 0, 0, 0, 0, 1))
    assert not all_are_disposed(packed)


def test_packing_creates_only_the_tensors_of_the_sequence(counted: Any) -> None:
    padded, lengths = pad_packed_sequence(create())
    gc.collect()
    assert padded.shape == (4, 2)
    assert lengths.tolist() == [4, 2]
    assert counted() == ((8, 6, 0, 0, 0, 0, 2), (1, 1, 0, 0, 0, 0, 0))


# --- Moves --------------------------------------------------------------------------------------------------


def test_it_moves_between_scopes_with_all_that_it_holds() -> None:
    other = new_dispose_scope()
    with new_dispose_scope() as outer:
        with new_dispose_scope():
            packed = create().move_to_outer_dispose_scope()
        assert packed in outer
        assert not all_are_disposed(packed)
        packed.move_to_other_dispose_scope(other)
    assert not all_are_disposed(packed)
    other.dispose()
    assert all_are_disposed(packed)


def test_it_is_accepted_wherever_another_disposable_is() -> None:
    with new_dispose_scope() as outer:
        total = tensor.zeros((1,))
        with new_dispose_scope():
            packed = create().move_to_other_dispose_scope(total)
        assert packed in outer


def test_everything_but_it() -> None:
    with new_dispose_scope() as scope:
        kept, gone = create(), create()
        scope.dispose_everything_but([kept])
        assert scope.disposables_view == (kept,)
        assert all_are_disposed(gone)
        assert not all_are_disposed(kept)


def test_a_disposing_function_returns_it() -> None:
    @disposing
    def packed_batch() -> tuple[PackedSequence, PackedSequence]:
        return create(), create()

    with new_dispose_scope() as scope:
        first, second = packed_batch()
        assert scope.disposables_view == (first, second)
    assert all_are_disposed(first)


def test_a_search_in_containers_finds_the_sequence_and_not_its_tensors() -> None:
    with new_dispose_scope(), new_dispose_scope() as inner:
        batch = inner.move_to_outer({"words": [create()]})
        assert len(inner) == 0
        inner.dispose()
        assert not all_are_disposed(batch["words"][0])
        batch["words"][0].dispose()


def test_a_tensor_held_beyond_its_sequence_ends_with_the_scope() -> None:
    with new_dispose_scope() as scope:
        data = create().data
        assert scope.disposables_view == (data,)
        assert data.tolist() == [1, 5, 2, 6, 3, 4]
    assert data.is_invalid


def test_its_memory_is_counted_as_the_scope_s() -> None:
    with new_dispose_scope() as scope:
        packed = create()
        assert scope.nbytes == sum(x.nbytes for x in packed if x is not None) == 6 * 8 + 4 * 8 + 2 * 2 * 8
        _view = packed.data[1:]
        assert scope.nbytes == 6 * 8 + 4 * 8 + 2 * 2 * 8


def test_its_memory_is_freed_with_it() -> None:
    with memory.measure() as measured:
        packed = pack_sequence([tensor.zeros((1000, 8))])
        packed.dispose()
    assert measured.live_bytes_change == 0


def test_a_stored_exception_keeps_no_memory() -> None:
    def fail() -> None:
        with new_dispose_scope():
            pad_packed_sequence(pack_sequence([tensor.zeros((1000, 8))]), total_length=2)

    with memory.measure() as measured:
        with pytest.raises(ValueError, match=r"total_length must be .* not 2"):
            fail()
    assert measured.live_bytes_change == 0


def test_a_cycle_through_it_ends_with_its_scope() -> None:
    gc.disable()
    try:
        with memory.measure() as measured:
            with new_dispose_scope():
                packed = pack_sequence([tensor.zeros((1000, 8))])
                loop: list[Any] = [packed]
                loop.append(loop)
                del loop, packed
    finally:
        gc.enable()
    assert measured.live_bytes_change == 0


def test_threads_have_scopes_of_their_own_for_them() -> None:
    found: list[tuple[PackedSequence, int]] = []

    def work() -> None:
        with new_dispose_scope() as scope:
            for _ in range(50):
                packed = create()
            found.append((packed, len(scope)))

    before = statistics.of(PackedSequence).snapshot()
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    now = statistics.of(PackedSequence).snapshot() - before
    assert [count for _, count in found] == [1] * 4
    assert all(all_are_disposed(packed) for packed, _ in found)
    assert (now.created_in_scope_count, now.disposed_in_scope_count, now.live_count) == (200, 200, 0)


def test_two_threads_that_dispose_one_count_it_once(fast_thread_switches: None) -> None:
    for _ in range(50):
        packed = create()
        before = [statistics.of(kind).snapshot() for kind in KINDS]
        threads = [threading.Thread(target=packed.dispose) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        now = [statistics.of(k).snapshot() - past for k, past in zip(KINDS, before, strict=True)]
        assert [x.disposed_outside_scope_count for x in now] == [4, 1]


# --- As an object -------------------------------------------------------------------------------------------


def test_it_unpacks_into_its_four_parts() -> None:
    data, batch_sizes, sorted_indices, unsorted_indices = packed = create()
    assert len(packed) == 4
    assert packed[0] is packed.data is data
    assert batch_sizes.tolist() == [2, 2, 1, 1]
    assert sorted_indices.tolist() == unsorted_indices.tolist() == [0, 1]


def test_sequences_given_in_order_have_no_indices() -> None:
    packed = pack_sequence([tensor.tensor([1, 2]), tensor.tensor([3])])
    assert packed.sorted_indices is None
    assert packed.unsorted_indices is None
    assert repr(packed) == (
        "PackedSequence(data=tensor([1, 3, 2]), batch_sizes=tensor([2, 1]), sorted_indices=None, "
        "unsorted_indices=None)"
    )


def test_one_made_of_another_s_parts_outlives_it() -> None:
    first = create()
    second = PackedSequence(first.data * 2, *list(first)[1:])
    first.dispose()
    assert [x.tolist() for x in unpack_sequence(second)] == [[2, 4, 6, 8], [10, 12]]


def test_a_sequence_made_by_its_constructor_computes_the_inverse_order() -> None:
    order = tensor.tensor([2, 0, 1])
    packed = PackedSequence(tensor.zeros((3, 2)), tensor.tensor([3]), order)
    assert packed.unsorted_indices is not None
    assert packed.unsorted_indices.tolist() == [1, 2, 0]


@pytest.mark.parametrize("sizes", [[1, 2], [2, 0], [], [[2]], [1.5, 1.5]])
def test_sizes_that_are_none_are_refused(sizes: Any) -> None:
    with pytest.raises(ValueError, match="batch_sizes must be integers in one dimension"):
        PackedSequence(tensor.zeros((3,)), tensor.tensor(sizes))


def test_sizes_that_do_not_fit_the_data_are_refused() -> None:
    with pytest.raises(ValueError, match="the sum of batch_sizes, 3, but data has shape"):
        PackedSequence(tensor.zeros((2, 3)), tensor.tensor([2, 1]))


def test_its_dtype_changes_and_nothing_else() -> None:
    packed = create()
    assert packed.to(tensor.int64) is packed.long() is packed.cpu() is packed
    floats = packed.float()
    assert floats.data.dtype == np.float32
    assert [x.tolist() for x in unpack_sequence(floats)] == [[1, 2, 3, 4], [5, 6]]
    assert [packed.double().data.dtype, packed.half().data.dtype, packed.int().data.dtype] == [
        np.float64,
        np.float16,
        np.int32,
    ]


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_are_whole_when_the_first_is_disposed(copied: Any) -> None:
    packed = create()
    other = copied(packed)
    packed.dispose()
    assert [x.tolist() for x in unpack_sequence(other)] == [[1, 2, 3, 4], [5, 6]]


@pytest.mark.parametrize("use", [pad_packed_sequence, unpack_sequence, lambda x: x.to("float32"), copy.copy])
def test_use_of_a_disposed_sequence_raises_an_error_that_names_its_scope(use: Any) -> None:
    with new_dispose_scope("batch"):
        packed = create()
    assert repr(packed) == "<PackedSequence: disposed>"
    with pytest.raises(TensorDisposedError, match="PackedSequence is empty: its dispose scope 'batch' ended"):
        use(packed)
