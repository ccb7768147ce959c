"""Generators of random numbers, and the default one."""

from __future__ import annotations

import os
from typing import Any
from weakref import WeakSet, ref

import numpy as np

from scopes._shared.naming import set_module

_generators: WeakSet[Generator] = WeakSet()


@set_module("tensor")
class Generator:
    """A generator of random numbers (PCG64), which several threads may use.

    If several threads draw, the order is not defined, but no two draws get the same numbers.

    Examples
    --------
    >>> import tensor
    >>> g = tensor.Generator().manual_seed(0)
    >>> state = g.get_state()
    >>> first = tensor.rand(3, generator=g)
    >>> g.set_state(state)
    >>> bool((tensor.rand(3, generator=g) == first).all())
    True
    """

    __slots__ = ("__weakref__", "_streams")

    def __init__(self) -> None:
        # The seed and NumPy's generator, under one key. No lock is needed: an assignment replaces both, and
        # setdefault() stores those of the first thread. Both are created at the first draw, so that importing
        # `tensor` does not load NumPy's random module.
        self._streams: dict[str, tuple[int, np.random.Generator]] = {}
        _generators.add(self)

    def manual_seed(self, seed: int) -> Generator:
        """Set the seed, and return the generator.

        Examples
        --------
        >>> import tensor
        >>> tensor.Generator().manual_seed(7).initial_seed()
        7
        """
        if not isinstance(seed, (int, np.integer)):
            raise TypeError(f"a seed must be an integer, not {type(seed).__name__}")
        self._streams["now"] = _stream_from(int(seed))
        return self

    def seed(self) -> int:
        """Set a seed from the operating system, and return it.

        Examples
        --------
        >>> import tensor
        >>> g = tensor.Generator()
        >>> g.seed() == g.initial_seed()
        True
        """
        seed = _seed_of_the_system()
        self.manual_seed(seed)
        return seed

    def initial_seed(self) -> int:
        """Return the seed that the generator started with.

        Examples
        --------
        >>> import tensor
        >>> tensor.Generator().manual_seed(3).initial_seed()
        3
        """
        return self._started()[0]

    def get_state(self) -> dict[str, Any]:
        """Return the state of the generator, for `set_state`. It can be pickled.

        Examples
        --------
        >>> import tensor
        >>> sorted(tensor.Generator().get_state())
        ['seed', 'stream']
        """
        seed, numbers = self._started()
        return {"seed": seed, "stream": numbers.bit_generator.state}

    def set_state(self, state: dict[str, Any]) -> None:
        """Set the state of the generator to a state from `get_state`.

        Examples
        --------
        >>> import tensor
        >>> a, b = tensor.Generator(), tensor.Generator()
        >>> b.set_state(a.get_state())
        >>> tensor.rand(1, generator=a).item() == tensor.rand(1, generator=b).item()
        True
        """
        numbers = np.random.Generator(np.random.PCG64(0))
        try:
            numbers.bit_generator.state = state["stream"]
            seed = int(state["seed"])
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ValueError(
                f"this is not the state of a generator ({error!r}): pass the result of get_state()"
            ) from None
        self._streams["now"] = seed, numbers

    @property
    def numbers(self) -> np.random.Generator:
        """The underlying NumPy generator, for distributions that this namespace does not have.

        Examples
        --------
        >>> import tensor
        >>> tensor.Generator().manual_seed(0).numbers.permutation(4).shape
        (4,)
        """
        return self._started()[1]

    def _started(self) -> tuple[int, np.random.Generator]:
        found = self._streams.get("now")
        if found is None:
            found = self._streams.setdefault("now", _stream_from(_seed_of_the_system()))
        return found

    def __repr__(self) -> str:
        return f"<Generator seeded with {self.initial_seed()}>"


def _stream_from(seed: int) -> tuple[int, np.random.Generator]:
    # A negative seed counts as its two's complement, as in PyTorch.
    return seed, np.random.Generator(np.random.PCG64(seed % 2**64))


def _seed_of_the_system() -> int:
    return int(np.random.SeedSequence().generate_state(1, np.uint64)[0])


# The state of each generator at the last fork.
_at_fork: list[tuple[ref[Generator], dict[str, Any]]] = []


def _note_states() -> None:
    global _at_fork
    _at_fork = [(ref(x), x.get_state()) for x in list(_generators) if x._streams]


def _go_on_in_child() -> None:
    """Create new NumPy generators: a thread that drew at the fork may hold the lock of the old one."""
    for weak, state in _at_fork:
        generator = weak()
        if generator is not None:
            generator.set_state(state)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_note_states, after_in_child=_go_on_in_child)

default_generator: Generator = Generator()


def manual_seed(seed: int) -> Generator:
    """Set the seed of the default generator, and return the generator.

    Examples
    --------
    >>> import tensor
    >>> a = tensor.manual_seed(0) and tensor.rand(2)
    >>> b = tensor.manual_seed(0) and tensor.rand(2)
    >>> a.tolist() == b.tolist()
    True
    """
    return default_generator.manual_seed(seed)


def numbers_of(generator: Generator | None) -> np.random.Generator:
    """Return the NumPy generator of `generator`, or of the default one for None."""
    if generator is None:
        return default_generator.numbers
    if not isinstance(generator, Generator):
        raise TypeError(f"generator must be a tensor.Generator, not {type(generator).__name__}")
    return generator.numbers
