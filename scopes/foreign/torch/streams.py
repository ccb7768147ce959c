"""Streams of CUDA: the memory of a disposed tensor is not used again before streams that may use it are done.

PyTorch's allocator knows only the stream that a tensor was made on. A program that uses the tensor on another
stream calls ``x.record_stream(stream)``, or keeps the tensor until that stream is done. A scope's end is
earlier than the program may expect, so it records the streams that have work left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scopes.foreign.torch import memory
from scopes.foreign.torch.library import torch

if TYPE_CHECKING:
    from collections.abc import Callable

# Each stream that was current inside of `owning()`, by its handle. PyTorch has few, and reuses them.
used: dict[int, Any] = {}


def note(stream: Any) -> None:
    """Note that `stream` is current, or was."""
    used[stream.cuda_stream] = stream


def record(x: Any) -> None:
    """Let the memory of `x` wait for each stream that has work left.

    A stream that is being captured into a graph can't be asked: then all streams count. For the stream that
    `x` was made on, PyTorch does nothing.
    """
    is_capturing = torch.cuda.is_current_stream_capturing()
    streams = [stream for stream in list(used.values()) if stream.device == x.device]
    busy = [stream for stream in streams if is_capturing or not stream.query()]
    for part in memory.parts_of(x) if busy else ():
        for stream in busy:
            try:
                part.record_stream(stream)
            except (RuntimeError, NotImplementedError):  # it has no memory of the allocator
                continue


def setting(set_stream: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return ``torch.cuda.set_stream``, which ``torch.cuda.stream`` calls too, with a note of the stream."""

    def called(stream: Any) -> Any:
        if stream is not None:
            note(torch.cuda.current_stream(stream.device))
            note(stream)
        return set_stream(stream)

    return called


def entering(enter: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return ``torch.cuda.Stream.__enter__``, with a note of the stream."""

    def called(stream: Any) -> Any:
        note(torch.cuda.current_stream(stream.device))
        note(stream)
        return enter(stream)

    return called
