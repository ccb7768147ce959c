# cython: language_level=3, auto_pickle=False
"""A lock and a context manager that an interrupt at any moment leaves unlocked and closed.

An interrupt can hit ``with lock:`` after the lock is taken and before the block is entered (Python 3.14
checks for signals there). Then the lock is never released. Compiled code can only be interrupted inside its
calls: in the wait, which then does not take the lock, or in the guarded function, after which it is released.
"""

cimport cython
from cpython.pythread cimport PyThread_get_thread_ident

import os
from _thread import allocate_lock  # `threading` takes a millisecond to load


# Incremented in a child after a fork, where a lock of another thread would stay locked.
cdef long _generation = 0


def _begin_generation():
    global _generation
    _generation += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_generation)


@cython.final
cdef class Guard:
    """Lets one thread at a time call functions. Nested calls on the same thread do not wait."""

    cdef object lock
    cdef long generation
    # The ident of the thread inside a call, or 0.
    cdef unsigned long owner

    def __cinit__(self):
        self.lock = allocate_lock()
        self.generation = _generation

    cdef object fresh_lock(self):
        """Return the lock, or a new one in a child that was forked since the last call."""
        if self.generation != _generation:
            self.lock = allocate_lock()
            self.owner = 0
            self.generation = _generation
        return self.lock

    def is_held_here(self):
        """Return whether this thread is inside a call."""
        return self.generation == _generation and self.owner == PyThread_get_thread_ident()

    def run(self, function, *arguments):
        """Wait until no other thread is inside a call, then return ``function(*arguments)``."""
        lock = self.fresh_lock()
        if self.owner == PyThread_get_thread_ident():
            return function(*arguments)
        lock.acquire()
        try:
            self.owner = PyThread_get_thread_ident()
            return function(*arguments)
        finally:
            self.owner = 0
            lock.release()

    def run_if_free(self, function, double patience=0.0):
        """Call `function` unless a thread is inside a call, and return whether it was called.

        It waits at most `patience` seconds for a call of another thread, and not for one of this thread.
        """
        lock = self.fresh_lock()
        if self.owner == PyThread_get_thread_ident():
            return False
        if not lock.acquire(timeout=patience):
            return False
        try:
            self.owner = PyThread_get_thread_ident()
            function()
            return True
        finally:
            self.owner = 0
            lock.release()


class Closing:
    """A context manager that calls ``_close()`` at the end of its block, and again if that call raises.

    A subclass defines ``__enter__`` and ``_close``, each step of which may run twice. An interrupt that
    arrives when the block ends is raised inside of ``_close``, because this class is compiled.
    """

    def __exit__(self, *error):
        try:
            self._close()
        except BaseException:
            self._close()
            raise
