import pytest

from scopes import Disposable, TensorDisposedError, lowlevel, new_dispose_scope, statistics
from scopes.core.scope import current
from scopes.lowlevel import register


def test_lowlevel_exports_the_names_that_a_library_of_disposables_needs() -> None:
    assert set(lowlevel.__all__) == {
        "Compound",
        "add_keeper",
        "clear_errors_of",
        "clear_frames_of",
        "ending_by",
        "forget_keeper",
        "format_bytes",
        "measure_memory_by",
        "measure_peaks_by",
        "note_held",
        "owner_of",
        "parse_size",
        "register",
        "show_members",
    }


class Lease(Disposable):
    def __init__(self) -> None:
        self.held = True
        super().__init__()

    def _release(self) -> None:
        self.held = False


def test_a_user_class_needs_only_a_release_and_the_init_of_its_base() -> None:
    with new_dispose_scope() as scope:
        lease = Lease()
        assert lease in scope
        assert scope.nbytes == 0
        assert not lease.is_invalid
    assert not lease.held
    assert lease.is_invalid
    with new_dispose_scope() as scope:
        with pytest.raises(
            TensorDisposedError, match=r"this Lease is empty: its dispose scope ended. Dispose"
        ):
            scope.attach(lease)


def test_an_explicitly_registered_object_may_have_no_owner() -> None:
    before = statistics.of(Lease).snapshot()
    with new_dispose_scope() as scope:
        owned, free = Lease.__new__(Lease), Lease.__new__(Lease)
        register(owned)
        register(free, is_owned=False)
        register(owned)  # once
        assert (owned in scope, free in scope) == (True, False)
    figures = statistics.of(Lease).snapshot() - before
    assert (figures.created_in_scope_count, figures.created_outside_scope_count) == (1, 1)


def test_an_object_that_was_never_registered_says_what_is_missing() -> None:
    class Forgetful(Lease):
        def __init__(self) -> None:
            pass

    with new_dispose_scope() as scope:
        for use in (Forgetful().dispose, lambda: scope.attach(Forgetful())):
            with pytest.raises(
                RuntimeError, match=r"call super\(\).__init__\(\) as the last line of Forgetful"
            ):
                use()
    assert statistics.of(Forgetful).live_count == 0


def test_a_disposable_without_a_release_method_raises_at_its_end() -> None:
    class Silent(Disposable):
        pass

    with pytest.raises(ExceptionGroup, match="1 error while") as caught:
        with new_dispose_scope():
            Silent.kept = Silent()
    assert "define _release(self)" in str(caught.value.exceptions[0])


def test_current_is_the_context_variable_of_scopes() -> None:
    with new_dispose_scope() as scope:
        assert current.get() is scope


def test_each_unit_of_a_size_is_its_power_of_1000_or_1024() -> None:
    for power, letter in enumerate("KMGT", 1):
        assert lowlevel.parse_size(f"1 {letter}B") == 1000**power
        assert lowlevel.parse_size(f"1 {letter}iB") == 1024**power
