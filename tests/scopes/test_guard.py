"""Guards: one thread at a time, never left held by an interrupt, free in a forked child."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from scopes._shared.guard import Guard
from tests.interrupts import interrupted_at


def is_free(guard: Guard) -> bool:
    """Tell whether another thread gets in."""
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(guard.run_if_free(int)))
    thread.start()
    thread.join()
    return found == [True]


def test_a_guarded_call_returns_the_result_of_its_function() -> None:
    assert Guard().run(max, 3, 7) == 7


def test_an_error_of_the_function_leaves_the_guard_free() -> None:
    guard = Guard()
    with pytest.raises(ZeroDivisionError):
        guard.run(lambda: 1 / 0)
    assert is_free(guard)


def test_a_call_inside_a_call_runs_at_once() -> None:
    guard = Guard()
    assert guard.run(lambda: guard.run(lambda: guard.is_held_here()))
    assert not guard.is_held_here()


def test_no_other_thread_enters_while_a_call_runs() -> None:
    guard = Guard()
    assert not guard.run(lambda: guard.run_if_free(int))
    assert not guard.run(lambda: is_free(guard))
    assert is_free(guard)


def test_an_interrupt_at_any_call_leaves_the_guard_free() -> None:
    guard = Guard()

    def look() -> int:
        return len(())

    event = 1
    while interrupted_at(event, lambda: (guard.run(look), guard.run_if_free(look)), KeyboardInterrupt):
        assert is_free(guard), event
        event += 1
    assert event > 4


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="needs signals")
def test_an_interrupt_while_it_waits_leaves_the_guard_to_the_other_thread() -> None:
    guard = Guard()
    main = threading.get_ident()
    is_in = threading.Event()
    is_about_to_wait = threading.Event()
    is_over = threading.Event()

    def hold() -> None:
        is_in.set()
        is_about_to_wait.wait()
        while not is_over.is_set():
            time.sleep(0.001)
            signal.pthread_kill(main, signal.SIGINT)

    def interrupt_once(*_: object) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt_once)
    other = threading.Thread(target=guard.run, args=(hold,))
    other.start()
    is_in.wait()
    try:
        with pytest.raises(KeyboardInterrupt):
            is_about_to_wait.set()
            guard.run(int)
    finally:
        is_over.set()
        other.join()
        signal.signal(signal.SIGINT, before)
    assert is_free(guard)
    assert guard.run(len, "ab") == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_forked_while_another_thread_is_inside_gets_in() -> None:
    guard = Guard()
    is_in = threading.Event()
    is_over = threading.Event()
    other = threading.Thread(target=guard.run, args=(lambda: (is_in.set(), is_over.wait()),))
    other.start()
    is_in.wait()
    child = os.fork()
    if not child:
        signal.alarm(300)
        os._exit(guard.run(len, "abc"))
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    is_over.set()
    other.join()
    assert status == 3
