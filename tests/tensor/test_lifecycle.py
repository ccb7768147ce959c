"""A tensor's life: section 5 of the contract, row by row."""

import gc
import weakref

import pytest

import tensor
from scopes import current_dispose_scope, new_dispose_scope, statistics
from tensor import Tensor, TensorDisposedError


def test_a_tensor_made_in_a_scope_is_owned_by_it_and_ends_with_it():
    with new_dispose_scope() as scope:
        x = tensor.ones((2,))
        assert x.owning_dispose_scope is scope
    assert x.is_invalid
    assert x.owning_dispose_scope is None


def test_a_tensor_made_outside_has_no_owner_and_lives_on():
    x = tensor.ones((2,))
    assert x.owning_dispose_scope is None
    assert not x.is_invalid


def test_the_last_reference_gives_a_tensor_back_at_once_scope_or_no_scope(window):
    with new_dispose_scope() as scope:
        x = tensor.ones((2,))
        del x
        assert len(scope) == 0
        assert window().finalized_count == 1
    x = tensor.ones((2,))
    del x
    assert window().live_count == 0
    assert window().finalized_count == 2


def test_disposing_twice_counts_once(window):
    x = tensor.ones((2,))
    x.dispose()
    x.dispose()
    assert window().disposed_outside_scope_count == 1


@pytest.mark.parametrize(
    "sharing",
    [Tensor.alias, Tensor.detach, Tensor.clone, lambda x: x[:], lambda x: x.reshape(4), lambda x: x.T],
)
def test_disposing_one_that_shares_memory_leaves_the_others_whole(sharing):
    x = tensor.tensor([[1.0, 2.0], [3.0, 4.0]])
    y = sharing(x)
    expected = y.tolist()
    x.dispose()
    assert y.tolist() == expected


def test_an_alias_or_view_is_a_tensor_and_counts(window):
    with new_dispose_scope() as scope:
        x = tensor.ones((2, 2))
        others = [x.alias(), x[0], x.reshape(4)]
        assert len(scope) == 1 + len(others)
    assert window().created_in_scope_count == 4
    assert window().disposed_in_scope_count == 4


def test_detach_from_dispose_scope_returns_the_tensor_which_outlives_its_scope():
    with new_dispose_scope():
        x = tensor.ones((2,))
        assert x.detach_from_dispose_scope() is x
    assert x.tolist() == [1.0, 1.0]


def test_move_to_outer_dispose_scope_moves_from_the_owner_not_from_the_current_scope():
    with new_dispose_scope() as outer, new_dispose_scope():
        x = tensor.ones((1,))
        with new_dispose_scope():
            assert x.move_to_outer_dispose_scope() is x
        assert x.owning_dispose_scope is outer


def test_moves_of_a_tensor_without_an_owner_do_nothing(window):
    x = tensor.ones((1,))
    with new_dispose_scope():
        assert x.move_to_outer_dispose_scope() is x
        assert x.move_to_other_dispose_scope(None) is x
        assert x.detach_from_dispose_scope() is x
        assert x.owning_dispose_scope is None
    assert window().detached_from_scope_count == 0


def test_move_to_other_dispose_scope_takes_a_scope_a_tensor_or_none(window):
    with new_dispose_scope() as outer:
        beside = tensor.ones((1,))
        with new_dispose_scope():
            x, y, z = tensor.ones((1,)), tensor.ones((1,)), tensor.ones((1,))
            x.move_to_other_dispose_scope(outer)
            y.move_to_other_dispose_scope(beside)
            z.move_to_other_dispose_scope(None)
        assert x in outer
        assert y in outer
        assert z.owning_dispose_scope is None
    assert window().detached_from_scope_count == 1


def test_with_a_tensor_disposes_it_at_the_end():
    with tensor.ones((1,)) as x:
        assert x.item() == 1.0
    assert x.is_invalid


def test_entering_an_empty_tensor_is_an_error():
    x = tensor.ones((1,))
    x.dispose()
    with pytest.raises(TensorDisposedError), x:
        pass


def test_move_handle_leaves_the_tensor_empty_and_moves_no_counter(window):
    with new_dispose_scope():
        x = tensor.tensor([1.0, 2.0])
        before = window()
        handle = x.move_handle()
        assert x.is_invalid
        assert window() == before
        y = Tensor.from_handle(handle)
        assert handle.is_invalid
        assert window() == before
        assert y.tolist() == [1.0, 2.0]
        assert y.owning_dispose_scope is None
        x.dispose()
        assert window() == before
    assert not y.is_invalid
    y.dispose()
    assert window().live_count == 0


def test_a_backward_pass_accumulates_the_gradient_of_a_moved_leaf_in_its_handle():
    x = tensor.ones((2,), requires_grad=True)
    seen: list[Tensor] = []
    x.register_post_accumulate_grad_hook(seen.append)
    (x * 3.0).sum().backward()
    loss = (x * 2.0).sum()
    handle = x.move_handle()
    loss.backward()
    y = Tensor.from_handle(handle)
    assert y.grad is not None
    assert y.grad.tolist() == [5.0, 5.0]
    assert seen == [x]  # a handle is no tensor, so the second pass calls no hook
    (y * 2.0).sum().backward()
    assert y.grad.tolist() == [7.0, 7.0]
    assert len(seen) == 2
    assert seen[1] is y


def test_a_handle_dropped_unused_gives_the_memory_back_and_counts_once(window):
    handle = tensor.ones((2,)).move_handle()
    assert window().live_count == 1
    del handle
    assert window().live_count == 0
    assert window().disposed_outside_scope_count == 1


def test_a_handle_is_taken_once():
    handle = tensor.ones((2,)).move_handle()
    kept = Tensor.from_handle(handle)
    with pytest.raises(TensorDisposedError, match="Take a handle once"):
        Tensor.from_handle(handle)
    assert kept.tolist() == [1.0, 1.0]


def test_views_follow_the_handle_to_its_new_tensor():
    x = tensor.tensor([1.0, 2.0])
    view = x[0:1]
    y = Tensor.from_handle(x.move_handle())
    y[0] = 9.0
    assert view.tolist() == [9.0]


def test_an_empty_tensor_says_that_it_was_disposed():
    x = tensor.ones((1,))
    x.dispose()
    with pytest.raises(TensorDisposedError, match=r"disposed by dispose\(\)"):
        x + 1


def test_an_empty_tensor_names_the_scope_that_ended():
    with new_dispose_scope("step"):
        x = tensor.ones((1,))
    with pytest.raises(TensorDisposedError, match=r"its dispose scope 'step' ended.*move_to_outer"):
        x + 1


def test_an_empty_tensor_says_that_its_handle_moved():
    x = tensor.ones((1,))
    handle = x.move_handle()
    with pytest.raises(TensorDisposedError, match="its handle was moved by move_handle"):
        x + 1
    handle.dispose()


def test_an_empty_tensor_is_still_printable():
    with new_dispose_scope("step"):
        x = tensor.ones((1,))
    assert "step" in repr(x)


@pytest.mark.parametrize(
    "name", ["shape", "dtype", "requires_grad", "grad", "grad_fn", "is_leaf", "ndim", "nbytes"]
)
def test_attributes_of_an_empty_tensor_are_errors(name):
    x = tensor.ones((1,))
    x.dispose()
    with pytest.raises(TensorDisposedError):
        getattr(x, name)


def test_a_cycle_that_holds_tensors_is_freed_at_scope_end_without_the_collector(window):
    class Loop:
        pass

    gc.disable()
    try:
        with new_dispose_scope():
            loop = Loop()
            loop.me = loop
            loop.x = tensor.ones((1000,))
            del loop
            assert window().live_count == 1
        assert window().live_count == 0
    finally:
        gc.enable()


def test_the_library_itself_makes_no_cycles(window):
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        with new_dispose_scope():
            x = tensor.tensor([1.0, 2.0], requires_grad=True)
            y = (x * x).exp().sum()
            y.backward()
            view = x.detach()[0:1]
            view.clone()
        del x, y, view
        gc.collect()
        assert not [found for found in gc.garbage if isinstance(found, tensor.Tensor)]
        assert not [found for found in gc.garbage if type(found).__module__.startswith(("tensor", "scopes"))]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def test_a_loop_in_one_long_scope_keeps_live_tensors_constant(window):
    with new_dispose_scope() as scope:
        x = tensor.ones((16,))
        for _ in range(1000):
            x = x * 1.0 + 0.0
        assert len(scope) == 1
        assert window().live_count == 1


def test_a_tensor_in_a_scope_that_ended_elsewhere_registers_with_the_next_one_out():
    outer = new_dispose_scope("outer")
    inner = new_dispose_scope("inner")
    outer_first = tensor.ones((1,))
    outer.dispose()
    second = tensor.ones((1,))
    assert second.owning_dispose_scope is inner
    inner.dispose()
    assert outer_first.is_invalid
    assert current_dispose_scope() is None


def test_live_count_is_all_created_less_all_disposed(window):
    x = tensor.ones((1,))
    with new_dispose_scope():
        y = tensor.ones((1,))
        figures = window()
        assert figures.live_count == 2
    assert window().live_count == 1
    assert statistics.of(Tensor).live_count >= 1
    assert y.is_invalid
    del x


def test_a_tensor_whose_memory_moved_away_keeps_no_scope_alive():
    scope = new_dispose_scope()
    x, y = tensor.ones((300,)), tensor.ones((300,))
    handle = x.move_handle()
    scope.dispose_everything()
    assert y.is_invalid
    assert not handle.is_invalid
    weak = weakref.ref(scope)
    scope.dispose()
    del scope
    gc.collect()
    assert weak() is None
