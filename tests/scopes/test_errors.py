import pytest

from scopes import ScopeDisposedError, new_dispose_scope


def test_scope_disposed_error_is_a_runtime_error() -> None:
    assert issubclass(ScopeDisposedError, RuntimeError)


def test_the_error_names_the_scope_the_object_and_the_call_to_write() -> None:
    scope = new_dispose_scope("epoch")
    scope.dispose()
    with pytest.raises(ScopeDisposedError) as error:
        scope.attach()
    assert str(error.value) == (
        "<DisposeScope 'epoch': disposed> can't be attached to: it has ended. Use a scope that is open "
        "(current_dispose_scope()), open one with new_dispose_scope(), or do this before the scope's `with` "
        "block ends"
    )
