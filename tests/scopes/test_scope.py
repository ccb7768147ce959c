import copy
import io
import pickle
import re

import pytest

import tensor
from scopes import DisposeScope, ScopeDisposedError, current_dispose_scope, dispose, new_dispose_scope
from tests.things import Channel, Module, Resource, Thing

# A scope is created: it is current from then on, with or without `with`, until it is disposed.


def test_a_scope_is_current_from_its_creation_until_it_is_disposed() -> None:
    scope = new_dispose_scope()
    assert current_dispose_scope() is scope
    x = tensor.ones((2,))
    assert x in scope
    scope.dispose()
    assert current_dispose_scope() is None
    assert x.is_invalid


def test_with_returns_the_scope_and_disposes_it() -> None:
    with new_dispose_scope("step") as scope:
        assert current_dispose_scope() is scope
        assert not scope.is_disposed
    assert scope.is_disposed
    assert current_dispose_scope() is None


def test_a_scope_that_is_created_before_its_block_is_current_before_it() -> None:
    scope = DisposeScope()
    x = tensor.ones((1,))
    with scope:
        assert x in scope
    assert x.is_invalid


def test_a_tensor_registers_with_the_innermost_scope() -> None:
    with new_dispose_scope() as outer, new_dispose_scope() as inner:
        x = tensor.ones((2,))
        assert x in inner
        assert x not in outer
        assert inner.outer_scope is outer
        assert outer.outer_scope is None


def test_a_tensor_without_a_scope_has_no_owner() -> None:
    x = tensor.ones((2,))
    assert x.owning_dispose_scope is None
    with new_dispose_scope():
        pass
    assert not x.is_invalid


# A scope is disposed twice: the second does nothing.


def test_the_second_dispose_does_nothing(window) -> None:
    resource = Resource()
    scope = new_dispose_scope()
    scope.attach(resource)
    tensor.ones((1,))
    scope.dispose()
    figures = window()
    scope.dispose()
    assert window() == figures
    assert resource.log == [resource]


def test_a_scope_that_was_disposed_in_its_block_ends_quietly() -> None:
    with new_dispose_scope() as outer:
        with new_dispose_scope() as inner:
            inner.dispose()
            assert tensor.ones((1,)) not in inner
            assert current_dispose_scope() is outer


# Any other call on a disposed scope: ScopeDisposedError; `contains` answers False.


@pytest.mark.parametrize(
    "call",
    [
        lambda scope, x: scope.attach(x),
        lambda scope, x: scope.detach(x),
        lambda scope, x: scope.move_to_outer(x),
        lambda scope, x: scope.move_to_other(None, x),
        lambda scope, x: scope.dispose_everything(),
        lambda scope, x: scope.dispose_everything_but(x),
        lambda scope, x: scope.disposables_view,
        lambda scope, x: scope.disposables_count,
        lambda scope, x: scope.nbytes,
        lambda scope, x: len(scope),
        lambda scope, x: scope.__enter__(),
    ],
)
def test_any_other_call_on_a_disposed_scope_raises_scope_disposed_error(call) -> None:
    x = tensor.ones((1,))
    scope = new_dispose_scope("step")
    scope.dispose()
    with pytest.raises(ScopeDisposedError, match=r"'step': disposed.* has ended\. Use a scope that is open"):
        call(scope, x)
    assert x.owning_dispose_scope is None


def test_a_disposed_scope_contains_nothing() -> None:
    with new_dispose_scope() as scope:
        x = scope.attach(Resource())
        y = tensor.ones((1,))
    assert not scope.contains(x)
    assert x not in scope
    assert y not in scope


def test_a_resource_is_no_longer_contained_while_its_scope_ends() -> None:
    seen = []
    with new_dispose_scope() as scope:
        first = scope.attach(Resource())
        last = Thing(when_cleared=lambda _: seen.append(first in scope))
    assert not last.whole
    assert seen == [False]


# An outer scope is disposed before an inner one: that works on; its outer is the next undisposed one.


def test_an_inner_scope_works_on_when_its_outer_is_disposed_first() -> None:
    with new_dispose_scope() as outermost:
        outer = new_dispose_scope()
        with new_dispose_scope() as inner:
            outer.dispose()
            assert current_dispose_scope() is inner
            assert inner.outer_scope is outermost
            x = inner.move_to_outer(tensor.ones((1,)))
        assert x in outermost
        assert current_dispose_scope() is outermost


def test_scopes_that_end_in_any_order_leave_none_current() -> None:
    a, b, c = new_dispose_scope(), new_dispose_scope(), new_dispose_scope()
    b.dispose()
    assert current_dispose_scope() is c
    assert c.outer_scope is a
    a.dispose()
    assert c.outer_scope is None
    c.dispose()
    assert current_dispose_scope() is None


def test_scopes_that_end_first_to_last_do_not_pile_up() -> None:
    scope = new_dispose_scope()
    for _ in range(1000):
        newer = new_dispose_scope()
        scope.dispose()
        scope = newer
    depth, link = 0, scope
    while link is not None:
        depth, link = depth + 1, link._outer
    scope.dispose()
    assert depth <= 3


# Attach.


def test_attach_of_a_tensor_without_owner_counts_one(window) -> None:
    x = tensor.ones((1,))
    with new_dispose_scope() as scope:
        assert scope.attach(x) is x
        assert x in scope
        assert window().attached_to_scope_count == 1
    assert x.is_invalid


def test_attach_of_a_tensor_of_another_scope_transfers_it_and_counts_one(window) -> None:
    with new_dispose_scope() as outer, new_dispose_scope() as inner:
        x = tensor.ones((1,))
        outer.attach(x)
        assert x in outer
        assert x not in inner
        assert (window().attached_to_scope_count, window().detached_from_scope_count) == (1, 0)


def test_attach_of_an_attached_tensor_does_nothing(window) -> None:
    with new_dispose_scope() as scope:
        x, channel = tensor.ones((1,)), Channel()
        scope.attach(channel)
        before = window()
        scope.attach(x, channel, x)
        assert window() == before
        assert len(scope) == 2
    assert channel.closed == 1


def test_attach_to_a_disposed_scope_leaves_ownership_as_before() -> None:
    ended = new_dispose_scope()
    ended.dispose()
    with new_dispose_scope() as scope:
        x = tensor.ones((1,))
        with pytest.raises(ScopeDisposedError):
            ended.attach(x)
        assert x in scope


def test_attach_of_a_disposed_tensor_raises_tensor_disposed_error_and_attaches_none(window) -> None:
    x, y = tensor.ones((1,)), tensor.ones((1,))
    y.dispose()
    with new_dispose_scope() as scope:
        with pytest.raises(tensor.TensorDisposedError):
            scope.attach(x, y)
        assert x.owning_dispose_scope is None
        assert window().attached_to_scope_count == 0


def test_attach_takes_files_and_closes_them() -> None:
    with new_dispose_scope() as scope:
        file = scope.attach(io.StringIO())
        assert file in scope
    assert file.closed


def test_a_resource_with_both_is_disposed_and_not_closed() -> None:
    class Both(Resource, Channel):
        def __init__(self):
            Resource.__init__(self)
            Channel.__init__(self)

    with new_dispose_scope() as scope:
        both = scope.attach(Both())
    assert both.log == [both]
    assert both.closed == 0


def test_a_module_is_attached_as_one_disposable() -> None:
    module = Module(Thing(), Thing())
    with new_dispose_scope() as scope:
        scope.attach(module)
        assert scope.disposables_view == (module,)
    assert module.disposed == 1


def test_a_scope_can_be_attached_to_a_scope() -> None:
    with new_dispose_scope() as outer:
        inner = outer.attach(new_dispose_scope())
        x = tensor.ones((1,))
    assert inner.is_disposed
    assert x.is_invalid


# Move and detach.


@pytest.mark.parametrize("call", ["detach", "move_to_outer"])
def test_moving_a_tensor_that_the_scope_does_not_own_does_nothing(call, window) -> None:
    stray = tensor.ones((1,))
    with new_dispose_scope() as outer:
        x = tensor.ones((1,))
        with new_dispose_scope() as inner:
            before = window()
            assert getattr(inner, call)(x) is x
            assert getattr(inner, call)(stray, 3) == (stray, 3)
            assert window() == before
        assert x in outer
        assert stray.owning_dispose_scope is None


def test_move_to_none_detaches_and_counts_one(window) -> None:
    with new_dispose_scope() as scope:
        x = scope.move_to_other(None, tensor.ones((1,)))
    assert not x.is_invalid
    assert window().detached_from_scope_count == 1


def test_move_outward_from_an_outermost_scope_detaches_and_counts_one(window) -> None:
    with new_dispose_scope() as scope:
        x = scope.move_to_outer(tensor.ones((1,)))
    assert not x.is_invalid
    assert window().detached_from_scope_count == 1


def test_move_to_another_scope_moves_no_counter(window) -> None:
    with new_dispose_scope() as outer, new_dispose_scope() as middle, new_dispose_scope() as inner:
        x, y = tensor.ones((1,)), tensor.ones((1,))
        before = window()
        inner.move_to_outer(x)
        inner.move_to_other(outer, y)
        assert window() == before
        assert x in middle
        assert y in outer


def test_move_to_the_same_scope_does_nothing() -> None:
    with new_dispose_scope() as scope:
        x = tensor.ones((1,))
        assert scope.move_to_other(scope, x) is x
        assert scope.disposables_view == (x,)


def test_move_to_a_disposed_scope_raises_and_leaves_ownership_as_before(window) -> None:
    ended = new_dispose_scope()
    ended.dispose()
    with new_dispose_scope() as scope:
        x = tensor.ones((1,))
        before = window()
        with pytest.raises(ScopeDisposedError):
            scope.move_to_other(ended, x)
        assert x in scope
        assert window() == before


def test_move_to_a_value_that_is_not_a_scope_says_what_to_write() -> None:
    with new_dispose_scope() as scope:
        x = tensor.ones((1,))
        with pytest.raises(TypeError, match=r"takes the scope first, or None, not Tensor: write"):
            scope.move_to_other(x, scope)


def test_moving_a_module_moves_its_tensors() -> None:
    with new_dispose_scope() as outer, new_dispose_scope() as inner:
        x, stray = Thing(), outer.attach(Thing())
        module = inner.attach(Module(x, [stray]))
        inner.move_to_outer(module)
        assert x in outer
        assert module in outer
        inner.detach(module)
        assert module in outer


def test_detach_of_a_module_detaches_its_tensors() -> None:
    with new_dispose_scope() as scope:
        module = Module(Thing(), {"x": Thing()})
        scope.detach(module)
        assert len(scope) == 0


def test_one_argument_is_returned_as_itself_and_several_as_a_tuple() -> None:
    with new_dispose_scope() as scope:
        x, both = tensor.ones((1,)), [tensor.ones((1,)), "text"]
        for call in (scope.attach, scope.move_to_outer, scope.detach):
            assert call(x) is x
            assert call(both) is both
            assert call(x, both, 3) == (x, both, 3)
            assert call() == ()


# dispose_everything.


def test_dispose_everything_leaves_the_scope_open() -> None:
    with new_dispose_scope() as scope:
        x, resource = tensor.ones((1,)), scope.attach(Resource())
        scope.dispose_everything()
        assert x.is_invalid
        assert resource.log == [resource]
        assert len(scope) == 0
        assert current_dispose_scope() is scope
    assert resource.log == [resource]


def test_dispose_everything_but_keeps_members_in_keep_owned(window) -> None:
    with new_dispose_scope() as scope:
        x, y, z = tensor.ones((1,)), tensor.ones((1,)), tensor.ones((1,))
        scope.dispose_everything_but({"x": [x]}, z)
        assert scope.disposables_view == (x, z)
        assert y.is_invalid
        assert window().attached_to_scope_count == 0


def test_dispose_everything_but_does_not_attach_a_tensor_of_no_scope() -> None:
    stray = tensor.ones((1,))
    with new_dispose_scope() as scope:
        scope.dispose_everything_but(stray)
        assert len(scope) == 0
    assert not stray.is_invalid


def test_dispose_everything_but_a_module_keeps_its_tensors() -> None:
    with new_dispose_scope() as scope:
        x, y = Thing(), Thing()
        module = scope.attach(Module(x))
        scope.dispose_everything_but(module)
        assert x.whole
        assert not y.whole
        assert module.disposed == 0


@pytest.mark.parametrize("keep", [(), (Thing,), (Thing, Thing), ([Thing, Thing],)])
def test_dispose_everything_but_returns_the_kept_tensors(keep) -> None:
    with new_dispose_scope() as scope:
        kept = tuple([[kind() for kind in x] if isinstance(x, list) else x() for x in keep])
        result = scope.dispose_everything_but(*kept)
        assert result is kept[0] if len(kept) == 1 else result == kept
        assert len(scope) == sum(len(x) if isinstance(x, list) else 1 for x in kept)


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, pickle.dumps, lambda scope: copy.deepcopy([scope])]
)
def test_a_scope_is_not_copied(duplicate) -> None:
    with new_dispose_scope("step") as scope:
        x = Thing()
        with pytest.raises(
            TypeError, match=r"<DisposeScope 'step': .*> can't be copied or pickled: a copy would"
        ):
            duplicate(scope)
        assert current_dispose_scope() is scope
        assert scope.disposables_view == (x,)


def test_a_scope_is_opened_once() -> None:
    with new_dispose_scope("step") as scope:
        with pytest.raises(RuntimeError, match="was opened before: open another one with new_dispose_scope"):
            scope.__init__("again")
        assert scope.name == "step"


# replace_with.


def test_replace_with_gives_the_place_in_the_scope_and_moves_no_counter(window) -> None:
    spare = tensor.ones((1,))
    with new_dispose_scope() as scope:
        x = tensor.ones((1,))
        before = window()
        assert DisposeScope.replace_with(x, spare) is spare
        assert window() == before
        assert spare in scope
        assert x not in scope


def test_replace_with_keeps_the_order_of_disposal() -> None:
    log = []
    with new_dispose_scope() as scope:
        a, b, c = [Thing(when_cleared=log.append) for _ in range(3)]
        d = scope.detach(Thing(when_cleared=log.append))
        DisposeScope.replace_with(b, d)
        assert scope.disposables_view == (a, d, c)
    assert log == [c, d, a]
    b.dispose()


def test_replace_with_of_a_tensor_without_owner_does_nothing() -> None:
    x, y = tensor.ones((1,)), tensor.ones((1,))
    assert DisposeScope.replace_with(x, y) is y
    assert y.owning_dispose_scope is None


def test_replace_with_takes_the_replacement_from_its_own_scope() -> None:
    with new_dispose_scope() as outer:
        x = tensor.ones((1,))
        with new_dispose_scope() as inner:
            y = tensor.ones((1,))
            DisposeScope.replace_with(x, y)
            assert len(inner) == 0
        assert outer.disposables_view == (y,)


def test_replace_with_itself_changes_nothing() -> None:
    with new_dispose_scope() as scope:
        x = tensor.ones((1,))
        DisposeScope.replace_with(x, x)
        assert x in scope


def test_replace_with_a_disposed_tensor_raises_and_the_original_stays() -> None:
    gone = tensor.ones((1,))
    gone.dispose()
    with new_dispose_scope() as scope:
        x = tensor.ones((1,))
        with pytest.raises(tensor.TensorDisposedError):
            DisposeScope.replace_with(x, gone)
        assert x in scope


def test_replace_with_an_object_that_no_scope_can_end_raises() -> None:
    with new_dispose_scope() as scope:
        x = tensor.ones((1,))
        with pytest.raises(
            TypeError, match=r"a int can't replace a Tensor .*neither dispose\(\) nor close\(\)"
        ):
            DisposeScope.replace_with(x, 3)
        assert x in scope


def test_replace_with_puts_a_resource_in_the_place_of_a_tensor_and_back() -> None:
    channel, y = Channel(), tensor.ones((1,))
    with new_dispose_scope() as scope:
        x = tensor.ones((1,))
        assert DisposeScope.replace_with(x, channel) is channel
        assert scope.disposables_view == (channel,)
        assert x.owning_dispose_scope is None
        assert DisposeScope.replace_with(channel, y) is y
        assert scope.disposables_view == (y,)
    assert y.is_invalid
    assert not x.is_invalid
    assert channel.closed == 0


@pytest.mark.parametrize("original", [3, object(), None], ids=["number", "object", "None"])
def test_replace_with_of_an_object_that_no_scope_owns_does_nothing(original: object) -> None:
    with new_dispose_scope() as scope:
        x = tensor.ones((1,))
        assert DisposeScope.replace_with(original, x) is x
        assert scope.disposables_view == (x,)


# Weak, and what it looks like.


def test_a_scope_does_not_keep_a_tensor_alive() -> None:
    with new_dispose_scope() as scope:
        x = tensor.ones((1,))
        del x
        assert len(scope) == 0


def test_a_loop_in_one_scope_keeps_one_tensor() -> None:
    with new_dispose_scope() as scope:
        x = tensor.ones((1,))
        for _ in range(1000):
            x = x + 1
        assert len(scope) == 1


def test_a_resource_is_held_until_the_scope_ends() -> None:
    log = []
    with new_dispose_scope() as scope:
        scope.attach(Resource(log))
        assert log == []
    assert len(log) == 1


def test_disposables_view_is_a_tuple_oldest_first() -> None:
    with new_dispose_scope() as scope:
        a, b, c = tensor.ones((1,)), scope.attach(Resource()), tensor.ones((1,))
        assert scope.disposables_view == (a, b, c)
        assert scope.disposables_count == len(scope) == 3


def test_nbytes_counts_shared_memory_once() -> None:
    with new_dispose_scope() as scope:
        x = tensor.ones((10,))
        alias = x.alias()
        assert scope.nbytes == 40
        y = tensor.ones((5,))
        assert scope.nbytes == 60
        del alias, y


def test_nbytes_counts_attached_resources_that_tell_theirs() -> None:
    class Sized(Resource):
        nbytes = 100

    class Odd(Resource):
        nbytes = "many"

    with new_dispose_scope() as scope:
        scope.attach(Sized(), Odd())
        assert scope.nbytes == 100


def test_an_empty_scope_is_true() -> None:
    with new_dispose_scope() as scope:
        assert len(scope) == 0
        assert scope


def test_repr_shows_name_state_and_size() -> None:
    with new_dispose_scope("step") as scope:
        assert repr(scope) == "<DisposeScope 'step': open, 0 disposables, 0 bytes>"
        x = tensor.ones((1000,))
        assert repr(scope) == "<DisposeScope 'step': open, 1 disposable, 4,000 bytes>"
        del x
    assert repr(scope) == "<DisposeScope 'step': disposed>"
    assert re.match("<DisposeScope: disposed>", repr(_ended()))


def _ended():
    scope = new_dispose_scope()
    scope.dispose()
    return scope


# dispose(*xs).


def test_dispose_ends_all_in_containers() -> None:
    x, resource = tensor.ones((1,)), Resource()
    dispose([x, {"r": (resource, 3)}], None)
    assert x.is_invalid
    assert resource.log == [resource]


def test_a_scope_does_not_dispose_a_disposed_tensor_again() -> None:
    with new_dispose_scope() as scope:
        resource, channel = scope.attach(Resource(), Channel())
        dispose(resource, channel)
        assert len(scope) == 0
    assert resource.log == [resource]
    assert channel.closed == 1


def test_dispose_ignores_files_that_were_not_attached() -> None:
    file = io.StringIO()
    dispose([file])
    assert not file.closed


def test_dispose_of_a_module_disposes_it_once() -> None:
    module = Module(Thing())
    dispose(module, [module])
    assert module.disposed == 1
