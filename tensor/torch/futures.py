"""``torch.futures``, based on `concurrent.futures`."""

from __future__ import annotations

from concurrent import futures
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Future", "collect_all", "wait_all"]

T = TypeVar("T")
S = TypeVar("S")


class Future(Generic[T]):
    """Future value, which a thread sets later.

    Parameters
    ----------
    devices
        No effect: the CPU is the only device.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> future = torch.futures.Future()
    >>> doubled = future.then(lambda done: done.value() * 2)
    >>> future.set_result(3)
    >>> doubled.wait()
    6
    """

    def __init__(self, *, devices: Sequence[object] | None = None) -> None:
        del devices
        self._inner: futures.Future[T] = futures.Future()

    def done(self) -> bool:
        """Return whether a value or an error is set."""
        return self._inner.done()

    def wait(self) -> T:
        """Wait for the value and return it, or raise the error that was set."""
        return self._inner.result()

    def value(self) -> T:
        """Return the value, which must be set."""
        if not self.done():
            raise RuntimeError("the future has no value yet: call wait(), or value() inside then(callback)")
        return self._inner.result()

    def set_result(self, result: T) -> None:
        """Set the value, once."""
        try:
            self._inner.set_result(result)
        except futures.InvalidStateError:
            raise RuntimeError("the future has a value already, and takes one only") from None

    def set_exception(self, result: BaseException) -> None:
        """Set the error that ``wait()`` raises."""
        self._inner.set_exception(result)

    def then(self, callback: Callable[[Future[T]], S]) -> Future[S]:
        """Return a future of ``callback(self)``, which runs when the value is set."""
        after: Future[S] = Future()

        def run(_: object) -> None:
            try:
                found = callback(self)
            except BaseException as error:  # noqa: BLE001 -- the error is the result
                after.set_exception(error)
            else:
                after.set_result(found)

        self._inner.add_done_callback(run)
        return after

    def add_done_callback(self, callback: Callable[[Future[T]], None]) -> None:
        """Call ``callback(self)`` when the value is set."""
        self._inner.add_done_callback(lambda _: callback(self))


def collect_all(futures: Sequence[Future[T]]) -> Future[list[Future[T]]]:
    """Return a future of the list of all `futures`, which is set when all of them have values.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> one, two = torch.futures.Future(), torch.futures.Future()
    >>> both = torch.futures.collect_all([one, two])
    >>> one.set_result(1)
    >>> two.set_result(2)
    >>> [future.wait() for future in both.wait()]
    [1, 2]
    """
    whole: Future[list[Future[T]]] = Future()
    waiting = list(futures)
    if not waiting:
        whole.set_result([])
    for each in futures:
        each.add_done_callback(lambda done: _take_off(done, waiting, list(futures), whole))
    return whole


def _take_off(
    done: Future[T], waiting: list[Future[T]], all_of_them: list[Future[T]], whole: Future[list[Future[T]]]
) -> None:
    waiting.remove(done)
    if not waiting:
        whole.set_result(all_of_them)


def wait_all(futures: Sequence[Future[T]]) -> list[T]:
    """Wait for all `futures`, and return their values."""
    return [future.wait() for future in futures]
