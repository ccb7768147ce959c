"""The workers of a job: which of them this process is, what they share, and how they wait for each other."""

from __future__ import annotations

import time
from concurrent.futures import Future
from concurrent.futures import TimeoutError as StillRunningError
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakSet

import numpy as np

from nn.parallel.errors import late_error
from nn.parallel.exchange import Exchange, Size
from nn.parallel.figures import WIDTH, bytes_of_process, figures_of, row_of_now
from nn.parallel.regions import Layout, Region, remove_left_behind
from nn.parallel.shared_values import SharedValues
from nn.parallel.stragglers import Position, Stragglers

if TYPE_CHECKING:
    from collections.abc import Callable

    from nn.parallel.board import Board
    from nn.parallel.figures import WorkerFigures
    from nn.parallel.links import Link
    from tensor.lowlevel import Array

#: How long workers wait for each other by default, in seconds.
TIMEOUT = 300.0
# Figures go to the driver's board no more often, in seconds, with up to _MANY workers; with more of them less
# often, so that the board gets _MANY / _BETWEEN_POSTS reports a second at most. It can take some thousands.
_BETWEEN_POSTS = 0.5
_MANY = 200
# Machines exchange their figures at each of the first steps, and later at one step of so many: the sum over
# machines waits in one queue with those of gradients.
_BETWEEN_TABLES = 16
# The system is asked how large the process is no more often between two steps: it takes 20 us to answer.
_BETWEEN_SIZES = 0.01


class Place(NamedTuple):
    """Which of all workers this process is."""

    rank: int = 0
    world_size: int = 1
    #: Among those of its machine.
    local_rank: int = 0
    local_world_size: int = 1
    #: Of its machine among the machines.
    node_rank: int = 0
    node_count: int = 1


class Group:
    """All workers of a job as one of them sees them.

    Parameters
    ----------
    place
        Which of them this one is. Each knows the ranks of all of its machine: `ranks`.
    token
        A name that belongs to this group alone, the same for all of them.
    ranks
        The ranks of the workers of this machine, by local rank.
    link
        For the first worker of a machine what connects it with those of the other machines.
    board
        Where figures go, for the process that has started the job.
    timeout, to_connect
        How long workers wait for each other, and how long before all have come here, in seconds; None: as
        long as later.
    is_connected
        False where another library exchanges gradients, and workers only tell their figures.
    """

    def __init__(
        self,
        place: Place,
        token: str = "",
        *,
        ranks: tuple[int, ...] = (0,),
        link: Link | None = None,
        board: Board | None = None,
        timeout: float = TIMEOUT,
        to_connect: float | None = None,
        is_connected: bool = True,
    ) -> None:
        self.place = place
        #: Whether workers exchange gradients here; another library may do it instead.
        self.is_connected = is_connected
        #: The name of the machine and the process, for people.
        self.where = ""
        self.ranks = ranks
        self.link = link
        self.board = board
        self.timeout = timeout if to_connect is None else to_connect
        #: How many exchanges of gradients there were.
        self.step = 0
        self.waited = 0.0
        #: The weight of this worker's gradients in the average: its part of the samples times the workers.
        self.weight = 1.0
        self._token = token
        self._stragglers = Stragglers(board, place.rank, place.world_size)
        self._region_count = self._key_count = 0
        # Each goes with what it is for, and its memory with it.
        self._regions: WeakSet[Region] = WeakSet()
        self._region: Region | None = None
        self._posted_at = self._sized_at = 0.0
        self._bytes_of_process = 0
        self._barriers = 0
        if place.local_rank == 0 and place.local_world_size > 1:
            remove_left_behind()
        # For each worker two flags for barriers, and a row of figures; then the rows of all machines.
        count = place.local_world_size
        layout = Layout()
        come, left = layout.add(count * 8), layout.add(count * 8)
        self._rows = [SharedValues(layout, WIDTH) for _ in range(count)]
        self._table = SharedValues(layout, place.world_size, WIDTH)
        region = self._region = self.new_region(layout)
        region.timeout = self.timeout = timeout
        self._come, self._left = region.flags_at(come), region.flags_at(left)
        for values in (*self._rows, self._table):
            values.attach(region)
        self._sending: Future[None] | None = None
        self._closings: list[Callable[[], None]] = []
        self.write_row()

    def next_key(self) -> str:
        """Return a name for an offer on the board: all workers call this equally often, for equal names."""
        self._key_count += 1
        return f"{self._token} {self._key_count}"

    def new_region(self, layout: Layout) -> Region:
        """Return memory that the workers of this machine share; all of them call this at the same time."""
        self._region_count += 1
        place = self.place
        region = Region(
            f"{self._token}-n{place.node_rank}-{self._region_count}",
            place.local_rank,
            place.local_world_size,
            layout,
            self.timeout,
            self.ranks,
            self._region,
        )
        self._regions.add(region)
        return region

    def barrier(self) -> None:
        """Wait until all workers have come here.

        Raises
        ------
        WorkerLostError, ExchangeTimeoutError
            If another worker does not come.
        """
        self.require_connected()
        self._barriers += 1
        region, count = self._region, self._barriers
        assert region is not None
        region.flags.set(self._come + self.place.local_rank, count)
        self.waited += self.wait(region, self._come, count, "at a barrier")
        if self.place.node_count == 1:
            return
        if self.link is not None:
            self.waited += self.wait_for_link(self.link.submit(self.link.barrier), "at a barrier")
            for i in range(region.count):
                region.flags.set(self._left + i, count)
        else:
            self.waited += self.wait_for_first(region, self._left, count, "at a barrier")

    def agree(self, value: int) -> int:
        """Return the `value` of worker 0, a whole number below 2**52."""
        if self.place.world_size == 1:
            return value
        self.require_connected()
        exchange = Exchange(self, [Size(np.dtype(np.float64), 1)])
        exchange.slot(0)[0] = value if self.place.rank == 0 else 0
        exchange.publish(0)
        first = round(float(exchange.result(0)[0]) * self.place.world_size)
        exchange.close()
        return first

    def require_connected(self) -> None:
        """Raise if another library exchanges gradients."""
        if not self.is_connected:
            raise RuntimeError(
                "the workers of this job are watched, and not connected by nn.parallel: start it with "
                "parallel.Trainer, "
                "or use what the library offers that it trains with"
            )

    # --- Waiting: flags show the late workers of one machine, the board those of several --------------------

    def wait(self, region: Region, first: int, value: int, what: str) -> float:
        """Wait for flags that each worker of this machine sets; as ``region.wait``."""
        if self.place.node_count == 1:
            return region.wait(first, value, what)
        waited = region.wait(first, value, what, at_half=self._tell_waiting)
        self._stragglers.go_on()
        return waited

    def wait_for_first(self, region: Region, first: int, value: int, what: str) -> float:
        """Wait for flags that the first worker of this machine sets when it has heard from the others."""
        waited = region.wait(first, value, what, at_half=self._tell_waiting, names=self._names_of_late)
        self._stragglers.go_on()
        return waited

    def wait_for_link(self, pending: Future[Any], what: str) -> float:
        """Wait for what the link's thread does; return for how many seconds.

        Raises
        ------
        ExchangeTimeoutError, WorkerLostError
            If a worker on another machine does not come.
        """
        begin = time.monotonic()
        if not _is_done(pending, self.timeout / 2):
            self._tell_waiting()
            if not _is_done(pending, self.timeout / 2):
                raise late_error(time.monotonic() - begin, self._names_of_late(), what)
        pending.result()
        self._stragglers.go_on()
        return time.monotonic() - begin

    def _position(self) -> Position:
        return Position(self._token, self.step, self._barriers)

    def _tell_waiting(self) -> None:
        self._stragglers.tell(self._position())

    def _names_of_late(self) -> str:
        return self._stragglers.names(self._position())

    # --- Figures --------------------------------------------------------------------------------------------

    def note_step(self, waited: float) -> None:
        """Let the others see this worker's figures; called after each exchange of gradients."""
        self.step += 1
        self.waited += waited
        now = time.monotonic()
        self.write_row(now - self._sized_at >= _BETWEEN_SIZES)
        # By the count of steps, since all machines have to do the same.
        is_due = self.step <= _BETWEEN_TABLES or self.step % _BETWEEN_TABLES == 0
        if self.link is not None and is_due:
            if self._sending is not None:
                self.wait_for_link(self._sending, "to exchange figures")
            self._sending = self.link.submit(self._send_rows)
        between = _BETWEEN_POSTS * max(1.0, self.place.world_size / _MANY)
        if self.board is not None and now - self._posted_at >= between:
            self._posted_at = now
            self.board.post(self)

    def write_row(self, with_size: bool = True) -> None:
        """Write this worker's figures of now; of its process's size those of before unless `with_size`."""
        if with_size:
            self._bytes_of_process = bytes_of_process()
            self._sized_at = time.monotonic()
        row = row_of_now(self.step, self.waited, self._bytes_of_process)
        self._rows[self.place.local_rank].write(row)

    def _send_rows(self) -> None:
        """Let all machines have the rows of all; on the link's thread of the first worker."""
        assert self.link is not None
        table = np.zeros((self.place.world_size, WIDTH), np.int64)
        for i, row in self._rows_here():
            table[self.ranks[i]] = row
        self.link.sum(table)
        self._table.write(table)

    def _rows_here(self) -> list[tuple[int, Array]]:
        """Return the newest rows of this machine by local rank, of those that have written one."""
        return [(i, row) for i, values in enumerate(self._rows) if (row := values.read()) is not None]

    def rows(self) -> dict[int, tuple[list[int], str]]:
        """Return the last row of each worker that has told one, by rank, and why no newer one will come."""
        assert self._region is not None
        table = self._table.read()
        found = {} if table is None else {i: (row.tolist(), "") for i, row in enumerate(table) if row[1]}
        for i, row in self._rows_here():
            is_gone = self._region.has_ended(i)
            lost = "its process has ended or was killed" if is_gone else ""
            found[self.ranks[i]] = row.tolist(), lost
        return dict(sorted(found.items()))

    def figures(self) -> dict[int, WorkerFigures]:
        """Return the last figures of each worker that has told some, by rank; of this one, those of now."""
        self.write_row()
        return {rank: figures_of(rank, row, lost) for rank, (row, lost) in self.rows().items()}

    def at_close(self, function: Callable[[], None]) -> None:
        """Call `function` when this worker leaves the group."""
        self._closings.append(function)

    def close(self) -> None:
        """Leave the group: workers that wait for this one get an error that it has ended."""
        while self._closings:
            self._closings.pop()()
        if self.link is not None:
            self.link.close()
        for region in tuple(self._regions):
            region.close()


def _is_done(pending: Future[Any], seconds: float) -> bool:
    try:
        pending.result(seconds)
    except StillRunningError:  # or an error of its own of the same class
        return pending.done()
    return True


_ALONE = Group(Place())
_current = _ALONE
_expected: Callable[[], Group] | None = None


def current() -> Group:
    """Return the group that this process works in; outside of a job one of its own."""
    return _current


def join(group: Group) -> None:
    """Let this process work in `group`."""
    global _current
    leave()
    _current = group


def expect(connect: Callable[[], Group]) -> None:
    """Let the next `join_expected` join the group that `connect` returns."""
    global _expected
    _expected = connect


def join_expected() -> bool:
    """Join the group that is expected, once; return whether there is one."""
    global _expected
    connect, _expected = _expected, None
    if connect is None:
        return False
    join(connect())
    return True


def leave() -> None:
    """Let this process work alone again."""
    global _current
    left, _current = _current, _ALONE
    if left is not _ALONE:
        left.close()


def rank() -> int:
    """Return which of the job's workers this is, from 0; outside of a job 0.

    Examples
    --------
    >>> from nn import parallel
    >>> parallel.rank(), parallel.world_size()
    (0, 1)
    """
    return _current.place.rank


def world_size() -> int:
    """Return how many workers the job has; outside of a job 1."""
    return _current.place.world_size


def barrier() -> None:
    """Wait until all workers have come here.

    Raises
    ------
    ExchangeTimeoutError
        If another one is alive and does not come within the ``timeout`` of the `Trainer`.
    WorkerLostError
        If another one has ended or was killed.

    Examples
    --------
    >>> from nn import parallel
    >>> parallel.barrier()
    """
    _current.barrier()
