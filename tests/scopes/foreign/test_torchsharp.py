"""TorchSharp's 46 tests of dispose scopes, on PyTorch's tensors, in each mode. The names are TorchSharp's.

Where the figures differ from TorchSharp's, the test says so:

- A PackedSequence of PyTorch is a named tuple, no disposable: scopes own its four tensors. So it adds nothing
  to the figures, and attaching or detaching it moves four tensors.
- A parameter of PyTorch does not take over its tensor, and no scope owns it.

`pack_sequence` makes other tensors, which are finalized at once: `assert_kept` leaves these out.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest

import scopes
from scopes import dispose, new_dispose_scope, statistics
from scopes.core.foreign import how_it_ended

torch = pytest.importorskip("torch")
import scopes.torch  # noqa: E402


@pytest.fixture(params=["default", "exact", "tracked"], autouse=True)
def figures(request: pytest.FixtureRequest) -> Iterator[None]:
    tracked = scopes.track() if request.param == "tracked" else nullcontext()
    with tracked, scopes.torch.owning(exact=request.param == "exact"):
        statistics.reset()
        yield


def is_invalid(x: Any) -> bool:
    return how_it_ended(x) is not None


def assert_counts(*expected: int) -> None:
    """Compare created and disposed outside, created and disposed in scopes, attached, detached, live."""
    for view in (statistics.of(torch.Tensor), statistics, statistics.this_thread):
        found = view.snapshot()
        assert (
            found.created_outside_scope_count,
            found.disposed_outside_scope_count,
            found.created_in_scope_count,
            found.disposed_in_scope_count,
            found.attached_to_scope_count,
            found.detached_from_scope_count,
            found.live_count,
        ) == expected


def assert_kept(created: int, disposed: int, attached: int, detached: int, live: int) -> None:
    """Compare the figures without the tensors that were finalized."""
    found = statistics.snapshot()
    assert found.created_outside_scope_count + found.created_in_scope_count - found.finalized_count == created
    assert (
        found.disposed_outside_scope_count + found.disposed_in_scope_count - found.finalized_count == disposed
    )
    assert found.attached_to_scope_count == attached
    assert found.detached_from_scope_count == detached
    assert found.live_count == live


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
    with new_dispose_scope() as d1:
        with new_dispose_scope() as d2:
            with new_dispose_scope() as d3:
                t3_0a, t3_0b, t3_1, t3_2 = (torch.rand(20) for _ in range(4))
                d3.move_to_other(None, t3_0a)
                d3.attach(t0b)
                d3.move_to_other(d1, t3_1)
                d3.move_to_other(d2, t3_2)
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


# TestDisposeScopesStatisticsPackedSequence, scoped and unscoped. TorchSharp's sequence detaches its tensors.


def pack() -> Any:
    sequences = [torch.tensor([1, 2, 3, 4]), torch.tensor([5, 6])]
    packed = torch.nn.utils.rnn.pack_sequence(sequences, enforce_sorted=False)
    dispose(sequences)
    return packed


def test_packing_increments_created_in_scope() -> None:
    with new_dispose_scope():
        _ps = pack()
        assert_kept(6, 2, 0, 0, 4)  # TorchSharp: detached 4


def test_attaching_a_sequence_to_its_scope_increments_nothing() -> None:
    with new_dispose_scope() as scope:
        scope.attach(_ps := pack())
        assert_kept(6, 2, 0, 0, 4)  # TorchSharp: detached 4


def test_detaching_a_sequence_increments_detached() -> None:
    with new_dispose_scope() as scope:
        scope.detach(_ps := pack())
        assert_kept(6, 2, 0, 4, 4)


def test_disposing_a_sequence_increments_disposed() -> None:
    with new_dispose_scope():
        ps = pack()
        for _ in range(2):
            dispose(ps)
            assert_kept(6, 6, 0, 0, 0)  # TorchSharp: detached 4


def test_disposing_the_scope_of_a_sequence_increments_disposed() -> None:
    with new_dispose_scope():
        _ps = pack()
    assert_kept(6, 6, 0, 0, 0)  # TorchSharp: detached 4


def test_disposing_scope_after_detaching_leaves_sequence_and_internal_tensors_live() -> None:
    with new_dispose_scope() as scope:
        scope.detach(_ps := pack())
    assert_kept(6, 2, 0, 4, 4)


def test_packing_increments_created_outside_scope() -> None:
    _ps = pack()
    assert_kept(6, 2, 0, 0, 4)


def test_attaching_increments_attached_of_the_tensors() -> None:
    ps = pack()
    with new_dispose_scope() as scope:
        scope.attach(ps)
        assert_kept(6, 2, 4, 0, 4)  # TorchSharp: attached 1, the sequence


def test_detaching_an_unscoped_sequence_increments_nothing() -> None:
    ps = pack()
    with new_dispose_scope() as scope:
        scope.detach(ps)
        assert_kept(6, 2, 0, 0, 4)


def test_disposing_an_unscoped_sequence_increments_disposed() -> None:
    ps = pack()
    for _ in range(2):
        dispose(ps)
        assert_kept(6, 6, 0, 0, 0)


def test_disposing_an_attached_sequence_increments_disposed() -> None:
    ps = pack()
    with new_dispose_scope() as scope:
        scope.attach(ps)
        dispose(ps)
        assert_kept(6, 6, 4, 0, 0)  # TorchSharp: attached 1, the sequence


def test_disposing_scope_with_an_attached_sequence_increments_disposed() -> None:
    ps = pack()
    with new_dispose_scope() as scope:
        scope.attach(ps)
    assert_kept(6, 6, 4, 0, 0)  # TorchSharp: attached 1, the sequence


def test_detaching_an_attached_sequence_increments_detached_of_the_tensors() -> None:
    ps = pack()
    with new_dispose_scope() as scope:
        scope.detach(scope.attach(ps))
        assert_kept(6, 2, 4, 4, 4)  # TorchSharp: attached 1, detached 1, the sequence


def test_disposing_scope_after_detaching_an_attached_sequence_does_nothing() -> None:
    ps = pack()
    with new_dispose_scope() as scope:
        scope.detach(scope.attach(ps))
    assert_kept(6, 2, 4, 4, 4)  # TorchSharp: attached 1, detached 1, the sequence


# TestDisposeScopesStatisticsToString


def test_tensor_statistics() -> None:
    with new_dispose_scope():
        _t = torch.tensor(3)
        assert str(statistics.of(torch.Tensor)) == (
            "live_count: 1; created_outside_scope_count: 0; disposed_outside_scope_count: 0; "
            "created_in_scope_count: 1; disposed_in_scope_count: 0; attached_to_scope_count: 0; "
            "detached_from_scope_count: 0; finalized_count: 0"
        )


def test_packed_sequence_statistics() -> None:
    # TorchSharp counts the sequence: 1 created, 1 detached, 1 alive.
    with new_dispose_scope() as scope:
        scope.detach(ps := pack())
        assert statistics.of(type(ps)).live_count == 0


def test_total_statistics() -> None:
    with new_dispose_scope():
        _ps = pack()
        assert str(statistics).startswith("live_count: 4; created_outside_scope_count: 0; ")  # TorchSharp: 5


# TestDisposeScopesPackedSequence


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
        ps = torch.nn.utils.rnn.pack_sequence([torch.tensor([1, 2, 3, 4]), torch.tensor([5, 6])])
        assert len(scope) == 2  # TorchSharp: 1, the sequence
        assert not is_invalid(ps.data)
        assert not is_invalid(ps.batch_sizes)
        assert ps.sorted_indices is None
        assert ps.unsorted_indices is None
