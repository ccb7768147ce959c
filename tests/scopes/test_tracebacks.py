import random
import sys
import tracemalloc
import types
import weakref

import pytest

import tensor
from scopes import disposing, new_dispose_scope
from scopes._shared import tracebacks
from scopes.lowlevel import clear_frames_of
from tests.things import Resource, Thing


class StoredError(Exception):
    """What the tests raise."""


class Local:
    """What a frame holds."""


def library(name, source):
    """Make a module, as a library's own."""
    module = types.ModuleType(name)
    module.__dict__.update(Local=Local, StoredError=StoredError)
    exec(source, module.__dict__)
    return module


@pytest.fixture
def cleared(monkeypatch):
    """A library whose frames scopes clear."""
    monkeypatch.setattr(tracebacks, "_packages", {*tracebacks._packages})
    clear_frames_of("a_library")
    return library(
        "a_library.module",
        """
def fail(keep, error=StoredError):
    local = Local()
    keep(local)
    raise error

def call(function, keep):
    local = Local()
    keep(local)
    return function()

def generate(keep):
    local = Local()
    keep(local)
    try:
        yield
    except StoredError:
        pass
    yield local
    yield "goes on"
""",
    )


def references(made):
    return lambda x: made.append(weakref.ref(x))


def test_frames_of_the_library_in_a_stored_exception_are_cleared(cleared) -> None:
    made = []
    with pytest.raises(StoredError) as stored:
        with new_dispose_scope():
            cleared.fail(references(made))
    assert stored.value.__traceback__ is not None
    assert made[0]() is None


def test_the_users_frames_keep_their_locals() -> None:
    def fail():
        local = Local()
        raise StoredError(local is None)

    with pytest.raises(StoredError) as stored:
        with new_dispose_scope():
            fail()
    frames = [entry.frame.f_locals for entry in stored.traceback]
    assert isinstance(frames[-1]["local"], Local)


def test_frames_of_causes_contexts_and_groups_are_cleared(cleared) -> None:
    made = []
    keep = references(made)

    def cause():
        try:
            cleared.fail(keep)
        except StoredError as error:
            raise KeyError from error

    def context():
        try:
            cleared.fail(keep)
        finally:
            raise KeyError

    def group():
        errors = []
        for function in (cause, context):
            try:
                function()
            except KeyError as error:
                errors.append(error)
        raise ExceptionGroup("both", errors)

    with pytest.raises(ExceptionGroup) as stored:
        with new_dispose_scope():
            group()
    assert len(stored.value.exceptions) == 2
    assert [reference() for reference in made] == [None, None]


def test_exceptions_that_cause_each_other_end_the_walk() -> None:
    a, b = StoredError(), StoredError()
    a.__cause__, b.__context__ = b, a
    with pytest.raises(StoredError):
        with new_dispose_scope():
            raise a


def test_running_frames_are_untouched(cleared) -> None:
    made = []

    def scoped():
        with pytest.raises(StoredError):
            with new_dispose_scope():
                try:
                    raise KeyError
                except KeyError as error:
                    running = error.with_traceback(tb_of(sys._getframe(1), error.__traceback__))
                    raise StoredError from running
        return made[0]()

    assert isinstance(cleared.call(scoped, references(made)), Local)


def tb_of(frame, after):
    return types.TracebackType(after, frame, frame.f_lasti, frame.f_lineno)


def test_a_generator_that_caught_the_error_continues(cleared) -> None:
    made = []
    iterator = cleared.generate(references(made))
    next(iterator)
    with pytest.raises(StoredError):
        with new_dispose_scope():
            error = StoredError()
            iterator.throw(error)
            raise error
    assert next(iterator) == "goes on"
    iterator.close()


def test_other_libraries_frames_are_left_alone() -> None:
    other = library("other.module", "def fail():\n    local = Local()\n    raise StoredError\n")
    with pytest.raises(StoredError) as stored:
        with new_dispose_scope():
            other.fail()
    assert isinstance(stored.traceback[-1].frame.f_locals["local"], Local)


def test_frames_are_cleared_when_a_disposal_raises_too(cleared) -> None:
    made = []
    with pytest.raises(ExceptionGroup) as stored:
        with new_dispose_scope() as scope:
            scope.attach(Resource(error=KeyError()))
            cleared.fail(references(made))
    assert isinstance(stored.value.__context__, StoredError)
    assert made[0]() is None


def test_a_stored_exception_of_a_disposing_function_holds_none_of_its_arguments() -> None:
    @disposing
    def fail(_):
        del _
        raise StoredError

    argument = Local()
    gone = weakref.ref(argument)
    with pytest.raises(StoredError) as stored:
        fail([argument].pop())
    del argument
    assert stored.value is not None
    assert gone() is None


def raise_somewhere(depth, chance):
    with new_dispose_scope():
        kept = tensor.ones((1000,)), Thing(1000)
        if chance.random() < 0.2:
            raise StoredError(depth)
        work = disposing(raise_somewhere) if chance.random() < 0.5 else raise_somewhere
        for _ in range(3):
            more = tensor.zeros((100,)) + 1
            if chance.random() < 0.2:
                more[1000]  # the library raises
            work(depth + 1, chance)
        return kept, more


def test_a_hundred_stored_exceptions_leave_the_live_count_as_before(window) -> None:
    chance = random.Random(0)
    stored = []
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        while len(stored) < 100:
            try:
                raise_somewhere(0, chance)
            except (StoredError, IndexError) as error:
                stored.append(error)
        after = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert all(error.__traceback__ is not None for error in stored)
    assert {type(error) for error in stored} == {StoredError, IndexError}
    assert window().live_count == 0
    # Each traceback has its frames, some 500 bytes each, but none of the 4,000 bytes of a tensor.
    assert after - before < 100 * 4000 * 5
