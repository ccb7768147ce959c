"""Who is late, where workers are on several machines: those that do not say on the board that they wait.

A sum over machines does not tell which of them has not come. So a worker that has waited for half of the
timeout says where in the program it waits, and takes that back if it goes on; at the end of the timeout those
that have not said so are named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nn.parallel.errors import require

if TYPE_CHECKING:
    from nn.parallel.board import Board, Told


class Position(NamedTuple):
    """Where in its program a worker waits: the same for all that wait for each other."""

    #: The name of the group, which differs from those of earlier starts of the job.
    token: str
    step: int
    barriers: int


class Stragglers:
    """What one worker says of itself, and asks of the others; without a board there is nothing to ask.

    Parameters
    ----------
    board
        Of the job.
    rank, count
        Which of how many workers this one is.
    """

    def __init__(self, board: Board | None, rank: int, count: int) -> None:
        self._board = board
        self._rank = rank
        self._count = count
        self._has_told = False

    def tell(self, position: Position) -> None:
        """Say that this worker waits."""
        if self._board is not None:
            self._board.tell_waiting(self._rank, position)
            self._has_told = True

    def go_on(self) -> None:
        """Say that it does no longer, if it has said so."""
        if self._has_told and self._board is not None:
            self._has_told = False
            self._board.tell_waiting(self._rank, None)

    def names(self, position: Position) -> str:
        """Return which workers do not wait at `position`: rank, machine and process, and their last step."""
        if self._board is None:
            return "the other machines"
        try:
            waiting, told = self._board.read_waiting(), self._board.read()
        except require("ray.exceptions").RayError:  # who has started the job is gone, or does not answer
            return "the other machines"
        late = [i for i in range(self._count) if i != self._rank and waiting.get(i) != position]
        if not late:
            return "the other machines, though all workers have come: the network is slow or broken, that is"
        return ", ".join([_described(i, told.get(i)) for i in late])


def _described(rank: int, told: Told | None) -> str:
    if told is None:
        return f"worker {rank}"
    last = "its loop has ended" if told.has_ended else told.lost
    return f"worker {rank} ({told.where or 'somewhere'}; {last or 'last seen'} after step {told.row[0]:,})"
