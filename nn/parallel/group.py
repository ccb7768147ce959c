"""The group of a job's workers: ranks, shared memory, barriers."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as StillRunningError
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakSet

import numpy as np

from nn.parallel.errors import late_error
from nn.parallel.figures import WIDTH, WorkerFigures, bytes_of_process, figures_of, row_of_now
from nn.parallel.posts import Position, WorkerReport
from nn.parallel.regions import Layout, Region, remove_left_behind
from nn.parallel.shared_values import SharedValues
from nn.parallel.stragglers import Stragglers
from tensor._dtypes import Array

if TYPE_CHECKING:
    from nn.parallel.board import Board
    from nn.parallel.links import Link

#: How long workers wait for each other by default, in seconds.
TIMEOUT = 300.0
# The shortest time between two reports of a worker to the process that started the job, in seconds, with up
# to _WORKERS_AT_FULL_RATE workers. With more workers each reports less often, so that their `Board` gets at
# most _WORKERS_AT_FULL_RATE / _POST_INTERVAL reports a second. It has handled 415 on a busy machine
# (docs/cluster.md).
_POST_INTERVAL = 0.5
_WORKERS_AT_FULL_RATE = 200
# Machines exchange statistics at each of the first _TABLE_INTERVAL steps, and later every _TABLE_INTERVAL
# steps: each exchange delays the exchange of gradients, which uses the same queue.
_TABLE_INTERVAL = 16
# The shortest time between two measurements of the process's memory, in seconds. Each takes 20 us.
_SIZE_INTERVAL = 0.01


class Place(NamedTuple):
    """The position of this process among all workers."""

    rank: int = 0
    world_size: int = 1
    #: The rank among the workers of its machine.
    local_rank: int = 0
    local_world_size: int = 1
    #: The rank of its machine.
    node_rank: int = 0
    node_count: int = 1


class Group:
    """All workers of a job, from the view of one worker.

    Parameters
    ----------
    place
        The position of this worker.
    token
        A unique name of the group, the same on all workers.
    ranks
        The ranks of the workers of this machine, by local rank.
    link
        The connection with the other machines. Only the first worker of a machine has one.
    board
        The handle of the Ray actor that collects reports for the process that started the job.
    timeout, to_connect
        The seconds that workers wait for each other, and that they wait at the start. None for `to_connect`
        uses `timeout`.
    is_connected
        False if another library exchanges gradients, and the workers only report statistics.
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
        #: Whether this group exchanges gradients; another library may do it instead.
        self.is_connected = is_connected
        #: The name of the machine and the process, for messages.
        self.where = ""
        self.ranks = ranks
        self.link = link
        self.board = board
        self.timeout = timeout if to_connect is None else to_connect
        #: The number of exchanges of gradients, or of optimizer steps of PyTorch.
        self.step = 0
        self.waited = 0.0
        #: The weight of this worker's gradients in the average: its share of the samples times the number of
        #: workers.
        self.weight = 1.0
        self._token = token
        self._stragglers = Stragglers(board, place.rank, place.world_size)
        self._region_count = self._key_count = 0
        # Weak references: a region's memory is freed with the object that uses it.
        self._regions: WeakSet[Region] = WeakSet()
        self._region: Region | None = None
        self._posted_at = self._sized_at = 0.0
        self._bytes_of_process = 0
        self._barriers = 0
        if place.local_rank == 0 and place.local_world_size > 1:
            remove_left_behind()
        # For each worker of this machine: two flags for barriers, and a row of statistics. Then a table with
        # the rows of all workers of all machines.
        count = place.local_world_size
        layout = Layout()
        arrived, left = layout.add(count * 8), layout.add(count * 8)
        self._rows = [SharedValues(layout, WIDTH) for _ in range(count)]
        self._table = SharedValues(layout, place.world_size, WIDTH)
        region = self._region = self.new_region(layout)
        region.timeout = self.timeout = timeout
        self._arrived, self._left = region.flags_at(arrived), region.flags_at(left)
        for values in (*self._rows, self._table):
            values.attach(region)
        self._sending: Future[None] | None = None
        self._closings: list[Callable[[], None]] = []
        self.write_row()

    def next_key(self) -> str:
        """Return a new key for ``Board.send`` and ``receive``. All workers must call this equally often."""
        self._key_count += 1
        return f"{self._token} {self._key_count}"

    def new_region(self, layout: Layout) -> Region:
        """Create shared memory of this machine's workers. All of them must call this at the same time."""
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
        """Wait until all workers have called this.

        Raises
        ------
        WorkerLostError, ExchangeTimeoutError
            If another worker has ended or is late.
        """
        self.require_connected()
        self._barriers += 1
        region, count = self._region, self._barriers
        assert region is not None
        region.flags.set(self._arrived + self.place.local_rank, count)
        self.waited += self.wait(region, self._arrived, count, "at a barrier")
        if self.place.node_count == 1:
            return
        if self.link is not None:
            self.waited += self.wait_for_link(self.link.submit(self.link.barrier), "at a barrier")
            for i in range(region.count):
                region.flags.set(self._left + i, count)
        else:
            self.waited += self.wait_for_first(region, self._left, count, "at a barrier")

    def require_connected(self) -> None:
        """Raise an error if another library exchanges gradients."""
        if not self.is_connected:
            raise RuntimeError(
                "nn.parallel only observes this job, and another library exchanges the gradients: use the "
                "functions of that library, or start the job with parallel.Trainer"
            )

    # --- Waiting. Flags show late workers of this machine, `Board` shows those of other machines ------------

    def wait(self, region: Region, first: int, value: int, what: str) -> float:
        """Wait for a flag of each worker of this machine, and return the seconds, like ``region.wait``."""
        if self.place.node_count == 1:
            return region.wait(first, value, what)
        waited = region.wait(first, value, what, at_half=self._post_waiting)
        self._stragglers.clear()
        return waited

    def wait_for_first(self, region: Region, first: int, value: int, what: str) -> float:
        """Wait for a flag that this machine's first worker sets when the other machines have answered."""
        waited = region.wait(first, value, what, at_half=self._post_waiting, names=self._late_workers)
        self._stragglers.clear()
        return waited

    def wait_for_link(self, pending: Future[Any], what: str) -> float:
        """Wait for a task of the link's thread, and return the seconds.

        Raises
        ------
        ExchangeTimeoutError, WorkerLostError
            If a worker on another machine is late or has ended.
        """
        begin = time.monotonic()
        if not _is_done(pending, self.timeout / 2):
            self._post_waiting()
            if not _is_done(pending, self.timeout / 2):
                raise late_error(time.monotonic() - begin, self._late_workers(), what)
        pending.result()
        self._stragglers.clear()
        return time.monotonic() - begin

    def _position(self) -> Position:
        return Position(self._token, self.step, self._barriers)

    def _post_waiting(self) -> None:
        self._stragglers.post(self._position())

    def _late_workers(self) -> str:
        return self._stragglers.names(self._position())

    # --- Statistics -----------------------------------------------------------------------------------------

    def note_step(self, waited: float) -> None:
        """Publish this worker's statistics, after an exchange of gradients or a PyTorch optimizer's step."""
        self.step += 1
        self.waited += waited
        now = time.monotonic()
        self.write_row(now - self._sized_at >= _SIZE_INTERVAL)
        # Decide by the number of steps, because all machines must do the same.
        is_due = self.step <= _TABLE_INTERVAL or self.step % _TABLE_INTERVAL == 0
        if self.link is not None and is_due:
            if self._sending is not None:
                self.wait_for_link(self._sending, "to exchange figures")
            self._sending = self.link.submit(self._send_rows)
        between = _POST_INTERVAL * max(1.0, self.place.world_size / _WORKERS_AT_FULL_RATE)
        if self.board is not None and now - self._posted_at >= between:
            self._posted_at = now
            self.board.post(self.reports())

    def write_row(self, with_size: bool = True) -> None:
        """Write this worker's current statistics. Measure its process's memory only if `with_size`."""
        if with_size:
            self._bytes_of_process = bytes_of_process()
            self._sized_at = time.monotonic()
        row = row_of_now(self.step, self.waited, self._bytes_of_process)
        self._rows[self.place.local_rank].write(row)

    def _send_rows(self) -> None:
        """Exchange the rows of all machines. Runs on the link's thread of this machine's first worker."""
        assert self.link is not None
        table = np.zeros((self.place.world_size, WIDTH), np.int64)
        for i, row in self._rows_here():
            table[self.ranks[i]] = row
        self.link.sum(table)
        self._table.write(table)

    def _rows_here(self) -> list[tuple[int, Array]]:
        """Return the local ranks of this machine's workers, each with the worker's newest row."""
        return [(i, row) for i, values in enumerate(self._rows) if (row := values.read()) is not None]

    def rows(self) -> dict[int, tuple[list[int], str]]:
        """Return by rank: the last row of a worker, and why it was lost (empty if it was not)."""
        assert self._region is not None
        table = self._table.read()
        found = {} if table is None else {i: (row.tolist(), "") for i, row in enumerate(table) if row[1]}
        for i, row in self._rows_here():
            is_gone = self._region.has_ended(i)
            lost = "its process has ended or was killed" if is_gone else ""
            found[self.ranks[i]] = row.tolist(), lost
        return dict(sorted(found.items()))

    def reports(self, **more: Any) -> dict[int, WorkerReport]:
        """Return reports for the `Board` by rank: of this worker, with `more` fields, and of ended ones."""
        reports = {}
        for rank, (row, lost) in self.rows().items():
            if rank == self.place.rank:
                reports[rank] = WorkerReport(row, self.where, **more)
            elif lost:
                reports[rank] = WorkerReport(row, lost=lost)
        return reports

    def figures(self) -> dict[int, WorkerFigures]:
        """Return the last reported statistics of each worker by rank, for this worker the current ones."""
        self.write_row()
        return {rank: figures_of(rank, row, lost) for rank, (row, lost) in self.rows().items()}

    def at_close(self, function: Callable[[], None]) -> None:
        """Call `function` when this worker leaves the group."""
        self._closings.append(function)

    def close(self) -> None:
        """Leave the group. Workers that wait for this one raise an error."""
        while self._closings:
            self._closings.pop()()
        if self.link is not None:
            self.link.close()
        for region in tuple(self._regions):
            region.close()


def _is_done(pending: Future[Any], seconds: float) -> bool:
    try:
        pending.result(seconds)
    except StillRunningError:  # the task still runs, or the task raised this error
        return pending.done()
    return True


_ALONE = Group(Place())
_current = _ALONE
_expected: Callable[[], Group] | None = None


def current() -> Group:
    """Return the group of this process; outside a job, a group of one worker."""
    return _current


def join(group: Group) -> None:
    """Set the group of this process."""
    global _current
    leave()
    _current = group


def expect(connect: Callable[[], Group]) -> None:
    """Make the next `join_expected` join the group that `connect` returns."""
    global _expected
    _expected = connect


def join_expected() -> bool:
    """Join the expected group, once. Return whether there was one."""
    global _expected
    connect, _expected = _expected, None
    if connect is None:
        return False
    join(connect())
    return True


def leave() -> None:
    """Close the group of this process, and set it to a group of one worker."""
    global _current
    left, _current = _current, _ALONE
    if left is not _ALONE:
        left.close()


def rank() -> int:
    """Return the rank of this worker in its job, from 0; outside a job, 0.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.parallel.rank(), nn.parallel.world_size()
    (0, 1)
    """
    return _current.place.rank


def world_size() -> int:
    """Return the number of workers in the job; outside a job, 1."""
    return _current.place.world_size


def barrier() -> None:
    """Wait until all workers have called this.

    Raises
    ------
    ExchangeTimeoutError
        If another worker is alive but does not call it within the ``timeout`` of the `Trainer`.
    WorkerLostError
        If another worker has ended or was killed.

    Examples
    --------
    >>> from nn import parallel
    >>> parallel.barrier()
    """
    _current.barrier()
