"""Compiled rules of optimizers against the plain formulas, and what a step promises when it can't be made."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import nn
import tensor
from nn.optim import SGD, Adam, AdamW, Optimizer, RMSprop
from tensor.kernels.updates import Step
from tests.interrupts import Interrupt, interrupted_at
from tests.simd import printed_at_each_level

SIZES = [1, 3, 17, 100, 40_000]
SPECIAL = [np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-40, 1e30]


def combined(**choices: list[Any]) -> list[dict[str, Any]]:
    return [dict(zip(choices, values, strict=True)) for values in itertools.product(*choices.values())]


CASES: list[tuple[type[Optimizer], dict[str, Any]]] = [
    *((SGD, o) for o in combined(weight_decay=[0.0, 0.1], maximize=[False, True])),
    *(
        (SGD, o)
        for o in combined(
            momentum=[0.9], weight_decay=[0.0, 0.1], dampening=[0.0, 0.5], maximize=[False, True]
        )
    ),
    *((SGD, o) for o in combined(momentum=[0.9], nesterov=[True], weight_decay=[0.0, 0.1])),
    *(
        (kind, o)
        for kind in (Adam, AdamW)
        for o in combined(weight_decay=[0.0, 0.1], amsgrad=[False, True], maximize=[False, True])
    ),
    *(
        (RMSprop, o)
        for o in combined(
            weight_decay=[0.0, 0.1], momentum=[0.0, 0.9], centered=[False, True], maximize=[False, True]
        )
    ),
]


def made(dtype: str, *, special: bool) -> list[nn.Parameter]:
    random = np.random.default_rng(0)
    parameters = []
    for size in SIZES:
        values, gradient = random.standard_normal((2, size))
        if special and size > len(SPECIAL):
            values[: len(SPECIAL)] = SPECIAL
            gradient[1 : len(SPECIAL) + 1] = SPECIAL
        parameter = nn.Parameter(tensor.tensor(values.astype(dtype)))
        parameter.grad = tensor.tensor(gradient.astype(dtype))
        parameters.append(parameter)
    return parameters


def bits(x: tensor.Tensor) -> Any:
    """Return the values of `x` as integers, but for the bits of nan, which no formula promises."""
    values = x.detach().numpy()
    values = np.where(np.isnan(values), np.array(np.nan, values.dtype), values)
    return values.view(np.dtype(f"u{values.dtype.itemsize}"))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("kind", "options"), CASES)
def test_a_compiled_rule_gives_what_the_formula_gives_to_the_last_bit(
    kind: Any, options: dict[str, Any], dtype: str
) -> None:
    class Plain(kind):  # type: ignore[misc]
        _rule = None

    for special in (False, True):
        compiled, plain = made(dtype, special=special), made(dtype, special=special)
        optimizers = kind(compiled, lr=0.1, **options), Plain(plain, lr=0.1, **options)
        for _ in range(3):
            for optimizer in optimizers:
                optimizer.step()
        for a, b in zip(compiled, plain, strict=True):
            assert np.array_equal(bits(a), bits(b))
            held = [optimizer.state.get(x, {}) for optimizer, x in zip(optimizers, (a, b), strict=True)]
            assert held[0].keys() == held[1].keys()
            for name, value in held[0].items():
                if isinstance(value, tensor.Tensor):
                    assert np.array_equal(bits(value), bits(held[1][name])), name
                else:
                    assert value == held[1][name]


def test_each_instruction_set_and_number_of_threads_gives_the_same() -> None:
    program = """
import hashlib
import numpy as np, nn, tensor
digest = hashlib.sha256()
for threads, kind, options in [
    (1, nn.optim.SGD, {}), (2, nn.optim.SGD, {"momentum": 0.9, "nesterov": True}), (3, nn.optim.Adam, {}),
    (2, nn.optim.AdamW, {"amsgrad": True}), (2, nn.optim.RMSprop, {"momentum": 0.9, "centered": True}),
]:
    tensor.set_num_threads(threads)
    for dtype in ("float32", "float64"):
        random = np.random.default_rng(0)
        parameters = [
            nn.Parameter(tensor.tensor(random.standard_normal(n).astype(dtype))) for n in (5, 70_001, 33)
        ]
        for x in parameters:
            x.grad = tensor.tensor(random.standard_normal(x.shape).astype(dtype))
        optimizer = kind(parameters, lr=0.1, **options)
        optimizer.step()
        optimizer.step()
        for x in parameters:
            digest.update(x.detach().numpy().tobytes())
print(digest.hexdigest())
"""
    assert len(set(printed_at_each_level(program).values())) == 1


def test_parameters_over_memory_of_others_and_of_other_layouts_step_too() -> None:
    array = np.ones(4, "float32")
    borrowed = nn.Parameter(tensor.from_numpy(array))
    gaps = nn.Parameter(tensor.ones((8,))[::2])
    columns = nn.Parameter(tensor.ones((3, 2)).mT)
    half = nn.Parameter(tensor.ones((3,), dtype="float16"))
    complexes = nn.Parameter(tensor.ones((50_000,), dtype="complex64"))
    parameters = [borrowed, gaps, columns, half, complexes]
    for x in parameters:
        x.grad = tensor.ones(x.shape, dtype=x.dtype)
    columns.grad = tensor.ones((3, 2)).mT
    SGD(parameters, lr=0.25).step()
    assert array.tolist() == [0.75] * 4
    assert all(np.all(x.detach().numpy() == 0.75) for x in parameters)


def test_a_gradient_that_is_the_parameter_itself_or_its_state_is_read_before_it_is_written() -> None:
    x = nn.Parameter(tensor.tensor([1.0, 2.0]))
    x.grad = x.detach()
    SGD([x], lr=0.5).step()
    assert x.tolist() == [0.5, 1.0]
    y = nn.Parameter(tensor.tensor([1.0]))
    y.grad = tensor.tensor([2.0])
    optimizer = SGD([y], lr=0.5, momentum=0.5)
    optimizer.state[y] = {"momentum_buffer": y.grad}
    optimizer.step()
    assert y.item() == -0.5


class Training:
    """Four parameters, one of which a clone shares, with state that is yet to be made."""

    def __init__(self) -> None:
        self.parameters = [nn.Parameter(tensor.ones((n,))) for n in (2, 3, 30_000, 4)]
        for x in self.parameters:
            x.grad = tensor.ones(x.shape)
        self.clone = self.parameters[2].detach().clone()
        self.optimizer = Adam(self.parameters, lr=0.5)

    def step(self) -> None:
        self.optimizer.step()

    def steps_made(self) -> set[int]:
        """Return how many steps were made, by the values of the parameters and by their state."""
        found = {round((1 - float(x.detach().numpy()[i])) / 0.5) for x in self.parameters for i in (0, -1)}
        return found | {self.optimizer.state.get(x, {}).get("step", 0) for x in self.parameters}


def test_an_interrupt_in_a_step_leaves_all_or_nothing() -> None:
    event, seen = 1, set()
    training = Training()
    while interrupted_at(event, training.step, Interrupt):
        made = training.steps_made()
        assert len(made) == 1
        seen |= made
        event += 1
        training = Training()
    assert training.steps_made() == {1}
    assert event > 10
    assert 0 in seen
    assert training.clone.tolist() == [1.0] * 30_000


@pytest.mark.parametrize("kind", [SGD, Adam, RMSprop])
def test_a_step_over_the_limit_changes_nothing_and_the_next_one_works(kind: Any) -> None:
    small, large = nn.Parameter(tensor.ones((2,))), nn.Parameter(tensor.ones((1_000_000,)))
    for x in (small, large):
        x.grad = tensor.ones(x.shape)
    clone = large.detach().clone()  # the step copies
    optimizer = kind([small, large], lr=0.5)
    live = tensor.memory.statistics().bytes_live
    with tensor.memory.limit(live + 1_000_000), pytest.raises(tensor.OutOfMemoryError):
        optimizer.step()
    assert tensor.memory.statistics().bytes_live == live
    assert small.tolist() == [1.0, 1.0]
    assert not optimizer.state
    optimizer.step()
    assert small.tolist()[0] < 1.0
    assert clone.numpy().min() == 1.0


def test_a_disposed_state_is_an_error_and_no_parameter_was_updated() -> None:
    parameters = [nn.Parameter(tensor.ones((2,))) for _ in range(2)]
    for x in parameters:
        x.grad = tensor.ones((2,))
    optimizer = SGD(parameters, lr=0.25, momentum=0.5)
    optimizer.step()
    optimizer.state[parameters[1]]["momentum_buffer"].dispose()
    with pytest.raises(tensor.TensorDisposedError):
        optimizer.step()
    assert parameters[0].tolist() == [0.75, 0.75]


def test_a_user_optimizer_needs_only_a_formula() -> None:
    class SignSGD(Optimizer):
        def __init__(self, params: Any, lr: float) -> None:
            super().__init__(params, {"lr": lr})

        def _numbers(self, group: dict[str, Any], steps: int) -> tuple[float, ...]:
            return (group["lr"],)

        def _formula(self, numbers: Any, p: Any, g: Any, state: Any) -> None:
            p -= numbers[0] * np.sign(g)

    x = nn.Parameter(tensor.tensor([1.0, 1.0]))
    x.grad = tensor.tensor([-3.0, 7.0])
    SignSGD([x], lr=0.25).step()
    assert x.tolist() == [1.25, 0.75]


def test_unknown_update_rule_raises_an_error_with_its_name() -> None:
    with pytest.raises(ValueError, match="'adagrad'"):
        Step("adagrad")


@pytest.mark.parametrize("kind", [SGD, Adam])
def test_the_state_of_a_parameter_is_created_at_its_first_read_and_used_by_steps(kind: Any) -> None:
    x = nn.Parameter(tensor.ones((2,)))
    optimizer = kind([x], lr=0.25)
    optimizer.state[x]["note"] = "mine"
    x.grad = tensor.ones((2,))
    optimizer.step()
    assert x.tolist() == pytest.approx([0.75, 0.75])
    assert optimizer.state[x]["note"] == "mine"
    other = nn.Parameter(tensor.ones((2,)))
    assert optimizer.state[other] == {}
