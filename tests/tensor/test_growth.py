"""The warning about forward passes that accumulate: which programs get it, where, and how often."""

from __future__ import annotations

import inspect
import pickle
import threading
import warnings
from collections.abc import Callable, Iterator

import pytest

import nn
import tensor
from tensor import Tensor, autograd
from tensor.autograd import GraphGrowthWarning
from tensor.tape import growth


def warn_of_small_graphs(steps: int | None = 200) -> None:
    """Warn of graphs that use a parameter so often, however little they hold. Each line warns again."""
    autograd.warn_on_graph_growth(steps, held_bytes=0)


@pytest.fixture(autouse=True)
def no_line_has_warned() -> Iterator[None]:
    warn_of_small_graphs()
    yield
    autograd.warn_on_graph_growth()


@pytest.fixture
def caught() -> Iterator[list[warnings.WarningMessage]]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        yield found


def line_of(text: str) -> int:
    """Return the number of the line below the caller's first that says `text`."""
    caller = inspect.currentframe().f_back
    lines, first = inspect.getsourcelines(caller.f_code)
    (found,) = [first + i for i, line in enumerate(lines) if line.strip() == text]
    return found


class Policy(nn.Module):
    """From a state to the next one."""

    def __init__(self, hidden: int = 8096) -> None:
        super().__init__()
        self.first = nn.Linear(4, hidden)
        self.second = nn.Linear(hidden, 4)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x)
        hidden = hidden.relu()
        return self.second(hidden)


def pile_up(steps: int = 500, batch: int = 1, hidden: int = 10) -> Tensor:
    policy = Policy(hidden)
    x = tensor.rand(batch, 4)
    for _ in range(steps):
        x = policy(x)
    return x


# Programs that grow


@pytest.mark.parametrize("batch", [1, 64])
def test_outputs_fed_into_the_next_pass_warn_once_with_the_figures_of_that_moment(batch: int, monkeypatch):
    warned = []

    def show(warning: Warning, *where: object) -> None:
        warned.append((warning, autograd.graph_statistics(x), autograd.graph_statistics()))

    first, second = nn.Linear(4, 512), nn.Linear(512, 4)
    x = tensor.rand(batch, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        monkeypatch.setattr(warnings, "showwarning", show)
        for _ in range(500):
            x = second(first(x))
    ((warning, before, everywhere),) = warned
    assert 200 <= warning.steps <= 400
    assert warning.parameter in ("float32[512, 4]", "float32[4, 512]")
    assert warning.statistics.node_count - before.node_count in (1, 2)
    assert warning.statistics.bytes_saved == everywhere.bytes_saved
    assert warning.statistics.bytes_held_alone == everywhere.bytes_held_alone
    each = 4 * batch * (4 + 512)
    assert abs(warning.statistics.bytes_held_alone - warning.steps * each) <= 2 * each
    text = str(warning)
    for part in (f"{warning.steps} times", f"{warning.statistics.node_count} recorded ops"):
        assert part in text
    for way_out in ("loss.backward()", "x.detach()", "no_grad()", "module.valid()", "loss.item()"):
        assert way_out in text
    assert "autograd.warn_on_graph_growth(" in text


def test_the_warning_points_at_the_line_of_the_user_that_recorded(caught):
    layer = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    x = tensor.rand(2, 4)
    for _ in range(500):
        x = layer(x)
    (warning,) = caught
    assert (warning.filename, warning.lineno) == (__file__, line_of("x = layer(x)"))
    assert warning.category is GraphGrowthWarning


def test_a_module_of_the_users_own_is_the_users_line(caught):
    pile_up()
    (warning,) = caught
    lines, first = inspect.getsourcelines(Policy.forward)
    assert warning.filename == __file__
    assert first < warning.lineno < first + len(lines)


def test_a_running_sum_of_losses_that_keeps_all_graphs_warns_at_the_sum(caught):
    policy = Policy(10)
    total = tensor.zeros(())
    for _ in range(500):
        error = policy(tensor.rand(8, 4)) - 1
        loss = error.square().mean()
        total = total + loss
    (warning,) = caught
    assert warning.lineno == line_of("total = total + loss")
    assert 200 <= warning.message.steps < 300


def test_a_sum_and_its_forward_pass_on_one_line_warn_at_the_contract(caught):
    autograd.warn_on_graph_growth(200, held_bytes="1 MiB")
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 8))
    x, total = tensor.rand(64, 8), tensor.zeros(())
    for _ in range(500):
        total = total + model(x).square().mean()
    (warning,) = caught
    assert 200 <= warning.message.steps < 300


MORE_WIDTHS = [pytest.param(n, marks=pytest.mark.soak) for n in (2, 31, 250, 252)]


@pytest.mark.parametrize("width", [1, 7, 251, *MORE_WIDTHS])
def test_a_sum_is_found_whatever_the_number_of_ops_in_a_pass(width: int, caught):
    w = tensor.ones((), requires_grad=True)
    total = tensor.zeros(())
    for _ in range(600):
        x = (w * 1).exp()
        for _ in range(width - 1):
            x = x + 1
        total = total + x
    assert [warning.lineno for warning in caught] == [line_of("total = total + x")]


def test_a_weight_used_again_and_again_without_layers_warns(caught):
    w = tensor.ones((3, 3), requires_grad=True)
    x = tensor.rand(3, 3)
    for _ in range(500):
        x = (x @ w).tanh()
    assert len(caught) == 1


def test_growth_is_found_while_many_other_nodes_are_alive(caught):
    w = tensor.ones((2,), requires_grad=True)
    losses = [(w * i).sin().sum() for i in range(3000)]
    pile_up()
    assert [200 <= warning.message.steps < 400 for warning in caught] == [True]
    assert losses


# Once


def test_the_same_loop_does_not_warn_again_with_the_same_model_or_another(caught):
    for _ in range(3):
        pile_up()
    assert len(caught) == 1


def test_a_loop_of_many_lines_warns_once_however_often_it_runs(caught):
    def run() -> None:
        layer = nn.Linear(4, 4)
        x = tensor.rand(2, 4)
        for _ in range(500):
            y = layer(x)
            y = y.tanh()
            y = y * 2
            x = y + x
            x = x / 2

    for _ in range(5):
        run()
    assert len(caught) == 1


def test_another_line_warns_too(caught):
    layer = nn.Linear(4, 4)
    for run in (lambda x: layer(x), lambda x: layer(x).tanh()):
        x = tensor.rand(2, 4)
        for _ in range(1000):
            x = run(x)
    assert len({warning.lineno for warning in caught}) == len(caught)
    assert len(caught) >= 1
    x = tensor.rand(2, 4)
    for _ in range(1000):
        x = layer(x)
    assert caught[-1].lineno == line_of("x = layer(x)")


def test_setting_the_steps_lets_lines_warn_again(caught):
    pile_up()
    warn_of_small_graphs()
    pile_up()
    assert len(caught) == 2


# The setting


def test_growth_warning_can_be_switched_off(caught):
    autograd.warn_on_graph_growth(None)
    pile_up(1000)
    assert caught == []


def test_more_steps_warn_later_and_fewer_sooner(caught):
    for steps in (10, 50, 300, 700):
        warn_of_small_graphs(steps)
        pile_up(1000)
    assert len(caught) == 4
    for steps, warning in zip((10, 50, 300, 700), caught, strict=True):
        assert steps <= warning.message.steps <= 2 * steps
        assert warning.message.statistics.node_count == pytest.approx(3 * warning.message.steps, abs=3)


def feed_back_rows(steps: int, batch: int, width: int = 256) -> Tensor:
    layer = nn.Linear(width, width)
    x = tensor.rand(batch, width)
    for _ in range(steps):
        x = layer(x).tanh()
    return x


def test_from_the_start_a_graph_that_holds_little_gets_no_warning(caught):
    autograd.warn_on_graph_growth()
    pile_up(3000)
    assert caught == []


def test_from_the_start_a_graph_that_holds_16_mebibytes_gets_one(caught):
    autograd.warn_on_graph_growth()
    feed_back_rows(400, batch=64)  # 64 KiB with each pass
    (warning,) = caught
    assert 2**24 <= warning.message.statistics.bytes_held_alone < 2 * 2**24
    assert 256 <= warning.message.steps <= 320


def test_a_sum_of_losses_is_warned_of_when_it_holds_so_much(caught):
    autograd.warn_on_graph_growth(held_bytes="4 MiB")
    w = tensor.ones((1024,), requires_grad=True)
    total = tensor.zeros(())
    for _ in range(4000):
        loss = (w * 1).exp().sum()
        total = total + loss
    (warning,) = caught
    assert warning.lineno == line_of("total = total + loss")
    assert 2**22 <= warning.message.statistics.bytes_held_alone < 2 * 2**22


def test_a_graph_whose_later_passes_hold_more_is_found_before_it_has_doubled_twice(caught):
    autograd.warn_on_graph_growth(held_bytes="1 MiB")
    w = tensor.ones((1,), requires_grad=True)
    x = tensor.ones((1,))
    for _ in range(400):
        x = (x * w).tanh()
    x = x.expand((2**14,)).clone()
    for _ in range(800):
        x = (x * w).tanh()
    (warning,) = caught
    assert 400 <= warning.message.steps <= 1000


@pytest.mark.parametrize("held_bytes", ["much", -1, 1.5])
def test_an_invalid_number_of_bytes_is_refused_and_the_setting_stays(held_bytes: object, caught):
    autograd.warn_on_graph_growth(None)
    with pytest.raises(ValueError, match=r"held_bytes: .*write a whole number"):
        autograd.warn_on_graph_growth(held_bytes=held_bytes)
    pile_up()
    assert caught == []


@pytest.mark.parametrize("steps", [True, 2.0, "200", [1]])
def test_an_invalid_number_of_steps_raises_an_error_that_says_what_to_write(steps: object):
    with pytest.raises(TypeError, match="write an int, or None"):
        warn_of_small_graphs(steps)


@pytest.mark.parametrize("steps", [1, 0, -5])
def test_too_few_steps_raise_an_error_that_says_what_to_write_and_the_setting_stays(steps: int, caught):
    autograd.warn_on_graph_growth(None)
    with pytest.raises(ValueError, match=f"2 steps or more, not {steps}.*Write None"):
        warn_of_small_graphs(steps)
    pile_up()
    assert caught == []


def test_a_filter_that_ignores_the_warning_is_heeded():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=GraphGrowthWarning)
        pile_up()


def test_growth_warnings_can_be_pickled():
    with pytest.warns(GraphGrowthWarning) as found:
        pile_up()
    warning = found[0].message
    again = pickle.loads(pickle.dumps(warning))
    assert (str(again), again.steps, again.statistics) == (str(warning), warning.steps, warning.statistics)


# Turned into an error


def test_as_an_error_it_leaves_existing_tensors_whole():
    w = tensor.tensor([1.0, 2.0], requires_grad=True)
    x = (w * 1).square()
    steps = 0
    with pytest.raises(GraphGrowthWarning):
        while steps < 1000:
            x = x + (w * 1).square()
            steps += 1
    assert 100 < steps < 900
    x = x + (w * 1).square()
    x.sum().backward()
    assert x.tolist() == [steps + 2.0, 4 * (steps + 2.0)]
    assert w.grad.tolist() == [2 * (steps + 2.0), 4 * (steps + 2.0)]


def test_growth_warning_as_an_error_leaks_no_memory():
    w = tensor.ones((1000,), requires_grad=True)
    before = tensor.memory.statistics().bytes_live
    x = w * 1
    with pytest.raises(GraphGrowthWarning):
        for _ in range(1000):
            x = (x * w).sin()
    del x
    assert tensor.memory.statistics().bytes_live == before


def test_after_an_error_the_next_loop_gets_its_own():
    layer = nn.Linear(4, 4)
    for activation in (tensor.tanh, tensor.sin):
        with pytest.raises(GraphGrowthWarning):
            pile_up()
        x = tensor.rand(2, 4)
        with pytest.raises(GraphGrowthWarning):
            for _ in range(500):
                x = activation(layer(x))
        del x
        warn_of_small_graphs()


OPS: dict[str, Callable[[Tensor, Tensor], object]] = {
    "of two": lambda x, w: x * w,
    "of one": lambda x, w: x.sin(),
    "view": lambda x, w: x[1:],
    "sum": lambda x, w: x.sum(),
    "in place": lambda x, w: x.mul_(w),
    "item": lambda x, w: x.__setitem__(0, w[1]),
    "into a view": lambda x, w: x[1:].mul_(w[1:]),
    "donated": lambda x, w: tensor.sin(x.clone().donate()),
    "linear": lambda x, w: nn.functional.linear(x, w.reshape((1, 3))),
}


@pytest.mark.parametrize("op", OPS.values(), ids=OPS)
def test_no_op_is_left_half_done_by_the_error(op: Callable[[Tensor, Tensor], object]):
    def build() -> tuple[Tensor, Tensor]:
        w = tensor.tensor([2.0, 3.0, 4.0], requires_grad=True)
        x = w * 1
        for _ in range(5):
            x = x * w
        return x, w

    def outcome(*steps: Callable[[Tensor, Tensor], object]) -> tuple[list[float], list[float]]:
        x, w = build()
        view = x[:]
        for step in steps:
            step(x, w)
        assert view.tolist() == x.tolist()
        (view.sum() + x.sum()).backward()
        return x.tolist(), w.grad.tolist()

    autograd.warn_on_graph_growth(None)
    refused, done, raised = outcome(), outcome(op), []
    for late in range(4):  # an op may be several that are recorded

        def fail(x: Tensor, w: Tensor, late: int = late) -> None:
            warn_of_small_graphs(2)
            growth.ticks.left = late
            try:
                op(x, w)
            except GraphGrowthWarning as warning:
                raised.append(warning)
            autograd.warn_on_graph_growth(None)

        count = len(raised)
        assert outcome(fail) == (refused if len(raised) > count else done)
    assert raised


# Programs that do not grow


def a_training_loop() -> None:
    policy = Policy(10)
    for _ in range(600):
        policy.zero_grad()
        policy(tensor.rand(3, 4)).square().mean().backward()


def losses_summed_after_backward() -> None:
    policy = Policy(10)
    total = tensor.zeros(())
    for _ in range(600):
        loss = policy(tensor.rand(3, 4)).square().mean()
        loss.backward()
        total = total + loss


def gradients_gathered_over_many_small_batches() -> None:
    policy = Policy(10)
    for _ in range(3):
        policy.zero_grad()
        for _ in range(400):
            (policy(tensor.rand(3, 4)).square().mean() / 400).backward()


def a_thousand_layers() -> None:
    layers = nn.Sequential(*[nn.Linear(2, 2) for _ in range(1000)])
    for _ in range(3):
        layers(tensor.rand(2, 2)).sum().backward()


def a_list_of_losses() -> None:
    policy = Policy(10)
    losses = [policy(tensor.rand(3, 4)).square().mean() for _ in range(2000)]
    assert losses[0].requires_grad


def a_recurrent_network(*, kept: bool = False) -> None:
    cell, readout = nn.Linear(6, 4), nn.Linear(4, 1)
    losses = []
    for _ in range(10):
        state = tensor.zeros((1, 4))
        for _ in range(190):
            state = tensor.tanh(cell(tensor.concat([state, tensor.rand(1, 2)], axis=1)))
        loss = readout(state).square().sum()
        losses.append(loss)
        if not kept:
            loss.backward()
            losses.clear()


def recurrent_networks_that_are_all_kept() -> None:
    a_recurrent_network(kept=True)


def a_recurrent_network_with_derivatives_of_derivatives() -> None:
    w = tensor.tensor([[0.5, 0.1], [0.2, 0.3]], requires_grad=True)
    x = tensor.rand(1, 2).requires_grad_()
    for _ in range(3):
        state = x
        for _ in range(150):
            state = tensor.tanh(state @ w)
        (dx,) = autograd.grad(state.sum(), x, create_graph=True)
        (dx.square().sum() + state.sum()).backward()


def uses_that_save_nothing_of_their_own() -> None:
    w = tensor.rand(100).requires_grad_()
    total = tensor.zeros((100,))
    for i in range(1000):
        total = total + w * i


def outputs_that_are_all_kept_anyhow() -> None:
    w = tensor.rand(100).requires_grad_()
    kept = [w]
    for _ in range(1000):
        kept.append(kept[-1] * w)


def outputs_that_are_detached() -> None:
    policy = Policy(10)
    x = tensor.rand(3, 4)
    for _ in range(600):
        x = policy(x).detach()


def outputs_without_gradients() -> None:
    policy = Policy(10)
    x = tensor.rand(3, 4)
    with tensor.no_grad():
        for _ in range(600):
            x = policy(x)
    model = policy.valid()
    for _ in range(600):
        x = model(x)


@pytest.mark.parametrize(
    "program",
    [
        a_training_loop,
        losses_summed_after_backward,
        gradients_gathered_over_many_small_batches,
        a_thousand_layers,
        a_list_of_losses,
        a_recurrent_network,
        recurrent_networks_that_are_all_kept,
        a_recurrent_network_with_derivatives_of_derivatives,
        uses_that_save_nothing_of_their_own,
        outputs_that_are_all_kept_anyhow,
        outputs_that_are_detached,
        outputs_without_gradients,
    ],
)
def test_a_program_that_does_not_pile_up_passes_is_not_warned(program: Callable[[], None], caught):
    program()
    assert [str(warning.message) for warning in caught] == []


@pytest.mark.parametrize(
    ("program", "recorded"),
    [
        (a_training_loop, 600 * 5),
        (a_list_of_losses, 2000 * 5),
        (a_thousand_layers, 3 * 1001),
        (recurrent_networks_that_are_all_kept, 10 * (190 * 3 + 3)),
    ],
)
def test_nodes_are_walked_through_more_seldom_than_recorded(
    program: Callable[[], None], recorded: int, monkeypatch
):
    walked = []
    nodes_from = growth.statistics.nodes_from

    def walk(node):
        nodes = nodes_from(node)
        walked.append(len(nodes))
        return nodes

    monkeypatch.setattr(growth.statistics, "nodes_from", walk)
    program()
    assert sum(walked) < recorded / 4


# Threads


def test_two_threads_in_one_loop_give_one_warning(caught):
    threads = [threading.Thread(target=pile_up, args=(1000,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({warning.lineno for warning in caught}) == len(caught)
    assert 1 <= len(caught) <= 2  # each may have seen its own graph on a line of its own


def test_threads_in_loops_of_their_own_each_give_their_warning(caught):
    layer = nn.Linear(4, 4)
    # Each keeps its graph until the other has its own: the number of live nodes decides when one looks.
    both = threading.Barrier(2)

    def one() -> None:
        x = tensor.rand(1, 4)
        for _ in range(3000):
            x = layer(x)
        both.wait()

    def other() -> None:
        x = tensor.rand(1, 4)
        for _ in range(3000):
            x = layer(x)
        both.wait()

    threads = [threading.Thread(target=run) for run in (one, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(caught) == len({warning.lineno for warning in caught}) == 2
