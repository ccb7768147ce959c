"""The loader: which samples, in which order, and how long their batches live."""

from __future__ import annotations

import gc
import threading
from collections import namedtuple
from functools import partial
from typing import Any

import numpy as np
import pytest

import nn
import tensor
from nn.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    default_collate,
    random_split,
)
from scopes import current_dispose_scope, disposing, new_dispose_scope
from tensor import Generator, TensorDisposedError


class Rows(Dataset):
    """Creates new samples at each access."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, i: int) -> tuple[tensor.Tensor, int]:
        return tensor.full((2,), float(i)), i


class Cached(Rows):
    """Keeps the samples that it has made."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.made: dict[int, tensor.Tensor] = {}

    def __getitem__(self, i: int) -> tensor.Tensor:
        if i not in self.made:
            self.made[i] = tensor.full((2,), float(i))
        return self.made[i]


Disposing = partial(DataLoader, dispose_batches=True)


def numbered(count: int) -> TensorDataset:
    return TensorDataset(tensor.tensor([[float(i)] for i in range(count)]), tensor.tensor(list(range(count))))


def seen(loader: DataLoader) -> list[list[int]]:
    return [y.tolist() for _, y in loader]


@pytest.mark.parametrize("make", [numbered, Rows])
def test_batches_hold_the_samples_in_order(make):
    assert seen(DataLoader(make(5), batch_size=2)) == [[0, 1], [2, 3], [4]]
    assert seen(DataLoader(make(5), batch_size=2, drop_last=True)) == [[0, 1], [2, 3]]
    assert len(DataLoader(make(5), batch_size=2)) == 3
    assert len(DataLoader(make(5), batch_size=2, drop_last=True)) == 2
    assert seen(DataLoader(make(0), batch_size=2)) == []


def test_a_seed_gives_the_same_orders_and_each_round_another():
    first, second = (DataLoader(numbered(50), 50, shuffle=True, generator=4) for _ in range(2))
    rounds = [seen(first), seen(first)]
    assert rounds == [seen(second), seen(second)]
    assert rounds[0] != rounds[1]
    assert sorted(rounds[0][0]) == list(range(50))


def test_without_a_generator_the_default_one_decides():
    loader = DataLoader(numbered(50), 50, shuffle=True)
    tensor.manual_seed(1)
    first = seen(loader)
    tensor.manual_seed(1)
    assert seen(loader) == first


@pytest.mark.parametrize("make", [numbered, Rows])
def test_a_batch_is_disposed_before_the_next_is_made(make, window):
    data = make(6)
    live = window().live_count
    kept = []
    for x, y in Disposing(data, batch_size=2):
        assert all(old.is_invalid for old in kept)
        assert window().live_count == live + 2
        kept += [x, y]
    assert all(old.is_invalid for old in kept)
    assert window().live_count == live


def test_after_a_break_the_batch_is_the_callers():
    with new_dispose_scope() as scope:
        for batch in Disposing(numbered(6), 2):
            x = batch[0]
            break
        assert x.shape[0] == 2
        assert x in scope
    assert x.is_invalid


def test_the_batch_of_a_failed_loop_is_disposed_with_the_scope_around_it(window):
    data = numbered(6)
    live = window().live_count
    stored, kept = None, []
    try:
        with new_dispose_scope():
            for x, _ in Disposing(data, 2):
                kept.append(x)
                x @ tensor.ones((7, 7))
    except ValueError as error:
        stored = error
    assert stored is not None
    assert kept[0].is_invalid
    assert window().live_count == live


def test_a_wrapped_loader_disposes_as_well():
    kept = [x for _, (x, _) in enumerate(Disposing(numbered(6), 2))]
    assert all(x.is_invalid for x in kept)


def test_a_batch_taken_with_next_is_the_callers():
    x, y = next(iter(Disposing(numbered(6), 2)))
    assert y.tolist() == [0, 1]
    with new_dispose_scope() as scope:
        x, y = next(iter(Disposing(numbered(6), 2)))
        assert x in scope
        assert y in scope
    assert x.is_invalid


def test_next_ends_the_batch_before():
    batches = iter(Disposing(numbered(6), 2))
    x, _ = next(batches)
    assert not x.is_invalid
    y, _ = next(batches)
    assert x.is_invalid
    assert not y.is_invalid


def test_batches_belong_to_the_loops_scope():
    with new_dispose_scope() as scope:
        kept = [x for x, _ in DataLoader(numbered(6), 2)]
        assert not any(x.is_invalid for x in kept)
        assert kept[0] in scope
    assert all(x.is_invalid for x in kept)


def test_tensors_that_the_loop_computes_belong_to_the_loop():
    with new_dispose_scope() as scope:
        doubled = [x * 2 for x, _ in Disposing(numbered(4), 2)]
        assert [d.tolist() for d in doubled] == [[[0.0], [2.0]], [[4.0], [6.0]]]
        assert all(d in scope for d in doubled)


def test_no_scope_of_the_loader_is_current_in_the_loop():
    for _ in Disposing(numbered(4), 2):
        assert current_dispose_scope() is None
    with new_dispose_scope() as scope:
        for _ in Disposing(numbered(4), 2):
            assert current_dispose_scope() is scope


def test_a_moved_detached_or_cloned_batch_survives():
    kept = []
    with new_dispose_scope() as scope:
        for x, y in Disposing(numbered(4), 2):
            kept += [scope.attach(x), y.clone()]
        assert [k.tolist() for k in kept] == [[[0.0], [1.0]], [0, 1], [[2.0], [3.0]], [2, 3]]
    free = [x.detach_from_dispose_scope() for x, _ in Disposing(numbered(4), 2)]
    assert not any(x.is_invalid for x in free)
    with new_dispose_scope() as scope:
        moved = [x.move_to_outer_dispose_scope() for x, _ in Disposing(numbered(4), 2)]
        assert all(x in scope for x in moved)


def test_a_graph_needs_its_batch_no_longer_than_backward():
    layer = nn.Linear(1, 1)
    losses = [layer(x).sum() for x, _ in DataLoader(numbered(4), 2)]
    (losses[0] + losses[1]).backward()
    assert layer.weight.grad.item() == 6.0


def test_scopes_inside_the_loop_take_nothing_of_the_batch():
    for x, y in Disposing(numbered(4), 2):
        with new_dispose_scope("step"):
            x * 2
        assert y.tolist() is not None


def test_a_scope_opened_in_the_loop_and_left_open_stays_current():
    scope = None
    for _ in DataLoader(numbered(4), 2):
        scope = scope or new_dispose_scope("opened inside")
        assert current_dispose_scope() is scope
    scope.dispose()


def test_the_data_sets_own_tensors_live_on(window):
    data = numbered(4)
    live = window().live_count
    for loader in (DataLoader(data, 2), DataLoader(data, None), DataLoader(data, 2, collate_fn=list)):
        assert len(list(loader)) == len(loader)
    gc.collect()
    assert not data.tensors[0].is_invalid
    assert window().live_count == live


@pytest.mark.parametrize("options", [{"batch_size": 2}, {"batch_size": None}, {"collate_fn": lambda s: s[0]}])
def test_samples_that_the_data_set_keeps_live_on_though_made_in_the_loop(options):
    data = Cached(4)
    for _ in range(2):
        with new_dispose_scope():
            for batch in Disposing(data, **options):
                assert not batch.is_invalid
    assert [data[i].tolist() for i in range(4)] == [[float(i)] * 2 for i in range(4)]


def test_several_rounds_at_once_do_not_touch_each_other():
    loader = Disposing(numbered(4), 2)
    pairs = []
    for x, _ in loader:
        for y, _ in loader:
            pairs.append((x[0, 0].item(), y[0, 0].item()))
        assert not x.is_invalid
    assert pairs == [(0.0, 0.0), (0.0, 2.0), (2.0, 0.0), (2.0, 2.0)]


def test_several_threads_may_iterate_over_one_loader(window):
    data = numbered(40)
    loader = Disposing(data, 4, shuffle=True, generator=0)
    live = window().live_count
    found, failures = [], []

    def run() -> None:
        try:
            with new_dispose_scope():
                for x, y in loader:
                    assert x[:, 0].long().tolist() == y.tolist()
                    found.extend(y.tolist())
        except (AssertionError, TensorDisposedError) as error:
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert sorted(found) == sorted(list(range(40)) * 8)
    assert window().live_count == live


def test_a_failing_data_set_leaves_nothing_and_no_scope(window):
    class Broken(Rows):
        def __getitem__(self, i):
            if i == 3:
                raise OSError("unreadable")
            return super().__getitem__(i)

    with pytest.raises(OSError, match="unreadable"):
        for _ in Disposing(Broken(4), 2):
            pass
    assert current_dispose_scope() is None
    gc.collect()
    assert window().live_count == 0


def test_a_failing_collate_function_leaves_nothing_and_no_scope(window):
    def broken(samples):
        tensor.ones((3,))
        raise OSError("no batch")

    with pytest.raises(OSError, match="no batch"), new_dispose_scope() as scope:
        try:
            next(iter(Disposing(Rows(2), 2, collate_fn=broken)))
        finally:
            assert current_dispose_scope() is scope
    gc.collect()
    assert window().live_count == 0


def test_a_batch_returned_from_a_disposing_function_can_be_kept():
    @disposing
    def total(loader):
        result = tensor.zeros((1,))
        for x, _ in loader:
            result = result + x.sum(dim=0)
        return result

    assert total(Disposing(numbered(4), 2)).item() == 6.0


def test_samples_of_every_kind_are_collated():
    Pair = namedtuple("Pair", "a b")
    batch = default_collate(
        [
            {
                "t": tensor.ones((2,)),
                "n": np.zeros(3),
                "i": 1,
                "f": 1.5,
                "b": True,
                "s": "x",
                "p": Pair(1, [2.0]),
            },
            {
                "t": tensor.zeros((2,)),
                "n": np.ones(3),
                "i": 2,
                "f": 2.5,
                "b": False,
                "s": "y",
                "p": Pair(3, [4.0]),
            },
        ]
    )
    assert batch["t"].tolist() == [[1.0, 1.0], [0.0, 0.0]]
    assert batch["n"].dtype == tensor.float64
    assert batch["i"].dtype == tensor.int64
    assert batch["f"].dtype == tensor.float32
    assert batch["b"].tolist() == [True, False]
    assert batch["s"] == ["x", "y"]
    assert type(batch["p"]) is Pair
    assert batch["p"].b[0].tolist() == [2.0, 4.0]


@pytest.mark.parametrize(
    ("call", "error", "named"),
    [
        (lambda: DataLoader(3), TypeError, "TensorDataset"),
        (lambda: DataLoader([1], 0), ValueError, "batch_size.*0"),
        (lambda: DataLoader([1], None, drop_last=True), ValueError, "drop_last"),
        (lambda: DataLoader([1], generator="seed"), TypeError, "str"),
        (lambda: TensorDataset(), ValueError, "at least one"),
        (lambda: TensorDataset(tensor.ones((2,)), tensor.ones((3,))), ValueError, r"\[2, 3\]"),
        (lambda: TensorDataset(np.ones(2)), TypeError, "ndarray"),
        (lambda: TensorDataset(tensor.tensor(1.0)), ValueError, "at least one dimension"),
        (lambda: default_collate([tensor.ones((2,)), tensor.ones((3,))]), ValueError, r"\(2,\) and \(3,\)"),
        (lambda: default_collate([(1, 2), (1,)]), ValueError, "lengths, 2 and 1"),
        (lambda: default_collate([{"a": 1}, {"b": 1}]), ValueError, "keys"),
        (lambda: default_collate([object()]), TypeError, "collate_fn"),
        (lambda: default_collate([]), ValueError, "at least one sample"),
        (lambda: Dataset()[0], NotImplementedError, "__getitem__"),
        (lambda: len(Dataset()), NotImplementedError, "__len__"),
    ],
)
def test_wrong_use_names_the_culprit(call, error, named):
    with pytest.raises(error, match=named):
        call()


def test_a_sampler_gives_the_numbers() -> None:
    loader = DataLoader(range(10), 2, sampler=[5, 1, 7])
    assert [batch.tolist() for batch in loader] == [[5, 1], [7]]
    assert len(loader) == 2
    assert [batch.tolist() for batch in DataLoader(range(10), 2, sampler=[5, 1, 7], drop_last=True)] == [
        [5, 1]
    ]
    assert list(DataLoader("abc", None, sampler=[2, 0])) == ["c", "a"]
    assert seen(DataLoader(numbered(6), 2, sampler=[5, 1, 3])) == [[5, 1], [3]]


def test_a_batch_sampler_gives_the_numbers_of_each_batch() -> None:
    batches = BatchSampler(SequentialSampler(range(5)), 2, drop_last=False)
    loader = DataLoader(range(5), batch_sampler=batches)
    assert [batch.tolist() for batch in loader] == [[0, 1], [2, 3], [4]]
    assert len(loader) == len(batches) == 3
    assert len(BatchSampler(range(5), 2, drop_last=True)) == len(
        list(BatchSampler(range(5), 2, drop_last=True))
    )


def test_random_samplers_draw_a_new_order_each_round() -> None:
    sampler = RandomSampler(range(50), generator=Generator().manual_seed(1))
    first, second = list(sampler), list(sampler)
    assert sorted(first) == sorted(second) == list(range(50))
    assert first != second
    assert list(RandomSampler(range(50), generator=Generator().manual_seed(1))) == first
    assert len(list(RandomSampler(range(3), num_samples=7))) == 7
    assert sorted(list(RandomSampler(range(3), num_samples=7))[:3]) == [0, 1, 2]
    assert sorted(SubsetRandomSampler([4, 8, 2])) == [2, 4, 8]


def test_a_sampler_without_end_is_read_as_it_is_needed() -> None:
    sampler = RandomSampler(range(3), replacement=True, num_samples=10**10)
    loader = DataLoader(range(3), 4, sampler=sampler, num_workers=0, pin_memory=True)
    assert len(loader) == 10**10 // 4
    assert next(iter(loader)).shape == (4,)


def test_parts_and_rows_of_data_sets() -> None:
    first, second = random_split(range(10), [6, 4], Generator().manual_seed(0))
    assert sorted([*first, *second]) == list(range(10))
    assert [len(part) for part in random_split(range(11), [0.5, 0.25, 0.25])] == [6, 3, 2]
    joined = ConcatDataset([first, second, Subset("ab", [1])])
    assert len(joined) == 11
    assert joined[10] == joined[-1] == "b"


@pytest.mark.parametrize(
    ("fail", "error", "says"),
    [
        (lambda: DataLoader([1], shuffle=True, sampler=[0]), ValueError, "omit shuffle"),
        (lambda: DataLoader([1], 2, batch_sampler=[[0]]), ValueError, "omit batch_size"),
        (lambda: DataLoader([1], num_workers=-1), ValueError, "at least 0, not -1"),
        (lambda: RandomSampler([1], num_samples=0), ValueError, "at least 1"),
        (lambda: BatchSampler([1], 0, drop_last=False), ValueError, "at least 1"),
        (lambda: random_split([1, 2], [1, 2]), ValueError, "sum to 3"),
        (lambda: ConcatDataset([]), ValueError, "at least one"),
        (lambda: ConcatDataset(["ab"])[2], IndexError, "out of range"),
        (lambda: iter(Sampler()), NotImplementedError, "define __iter__"),
    ],
)
def test_mistakes_with_samplers_and_parts_are_named(fail: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        fail()


class Shuffling(Sampler[int]):
    """Keeps a tensor while it yields, and makes the next one in the middle of an epoch."""

    def __len__(self) -> int:
        return 12

    def __iter__(self) -> Any:
        for _ in range(2):
            order = tensor.randperm(6)
            for i in range(6):
                yield int(order[i])


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("disposing_batches", [False, True])
@pytest.mark.parametrize("workers", [0, 1])
def test_the_tensors_of_a_sampler_outlive_each_batch(workers: int, disposing_batches: bool) -> None:
    loader = DataLoader(
        TensorDataset(tensor.arange(6.0)),
        batch_size=2,
        sampler=Shuffling(),
        num_workers=workers,
        dispose_batches=disposing_batches,
    )
    assert sorted(x for (batch,) in loader for x in batch.tolist()) == sorted(2 * [0.0, 1, 2, 3, 4, 5])
    batches: Any = iter(())
    seen = []
    for _ in range(6):
        with new_dispose_scope():
            batch = next(batches, None)
            if batch is None:
                batches = iter(loader)
                batch = next(batches)
            seen += batch[0].tolist()
    assert sorted(seen) == sorted(2 * [0.0, 1, 2, 3, 4, 5])
