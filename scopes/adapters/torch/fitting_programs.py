"""Run a program on fake tensors up to its second optimizer step, for ``disposescope fits``."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any

from scopes.adapters.torch.fitting import batch_of, report_of, search_largest
from scopes.adapters.torch.library import torch
from scopes.adapters.torch.rehearsal import (
    NotFakeError,
    Recorder,
    Rehearsal,
    faking,
    resized,
    user_site,
    watching,
)
from scopes.reports.fits import FitsReport

_optimizers: Any = import_module("torch.optim.optimizer")
_dataloader: Any = import_module("torch.utils.data.dataloader")
# The optimizer steps to run: from the second on, the optimizer has its state.
_STEPS = 2


class NoStepError(Exception):
    """The program ended before its first optimizer step."""


class _Done(BaseException):
    """Ends the program: everything is known."""


class _Watch:
    """Counts the optimizer's steps of a program, and chooses the size of its batches."""

    def __init__(self, recorder: Recorder, limit: int | None) -> None:
        self.recorder = recorder
        self.substitution: Any = None
        self.limit = limit
        self.batch: int | None = None
        self.largest: int | None = None
        self.rehearsal: Rehearsal | None = None
        self.steps = 0
        self._thread = threading.get_ident()
        self._counts: dict[int, int] = {}
        self._search: Generator[int, int, int | None] | None = None
        # The first batch, and the size that the next one shall have.
        self._template: Any = None
        self._size: int | None = None

    def after_step(self, optimizer: Any, _: Any, __: Any) -> None:
        """Note the step of an optimizer, and end the program if nothing is left to learn."""
        if threading.get_ident() != self._thread:
            return
        count = self._counts[id(optimizer)] = self._counts.get(id(optimizer), 0) + 1
        self.steps = max(self.steps, count)
        if self._search is not None:
            self._choose(lambda search: search.send(self.recorder.total()))
        else:
            self._mark()
            self.rehearsal = Rehearsal(self.recorder, self._unknown())
            if count == _STEPS:
                if self.limit is None or self.batch is None or self.substitution is None:
                    raise _Done
                self._search = search_largest(self.batch, self.rehearsal.peak_bytes, self.limit)
                self._choose(next)
        self.recorder.begin_step()

    def _choose(self, ask: Callable[[Any], int]) -> None:
        try:
            self._size = ask(self._search)
        except StopIteration as end:
            self.largest = end.value
            raise _Done from None

    def _unknown(self) -> list[Any]:
        return [] if self.substitution is None else list(self.substitution.unknown)

    def _mark(self) -> None:
        """Tell parameters, gradients and buffers from other storages."""
        for root in list(self.recorder.roots.values()):
            for module in root.modules():
                name = self.recorder.names.get(id(module), "")
                for x in module._parameters.values():
                    if x is not None:
                        self.recorder.mark(self._fake(x), "parameters", name)
                        if x.grad is not None:
                            self.recorder.mark(x.grad, "gradients", name)
                for x in module._buffers.values():
                    if x is not None:
                        self.recorder.mark(self._fake(x), "buffers", name)

    def _fake(self, x: Any) -> Any:
        return x if self.substitution is None else self.substitution.replaced(x)

    def next_batch(self, load: Callable[[], Any]) -> Any:
        """Return the next batch of a data loader as fake tensors."""
        if self._size is not None and self.batch is not None:
            # Other sizes are those of the first batch, as often as needed.
            return self._as_inputs(resized(self._template, (self.batch, self._size)))
        with _paused(self.substitution):
            loaded = load()
        if self.substitution is None:
            return loaded
        fakes = self.substitution.replaced(loaded)
        if self._template is None:
            self._template, self.batch = fakes, batch_of([fakes])
        return self._as_inputs(fakes)

    def _as_inputs(self, batch: Any) -> Any:
        for x in torch.utils._pytree.tree_leaves(batch):
            if isinstance(x, torch.Tensor):
                self.recorder.mark(x, "inputs")
        return batch


@contextmanager
def _paused(substitution: Any) -> Iterator[None]:
    """Compute on real tensors in the block: data loaders read values."""
    if substitution is None:
        yield
        return
    before, substitution.is_paused = substitution.is_paused, True
    try:
        with torch.utils._python_dispatch._disable_current_modes():
            yield
    finally:
        substitution.is_paused = before


@contextmanager
def _loading(watch: _Watch) -> Iterator[None]:
    """Let data loaders work in this process, and give their batches to `watch`."""
    get_iterator = _dataloader.DataLoader._get_iterator
    get_next = _dataloader._BaseDataLoaderIter.__next__

    def get_iterator_here(loader: Any) -> Any:
        loader.num_workers, loader.timeout, loader.prefetch_factor = 0, 0, None
        with _paused(watch.substitution):
            return get_iterator(loader)

    def get_next_fake(iterator: Any) -> Any:
        return watch.next_batch(lambda: get_next(iterator))

    with ExitStack() as stack:
        for owner, name, function in (
            (_dataloader.DataLoader, "_get_iterator", get_iterator_here),
            (_dataloader._BaseDataLoaderIter, "__next__", get_next_fake),
        ):
            stack.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, function)
        yield


def fit_program(
    run: Callable[[], BaseException | None], limit: int | None, *, is_real: bool = False
) -> FitsReport:
    """Run a program up to its second optimizer step, and return what it needed.

    `run` runs the program and returns its exception, or None. With `is_real`, the program computes on real
    tensors.

    Raises
    ------
    NotFakeError
        If the program needs the value of a tensor.
    NoStepError
        If the program ended before an optimizer stepped.
    """
    recorder = Recorder(is_of_program=True)
    watch = _Watch(recorder, limit)
    with ExitStack() as stack:
        if is_real:
            stack.enter_context(recorder)
        else:
            watch.substitution = stack.enter_context(faking(recorder))
        stack.enter_context(watching(recorder))
        stack.enter_context(_loading(watch))
        handle = _optimizers.register_optimizer_step_post_hook(watch.after_step)
        stack.callback(handle.remove)
        error = run()
    try:
        if isinstance(error, torch._subclasses.fake_tensor.DataDependentOutputException):
            raise NotFakeError(f"the program needs the value of a tensor: {error}", user_site())
        if error is not None and not isinstance(error, (_Done, SystemExit)):
            raise error
    finally:
        del error  # its traceback would keep this frame
    if watch.rehearsal is None:
        raise NoStepError(
            "the program ended before its first optimizer step, so there is no training to tell of"
        )
    remarks = []
    if watch.steps < _STEPS:
        remarks.append(
            "The program ended after one optimizer step. A second one needs more, if the optimizer has state."
        )
    elif limit is not None and watch.largest is None and not is_real:
        remarks.append(
            "The largest batch is not known: the program has no data loader that gives the batch."
            if watch.batch is None
            else "The largest batch is not known: it does not depend on the batch, or the program ended."
        )
    return report_of(
        watch.rehearsal, limit, watch.batch, largest=watch.largest, remarks=remarks, is_measured=is_real
    )
