import pytest

from scopes import lowlevel, new_dispose_scope, statistics
from scopes.lowlevel import Scoped, accounts_of, current, register


def test_lowlevel_hands_on_what_a_library_of_disposables_needs() -> None:
    assert set(lowlevel.__all__) == {
        "Account",
        "Accounts",
        "Listener",
        "Record",
        "Scoped",
        "Tally",
        "accounts_of",
        "callers",
        "clear_frames_of",
        "clear_library_frames",
        "count_as",
        "current",
        "ending_by",
        "format_bytes",
        "measure_memory_by",
        "measure_peaks_by",
        "note_created",
        "note_ended",
        "note_made_for",
        "nowhere",
        "owner_of",
        "parse_size",
        "record_of",
        "register",
        "site_here",
        "tracking",
        "when_tracking_changes",
    }


def test_a_class_of_ones_own_needs_clear_and_register_alone() -> None:
    class Own(Scoped):
        __slots__ = ("held",)

        def __init__(self):
            self.held = "memory"
            register(self)

        def _clear(self):
            held, self.held = self.held, None
            return held is not None

    with new_dispose_scope() as scope:
        own = Own()
        assert own in scope
        assert scope.nbytes == 0
    assert own.held is None


@pytest.mark.parametrize("call", [Scoped._clear, Scoped._raise_if_disposed])
def test_what_a_subclass_must_say_is_not_guessed(call) -> None:
    bare = Scoped.__new__(Scoped)
    with pytest.raises(NotImplementedError):
        call(bare)


def test_accounts_of_a_type_are_the_same_each_time_and_their_tally_counts() -> None:
    class Kind:
        pass

    accounts = accounts_of(Kind)
    assert accounts_of(Kind) is accounts
    assert accounts.mine is accounts_of(Kind).mine
    accounts.mine.outside.created += 1
    assert statistics.of(Kind).created_outside_scope_count == 1


def test_current_is_the_context_variable_of_scopes() -> None:
    with new_dispose_scope() as scope:
        assert current.get() is scope
