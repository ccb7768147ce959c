"""CUDA streams: delay the reuse of a disposed tensor's memory until all streams that may read it are done.

PyTorch's allocator knows only the stream that a tensor was created on. A program that uses the tensor on
another stream calls ``x.record_stream(stream)``, or keeps the tensor until that stream is done. A scope may
dispose the tensor earlier, so the disposal calls ``record_stream`` for all streams with pending work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scopes.adapters.torch import memory
from scopes.adapters.torch.library import torch

# The streams that were current inside `owning()`, by handle. PyTorch has a pool of a few streams.
used: dict[int, Any] = {}


def note(stream: Any) -> None:
    """Record that `stream` is or was current."""
    used[stream.cuda_stream] = stream


def record(x: Any) -> None:
    """Delay the reuse of the memory of `x` until all streams with pending work are done.

    During the capture of a CUDA graph streams can't be queried, so all of them count. PyTorch ignores the
    stream that `x` was created on.
    """
    is_capturing = torch.cuda.is_current_stream_capturing()
    streams = [stream for stream in list(used.values()) if stream.device == x.device]
    busy = [stream for stream in streams if is_capturing or not stream.query()]
    for part in memory.parts_of(x) if busy else ():
        for stream in busy:
            try:
                part.record_stream(stream)
            except (RuntimeError, NotImplementedError):  # its memory is not from PyTorch's allocator
                continue


def setting(set_stream: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Wrap ``torch.cuda.set_stream``, which ``torch.cuda.stream`` also calls, to record the stream."""

    def called(stream: Any) -> Any:
        if stream is not None:
            note(torch.cuda.current_stream(stream.device))
            note(stream)
        return set_stream(stream)

    return called


def entering(enter: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Wrap ``torch.cuda.Stream.__enter__`` to record the stream."""

    def called(stream: Any) -> Any:
        note(torch.cuda.current_stream(stream.device))
        note(stream)
        return enter(stream)

    return called
