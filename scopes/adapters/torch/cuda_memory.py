"""The memory of CUDA devices by PyTorch's own figures, with a peak for each of several measures."""

from __future__ import annotations

import threading
from collections import defaultdict

from scopes.adapters.torch.library import torch

# PyTorch has one peak for each device. These raise several: before each reset of PyTorch's peak, all open
# watches of the device take it over, and so does the peak of the process.
_open: defaultdict[int, list[CudaWatch]] = defaultdict(list)
_peaks: defaultdict[int, int] = defaultdict(int)
_lock = threading.RLock()


def figures(device: int) -> tuple[int, int, int, int, int, int]:
    """Return the live bytes, their peak, all allocated and freed bytes, allocations, and cached bytes."""
    stats = torch.cuda.memory_stats(device)
    live = torch.cuda.memory_allocated(device)
    with _lock:
        peak = max(_peaks[device], torch.cuda.max_memory_allocated(device))
    return (
        live,
        peak,
        stats.get("allocated_bytes.all.allocated", 0),
        stats.get("allocated_bytes.all.freed", 0),
        stats.get("allocation.all.allocated", 0),
        torch.cuda.memory_reserved(device) - live,
    )


def reset_peak(device: int) -> None:
    """Reset the peak of the process to the live bytes. It does not affect the watches."""
    with _lock:
        _raise_peaks(device)
        _peaks[device] = 0


def _raise_peaks(device: int) -> None:
    """Give PyTorch's peak to the open watches and the process, and reset it."""
    peak = torch.cuda.max_memory_allocated(device)
    _peaks[device] = max(_peaks[device], peak)
    for watch in _open[device]:
        watch.peak = max(watch.peak, peak)
    torch.cuda.reset_peak_memory_stats(device)


class CudaWatch:
    """Finds the peak of a device's live bytes while it runs; like ``cpu_allocator.Watch``."""

    def __init__(self, device: int) -> None:
        self.device = device
        self.peak = 0

    def start(self) -> tuple[int, int]:
        """Begin. Return the live and all allocated bytes of this moment."""
        with _lock:
            _raise_peaks(self.device)
            live, _, allocated, *_ = figures(self.device)
            self.peak = live
            _open[self.device].append(self)
        return live, allocated

    def read(self) -> tuple[int, int, int]:
        """Return the peak since the start, and the live and all allocated bytes."""
        live, _, allocated, *_ = figures(self.device)
        with _lock:
            return max(self.peak, torch.cuda.max_memory_allocated(self.device)), live, allocated

    def stop(self) -> None:
        """End."""
        with _lock:
            if self in _open[self.device]:
                _open[self.device].remove(self)
