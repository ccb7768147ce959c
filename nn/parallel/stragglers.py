"""Find the late workers of a job on several machines.

An all-reduce over machines does not show which worker is late. So a worker that has waited for half of the
timeout posts its position in the program, and removes it when it continues. After the timeout an error names
the workers that have not posted the same position.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nn.parallel.errors import require
from nn.parallel.posts import Position, WorkerReport

if TYPE_CHECKING:
    from nn.parallel.board import Board


class Stragglers:
    """Posts the position of one worker, and reads those of other workers. Without a board it posts nothing.

    Parameters
    ----------
    board
        The handle of the actor that stores the positions, or None.
    rank, count
        The rank of this worker, and the number of workers.
    """

    def __init__(self, board: Board | None, rank: int, count: int) -> None:
        self._board = board
        self._rank = rank
        self._count = count
        self._has_posted = False

    def post(self, position: Position) -> None:
        """Post that this worker waits."""
        if self._board is not None:
            self._board.set_waiting(self._rank, position)
            self._has_posted = True

    def clear(self) -> None:
        """Remove the posted position, if there is one."""
        if self._has_posted and self._board is not None:
            self._has_posted = False
            self._board.set_waiting(self._rank, None)

    def names(self, position: Position) -> str:
        """Return the workers that do not wait at `position`: rank, machine, process and last step."""
        if self._board is None:
            return "the other machines"
        try:
            waiting, reports = self._board.read_waiting(), self._board.read()
        except require("ray.exceptions").RayError:  # the actor's process has ended or does not answer
            return "the other machines"
        late = [i for i in range(self._count) if i != self._rank and waiting.get(i) != position]
        if not late:
            return "the other machines (all workers wait too, so the network is slow or does not work)"
        return ", ".join([_described(i, reports.get(i)) for i in late])


def _described(rank: int, report: WorkerReport | None) -> str:
    if report is None:
        return f"worker {rank}"
    last = "its loop has ended" if report.has_ended else report.lost
    return (
        f"worker {rank} ({report.where or 'unknown machine'}; {last or 'last seen'} after step "
        f"{report.row[0]:,})"
    )
