"""Objects of other libraries in scopes, with a library made for these tests."""

from __future__ import annotations

import dataclasses
import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any, ClassVar
from weakref import ref

import pytest

import scopes
from scopes import (
    DisposeScope,
    DisposeStatistics,
    ScopeDisposedError,
    TensorDisposedError,
    dispose,
    disposing,
    new_dispose_scope,
    statistics,
)
from scopes.adapters.adapter import Adapter
from scopes.adapters.foreign import add_adapter, adopt, detach_adopted, is_adopted
from scopes.core.containers import add_container
from scopes.lowlevel import owner_of
from scopes.tracking import tracking
from scopes.tracking.records import Record


class Block:
    """An array of a library that knows nothing of us."""

    def __init__(self, nbytes: int = 8) -> None:
        self.nbytes = nbytes
        self.memory: bytearray | None = bytearray(nbytes)

    def use(self) -> int:
        if self.memory is None:
            raise ADAPTER.disposed_error(self)
        return len(self.memory)


def new(nbytes: int = 8) -> Block:
    block = Block(nbytes)
    adopt(block)
    return block


class Machine:
    """Holds some."""

    def __init__(self, *blocks: Block) -> None:
        self.blocks = blocks


class BlockAdapter(Adapter):
    library = "blocks"
    kinds = (Block,)

    def __init__(self) -> None:
        self.unsafe: list[bool] = []

    def end(self, x: Block, is_safe: bool) -> object:
        x.memory = None
        self.unsafe.append(not is_safe)
        return x.nbytes

    def describe(self, ending: object) -> str:
        return f"{ending} bytes"

    def footprint(self, x: Block) -> tuple[int, int]:
        return id(x.memory), x.nbytes

    def device(self, x: Block) -> str:
        return "here"


ADAPTER = BlockAdapter()


@pytest.fixture(autouse=True, scope="module")
def adapted() -> None:
    if not isinstance(getattr(BlockAdapter, "added", None), bool):
        BlockAdapter.added = True  # type: ignore[attr-defined]
        add_adapter(ADAPTER)
        add_container(Machine, lambda machine: list(machine.blocks))


Window = Callable[[], DisposeStatistics]


def figures(window: Window) -> tuple[int, ...]:
    """In the order created outside, disposed outside, created in, disposed in, attached, detached, live."""
    now = window()
    return (
        now.created_outside_scope_count,
        now.disposed_outside_scope_count,
        now.created_in_scope_count,
        now.disposed_in_scope_count,
        now.attached_to_scope_count,
        now.detached_from_scope_count,
        now.live_count,
    )


def test_a_scope_disposes_adopted_objects(window: Window) -> None:
    with new_dispose_scope("step") as scope:
        block = new()
        assert block in scope
        assert scope.disposables_view == (block,)
        assert len(scope) == 1
        assert scope.nbytes == 8
        assert figures(window) == (0, 0, 1, 0, 0, 0, 1)
    assert figures(window) == (0, 0, 1, 1, 0, 0, 0)
    with pytest.raises(
        TensorDisposedError, match=r"this blocks tensor \(8 bytes\) is empty: its dispose scope 'step' ended"
    ):
        block.use()


def test_a_scope_does_not_keep_it_alive(window: Window) -> None:
    with new_dispose_scope() as scope:
        block = new()
        known = ref(block)
        del block
        assert known() is None
        assert len(scope) == 0
        assert scope.disposables_view == ()
    assert figures(window) == (0, 0, 1, 1, 0, 0, 0)
    assert window().finalized_count == 1


def test_a_cycle_with_it_is_collected(window: Window) -> None:
    with new_dispose_scope() as scope:
        block = new()
        block.myself = block  # type: ignore[attr-defined]
        del block
        gc.collect()
        assert len(scope) == 0
    assert gc.garbage == []
    assert window().finalized_count == 1


def test_an_object_created_outside_counts_as_outside(window: Window) -> None:
    block = new()
    assert owner_of(block) is None
    assert figures(window) == (1, 0, 0, 0, 0, 0, 1)
    del block
    assert figures(window) == (1, 1, 0, 0, 0, 0, 0)


def test_statistics_count_arrays_of_the_librarys_class(window: Window) -> None:
    before = statistics.of(Block).snapshot()
    with new_dispose_scope():
        blocks = [new() for _ in range(3)]
    change = statistics.of(Block).snapshot() - before
    assert (change.created_in_scope_count, change.disposed_in_scope_count, change.live_count) == (3, 3, 0)
    assert len(blocks) == 3


def test_attach_takes_over_an_object_without_an_owner(window: Window) -> None:
    block = new()
    with new_dispose_scope() as scope:
        assert scope.attach(block) is block
        assert scope.attach(block) is block
        assert block in scope
        assert figures(window) == (1, 0, 0, 0, 1, 0, 1)
    assert figures(window) == (1, 0, 0, 1, 1, 0, 0)


def test_attach_counts_one_that_was_never_seen(window: Window) -> None:
    block = Block()
    assert not is_adopted(block)
    with new_dispose_scope() as scope:
        scope.attach([block])
        assert figures(window) == (1, 0, 0, 0, 1, 0, 1)
    assert block.memory is None


def test_attach_of_a_disposed_one_is_an_error() -> None:
    with new_dispose_scope() as scope:
        block = new()
        dispose(block)
        with pytest.raises(TensorDisposedError, match="it was disposed by dispose"):
            scope.attach(block)


def test_detach_lets_it_live(window: Window) -> None:
    with new_dispose_scope() as scope:
        block = scope.detach(new())
        assert block not in scope
    assert block.use() == 8
    assert figures(window) == (0, 0, 1, 0, 0, 1, 1)


def test_move_to_outer_moves_a_foreign_array_to_the_outer_scope(window: Window) -> None:
    with new_dispose_scope() as outer:
        with new_dispose_scope() as inner:
            held = inner.move_to_outer({"block": new()})
        assert held["block"] in outer
        assert held["block"].use() == 8
    assert figures(window) == (0, 0, 1, 1, 0, 0, 0)


def test_move_to_an_ended_scope_leaves_it_where_it_was() -> None:
    with new_dispose_scope() as ended:
        pass
    with new_dispose_scope() as scope:
        block = new()
        with pytest.raises(ScopeDisposedError):
            scope.move_to_other(ended, block)
        assert block in scope


def test_disposing_moves_the_result_out() -> None:
    inside: list[Block] = []

    @disposing
    def work() -> Block:
        inside.append(new())
        return new()

    with new_dispose_scope() as scope:
        result = work()
        assert result in scope
        assert inside[0].memory is None


def test_dispose_everything_but_keeps_its_arguments() -> None:
    with new_dispose_scope() as scope:
        kept, gone = new(), new()
        scope.dispose_everything_but([kept])
        assert kept.use() == 8
        assert gone.memory is None


def test_replace_with_puts_one_in_the_place_of_another(window: Window) -> None:
    replacement = new()
    with new_dispose_scope() as scope:
        block = new()
        DisposeScope.replace_with(block, replacement)
        assert replacement in scope
        assert block not in scope
    assert replacement.memory is None
    assert block.use() == 8


def test_dispose_ends_one_that_was_never_seen(window: Window) -> None:
    block = Block()
    dispose({"any": block})
    assert block.memory is None
    assert figures(window) == (1, 1, 0, 0, 0, 0, 0)


def test_disposing_twice_counts_once(window: Window) -> None:
    block = new()
    dispose(block)
    dispose(block)
    assert figures(window) == (1, 1, 0, 0, 0, 0, 0)


def test_containers_dataclasses_and_holders_are_looked_through() -> None:
    @dataclasses.dataclass
    class Output:
        logits: Block
        hidden: tuple[Block, ...]

    with new_dispose_scope():
        with new_dispose_scope() as inner:
            output = Output(new(), (new(), new()))
            machine = Machine(new())
            inner.move_to_outer(output, machine)
        for block in (output.logits, *output.hidden, *machine.blocks):
            assert block.use() == 8


def test_a_library_may_take_it_out_of_its_scope() -> None:
    with new_dispose_scope() as scope:
        block = new()
        detach_adopted(block)
        assert block not in scope
    assert block.use() == 8


def test_its_address_may_be_used_again(window: Window) -> None:
    with new_dispose_scope() as scope:
        for _ in range(1000):
            assert new() in scope
        assert len(scope) == 0
    assert window().created_in_scope_count == 1000


def test_a_scope_that_ends_on_another_thread_says_so() -> None:
    ADAPTER.unsafe.clear()
    scope = new_dispose_scope()
    block = new()
    thread = threading.Thread(target=scope.dispose)
    thread.start()
    thread.join()
    assert ADAPTER.unsafe == [True]
    assert block.memory is None
    with new_dispose_scope():
        block = new()
    assert ADAPTER.unsafe == [True, False]


def test_tracking_names_its_kind_its_line_and_its_bytes() -> None:
    with scopes.track():
        block = new(100)
        (row,) = scopes.leaks().rows
        assert (row.kinds, row.count, row.nbytes) == (("blocks.Block",), 1, 100)
        assert row.site.text == "adopt(block)"
        dispose(block)
        with pytest.raises(
            TensorDisposedError, match=r"created by .*test_foreign\.py:\d+ in new, and ended by"
        ):
            block.use()
        assert scopes.leaks().count == 0


class Hasty:
    """A listener that disposes what it hears of, as another thread might."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def created(self, record: Record) -> None:
        self.heard.append("created")
        dispose(record())

    def ended(self, record: Record, how: str) -> None:
        self.heard.append(how)

    def opened(self, scope: DisposeScope, path: tuple[str, ...]) -> None:
        pass

    def closed(self, scope: DisposeScope, path: tuple[str, ...]) -> None:
        pass


def test_an_object_disposed_during_its_creation_event_gets_an_end_event() -> None:
    hasty = Hasty()
    with scopes.track():
        tracker = tracking.current.tracker
        assert tracker is not None
        tracker.listeners += (hasty,)
        block = new(100)
        assert block.memory is None
        assert hasty.heard == ["created", "it was disposed by dispose()"]
        assert tracker.foreign.bytes_alive == 0


class Late:
    """An array of a library that tells nobody of new ones."""

    alive: ClassVar[list[ref[Late]]] = []

    def __init__(self) -> None:
        self.is_deleted = False
        self.alive.append(ref(self))


class LateAdapter(BlockAdapter):
    library = "late"
    kinds = (Late,)

    def end(self, x: Any, is_safe: bool) -> object:
        x.is_deleted = True
        return 0

    def footprint(self, x: Any) -> tuple[int, int]:
        return id(x), 1

    @staticmethod
    def harvest() -> None:
        for known in Late.alive:
            x = known()
            if x is not None and not x.is_deleted:
                adopt(x)


@pytest.fixture
def late() -> Iterator[type[Late]]:
    if not isinstance(getattr(LateAdapter, "is_added", None), bool):
        LateAdapter.is_added = True  # type: ignore[attr-defined]
        add_adapter(LateAdapter())
    yield Late
    Late.alive.clear()


def test_an_object_found_late_belongs_to_the_innermost_scope_of_its_creation(late: type[Late]) -> None:
    with new_dispose_scope() as outer:
        early = late()
        with new_dispose_scope() as inner:
            x = late()
            assert inner.disposables_view == (x,)
            y = inner.move_to_outer(late())
            assert len(inner) == 1
        assert x.is_deleted
        assert y in outer
        assert early in outer
        assert not early.is_deleted
    assert early.is_deleted
    assert y.is_deleted


def test_a_search_that_fails_at_the_end_of_a_scope_keeps_nothing_alive_and_its_error_is_among_all(
    late: type[Late], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise ValueError("no search")

    class Broken:
        def dispose(self) -> None:
            raise RuntimeError("no end")

    scope = new_dispose_scope()
    block = scope.attach(new())
    scope.attach(Broken())
    monkeypatch.setattr(LateAdapter, "harvest", staticmethod(fail))
    with pytest.raises(ExceptionGroup) as caught:
        scope.dispose()
    assert [str(error) for error in caught.value.exceptions] == ["no search", "no end"]
    assert block.memory is None
    assert scope.is_disposed
