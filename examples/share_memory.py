"""Two processes share memory: one draws frames, the other counts their brightness, without a copy.

Both create tensors over the same SharedMemory with `tensor.from_blob`. The processes only send each other the
number of a frame's slot, after drawing and after counting. The counts are in the shared memory too, so the
process that draws can print them.

python examples/share_memory.py
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.shared_memory import SharedMemory
from typing import NamedTuple

import tensor
from scopes import new_dispose_scope, statistics
from tensor import Tensor, memory

HEIGHT, WIDTH = 240, 320
FRAMES = 24
SLOTS = 4  # the drawing process waits for a free one
BINS = 16
COUNT_BYTES = 8 * BINS
SHARED_BYTES = COUNT_BYTES + SLOTS * HEIGHT * WIDTH


class Board(NamedTuple):
    """The tensors that both processes share."""

    counts: Tensor  # (BINS,), int64: how many pixels of each brightness there were so far
    frames: Tensor  # (SLOTS, HEIGHT, WIDTH), uint8


def over(shared: SharedMemory) -> Board:
    """Create tensors over the shared memory, in the current scope. Close the memory after the scope ends."""
    memory = shared.buf
    assert memory is not None  # it is None once it is closed
    counts = tensor.from_blob(memory, (BINS,), "int64")
    frames = tensor.from_blob(memory, (SLOTS, HEIGHT, WIDTH), "uint8", offset=COUNT_BYTES)
    return Board(counts, frames)


@contextmanager
def shared_memory() -> Iterator[SharedMemory]:
    """Create shared memory. Close and remove it at the end, also after an error."""
    shared = SharedMemory(create=True, size=SHARED_BYTES)
    try:
        yield shared
    finally:
        shared.close()
        shared.unlink()


def draw(frame: Tensor, number: int) -> None:
    """Draw a wave that moves and gets brighter, directly into the shared memory."""
    across = tensor.arange(WIDTH, dtype="float32") / 25 + number / 4
    down = tensor.arange(HEIGHT, dtype="float32").unsqueeze(1) / 40
    brightness = 0.25 + 0.5 * number / FRAMES
    frame.copy_(255 * (brightness + 0.2 * tensor.sin(across + down)))


def count_frames(name: str, line: Connection) -> None:
    """Count the pixels of each frame whose slot arrives on `line`: the main function of the other process."""
    shared = SharedMemory(name)
    with new_dispose_scope():
        board = over(shared)
        ones = tensor.ones((HEIGHT * WIDTH,), dtype="int64")
        while (slot := line.recv()) is not None:
            with new_dispose_scope():
                bins = board.frames[slot].reshape(-1).long() // (256 // BINS)
                board.counts.index_add_(0, bins, ones)
            line.send(slot)
    shared.close()  # would raise while a tensor uses the memory
    line.send(f"{statistics.live_count} tensors are left in the process that counted")


def film(board: Board, line: Connection) -> None:
    """Draw all frames, each into a free slot, and print the counts regularly."""
    free, counted = list(range(SLOTS)), 0
    for number in range(FRAMES):
        if not free:
            free.append(line.recv())
            counted += 1
        slot = free.pop()
        with new_dispose_scope():
            draw(board.frames[slot], number)
        line.send(slot)
        if number % 8 == 7:
            print(f"  {number + 1} frames drawn, at least {counted} counted:".ljust(40), bars(board.counts))
    for _ in range(FRAMES - counted):
        line.recv()
    line.send(None)


def bars(counts: Tensor) -> str:
    """Return a line of bars, from dark to bright."""
    values = counts.tolist()
    return "|" + "".join(" .:-=+*#%@"[9 * value // max(*values, 1)] for value in values) + "|"


def main() -> None:
    """Run both processes, and print the counts."""
    processes = multiprocessing.get_context("spawn")
    before = statistics.snapshot()
    with shared_memory() as shared:
        line, other_end = processes.Pipe()
        counter = processes.Process(target=count_frames, args=(shared.name, other_end), daemon=True)
        counter.start()
        other_end.close()  # so that recv() raises instead of waiting if the other process ends early
        try:
            with new_dispose_scope():
                with memory.measure() as sharing:
                    board = over(shared)
                borrowed = memory.statistics().bytes_external
                board.counts.zero_()
                film(board, line)
                report = line.recv()
                pixels = board.counts.sum().item()
                print("  all counted:".ljust(40), bars(board.counts))
            print("pixels counted by the other process:", pixels, "of", FRAMES * HEIGHT * WIDTH)
            print("bytes shared:", borrowed, " bytes copied to share them:", sharing.allocated_bytes)
            print(report)
        finally:
            line.close()
            counter.join(10)
            counter.kill()
    print("bytes shared after the scope:", memory.statistics().bytes_external)
    print("in the process that drew:", statistics.snapshot() - before)


if __name__ == "__main__":
    main()
