"""The example with figures of the design, and its variations."""

import nn
import tensor
from scopes import new_dispose_scope


def figures(window):
    """In the order of the design: created outside, disposed outside, created in, disposed in, ..., live."""
    now = window()
    return (
        now.created_outside_scope_count,
        now.disposed_outside_scope_count,
        now.created_in_scope_count,
        now.disposed_in_scope_count,
        now.attached_to_scope_count,
        now.detached_from_scope_count,
        now.live_count,
    )


def test_the_story_of_a_parameter_in_a_scope(window) -> None:
    with new_dispose_scope() as scope:
        t = tensor.ones((2,))
        assert figures(window) == (0, 0, 1, 0, 0, 0, 1)
        parameter = nn.Parameter(t)
        assert figures(window) == (0, 0, 1, 0, 0, 0, 1)
        t.dispose()
        assert figures(window) == (0, 0, 1, 0, 0, 0, 1)
        scope.dispose()
        assert figures(window) == (0, 0, 1, 1, 0, 0, 0)
    assert parameter.is_invalid


def test_the_story_without_a_scope(window) -> None:
    t = tensor.ones((2,))
    assert figures(window) == (1, 0, 0, 0, 0, 0, 1)
    parameter = nn.Parameter(t)
    assert figures(window) == (1, 0, 0, 0, 0, 0, 1)
    t.dispose()
    assert figures(window) == (1, 0, 0, 0, 0, 0, 1)
    parameter.dispose()
    assert figures(window) == (1, 1, 0, 0, 0, 0, 0)
    parameter.dispose()
    assert figures(window) == (1, 1, 0, 0, 0, 0, 0)


def test_the_story_with_a_second_scope(window) -> None:
    with new_dispose_scope() as outer:
        with new_dispose_scope() as inner:
            t = tensor.ones((2,))
            parameter = nn.Parameter(t)
            assert parameter in inner
            inner.move_to_outer(parameter)
            assert figures(window) == (0, 0, 1, 0, 0, 0, 1)
        assert figures(window) == (0, 0, 1, 0, 0, 0, 1)
        t.dispose()
        assert parameter in outer
        assert figures(window) == (0, 0, 1, 0, 0, 0, 1)
    assert figures(window) == (0, 0, 1, 1, 0, 0, 0)


def test_the_story_with_attach_and_detach(window) -> None:
    t = tensor.ones((2,))
    with new_dispose_scope() as scope:
        scope.attach(t)
        assert figures(window) == (1, 0, 0, 0, 1, 0, 1)
        parameter = nn.Parameter(t)
        assert parameter in scope
        assert figures(window) == (1, 0, 0, 0, 1, 0, 1)
        scope.detach(parameter)
        assert figures(window) == (1, 0, 0, 0, 1, 1, 1)
    assert not parameter.is_invalid
    parameter.dispose()
    assert figures(window) == (1, 1, 0, 0, 1, 1, 0)


def test_a_parameter_that_ends_with_its_last_reference_counts_once(window) -> None:
    parameter = nn.Parameter(tensor.ones((2,)))
    del parameter
    assert figures(window) == (1, 1, 0, 0, 0, 0, 0)
    assert window().finalized_count == 1


def test_aliases_and_views_are_tensors_and_count(window) -> None:
    with new_dispose_scope():
        t = tensor.ones((2,))
        alias, view = t.alias(), t[0]
        assert figures(window) == (0, 0, 3, 0, 0, 0, 3)
        del alias, view
    assert figures(window) == (0, 0, 3, 3, 0, 0, 0)


def test_in_or_outside_is_the_owner_at_that_moment(window) -> None:
    with new_dispose_scope() as scope:
        x = scope.detach(tensor.ones((1,)))
        x.dispose()
    assert figures(window) == (0, 1, 1, 0, 0, 1, 0)
