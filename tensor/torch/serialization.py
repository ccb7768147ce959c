"""``torch.save`` and ``torch.load``: checkpoints, which hold data and run nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO

import tensor as tn
from tensor.lowlevel import require_cpu

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from os import PathLike

__all__ = ["load", "save"]


def save(obj: object, f: str | PathLike[str] | BinaryIO) -> None:
    """Write a checkpoint, in the safetensors format: ``tensor.save``. Modules are saved by their state dicts.

    Examples
    --------
    >>> import io, tensor.torch as torch
    >>> file = io.BytesIO()
    >>> torch.save({"x": torch.ones(2), "epoch": 3}, file)
    >>> torch.load(file, map_location="cpu", weights_only=True)["epoch"]
    3
    """
    tn.save(obj, f)


def load(
    f: str | PathLike[str] | BinaryIO,
    map_location: str | Mapping[str, str] | Callable[..., Any] | None = None,
    *,
    weights_only: bool = True,
    mmap: bool | None = None,
) -> Any:
    """Return what a checkpoint holds, also of those that PyTorch wrote: ``tensor.load``.

    Parameters
    ----------
    map_location
        The CPU, whatever the tensors were on. A function, or a table of devices, has nothing to decide.
    weights_only
        Nothing in a file is ever run, with False neither.
    mmap
        A file is always mapped where it is given by its path.
    """
    del weights_only, mmap
    if isinstance(map_location, str):
        require_cpu(map_location)
    return tn.load(f)
