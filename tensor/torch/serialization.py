"""``torch.save`` and ``torch.load``: files in PyTorch's format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, BinaryIO

from nn import Parameter
from tensor import Tensor
from tensor._devices import require_cpu
from tensor.io.checkpoints import load_with
from tensor.io.torch_files import Reading
from tensor.io.torch_writing import global_name, write_torch_file

if TYPE_CHECKING:
    from os import PathLike


__all__ = ["add_safe_globals", "clear_safe_globals", "get_safe_globals", "load", "safe_globals", "save"]

# Allowed objects by their names in files: for the process, as in PyTorch, and for the current context.
_allowed: dict[str, object] = {}
_allowed_here: ContextVar[Mapping[str, object]] = ContextVar("_allowed_here", default={})  # noqa: B039 -- never written to


def save(obj: object, f: str | PathLike[str] | BinaryIO) -> None:
    """Write `obj` in PyTorch's format. PyTorch can load state dicts and checkpoints too.

    The file contains the values of tensors and whether they require grad. Memory that tensors share is
    written once, and is shared again after ``load``. A file at `f` is replaced atomically. `obj` may contain
    anything that Python can pickle. Whole modules and optimizers are saved with the names of their classes;
    ``load`` needs ``weights_only=False`` for them, as in PyTorch. PyTorch can't load whole modules of this
    library.

    Raises
    ------
    pickle.PicklingError
        If an object can't be pickled, or a class or function can't be found by name, such as a lambda.
    TensorDisposedError
        If one of the tensors is disposed.
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
    """Load a file from ``save``, PyTorch's ``torch.save`` or ``tensor.save``.

    Tensors belong to the current scope; those of whole modules belong to the modules. If loading fails, all
    loaded tensors are disposed.

    Parameters
    ----------
    map_location
        The device, which must be the CPU. A function or a dict of devices has no effect.
    weights_only
        Allow only tensors, parameters, plain data in containers, and objects of ``safe_globals``. Other files
        are refused, and none of their code runs. With False, Python's unpickler reads the file: **it runs any
        code that the author put into the file**. Use it only with files that you trust.
    mmap
        Map the file into memory instead of reading it. Do not change the file while tensors use it.

    Raises
    ------
    CheckpointError
        If the file has another format, or is broken or malicious; if it contains more than data and
        `weights_only` is True; or if it is a whole module of PyTorch, whose classes differ.
    OSError
        If the file does not exist or can't be read.
    """
    if isinstance(map_location, str):
        require_cpu(map_location)
    reading = Reading(not weights_only, _all_allowed() if weights_only else {}, _parameter)
    return load_with(f, reading, is_mapped=bool(mmap))


def _parameter(x: Tensor, requires_grad: bool) -> Parameter:
    return Parameter(x, requires_grad)


def add_safe_globals(safe_globals: Sequence[Any]) -> None:
    """Allow ``load`` to use, and so to run, these classes and functions.

    A pair ``(object, "module.name")`` gives the name in files, if it differs from the object's own name.

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
    """Remove all objects that ``add_safe_globals`` has allowed."""
    _allowed.clear()


def get_safe_globals() -> list[Any]:
    """Return the objects that ``load`` allows besides tensors and plain data."""
    return list(_all_allowed().values())


def safe_globals(safe_globals: Sequence[Any]) -> AbstractContextManager[None]:
    """Return a context manager that allows ``load`` to use these classes and functions in this context."""
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
