"""Functions that take the memory of their arguments."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

import nn
import tensor
from scopes import TensorDisposedError, disposing, new_dispose_scope, statistics
from tensor import memory

SHAPES = [(3,), (100, 100)]


@memory.donating("state")
def decayed(state, gradient):
    return state.mul_(0.5).add_(gradient)


def counts_of(work) -> tuple[int, int]:
    before = memory.statistics()
    work()
    change = memory.statistics() - before
    return change.donation_reuse_count, change.donation_miss_count


@pytest.mark.parametrize("shape", SHAPES)
def test_output_takes_the_memory_of_the_argument(shape):
    state, gradient = tensor.full(shape, 4.0), tensor.ones(shape)
    address = state.data_ptr()
    outputs = []
    assert counts_of(lambda: outputs.append(decayed(state, gradient))) == (1, 0)
    assert outputs[0].data_ptr() == address
    assert outputs[0].tolist() == tensor.full(shape, 3.0).tolist()
    assert gradient.tolist() == tensor.ones(shape).tolist()


def test_argument_is_empty_afterwards_and_says_why():
    state = tensor.ones((100, 100))
    decayed(state, tensor.ones((100, 100)))
    with pytest.raises(TensorDisposedError, match=r"its memory was donated to decayed\(\) as 'state'"):
        state + 1


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "look", [lambda x: x.alias(), lambda x: x.view(-1), lambda x: x.clone(), lambda x: x.numpy()]
)
def test_other_users_of_the_memory_see_no_change(look, shape):
    state = tensor.full(shape, 4.0)
    looker = look(state)
    result = decayed(state, tensor.ones(shape))
    assert np.asarray(looker).reshape(-1).tolist() == [4.0] * int(np.prod(shape))
    assert result.reshape(-1).tolist() == [3.0] * int(np.prod(shape))
    assert state.is_invalid


def test_borrowed_array_is_not_written_to():
    array = np.ones((100, 100), np.float32)
    result = decayed(tensor.from_numpy(array), tensor.ones((100, 100)))
    assert array.min() == array.max() == 1.0
    assert result.tolist()[0][0] == 1.5


def test_a_result_elsewhere_counts_as_a_miss_and_the_memory_is_freed():
    @memory.donating("state")
    def summed(state):
        return state.sum()

    state = tensor.ones((100, 100))
    live = memory.statistics().bytes_live
    assert counts_of(lambda: summed(state)) == (0, 1)
    assert memory.statistics().bytes_live <= live - 40_000


class State(NamedTuple):
    weights: tensor.Tensor
    velocities: list[tensor.Tensor]


def test_tensors_in_containers_are_donated():
    @memory.donating("state")
    def step(state, settings):
        assert isinstance(state["network"], State)
        return {"network": State(state["network"].weights.add_(1.0), state["network"].velocities)}

    weights, velocity = tensor.zeros((100, 100)), tensor.zeros((3,))
    given = {"network": State(weights, [velocity]), "name": "x"}
    after = step(given, settings=None)
    assert weights.is_invalid
    assert velocity.is_invalid
    assert after["network"].weights.sum().item() == 10_000
    assert not after["network"].velocities[0].is_invalid


def test_result_takes_the_place_of_the_donated_tensor_in_its_scope():
    with new_dispose_scope() as scope:
        state = tensor.ones((100, 100))
        before = statistics.snapshot()
        result = decayed(state, 1.0)
        assert result in scope
        assert (statistics.snapshot() - before).live_count == 0
    assert result.is_invalid


def test_works_with_disposing():
    @disposing
    @memory.donating("state")
    def inner_first(state):
        return state.add_(1.0) * tensor.ones((100, 100))

    @memory.donating("state")
    @disposing
    def outer_first(state):
        return state.add_(1.0)

    with new_dispose_scope() as scope:
        for step in (inner_first, outer_first):
            result = step(tensor.ones((100, 100)))
            assert result.sum().item() == 20_000
            assert result in scope


def test_works_in_modules_and_with_gradients():
    class Cell(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 8)

        @memory.donating("state")
        def forward(self, x, state):
            return (self.layer(x) + state).tanh()

    cell = Cell()
    first = tensor.ones((4, 8), requires_grad=True)
    state = first * 2
    for _ in range(3):
        before = state
        state = cell(tensor.ones((4, 8)), before)
        assert before.is_invalid
    state.sum().backward()
    assert first.grad is not None
    assert cell.layer.weight.grad is not None


def test_optimizer_step_raises_live_bytes_by_one_operand_at_most():
    @memory.donating("weights", "velocities")
    def step(weights, velocities, gradients):
        for weight, velocity, gradient in zip(weights, velocities, gradients, strict=True):
            velocity.mul_(0.9).add_(gradient)
            weight.sub_(velocity * 0.1)
        return weights, velocities

    sizes = [(300, 300)] * 4
    weights, velocities, gradients = ([tensor.ones(size) for size in sizes] for _ in range(3))
    with memory.measure() as measured:
        weights, velocities = step(weights, velocities, gradients)
    assert measured.peak_bytes_change <= 300 * 300 * 4
    assert measured.live_bytes_change == 0
    assert weights[0].reshape(-1)[0].item() == pytest.approx(1 - 0.1 * 1.9)


def test_recurrent_state_raises_live_bytes_by_one_operand_at_most():
    @memory.donating("state")
    def cell(state, x, w, u):
        after = state @ u
        state.dispose()
        return after.add_(x @ w).tanh_()

    w, u = tensor.ones((300, 300)) * 0.001, tensor.ones((300, 300)) * 0.001
    x, state = tensor.ones((300, 300)), tensor.zeros((300, 300))
    for _ in range(3):
        with memory.measure() as measured:
            state = cell(state, x, w, u)
        assert measured.peak_bytes_change <= 300 * 300 * 4
        assert measured.live_bytes_change == 0


def test_error_in_the_function_leaves_the_arguments_empty():
    @memory.donating("state")
    def fail(state):
        raise KeyError

    state = tensor.ones((100, 100))
    with pytest.raises(KeyError):
        fail(state)
    assert state.is_invalid


def test_argument_that_cannot_be_donated_leaves_all_arguments_unchanged():
    @memory.donating("a", "b")
    def use(a, b=None):
        return a

    state, gone = tensor.ones((3,)), tensor.ones((3,))
    gone.dispose()
    with pytest.raises(TensorDisposedError):
        use(state, gone)
    with pytest.raises(TypeError, match="can't donate a Parameter"):
        use(state, nn.Parameter(tensor.ones((3,))))
    with pytest.raises(TypeError, match="the same tensor twice"):
        use(state, [state])
    assert state.tolist() == [1, 1, 1]
    assert use(state).tolist() == [1, 1, 1]


def test_wrong_uses_are_named_at_decoration():
    def function(x):
        return x

    with pytest.raises(TypeError, match=r"has no parameter 'y'.*Its parameters: x"):
        memory.donating("y")(function)
    with pytest.raises(TypeError, match="write the names"):
        memory.donating(function)  # type: ignore[arg-type]

    def generator(x):
        yield x

    with pytest.raises(TypeError, match="async or a generator"):
        memory.donating("x")(generator)
