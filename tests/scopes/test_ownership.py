import copy
import gc
import pickle
import traceback
import weakref

import pytest

from scopes import current_dispose_scope, dispose, new_dispose_scope
from scopes.core.scope import current, may_be_owned
from tests.things import Channel, Resource, Thing

# An item's dispose() raises: all others are still disposed, newest first; then an ExceptionGroup.


def test_members_are_disposed_newest_first() -> None:
    log = []
    with new_dispose_scope() as scope:
        a = scope.attach(Resource(log))
        b = Thing(when_cleared=log.append)
        c = scope.attach(Resource(log))
    assert log == [c, b, a]


def test_a_tensor_that_moves_in_later_is_disposed_earlier() -> None:
    log = []
    with new_dispose_scope() as outer:
        a, b = Thing(when_cleared=log.append), Thing(when_cleared=log.append)
        with new_dispose_scope() as inner:
            inner.attach(a)
            inner.move_to_outer(a)
    assert log == [a, b]
    assert outer.is_disposed


def test_all_are_disposed_when_some_raise_and_a_group_says_what() -> None:
    log = []
    first, second = ValueError("first"), KeyError("second")
    with pytest.raises(
        ExceptionGroup, match=r"2 errors while <DisposeScope 'step': disposed> disp"
    ) as caught:
        with new_dispose_scope("step") as scope:
            a = scope.attach(Resource(log, first))
            b = scope.attach(Resource(log))
            c = scope.attach(Resource(log, second))
    assert log == [c, b, a]
    assert caught.value.exceptions == (second, first)
    assert caught.value.__context__ is None


def test_the_context_of_the_group_is_the_bodys_own_exception() -> None:
    body = RuntimeError("the body's own")
    with pytest.raises(ExceptionGroup) as caught:
        with new_dispose_scope() as scope:
            scope.attach(Resource(error=ValueError("on the way")))
            raise body
    assert caught.value.__context__ is body


def test_the_group_prints_copies_and_pickles_whole() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        with new_dispose_scope() as scope:
            scope.attach(Resource(error=ValueError("first")), Resource(error=KeyError("second")))
    group = caught.value
    assert "ValueError('first')" in repr(group)
    assert "ValueError: first" in "".join(traceback.format_exception(group))
    for other in (pickle.loads(pickle.dumps(group)), copy.copy(group), copy.deepcopy(group)):
        assert other.message == group.message
        assert [repr(error) for error in other.exceptions] == ["KeyError('second')", "ValueError('first')"]


def test_an_interrupts_cause_pickles_whole_too() -> None:
    with pytest.raises(KeyboardInterrupt) as caught:
        with new_dispose_scope() as scope:
            scope.attach(Resource(error=KeyboardInterrupt()), Resource(error=ValueError("first")))
    assert [str(error) for error in pickle.loads(pickle.dumps(caught.value.__cause__)).exceptions] == [
        "first"
    ]


def test_a_failing_disposal_leaves_the_outer_scope_current_and_whole() -> None:
    with new_dispose_scope() as outer:
        x = Thing()
        with pytest.raises(ExceptionGroup):
            with new_dispose_scope() as inner:
                inner.attach(Resource(error=ValueError()))
        assert current_dispose_scope() is outer
        assert x in outer


def test_dispose_everything_disposes_all_when_one_raises() -> None:
    with new_dispose_scope() as scope:
        x, bad, y = Thing(), scope.attach(Resource(error=ValueError())), Thing()
        with pytest.raises(ExceptionGroup, match="1 error while"):
            scope.dispose_everything()
        assert not x.whole
        assert not y.whole
        assert bad not in scope


def test_dispose_of_several_disposes_all_when_one_raises() -> None:
    good, bad = Resource(), Resource(error=ValueError())
    with pytest.raises(ExceptionGroup, match="1 error while disposing"):
        dispose([good, bad], good)
    assert good.log == [good]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_interrupt_disposes_the_rest_and_arrives_as_itself(kind) -> None:
    x = Thing()
    with pytest.raises(kind) as caught:
        with new_dispose_scope() as scope:
            scope.attach(x, Resource(error=kind()))
    assert not x.whole
    assert caught.value.__cause__ is None


def test_an_interrupt_among_errors_has_them_for_a_cause() -> None:
    error = ValueError()
    with pytest.raises(KeyboardInterrupt) as caught:
        with new_dispose_scope() as scope:
            scope.attach(Resource(error=KeyboardInterrupt()), Resource(error=error))
    assert isinstance(caught.value.__cause__, ExceptionGroup)
    assert caught.value.__cause__.exceptions == (error,)


def test_an_interrupt_of_the_body_disposes_all() -> None:
    with pytest.raises(KeyboardInterrupt):
        with new_dispose_scope():
            x = Thing()
            raise KeyboardInterrupt
    assert not x.whole


def test_a_disposal_may_dispose_and_create_others() -> None:
    made = []
    with new_dispose_scope() as outer:
        with new_dispose_scope():
            old = Thing()
            x = Thing(when_cleared=lambda _: (old.dispose(), made.append(Thing())))
        assert not old.whole
        assert not x.whole
        assert made[0] in outer


def test_a_tensor_that_moves_to_another_owner_while_its_scope_ends_stays_alive() -> None:
    with new_dispose_scope() as outer:
        with new_dispose_scope() as inner:
            x, resource = Thing(), inner.attach(Resource())
            rescuer = Thing(when_cleared=lambda _: outer.attach(x, resource))
        assert not rescuer.whole
        assert x.whole
        assert x in outer
        assert resource in outer
        assert resource.log == []
    assert not x.whole
    assert resource.log == [resource]


@pytest.mark.parametrize(
    "end", [lambda scope: scope.dispose(), lambda scope: scope.__exit__(None, None, None)]
)
@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
def test_errors_of_disposals_form_no_cycle(end, kind) -> None:
    class Failing(Resource):
        def dispose(self):
            raise kind

    gc.disable()
    try:
        scope = new_dispose_scope()
        resource = scope.attach(Failing())
        gone = weakref.ref(resource)
        try:
            end(scope)
        except (ExceptionGroup, KeyboardInterrupt) as error:
            stored = error
        assert stored.__traceback__ is not None
        del scope, resource, stored
        assert gone() is None
    finally:
        gc.enable()


# Resources of the user's own.


def test_a_resource_has_one_owner() -> None:
    with new_dispose_scope() as outer:
        with new_dispose_scope() as inner:
            channel = inner.attach(Channel())
            assert channel in inner
            outer.attach(channel)
            assert channel not in inner
        assert channel.closed == 0
    assert channel.closed == 1


def test_a_detached_resource_is_released() -> None:
    with new_dispose_scope() as scope:
        channel = scope.detach(scope.attach(Channel()))
    assert channel.closed == 0
    gone = weakref.ref(channel)
    del channel
    assert gone() is None


def test_an_id_that_is_used_again_inherits_no_owner() -> None:
    with new_dispose_scope() as scope:
        for _ in range(1000):
            channel = Channel()
            assert channel not in scope
            scope.attach(channel)
            dispose(channel)
            del channel
        assert len(scope) == 0


def test_a_scope_that_is_dropped_without_an_end_lets_go_of_its_resources() -> None:
    channel = Channel()
    scope = new_dispose_scope()
    scope.attach(channel)
    current.set(None)  # as the end of its thread does
    del scope
    assert not may_be_owned(channel)
    gone = weakref.ref(channel)
    del channel
    assert gone() is None


def test_a_tool_that_holds_all_objects_outlives_a_dropped_scope_with_resources() -> None:
    scope = new_dispose_scope()
    scope.attach(Channel())
    held = [x for x in gc.get_objects() if type(x).__name__ == "Resource"]
    assert [x.owning_dispose_scope for x in held] == [scope]
    current.set(None)  # as the end of its thread does
    del scope
    # They do not find the scope in other objects at its place.
    others = [b"A" * size for size in range(64, 400) for _ in range(50)]
    assert [x.owning_dispose_scope for x in held] == [None]
    del held, others


def test_objects_that_compare_equal_are_distinguished() -> None:
    class Same(Resource):
        def __eq__(self, other):
            return True

        __hash__ = None

    with new_dispose_scope() as scope:
        a, b = scope.attach(Same()), Same()
        assert scope.contains(a)
        assert not scope.contains(b)
    assert len(a.log) == 1


def test_attached_resources_count_as_attached_and_detached_alone(window) -> None:
    with new_dispose_scope() as scope:
        scope.attach(Channel(), Resource())
        scope.detach(scope.attach(Channel()))
    figures = window()
    assert (figures.attached_to_scope_count, figures.detached_from_scope_count) == (3, 1)
    assert figures.live_count == figures.created_in_scope_count == figures.disposed_in_scope_count == 0
