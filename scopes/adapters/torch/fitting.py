"""Tell what a training step needs before it runs: the peak, and the largest batch that fits."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterable
from dataclasses import replace
from typing import Any

from scopes._shared.naming import set_module
from scopes._shared.sizes import parse_size
from scopes.adapters.torch.library import torch
from scopes.adapters.torch.rehearsal import (
    NotFakeError,
    Rehearsal,
    measure,
    rehearse,
)
from scopes.reports.fits import PARTS, CheckpointRow, FitsReport, FitsRow, names_of
from scopes.tracking.sites import Site

__all__ = ["CheckpointRow", "FitsReport", "FitsRow", "NotFakeError", "fits"]

# How many groups of modules to try under checkpointing. Each takes a step on fake tensors.
_MOST_GROUPS = 6
# The least part of the peak that a checkpoint must save to be listed.
_LEAST_SAVED = 0.01
_LARGEST = 2**24
# The most sizes of a batch to try.
_MOST_SIZES = 40
_NOT_COUNTED = (
    "Not counted: PyTorch's code, and buffers that its libraries keep (MKL's for matrix products reach about "
    "17 MB with two threads). Kernels' memory is known for convolutions, LSTMs, attention and dropout in "
    "float32 on the CPU; of others, only the results count."
)


@set_module("scopes.torch")
def fits(
    step: Callable[..., object], *args: Any, memory: int | str | None = None, real: bool = False
) -> FitsReport:
    """Return what ``step(*args)`` needs at its peak, without running it.

    The step runs on fake tensors (``FakeTensorMode``): without memory for tensors, and without arithmetic. It
    runs twice, because from the second step on the optimizer has its state. Models, optimizers and tensors
    that the step uses stay as they are, to the bit: parameters, gradients, states, buffers and random states.
    So do lists, dicts and attributes of objects that it refers to. Other effects of the step happen, such
    as output.

    Parameters
    ----------
    step
        One training step: forward, backward and ``optimizer.step()``.
    args
        What the step is called with, such as a batch.
    memory
        The memory to fit into: an int, or text such as ``"8 GiB"``. With it, the report has the largest batch
        that fits. The batch is the first dimension of the first tensor in `args`.
    real
        Run one real step, and count its storages. It needs the memory, and changes the model. This is for a
        step that needs values of tensors.

    Raises
    ------
    NotFakeError
        If the step needs the value of a tensor. The error names the line.

    Examples
    --------
    >>> import scopes.torch, torch
    >>> model = torch.nn.Linear(1000, 1000)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> def step(x):
    ...     model(x).sum().backward()
    ...     optimizer.step()
    ...     optimizer.zero_grad()
    >>> report = scopes.torch.fits(step, torch.empty(64, 1000), memory="16 MiB")
    >>> report.fits, report.parts["parameters"], model.weight.grad
    (True, 4004000, None)
    """
    limit = None if memory is None else parse_size(memory, "memory")
    batch = batch_of(args)
    if real:
        return report_of(measure(step, args), limit, batch, is_measured=True)
    first = rehearse(step, args)
    report = report_of(first, limit, batch)
    remarks = list(report.remarks)
    largest = None
    if limit is not None and batch is not None:
        try:
            largest = _largest(step, args, batch, first.peak_bytes, limit)
        except _CannotSearchError as error:
            remarks.append(str(error))
    elif limit is not None:
        remarks.append("The largest batch is not known: no argument of the step is a tensor with dimensions.")
    checkpoints, failed = _checkpoints(step, args, first)
    remarks += failed
    return replace(report, largest_batch=largest, checkpoints=checkpoints, remarks=tuple(remarks))


class _CannotSearchError(Exception):
    pass


def batch_of(values: Iterable[Any]) -> int | None:
    """Return the first dimension of the first tensor with dimensions, in lists, tuples and dicts too."""
    for value in values:
        if isinstance(value, torch.Tensor):
            if value.dim():
                return int(value.shape[0])
        elif isinstance(value, (list, tuple, dict)):
            found = batch_of(value.values() if isinstance(value, dict) else value)
            if found is not None:
                return found
    return None


def _largest(
    step: Callable[..., object], args: tuple[Any, ...], batch: int, peak: int, limit: int
) -> int | None:
    search = search_largest(batch, peak, limit)
    try:
        size = next(search)
        while True:
            try:
                found = rehearse(step, args, batch=(batch, size)).peak_bytes
            except (RuntimeError, ValueError, IndexError) as error:
                raise _CannotSearchError(
                    f"The largest batch is not known: the step does not run with a batch of {size:,}: {error}"
                ) from None
            size = search.send(found)
    except StopIteration as end:
        result: int | None = end.value
        return result


def search_largest(batch: int, peak: int, limit: int) -> Generator[int, int, int | None]:
    """Yield sizes of a batch to try, take the peak of each, and return the largest that fits.

    The peak is nearly affine in the batch, so a guess is on the line through the two sizes nearest to the
    limit. The result is exact up to 200, and within 0.5% above. None: no size is too large. 0: one example is
    too much.
    """
    known = {batch: peak}
    for turn in range(_MOST_SIZES):
        low = max((n for n, nbytes in known.items() if nbytes <= limit), default=0)
        high = min((n for n, nbytes in known.items() if nbytes > limit), default=None)
        if high is not None and high - low <= max(1, low // 200):
            return low
        if high is None and low >= _LARGEST:
            return None
        guess = _between(known, low, high, limit)
        if turn % 3 == 2 and high is not None:  # the peak of a small batch may be elsewhere in the step
            guess = (low + high) // 2
        known[guess] = yield guess
    return max((n for n, nbytes in known.items() if nbytes <= limit), default=0)


def _between(known: dict[int, int], low: int, high: int | None, limit: int) -> int:
    """Return a size to try next, above `low` and below `high`."""
    near = sorted(sorted(known, key=lambda n: abs(known[n] - limit))[:2])
    slope = (known[near[-1]] - known[near[0]]) / (near[-1] - near[0]) if len(near) > 1 else 0.0
    if high is None:
        guess = int(near[-1] + (limit - known[near[-1]]) / slope) + 1 if slope > 0 else 2 * low
        return min(max(guess, 2 * low), 64 * low, _LARGEST)
    guess = int(near[0] + (limit - known[near[0]]) / slope) if slope > 0 else (low + high) // 2
    return min(max(guess, low + 1), high - 1)


def _checkpoints(
    step: Callable[..., object], args: tuple[Any, ...], first: Rehearsal
) -> tuple[tuple[CheckpointRow, ...], list[str]]:
    """Return what checkpoints save, and remarks about those that the step does not run with."""
    rows, failed = [], []
    for group in _groups(first.modules)[:_MOST_GROUPS]:
        try:
            found = rehearse(step, args, checkpointed=group)
        except Exception as error:  # noqa: BLE001  # not every module can run twice
            reason = str(error).partition("\n")[0]
            failed.append(
                f"What a checkpoint of {names_of(group)} saves is not known: the step does not run with it: "
                f"{type(error).__name__}: {reason}"
            )
            continue
        saved = first.peak_bytes - found.peak_bytes
        if saved >= _LEAST_SAVED * first.peak_bytes:
            extra = (found.flops - first.flops) / first.flops if first.flops else None
            rows.append(CheckpointRow(group, found.peak_bytes, saved, extra))
    return tuple(sorted(rows, key=lambda row: -row.saved_bytes)), failed


def _groups(modules: list[str]) -> list[tuple[str, ...]]:
    """Return groups of modules to checkpoint: the items of lists, then modules with others inside.

    `modules` are the names of the modules that ran. An item of a list inside such an item is no candidate.
    """
    inner = {name.rpartition(".")[0] for name in modules}
    lists: dict[str, list[str]] = defaultdict(list)
    for name in modules:
        above, _, last = name.rpartition(".")
        if last.isdigit() and not any(part.isdigit() for part in above.split(".")):
            lists[above].append(name)
    groups = [tuple(names) for names in lists.values() if len(names) > 1 and inner.intersection(names)]
    groups += [(name,) for name in modules if name in inner and "." not in name]
    return groups


def report_of(
    rehearsal: Rehearsal,
    limit: int | None,
    batch: int | None,
    *,
    largest: int | None = None,
    remarks: Iterable[str] = (),
    is_measured: bool = False,
) -> FitsReport:
    """Return the report of a rehearsal: its storages at the peak by part, by module and by line."""
    parts: Counter[str] = Counter()
    modules: dict[str, Counter[str]] = defaultdict(Counter)
    lines: dict[Site, Counter[str]] = defaultdict(Counter)
    for block in rehearsal.blocks:
        part = block.part or "temporary"
        parts[part] += block.nbytes
        if part != "inputs":
            modules[block.module][part] += block.nbytes
        if block.site.lines:
            lines[block.site][part] += block.nbytes
    unknown = [
        f"The value of .item() is not known on fake tensors; nan stands for it: {site}"
        for site in rehearsal.unknown
    ]
    return FitsReport(
        peak_bytes=rehearsal.peak_bytes,
        memory=limit,
        parts={part: parts[part] for part in PARTS},
        modules=_rows([(name, None, found) for name, found in modules.items()]),
        lines=_rows([("", site, found) for site, found in lines.items()]),
        batch=batch,
        largest_batch=largest,
        checkpoints=(),
        remarks=(*unknown, *remarks, _NOT_COUNTED),
        is_measured=is_measured,
    )


def _rows(found: list[tuple[str, Site | None, Counter[str]]]) -> tuple[FitsRow, ...]:
    rows = [FitsRow(name, site, parts.total(), dict(parts)) for name, site, parts in found]
    return tuple(sorted(rows, key=lambda row: -row.nbytes))
