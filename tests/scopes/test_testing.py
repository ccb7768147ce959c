"""What `scopes.testing` asserts, for any framework."""

from __future__ import annotations

import asyncio
import gc
import inspect
import re
import threading
import unittest
import weakref

import pytest

import nn
import scopes
import tensor
from scopes import new_dispose_scope, statistics
from scopes.testing import StatisticsWindow, assert_dispose_counts, assert_no_leaks


def message_of(caught: pytest.ExceptionInfo[BaseException]) -> str:
    return str(caught.value)


def line_with(mark: str) -> str:
    """Return how a report names the line of this file that ends in `mark`."""
    source = inspect.getsource(inspect.getmodule(line_with)).splitlines()
    (number,) = [i for i, line in enumerate(source, 1) if line.endswith(f"# {mark}")]
    return f"test_testing.py:{number} in "


# assert_no_leaks


def test_a_block_that_leaves_nothing_passes():
    def work():
        with new_dispose_scope():
            kept = [tensor.ones((3,)) for _ in range(3)]
        return len(kept)

    with assert_no_leaks():
        assert work() == 3
    assert not scopes.is_tracking()


def test_leftovers_of_a_block_are_listed_with_lines_bytes_and_scopes():
    kept = []
    with pytest.raises(AssertionError) as caught:
        with assert_no_leaks():
            with new_dispose_scope("epoch"):
                for _ in range(3):
                    with new_dispose_scope("step") as scope:
                        kept.append(scope.detach(tensor.ones((250,))))  # in steps
            kept.append(tensor.ones((2,)))  # outside
    text = message_of(caught)
    assert text.startswith("the block left 4 disposables, 2.938 KiB:\n")
    # The most bytes come first.
    assert text.index(line_with("in steps")) < text.index(line_with("outside"))
    assert "-> 3 x Tensor, 2.93 KiB" in text
    assert "-> 1 x Tensor, 8 bytes" in text
    assert "    epoch: 3\n      step: 3\n    outside all scopes: 1\n" in text
    assert "`with new_dispose_scope():`" in text
    assert ".md" not in text  # an installed package has no docs folder
    assert not scopes.is_tracking()


def test_a_scope_that_is_still_open_is_named():
    with new_dispose_scope("run"):
        x = None
        with pytest.raises(AssertionError, match=r"1 owned by the scope 'run', which is still open"):
            with assert_no_leaks():
                x = tensor.ones((2,))
        assert not x.is_invalid


def test_tensors_from_before_the_block_are_no_leak():
    before = tensor.ones((2,))
    with assert_no_leaks():
        assert (before + 1).sum().item() == 4.0


def test_empty_tensors_that_are_referred_to_are_no_leak():
    kept = []
    with assert_no_leaks():
        with new_dispose_scope():
            kept.append(tensor.ones((2,)))
        kept.append(tensor.ones((2,)))
        kept[-1].dispose()
    assert [x.is_invalid for x in kept] == [True, True]


def cycle():
    x = [tensor.ones((2,))]
    x.append(x)


def test_reference_cycles_are_no_leak_unless_the_collector_is_disabled():
    with assert_no_leaks():
        cycle()
    gc.disable()
    try:
        with pytest.raises(AssertionError, match="left 1 disposable"):
            with assert_no_leaks():
                cycle()
    finally:
        gc.enable()


def test_the_memory_of_a_graph_is_put_to_the_tensor_that_keeps_it():
    losses = []

    def step():
        w = tensor.ones((1000,), requires_grad=True)
        losses.append((w * 2).exp().sum())

    with pytest.raises(AssertionError) as caught:
        with assert_no_leaks():
            step()
    bytes_left = re.search(r"left 1 disposable, ([\d.]+) KiB", message_of(caught))
    assert bytes_left is not None
    assert float(bytes_left[1]) >= 4000 / 1024


def test_a_block_that_raises_is_not_judged():
    with pytest.raises(ZeroDivisionError):
        with assert_no_leaks():
            kept = tensor.ones((2,))
            1 / 0  # noqa: B018
    assert not kept.is_invalid
    assert not scopes.is_tracking()


def test_the_error_holds_no_tensors():
    kept = []
    with pytest.raises(AssertionError) as caught:
        with assert_no_leaks():
            kept.append(tensor.ones((2,)))
    seen = weakref.ref(kept[0])
    gc.disable()
    try:
        kept.clear()
        assert seen() is None
    finally:
        gc.enable()
    assert "left 1" in message_of(caught)


def test_blocks_nest_and_each_checks_its_own_tensors():
    kept = []
    with pytest.raises(AssertionError, match="left 1 disposable"):
        with assert_no_leaks():
            kept.append(tensor.ones((2,)))
            with assert_no_leaks():
                tensor.ones((2,)).sum()


def test_leftovers_of_another_thread_count():
    kept = []
    with pytest.raises(AssertionError, match="left 1 disposable"):
        with assert_no_leaks():
            thread = threading.Thread(target=lambda: kept.append(tensor.ones((2,))))
            thread.start()
            thread.join()


def test_depth_lists_the_callers():
    kept = []

    def helper():
        kept.append(tensor.ones((2,)))  # helper

    def caller():
        helper()  # caller

    with pytest.raises(AssertionError) as caught:
        with assert_no_leaks(depth=2):
            caller()
    (line,) = [line for line in message_of(caught).splitlines() if line_with("helper") in line]
    assert line_with("caller") in line
    with pytest.raises(ValueError, match="write track\\(depth=3\\)"):
        assert_no_leaks(depth=0)


def test_a_decorated_function_is_judged_at_each_call_and_its_variables_are_gone():
    kept = []

    @assert_no_leaks()
    def work(leak: bool) -> int:
        x = tensor.ones((2,))
        if leak:
            kept.append(x)
        return 7

    assert work(False) == 7
    with pytest.raises(AssertionError, match="left 1 disposable"):
        work(True)
    assert work(leak=False) == 7


def test_a_decorated_coroutine_function_is_judged_when_it_ends():
    kept = []

    @assert_no_leaks()
    async def work(leak: bool) -> int:
        x = tensor.ones((2,))
        await asyncio.sleep(0)
        if leak:
            kept.append(x)
        return 7

    assert asyncio.run(work(False)) == 7
    with pytest.raises(AssertionError, match="left 1 disposable"):
        asyncio.run(work(True))


def test_a_generator_function_cannot_be_decorated():
    def numbers():
        yield 1

    with pytest.raises(TypeError, match=r"write `with assert_no_leaks\(\):` around the loop"):
        assert_no_leaks()(numbers)


def test_a_block_that_is_open_cannot_be_entered_again():
    block = assert_no_leaks()
    with block:
        with pytest.raises(RuntimeError, match="write a new `with assert_no_leaks"):
            block.__enter__()
    with block:
        pass


def test_unittest_can_use_it():
    class Case(unittest.TestCase):
        kept: list[tensor.Tensor] = []  # noqa: RUF012  # shared: that is the leak

        @assert_no_leaks()
        def test_clean(self):
            tensor.ones((2,)).sum()

        @assert_no_leaks()
        def test_leak(self):
            self.kept.append(tensor.ones((2,)))

    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(Case).run(result)
    assert result.testsRun == 2
    ((case, text),) = result.failures
    assert case.id().endswith("test_leak")
    assert "the block left 1 disposable, 8 bytes:" in text


def test_a_model_and_its_optimizer_leave_nothing():
    @assert_no_leaks()
    def train():
        with new_dispose_scope():
            model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
            optimizer = nn.optim.Adam(model.parameters())
            for _ in range(3):
                with new_dispose_scope("step"):
                    optimizer.zero_grad()
                    (model(tensor.ones((2, 4))) ** 2).mean().backward()
                    optimizer.step()

    train()


# assert_dispose_counts


def test_a_block_of_the_right_counts_passes():
    with assert_dispose_counts(
        created_in_scope_count=2,
        disposed_in_scope_count=3,
        attached_to_scope_count=1,
        detached_from_scope_count=0,
        created_outside_scope_count=1,
        disposed_outside_scope_count=0,
        finalized_count=0,
        live_count=0,
    ):
        x = tensor.ones((2,))
        with new_dispose_scope() as scope:
            y = tensor.ones((2,))
            scope.attach(x)
            z = y + 1
            assert z in scope
    # `x` went with the scope that it was attached to.
    assert x.is_invalid
    assert y.is_invalid


def test_wrong_counts_are_named_with_the_expected_ones_and_all_figures():
    with pytest.raises(AssertionError) as caught:
        with assert_dispose_counts(live_count=0, created_outside_scope_count=1, attached_to_scope_count=3):
            x = tensor.ones((2,))
    text = message_of(caught)
    assert text.splitlines()[:2] == [
        "live_count is 1, but expected 0",
        "attached_to_scope_count is 0, but expected 3",
    ]
    assert "All counts: live_count: 1; created_outside_scope_count: 1; " in text
    del x


def test_a_block_gives_its_live_figures():
    with assert_dispose_counts(live_count=1) as window:
        x = tensor.ones((2,))
        assert window.live_count == 1
    x.dispose()
    assert window.live_count == 0


def test_blocks_of_counts_that_raise_are_not_compared():
    with pytest.raises(ZeroDivisionError):
        with assert_dispose_counts(live_count=5):
            1 / 0  # noqa: B018


@pytest.mark.parametrize("live", [True, False])
def test_figures_at_hand_are_compared_at_once(live: bool):
    window = StatisticsWindow()
    x = tensor.ones((2,))
    figures = window if live else window.snapshot()
    assert_dispose_counts(figures, live_count=1, created_outside_scope_count=1)
    with pytest.raises(AssertionError, match="live_count is 1, but expected 2"):
        assert_dispose_counts(figures, live_count=2)
    x.dispose()
    assert_dispose_counts(window, live_count=0)


def test_statistics_themselves_are_figures():
    assert_dispose_counts(statistics.of(int), live_count=0)
    with pytest.raises(AssertionError):
        assert_dispose_counts(statistics, live_count=-1)


def test_garbage_at_both_ends_of_a_block_is_no_matter_of_chance():
    gc.disable()
    try:
        cycle()
        gc.enable()
        with assert_dispose_counts(live_count=0, created_outside_scope_count=1, finalized_count=1):
            cycle()
    finally:
        gc.enable()


def test_a_call_without_expected_counts_raises_an_error_that_says_what_to_write():
    with pytest.raises(TypeError, match=r"with assert_dispose_counts\(live_count=0\)"):
        assert_dispose_counts()
    with pytest.raises(TypeError, match=r"has no living=: did you mean live_count\?"):
        assert_dispose_counts(living=0)


def test_an_argument_that_is_not_figures_is_named():
    with pytest.raises(TypeError, match=r"not Tensor: pass statistics.snapshot\(\) - before"):
        assert_dispose_counts(tensor.ones((2,)), live_count=0)


def test_figures_that_were_compared_are_no_block():
    with pytest.raises(RuntimeError, match=r"already compared its statistics: write a new .* for each block"):
        with assert_dispose_counts(StatisticsWindow(), live_count=0):
            pass


def test_a_block_that_is_not_entered_warns():
    with pytest.warns(RuntimeWarning, match="compared nothing"):
        assert_dispose_counts(live_count=0)


# StatisticsWindow


def test_a_window_counts_from_where_it_begins():
    before = tensor.ones((2,))
    window = StatisticsWindow()
    assert window.snapshot() == scopes.DisposeStatistics()
    with new_dispose_scope() as scope:
        x = scope.detach(tensor.ones((2,)))
        assert (window.created_in_scope_count, window.detached_from_scope_count) == (1, 1)
    assert window.live_count == 1
    before.dispose()
    assert (window.live_count, window.disposed_outside_scope_count) == (0, 1)
    window.restart()
    x.dispose()
    assert window.live_count == -1
    assert str(window).startswith("live_count: -1; created_outside_scope_count: 0; ")


def test_pytest_shows_the_line_of_a_wrong_count():
    with pytest.raises(AssertionError) as block:
        with assert_dispose_counts(live_count=5):
            pass
    with pytest.raises(AssertionError) as figures:
        assert_dispose_counts(statistics.snapshot(), live_count=-5)
    for caught in (block, figures):
        shown = caught.traceback.filter(caught)
        assert [str(entry.path) for entry in shown] == [__file__]
