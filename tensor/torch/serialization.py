"""``torch.save`` and ``torch.load``: PyTorch's files, of data alone or of whole objects."""

from __future__ import annotations

from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, BinaryIO

from nn import Parameter
from tensor.lowlevel import Reading, global_name, load_with, require_cpu, write_torch_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from os import PathLike

    from tensor import Tensor

__all__ = [
    "add_safe_globals",
    "clear_safe_globals",
    "get_safe_globals",
    "load",
    "safe_globals",
    "save",
]

# By the names that files have for them. For the process as in PyTorch, and in addition for a context.
_allowed: dict[str, object] = {}
_allowed_here: ContextVar[Mapping[str, object]] = ContextVar("_allowed_here", default={})  # noqa: B039 -- never written to


def save(obj: object, f: str | PathLike[str] | BinaryIO) -> None:
    """Write `obj` in PyTorch's format; state dicts and checkpoints of them are files that PyTorch loads too.

    Of tensors, their values and whether they require grad; tensors that share memory are written once and
    share it again. A path is replaced whole or not at all. Anything that Python can pickle may be in it:
    whole modules and optimizers are saved by the names of their classes, and ``load`` takes them with
    ``weights_only=False``, as in PyTorch. PyTorch does not take whole modules of this library.

    Raises
    ------
    pickle.PicklingError
        If a class or function is not found by its name (a lambda, a class inside of a function), or an object
        can't be pickled.
    TensorDisposedError
        If one of the tensors is empty.
    OSError
        If the file can't be written.

    Examples
    --------
    >>> import io, tensor.torch as torch
    >>> file = io.BytesIO()
    >>> torch.save({"x": torch.ones(2), "epoch": 3}, file)
    >>> torch.load(file, map_location="cpu")["epoch"]
    3
    >>> torch.save(torch.nn.Linear(2, 3), file := io.BytesIO())
    >>> torch.load(file, weights_only=False)
    Linear(in_features=2, out_features=3, bias=True)
    """
    write_torch_file(obj, f, Parameter)


def load(
    f: str | PathLike[str] | BinaryIO,
    map_location: str | Mapping[str, str] | Callable[..., Any] | None = None,
    *,
    weights_only: bool = True,
    mmap: bool | None = None,
) -> Any:
    """Return what a file holds, of ``save``, of PyTorch's ``torch.save``, or of ``tensor.save``.

    Tensors belong to the current scope, those of whole modules to their modules. If the file can't be loaded,
    nothing of it is left behind.

    Parameters
    ----------
    map_location
        The CPU, whatever the tensors were on. A function, or a table of devices, has nothing to decide.
    weights_only
        Take tensors, parameters and plain data in containers, and what ``safe_globals`` allows; a file that
        holds more is refused, and nothing in it is run. With False, Python's unpickler reads the file: **it
        runs whatever code the author of the file wants**. Load so only what you trust.
    mmap
        Let tensors lie over the mapped file of a path, which must not be written to meanwhile, instead of
        reading it at once.

    Raises
    ------
    CheckpointError
        If the file is of another kind, broken or hostile; if it holds more than data and is not to be run; or
        if it is a whole module of PyTorch, whose classes are others.
    OSError
        If there is no such file, or it can't be read.
    """
    if isinstance(map_location, str):
        require_cpu(map_location)
    reading = Reading(not weights_only, _all_allowed() if weights_only else {}, _parameter)
    return load_with(f, reading, is_mapped=bool(mmap))


def _parameter(x: Tensor, requires_grad: bool) -> Parameter:
    return Parameter(x, requires_grad)


def add_safe_globals(safe_globals: Sequence[Any]) -> None:
    """Let ``load`` take these classes and functions, and so run them, from now on.

    Pairs ``(object, "module.name")`` say what a file calls it, if that is another name than its own.

    Examples
    --------
    >>> import io
    >>> from tensor.torch import nn, serialization
    >>> serialization.save(nn.Linear(2, 3), file := io.BytesIO())
    >>> with serialization.safe_globals([nn.Linear]):
    ...     serialization.load(file)
    Linear(in_features=2, out_features=3, bias=True)
    """
    _allowed.update(_by_name(safe_globals))


def clear_safe_globals() -> None:
    """Take back what ``add_safe_globals`` has allowed."""
    _allowed.clear()


def get_safe_globals() -> list[Any]:
    """Return what ``load`` takes besides tensors and plain data."""
    return list(_all_allowed().values())


def safe_globals(safe_globals: Sequence[Any]) -> AbstractContextManager[None]:
    """Let ``load`` take these classes and functions within a ``with`` block, in this thread or task."""
    return _allowing(_by_name(safe_globals))


@contextmanager
def _allowing(more: Mapping[str, object]) -> Iterator[None]:
    token = _allowed_here.set({**_allowed_here.get(), **more})
    try:
        yield
    finally:
        _allowed_here.reset(token)


def _all_allowed() -> dict[str, object]:
    return {**_allowed, **_allowed_here.get()}


def _by_name(given: Sequence[Any]) -> dict[str, object]:
    found: dict[str, object] = {}
    for item in given:
        obj, name = item if isinstance(item, tuple) else (item, None)
        if not hasattr(obj, "__qualname__"):
            raise TypeError(f"safe_globals takes classes and functions, not {type(obj).__name__}")
        found[name or global_name(obj)] = obj
    return found
