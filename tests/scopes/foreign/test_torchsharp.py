"""TorchSharp's 46 tests of dispose scopes, on PyTorch's tensors, in each mode. The names are TorchSharp's.

A test is equal if it asserts TorchSharp's figures to the digit. `pack_sequence` of PyTorch makes other
tensors in Python, which are finalized at once; the figures of packed sequences leave these out.

==========================================  =====  ===========  ===================
class of TorchSharp                         tests  named tuple  as one disposable
==========================================  =====  ===========  ===================
TestDisposeScopes                              10           10                  10
...StatisticsTensorScoped                       7            6                   6
...StatisticsTensorUnscoped                     9            9                   9
...StatisticsPackedSequenceScoped               6            2                   6
...StatisticsPackedSequenceUnscoped             8            3                   8
...StatisticsToString                           3            1                   3
...PackedSequence                               3            1                   3
all                                            46           32                  45
==========================================  =====  ===========  ===================

What differs, and why:

- The parameter. One of PyTorch is another tensor, which shares memory with the one that it is made of, and
  no scope owns a parameter.
- The packed sequence, in 13 tests. One of PyTorch is a named tuple. A tuple takes no weak reference, so
  nothing can count when it ends, and a scope owns its four tensors. So the sequence counts as none, where
  TorchSharp's counts as one. Packing detaches no tensor, where TorchSharp's detaches four. To attach or
  detach the sequence moves four tensors, where TorchSharp's counts one.

In the last column, `Packed` holds the tensors of PyTorch's sequence, as TorchSharp's sequence holds its own.
It is five lines with `scopes.lowlevel.Compound`. The tests of the tuple come first, with what TorchSharp has
in a comment; then those of `Packed`.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest

import scopes
from scopes import dispose, new_dispose_scope, statistics
from scopes.adapters.foreign import how_it_ended
from scopes.lowlevel import Compound, owner_of

torch = pytest.importorskip("torch")
import scopes.torch  # noqa: E402


@pytest.fixture(params=["default", "exact", "tracked"], autouse=True)
def mode(request: pytest.FixtureRequest) -> Iterator[None]:
    tracked = scopes.track() if request.param == "tracked" else nullcontext()
    with tracked, scopes.torch.owning(exact=request.param == "exact"):
        statistics.reset()
        yield


def is_invalid(x: Any) -> bool:
    return how_it_ended(x) is not None


def figures(found: Any) -> tuple[int, ...]:
    """Return created and disposed outside, created and disposed in scopes, attached, detached, live."""
    return (
        found.created_outside_scope_count,
        found.disposed_outside_scope_count,
        found.created_in_scope_count,
        found.disposed_in_scope_count,
        found.attached_to_scope_count,
        found.detached_from_scope_count,
        found.live_count,
    )


def assert_counts(*expected: int) -> None:
    for view in (statistics.of(torch.Tensor), statistics, statistics.this_thread):
        assert figures(view.snapshot()) == expected


def without_finalized(found: Any) -> Any:
    """Return the statistics without the tensors that were finalized where the others were created."""
    gone = found.finalized_count
    if found.created_in_scope_count:
        created = {
            "created_in_scope_count": found.created_in_scope_count - gone,
            "disposed_in_scope_count": found.disposed_in_scope_count - gone,
        }
    else:
        created = {
            "created_outside_scope_count": found.created_outside_scope_count - gone,
            "disposed_outside_scope_count": found.disposed_outside_scope_count - gone,
        }
    return replace(found, **created, finalized_count=0)


def assert_tensor_counts(*expected: int) -> None:
    assert figures(without_finalized(statistics.of(torch.Tensor).snapshot())) == expected


def assert_packed_counts(*expected: int) -> None:
    assert figures(statistics.of(Packed).snapshot()) == expected


def assert_total_counts(*expected: int) -> None:
    assert figures(without_finalized(statistics.snapshot())) == expected


def move_to_scope_of(x: Any, other: Any) -> None:
    """Do what TorchSharp's ``x.MoveToOtherDisposeScope(other)`` does."""
    owner, target = owner_of(x), owner_of(other)
    if owner is not None:
        owner.move_to_other(target, x)
    elif target is not None:
        target.attach(x)


# TestDisposeScopes


def test_minimal_dispose_works() -> None:
    with new_dispose_scope() as scope:
        a1, a2, a3, a4 = (torch.tensor(i) for i in range(1, 5))
        scope.detach(a2)
        scope.move_to_outer(a3)
        assert [x in scope for x in (a1, a2, a3, a4)] == [True, False, False, True]
        dispose(a4)
    assert_counts(0, 0, 4, 2, 0, 2, 2)


def test_dispose_everything_but_works() -> None:
    with new_dispose_scope() as scope:
        tensors = [torch.tensor(i) for i in range(4)]
        assert all(x in scope for x in tensors)
        scope.dispose_everything_but(tensors[3])
        assert [x in scope for x in tensors] == [False, False, False, True]


def test_stacked_scopes_works_as_intended() -> None:
    with new_dispose_scope() as scope1:
        a1 = torch.tensor(1)
        with new_dispose_scope() as scope2:
            a2 = torch.tensor(2.0)
            assert a2 in scope2
            scope2.move_to_outer(a2)
            assert a2 not in scope2
            assert a1 in scope1
            a6 = scope2.detach(torch.tensor(6))
            assert a6 not in scope1
            assert a6 not in scope2
            a3, a4 = torch.tensor(3), torch.tensor(4)
            scope2.dispose_everything_but(a4)
            assert is_invalid(a3)
            assert not is_invalid(a4)
            a5 = torch.tensor(5.0)
            assert a5 in scope2
            dispose(a5)
            assert a5 not in scope2
        assert not is_invalid(a1)
        assert is_invalid(a4)
    assert is_invalid(a1)


def test_tensors_are_disposed_correctly() -> None:
    data = torch.rand(10, 10)
    with new_dispose_scope() as scope:
        _value = data * data + data
        disposables = scope.disposables_view
        assert not any(map(is_invalid, disposables))
    assert disposables
    assert all(map(is_invalid, disposables))


def test_tensors_that_should_not_be_disposed_arent() -> None:
    data = torch.rand(10, 10)
    with new_dispose_scope() as scope:
        undisposed = scope.move_to_outer(data * data + data)
        assert not is_invalid(undisposed)
    assert not is_invalid(undisposed)


def test_tensors_can_be_disposed_in_the_middle_of_the_process() -> None:
    data = torch.rand(10, 10)
    with new_dispose_scope() as scope:
        t1 = data * data + data
        t2 = scope.dispose_everything_but(data + data - t1)
        assert is_invalid(t1)
        t2 = t2 + data
    assert is_invalid(t2)
    assert not is_invalid(data)


def test_dispose_scopes_can_be_nestled() -> None:
    with new_dispose_scope():
        data = torch.rand(10, 10)
        t1 = data * data + data
        count = statistics.live_count
        with new_dispose_scope():
            _t2 = data + data - t1
        assert statistics.live_count == count
    assert statistics.live_count == 0


def train(model: Any, x: Any, y: Any) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    for _ in range(3):
        loss = torch.nn.functional.mse_loss(model(x), y, reduction="sum")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def test_dispose_scope_works_for_test_training_1() -> None:
    with new_dispose_scope():
        model = torch.nn.Sequential(torch.nn.Linear(100, 10), torch.nn.ReLU(), torch.nn.Linear(10, 1))
        train(model, torch.randn(6, 100), torch.randn(6, 1))
        del model
    assert statistics.live_count == 0


def test_dispose_scope_works_for_test_training_conv2d() -> None:
    with new_dispose_scope():
        model = torch.nn.Sequential(
            torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 1)
        )
        train(model, torch.randn(2, 3, 8, 8), torch.randn(2, 1))
        del model
    assert statistics.live_count == 0


def test_move_dispose_scope() -> None:
    t0a, t0b = torch.rand(10), torch.rand(10)
    move_to_scope_of(t0a, t0b)  # does nothing
    with new_dispose_scope():
        t1 = torch.rand(10)
        with new_dispose_scope():
            t2 = torch.rand(20)
            with new_dispose_scope():
                t3_0a, t3_0b, t3_1, t3_2 = (torch.rand(20) for _ in range(4))
                move_to_scope_of(t3_0a, t0a)
                move_to_scope_of(t0b, t3_0b)
                move_to_scope_of(t3_1, t1)
                move_to_scope_of(t3_2, t2)
            assert is_invalid(t3_0b)
            assert is_invalid(t0b)
            assert not is_invalid(t3_2)
        assert is_invalid(t3_2)
        assert not is_invalid(t3_1)
    assert is_invalid(t3_1)
    assert not is_invalid(t3_0a)
    assert not is_invalid(t0a)


# TestDisposeScopesStatisticsTensorScoped


def test_creating_increments_created_in_scope_once() -> None:
    with new_dispose_scope():
        _t = torch.tensor(3)
        assert_counts(0, 0, 1, 0, 0, 0, 1)


def test_attaching_to_scope_already_attached_to_increments_nothing() -> None:
    with new_dispose_scope() as scope:
        scope.attach(_t := torch.tensor(3))
        assert_counts(0, 0, 1, 0, 0, 0, 1)


def test_detaching_increments_detached_once() -> None:
    with new_dispose_scope() as scope:
        scope.detach(_t := torch.tensor(3))
        assert_counts(0, 0, 1, 0, 0, 1, 1)


def test_disposing_increments_disposed_once() -> None:
    with new_dispose_scope():
        t = torch.tensor(3)
        for _ in range(2):
            dispose(t)
            assert_counts(0, 0, 1, 1, 0, 0, 0)


def test_disposing_scope_increments_disposed_once() -> None:
    scope = new_dispose_scope()
    _t = torch.tensor(3)
    scope.dispose()
    assert_counts(0, 0, 1, 1, 0, 0, 0)


def test_disposing_scope_after_detaching_does_nothing() -> None:
    scope = new_dispose_scope()
    scope.detach(_t := torch.tensor(3))
    scope.dispose()
    assert_counts(0, 0, 1, 0, 0, 1, 1)


def test_parameter_created_from_scoped_tensor_counts_as_another_tensor() -> None:
    # TorchSharp: (0, 0, 1, 0, 0, 0, 1) three times, then (0, 0, 1, 1, 0, 0, 0).
    scope = new_dispose_scope()
    t = torch.tensor(3.0)
    assert_counts(0, 0, 1, 0, 0, 0, 1)
    p = torch.nn.Parameter(t)
    assert_counts(1, 0, 1, 0, 0, 0, 2)
    dispose(t)
    assert_counts(1, 0, 1, 1, 0, 0, 1)
    assert is_invalid(t)
    assert p.item() == 3.0
    scope.dispose()
    assert_counts(1, 0, 1, 1, 0, 0, 1)


# TestDisposeScopesStatisticsTensorUnscoped


def test_creating_increments_created_outside_scope() -> None:
    _t = torch.tensor(3)
    assert_counts(1, 0, 0, 0, 0, 0, 1)


def test_attaching_increments_attached() -> None:
    t = torch.tensor(3)
    with new_dispose_scope() as scope:
        scope.attach(t)
        assert_counts(1, 0, 0, 0, 1, 0, 1)


def test_detaching_increments_nothing_because_object_is_not_in_a_scope() -> None:
    t = torch.tensor(3)
    with new_dispose_scope() as scope:
        scope.detach(t)
        assert_counts(1, 0, 0, 0, 0, 0, 1)


def test_disposing_increments_disposed_outside_scope() -> None:
    t = torch.tensor(3)
    for _ in range(2):
        dispose(t)
        assert_counts(1, 1, 0, 0, 0, 0, 0)


def test_disposing_attached_increments_disposed_in_scope() -> None:
    t = torch.tensor(3)
    with new_dispose_scope() as scope:
        scope.attach(t)
        dispose(t)
        assert_counts(1, 0, 0, 1, 1, 0, 0)


def test_disposing_scope_with_attached_increments_disposed() -> None:
    t = torch.tensor(3)
    with new_dispose_scope() as scope:
        scope.attach(t)
    assert_counts(1, 0, 0, 1, 1, 0, 0)


def test_detaching_attached_increments_detached() -> None:
    t = torch.tensor(3)
    with new_dispose_scope() as scope:
        scope.detach(scope.attach(t))
        assert_counts(1, 0, 0, 0, 1, 1, 1)


def test_disposing_scope_after_detaching_attached_does_nothing() -> None:
    t = torch.tensor(3)
    with new_dispose_scope() as scope:
        scope.detach(scope.attach(t))
    assert_counts(1, 0, 0, 0, 1, 1, 1)


def test_attach_again_is_same_as_move_to_other_and_stats_do_not_change() -> None:
    t = torch.tensor(3)
    with new_dispose_scope() as scope:
        scope.attach(t)
        with new_dispose_scope():
            assert_counts(1, 0, 0, 0, 1, 0, 1)
        assert_counts(1, 0, 0, 0, 1, 0, 1)


# TestDisposeScopesStatisticsPackedSequenceScoped, as a named tuple.


def pack(*, is_sorted: bool = False) -> Any:
    sequences = [torch.tensor([1, 2, 3, 4]), torch.tensor([5, 6])]
    packed = torch.nn.utils.rnn.pack_sequence(sequences, enforce_sorted=is_sorted)
    dispose(sequences)
    return packed


def test_a_packed_sequence_of_pytorch_takes_no_weak_reference() -> None:
    with pytest.raises(TypeError, match="weak reference"):
        weakref.ref(pack())


def test_packing_increments_created_in_scope() -> None:
    with new_dispose_scope():
        _ps = pack()
        assert_tensor_counts(0, 0, 6, 2, 0, 0, 4)  # TorchSharp: detached 4


def test_attaching_a_sequence_to_its_scope_increments_nothing() -> None:
    with new_dispose_scope() as scope:
        scope.attach(_ps := pack())
        assert_tensor_counts(0, 0, 6, 2, 0, 0, 4)  # TorchSharp: detached 4


def test_detaching_a_sequence_increments_detached() -> None:
    with new_dispose_scope() as scope:
        scope.detach(_ps := pack())
        assert_tensor_counts(0, 0, 6, 2, 0, 4, 4)


def test_disposing_a_sequence_increments_disposed() -> None:
    with new_dispose_scope():
        ps = pack()
        for _ in range(2):
            dispose(ps)
            assert_tensor_counts(0, 0, 6, 6, 0, 0, 0)  # TorchSharp: detached 4


def test_disposing_the_scope_of_a_sequence_increments_disposed() -> None:
    with new_dispose_scope():
        _ps = pack()
    assert_tensor_counts(0, 0, 6, 6, 0, 0, 0)  # TorchSharp: detached 4


def test_disposing_scope_after_detaching_leaves_internal_tensors_live() -> None:
    with new_dispose_scope() as scope:
        scope.detach(_ps := pack())
    assert_tensor_counts(0, 0, 6, 2, 0, 4, 4)


# TestDisposeScopesStatisticsPackedSequenceUnscoped, as a named tuple.


def test_packing_increments_created_outside_scope() -> None:
    _ps = pack()
    assert_tensor_counts(6, 2, 0, 0, 0, 0, 4)


def test_attaching_a_sequence_increments_attached_of_the_tensors() -> None:
    ps = pack()
    with new_dispose_scope() as scope:
        scope.attach(ps)
        assert_tensor_counts(6, 2, 0, 0, 4, 0, 4)  # TorchSharp: attached 0, and 1 for the sequence


def test_detaching_an_unscoped_sequence_increments_nothing() -> None:
    ps = pack()
    with new_dispose_scope() as scope:
        scope.detach(ps)
        assert_tensor_counts(6, 2, 0, 0, 0, 0, 4)


def test_disposing_an_unscoped_sequence_increments_disposed() -> None:
    ps = pack()
    for _ in range(2):
        dispose(ps)
        assert_tensor_counts(6, 6, 0, 0, 0, 0, 0)


def test_disposing_an_attached_sequence_increments_disposed() -> None:
    ps = pack()
    with new_dispose_scope() as scope:
        scope.attach(ps)
        dispose(ps)
        assert_tensor_counts(6, 2, 0, 4, 4, 0, 0)  # TorchSharp: attached 0, and 1 for the sequence


def test_disposing_scope_with_an_attached_sequence_increments_disposed() -> None:
    ps = pack()
    with new_dispose_scope() as scope:
        scope.attach(ps)
    assert_tensor_counts(6, 2, 0, 4, 4, 0, 0)  # TorchSharp: attached 0, and 1 for the sequence


def test_detaching_an_attached_sequence_increments_detached_of_the_tensors() -> None:
    ps = pack()
    with new_dispose_scope() as scope:
        scope.detach(scope.attach(ps))
        assert_tensor_counts(6, 2, 0, 0, 4, 4, 4)  # TorchSharp: 0 and 0, and 1 and 1 for the sequence


def test_disposing_scope_after_detaching_an_attached_sequence_does_nothing() -> None:
    ps = pack()
    with new_dispose_scope() as scope:
        scope.detach(scope.attach(ps))
    assert_tensor_counts(6, 2, 0, 0, 4, 4, 4)  # TorchSharp: 0 and 0, and 1 and 1 for the sequence


# TestDisposeScopesStatisticsToString. The texts of the named tuple's statistics are those of its tensors.


def text(live: int, created: int, disposed: int, detached: int) -> str:
    return (
        f"live_count: {live}; created_outside_scope_count: 0; disposed_outside_scope_count: 0; "
        f"created_in_scope_count: {created}; disposed_in_scope_count: {disposed}; "
        f"attached_to_scope_count: 0; detached_from_scope_count: {detached}; finalized_count: 0"
    )


def test_tensor_statistics() -> None:
    with new_dispose_scope():
        _t = torch.tensor(3)
        assert str(statistics.of(torch.Tensor)) == text(1, 1, 0, 0)


def test_packed_sequence_statistics() -> None:
    with new_dispose_scope() as scope:
        scope.detach(ps := pack())
        assert str(statistics.of(type(ps))) == text(0, 0, 0, 0)  # TorchSharp: 1, 1, 0, 1


def test_total_statistics() -> None:
    with new_dispose_scope():
        _ps = pack()
        assert str(without_finalized(statistics.snapshot())) == text(4, 6, 2, 0)  # TorchSharp: 5, 7, 2, 4


# TestDisposeScopesPackedSequence, as a named tuple.


def test_move_dispose_scope_of_a_sequence() -> None:
    other = new_dispose_scope()
    with new_dispose_scope() as outer:
        with new_dispose_scope() as inner:
            ps = inner.move_to_outer(pack())
        assert not any(map(is_invalid, ps))
        outer.move_to_other(other, ps)
    assert not any(map(is_invalid, ps))
    other.dispose()
    assert all(map(is_invalid, ps))


def test_disposables_validity_when_not_sorted() -> None:
    with new_dispose_scope() as scope:
        ps = pack()
        assert len(scope) == 4  # TorchSharp: 1, the sequence
        assert not any(map(is_invalid, ps))


def test_disposables_validity_when_sorted() -> None:
    with new_dispose_scope() as scope:
        ps = pack(is_sorted=True)
        assert len(scope) == 2  # TorchSharp: 1, the sequence
        assert not is_invalid(ps.data)
        assert not is_invalid(ps.batch_sizes)
        assert ps.sorted_indices is None  # TorchSharp: an invalid tensor
        assert ps.unsorted_indices is None


# TestDisposeScopesStatisticsPackedSequenceScoped, as one disposable.


class Packed(Compound):
    """PyTorch's packed sequence as one disposable, which owns the tensors of the sequence."""

    def __init__(self, packed: Any) -> None:
        self.packed = packed
        super().__init__(tuple(x for x in packed if x is not None))


def create() -> Packed:
    return Packed(pack())


def is_disposed(ps: Packed) -> bool:
    answers = {ps.is_invalid, *(is_invalid(x) for x in ps.packed if x is not None)}
    assert len(answers) == 1
    return answers.pop()


def test_creating_packed_increments_created_in_scope() -> None:
    with new_dispose_scope():
        _ps = create()
        assert_tensor_counts(0, 0, 6, 2, 0, 4, 4)
        assert_packed_counts(0, 0, 1, 0, 0, 0, 1)
        assert_total_counts(0, 0, 7, 2, 0, 4, 5)


def test_attaching_packed_to_its_scope_increments_nothing() -> None:
    with new_dispose_scope() as scope:
        scope.attach(_ps := create())
        assert_tensor_counts(0, 0, 6, 2, 0, 4, 4)
        assert_packed_counts(0, 0, 1, 0, 0, 0, 1)
        assert_total_counts(0, 0, 7, 2, 0, 4, 5)


def test_detaching_packed_increments_detached() -> None:
    with new_dispose_scope() as scope:
        scope.detach(_ps := create())
        assert_tensor_counts(0, 0, 6, 2, 0, 4, 4)
        assert_packed_counts(0, 0, 1, 0, 0, 1, 1)
        assert_total_counts(0, 0, 7, 2, 0, 5, 5)


def test_disposing_packed_increments_disposed() -> None:
    with new_dispose_scope():
        ps = create()
        for _ in range(2):
            ps.dispose()
            assert_tensor_counts(0, 0, 6, 6, 0, 4, 0)
            assert_packed_counts(0, 0, 1, 1, 0, 0, 0)
            assert_total_counts(0, 0, 7, 7, 0, 4, 0)


def test_disposing_the_scope_of_packed_increments_disposed() -> None:
    with new_dispose_scope():
        _ps = create()
    assert_tensor_counts(0, 0, 6, 6, 0, 4, 0)
    assert_packed_counts(0, 0, 1, 1, 0, 0, 0)
    assert_total_counts(0, 0, 7, 7, 0, 4, 0)


def test_disposing_scope_after_detaching_leaves_packed_and_internal_tensors_live() -> None:
    with new_dispose_scope() as scope:
        scope.detach(_ps := create())
    assert_tensor_counts(0, 0, 6, 2, 0, 4, 4)
    assert_packed_counts(0, 0, 1, 0, 0, 1, 1)
    assert_total_counts(0, 0, 7, 2, 0, 5, 5)


# TestDisposeScopesStatisticsPackedSequenceUnscoped, as one disposable.


def test_creating_packed_increments_created_outside_scope() -> None:
    _ps = create()
    assert_tensor_counts(6, 2, 0, 0, 0, 0, 4)
    assert_packed_counts(1, 0, 0, 0, 0, 0, 1)
    assert_total_counts(7, 2, 0, 0, 0, 0, 5)


def test_attaching_packed_increments_sequence_attached_but_not_tensors() -> None:
    ps = create()
    with new_dispose_scope() as scope:
        scope.attach(ps)
        assert_tensor_counts(6, 2, 0, 0, 0, 0, 4)
        assert_packed_counts(1, 0, 0, 0, 1, 0, 1)
        assert_total_counts(7, 2, 0, 0, 1, 0, 5)


def test_detaching_packed_increments_nothing_because_object_is_not_in_a_scope() -> None:
    ps = create()
    with new_dispose_scope() as scope:
        scope.detach(ps)
        assert_tensor_counts(6, 2, 0, 0, 0, 0, 4)
        assert_packed_counts(1, 0, 0, 0, 0, 0, 1)
        assert_total_counts(7, 2, 0, 0, 0, 0, 5)


def test_disposing_packed_increments_disposed_outside_scope() -> None:
    ps = create()
    for _ in range(2):
        ps.dispose()
        assert_tensor_counts(6, 6, 0, 0, 0, 0, 0)
        assert_packed_counts(1, 1, 0, 0, 0, 0, 0)
        assert_total_counts(7, 7, 0, 0, 0, 0, 0)


def test_disposing_attached_packed_increments_disposed() -> None:
    ps = create()
    with new_dispose_scope() as scope:
        scope.attach(ps)
        ps.dispose()
        assert_tensor_counts(6, 2, 0, 4, 0, 0, 0)
        assert_packed_counts(1, 0, 0, 1, 1, 0, 0)
        assert_total_counts(7, 2, 0, 5, 1, 0, 0)


def test_disposing_scope_with_attached_packed_increments_disposed() -> None:
    ps = create()
    with new_dispose_scope() as scope:
        scope.attach(ps)
    assert_tensor_counts(6, 2, 0, 4, 0, 0, 0)
    assert_packed_counts(1, 0, 0, 1, 1, 0, 0)
    assert_total_counts(7, 2, 0, 5, 1, 0, 0)


def test_detaching_attached_packed_increments_detached_for_sequence_but_not_tensors() -> None:
    ps = create()
    with new_dispose_scope() as scope:
        scope.detach(scope.attach(ps))
        assert_tensor_counts(6, 2, 0, 0, 0, 0, 4)
        assert_packed_counts(1, 0, 0, 0, 1, 1, 1)
        assert_total_counts(7, 2, 0, 0, 1, 1, 5)


def test_disposing_scope_after_detaching_attached_packed_does_nothing() -> None:
    ps = create()
    with new_dispose_scope() as scope:
        scope.detach(scope.attach(ps))
    assert_tensor_counts(6, 2, 0, 0, 0, 0, 4)
    assert_packed_counts(1, 0, 0, 0, 1, 1, 1)
    assert_total_counts(7, 2, 0, 0, 1, 1, 5)


# TestDisposeScopesStatisticsToString and TestDisposeScopesPackedSequence, as one disposable.


def test_statistics_of_packed() -> None:
    with new_dispose_scope():
        _ps = create().detach_from_dispose_scope()
        assert str(statistics.of(Packed)) == text(1, 1, 0, 1)


def test_total_statistics_with_packed() -> None:
    with new_dispose_scope():
        _ps = create()
        assert str(without_finalized(statistics.snapshot())) == text(5, 7, 2, 4)


def test_move_dispose_scope_of_packed() -> None:
    other = new_dispose_scope()
    with new_dispose_scope():
        with new_dispose_scope():
            ps = create()
            assert not is_disposed(ps)
            ps.move_to_outer_dispose_scope()
        assert not is_disposed(ps)
        ps.move_to_other_dispose_scope(other)
    assert not is_disposed(ps)
    other.dispose()
    assert is_disposed(ps)


def test_disposables_validity_of_packed_when_not_sorted() -> None:
    with new_dispose_scope() as scope:
        ps = create()
        assert scope.disposables_view == (ps,)
        assert not is_disposed(ps)


def test_disposables_validity_of_packed_when_sorted() -> None:
    with new_dispose_scope() as scope:
        ps = Packed(pack(is_sorted=True))
        assert scope.disposables_view == (ps,)
        assert not is_disposed(ps)
        assert ps.packed.sorted_indices is None
        assert ps.packed.unsorted_indices is None
