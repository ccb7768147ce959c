"""All-reduce of gradients: averages over all workers, bucket by bucket, bit-identical on each worker.

The workers of one machine write their values into slots of shared memory. Then each worker sums one part of
the bucket over the slots, in the order of ranks. So each sum is computed once and read by all workers. The
first worker of each machine sums over machines with a `Link`, on a separate thread. `advance` does the work
that is possible now and does not wait; `result` waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nn.parallel.regions import Layout
from tensor._dtypes import Array, Dtype

if TYPE_CHECKING:
    from concurrent.futures import Future

    from nn.parallel.group import Group

# The elements that are summed at a time: they stay in a core's cache from the first slot to the last.
_BLOCK = 16_384


class Size(NamedTuple):
    """The length and dtype of a bucket."""

    dtype: Dtype
    length: int


class _Bucket:
    """The memory of one bucket, and this worker's progress."""

    def __init__(self, size: Size, first_flag: int, slots: list[Array], total: Array) -> None:
        self.size = size
        # The indices of three rows of flags. A row has a flag for each worker: the last round that the worker
        # published, the last that it summed, and the last that the first worker summed over all machines.
        self.published = first_flag
        self.summed = first_flag + len(slots)
        self.ready = first_flag + 2 * len(slots)
        self.slots = slots
        self.total = total
        self.rounds = 0
        self.pending: Future[None] | None = None


class Exchange:
    """All-reduce over buckets of given sizes. All workers of `group` create it at the same time.

    In each round, a worker writes into ``slot(i)`` and calls ``publish(i)``. ``result(i)`` returns the
    average, which is valid until the next ``publish(i)``.
    """

    def __init__(self, group: Group, sizes: Sequence[Size]) -> None:
        self.group = group
        count = group.place.local_world_size
        layout = Layout()
        places = []
        for size in sizes:
            nbytes = size.length * size.dtype.itemsize
            flags = layout.add(3 * count * 8)
            places.append((flags, [layout.add(nbytes) for _ in range(count)], layout.add(nbytes)))
        self.region = group.new_region(layout)
        self._buckets = []
        for size, (flags, slots, total) in zip(sizes, places, strict=True):
            arrays = [self.region.array_at(slot, size.dtype, size.length) for slot in slots]
            bucket = _Bucket(
                size,
                self.region.flags_at(flags),
                arrays,
                self.region.array_at(total, size.dtype, size.length),
            )
            self._buckets.append(bucket)
        self._waiting: list[_Bucket] = []
        self._mine = group.place.local_rank
        #: The total seconds of waiting for other workers.
        self.waited = 0.0

    def slot(self, i: int) -> Array:
        """Return the array for this worker's values of bucket `i`."""
        return self._buckets[i].slots[self._mine]

    def publish(self, i: int) -> None:
        """Publish the slot's values to the other workers."""
        bucket = self._buckets[i]
        bucket.rounds += 1
        self.region.flags.set(bucket.published + self._mine, bucket.rounds)
        self._waiting.append(bucket)
        link = self.group.link
        if link is not None:
            rounds = bucket.rounds
            bucket.pending = link.submit(lambda: self._sum_machines(bucket, rounds))
        self.advance()

    def advance(self) -> None:
        """Sum this worker's part of each bucket that all workers of the machine have published."""
        flags, count = self.region.flags, self.region.count
        # Sum each part only once: after `_sum` sets the flag, other workers may overwrite their slots.
        for bucket in tuple(self._waiting):
            if flags.wait(bucket.published, count, bucket.rounds, 0) < 0:
                self._sum(bucket)

    def result(self, i: int) -> Array:
        """Wait for the average over all workers, and return it. The caller must copy it.

        Raises
        ------
        WorkerLostError, ExchangeTimeoutError
            If another worker has ended or is late.
        """
        bucket, group = self._buckets[i], self.group
        # First sum all published buckets, because other workers wait for these parts.
        for other in tuple(self._waiting):
            self.waited += group.wait(self.region, other.published, other.rounds, "to exchange gradients")
            self._sum(other)
        if group.place.node_count == 1:
            self.waited += group.wait(self.region, bucket.summed, bucket.rounds, "to sum gradients")
        elif bucket.pending is not None:
            pending, bucket.pending = bucket.pending, None
            self.waited += group.wait_for_link(pending, "to exchange gradients")
        else:
            self.waited += group.wait_for_first(
                self.region, bucket.ready, bucket.rounds, "to exchange gradients"
            )
        return bucket.total

    def _sum(self, bucket: _Bucket) -> None:
        count = self.region.count
        part = -(-bucket.size.length // count)
        begin, end = self._mine * part, min((self._mine + 1) * part, bucket.size.length)
        is_all = self.group.place.node_count == 1
        for start in range(begin, end, _BLOCK):
            block = slice(start, min(start + _BLOCK, end))
            out = bucket.total[block]
            if count == 1:
                out[...] = bucket.slots[0][block]
            else:
                np.add(bucket.slots[0][block], bucket.slots[1][block], out=out)
            for slot in bucket.slots[2:]:
                np.add(out, slot[block], out=out)
            if is_all:
                np.divide(out, count, out=out)
        self._waiting.remove(bucket)
        self.region.flags.set(bucket.summed + self._mine, bucket.rounds)

    def _sum_machines(self, bucket: _Bucket, rounds: int) -> None:
        """Sum over machines. Runs on the link's thread of the first worker."""
        region, link = self.region, self.group.link
        assert link is not None
        region.wait(bucket.summed, rounds, "to sum gradients")
        link.sum(bucket.total)
        np.divide(bucket.total, self.group.place.world_size, out=bucket.total)
        for i in range(region.count):
            region.flags.set(bucket.ready + i, rounds)

    def close(self) -> None:
        """Release the shared memory; a second call does nothing."""
        self.region.close()


def agree(group: Group, value: int) -> int:
    """Return worker 0's `value`, an integer below 2**51. All workers must call this at the same time."""
    if group.place.world_size == 1:
        return value
    group.require_connected()
    exchange = Exchange(group, [Size(np.dtype(np.float64), 1)])
    exchange.slot(0)[0] = value if group.place.rank == 0 else 0
    exchange.publish(0)
    first = round(float(exchange.result(0)[0]) * group.place.world_size)
    exchange.close()
    return first
