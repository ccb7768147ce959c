"""Random tensors, in PyTorch's dialect, from NumPy's generators."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from weakref import WeakSet, ref

import numpy as np

from tensor._dtypes import DtypeLike, as_dtype, float32, float64, is_bfloat16, is_inexact
from tensor.core.dims import sizes_of
from tensor.creation.from_data import finish, shape_of
from tensor.kernels.context import run_kernel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor._dtypes import Array, Dtype
    from tensor._tensor import Tensor


_generators: WeakSet[Generator] = WeakSet()


class Generator:
    """A stream of random numbers (PCG64) that any number of threads may draw from.

    Which numbers a thread gets when several draw is chance; that nobody gets the same ones is not.

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
        # The seed and NumPy's generator, under one key. No lock: an assignment replaces both, setdefault()
        # lets one of several threads be the first. Made at the first draw: NumPy loads its random module no
        # earlier either.
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
            raise TypeError(f"a seed is an integer, not {type(seed).__name__}")
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
        """Return the seed that the stream started at.

        Examples
        --------
        >>> import tensor
        >>> tensor.Generator().manual_seed(3).initial_seed()
        3
        """
        return self._started()[0]

    def get_state(self) -> dict[str, Any]:
        """Return where in the stream the generator is, for `set_state`; it can be pickled.

        Examples
        --------
        >>> import tensor
        >>> sorted(tensor.Generator().get_state())
        ['seed', 'stream']
        """
        seed, numbers = self._started()
        return {"seed": seed, "stream": numbers.bit_generator.state}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from where another generator, or this one earlier, was.

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
                f"this is no state of a generator ({error!r}): pass what get_state() returned"
            ) from None
        self._streams["now"] = seed, numbers

    @property
    def numbers(self) -> np.random.Generator:
        """NumPy's generator under this one, for draws that this namespace does not have.

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
    # A negative seed stands for its two's complement, as in PyTorch.
    return seed, np.random.Generator(np.random.PCG64(seed % 2**64))


def _seed_of_the_system() -> int:
    return int(np.random.SeedSequence().generate_state(1, np.uint64)[0])


# Where each generator was when a fork began.
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
    """Return NumPy's generator under `generator`, under the default one for None."""
    if generator is None:
        return default_generator.numbers
    if not isinstance(generator, Generator):
        raise TypeError(f"generator must be a tensor.Generator, not {type(generator).__name__}")
    return generator.numbers


def _floating(op: str, dtype: DtypeLike | None) -> Dtype:
    wanted = float32 if dtype is None else as_dtype(dtype)
    if not is_inexact(wanted):
        raise TypeError(
            f"{op} gives floating numbers, not {wanted}: draw with randint, or convert the result"
        )
    return wanted


def uniform_array(sizes: tuple[int, ...], dtype: Dtype, generator: Generator | None) -> Array:
    """Return numbers from 0 to 1 (excluded) as an array; both parts of a complex one are drawn."""
    return run_kernel(_uniform, numbers_of(generator), sizes, dtype)


def _uniform(numbers: np.random.Generator, sizes: tuple[int, ...], dtype: Dtype) -> Array:
    if dtype.kind == "c":
        return np.asarray(numbers.random(sizes) + 1j * numbers.random(sizes)).astype(dtype)
    drawn: Array = np.asarray(
        numbers.random(sizes) if dtype == float64 else numbers.random(sizes, np.float32)
    )
    if dtype.itemsize == 2:
        # Cut to the digits that the dtype has: rounding would make some of them 1.
        steps = 2.0 ** (8 if is_bfloat16(dtype) else 11)
        drawn = np.floor(drawn * steps) / steps
    return np.asarray(drawn).astype(dtype, copy=False)


def normal_array(sizes: tuple[int, ...], dtype: Dtype, generator: Generator | None) -> Array:
    """Return normal numbers of mean 0 and variance 1 as an array; complex parts share the variance."""
    return run_kernel(_normal, numbers_of(generator), sizes, dtype)


def _normal(numbers: np.random.Generator, sizes: tuple[int, ...], dtype: Dtype) -> Array:
    drawn: object
    if dtype.kind == "c":
        drawn = (numbers.standard_normal(sizes) + 1j * numbers.standard_normal(sizes)) * 0.5**0.5
    elif dtype == float64:
        drawn = numbers.standard_normal(sizes)
    else:
        drawn = numbers.standard_normal(sizes, np.float32)
    return np.asarray(drawn).astype(dtype, copy=False)


def rand(
    *size: int | Sequence[int],
    generator: Generator | None = None,
    dtype: DtypeLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return numbers drawn evenly from 0 (included) to 1 (excluded).

    Examples
    --------
    >>> import tensor
    >>> tensor.rand(2, 3).shape
    (2, 3)
    """
    sizes = shape_of(sizes_of("rand", size))
    return finish(uniform_array(sizes, _floating("rand", dtype), generator), requires_grad)


def randn(
    *size: int | Sequence[int],
    generator: Generator | None = None,
    dtype: DtypeLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return numbers drawn from the normal distribution with mean 0 and variance 1.

    Examples
    --------
    >>> import tensor
    >>> tensor.randn(2, 3).shape
    (2, 3)
    """
    sizes = shape_of(sizes_of("randn", size))
    return finish(normal_array(sizes, _floating("randn", dtype), generator), requires_grad)


def rand_like(x: Tensor, *, dtype: DtypeLike | None = None, requires_grad: bool = False) -> Tensor:
    """Return numbers drawn evenly from 0 to 1 (excluded), in the shape and dtype of `x`.

    Examples
    --------
    >>> import tensor
    >>> tensor.rand_like(tensor.zeros((2, 3))).shape
    (2, 3)
    """
    return rand(*x.shape, dtype=x.dtype if dtype is None else dtype, requires_grad=requires_grad)


def randn_like(x: Tensor, *, dtype: DtypeLike | None = None, requires_grad: bool = False) -> Tensor:
    """Return normal numbers of mean 0 and variance 1, in the shape and dtype of `x`.

    Examples
    --------
    >>> import tensor
    >>> tensor.randn_like(tensor.zeros((2, 3))).shape
    (2, 3)
    """
    return randn(*x.shape, dtype=x.dtype if dtype is None else dtype, requires_grad=requires_grad)
