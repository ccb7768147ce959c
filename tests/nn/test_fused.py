"""A linear map and the activation behind it, which a Sequential computes in one go: nobody sees it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nn
import tensor
from scopes import new_dispose_scope, statistics
from tensor import Tensor, TensorDisposedError, autograd

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "gelu by tanh": lambda: nn.GELU("tanh"),
    "sigmoid": nn.Sigmoid,
    "silu": nn.SiLU,
    "silu in place": lambda: nn.SiLU(inplace=True),
    "tanh": nn.Tanh,
}


def one_by_one(model: nn.Sequential, x: Tensor) -> Tensor:
    for module in model:
        x = module(x)
    return x


def random(*shape: int, dtype: str = "float32") -> Tensor:
    return tensor.tensor(np.random.default_rng(len(shape)).standard_normal(shape).astype(dtype))


def outcome(run: Callable[[nn.Sequential, Tensor], Tensor], model: nn.Sequential, x: Tensor) -> list[Any]:
    x = x.clone().requires_grad_()
    out = run(model, x)
    gradients = autograd.grad((out * out).sum(), [x, *model.parameters()])
    return [out.detach().numpy().copy(), *[g.numpy().copy() for g in gradients if g is not None]]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 3, 5), (0, 5), (600, 5), (70, 40), (2, 35, 600)])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_values_and_gradients_are_those_of_one_after_the_other(
    activation: str, shape: tuple[int, ...], dtype: str, bias: bool
) -> None:
    first, last = ACTIVATIONS[activation](), ACTIVATIONS[activation]()
    model = nn.Sequential(nn.Linear(shape[-1], 70, bias=bias), first, nn.Linear(70, 2), last).to(dtype)
    x = random(*shape, dtype=dtype)
    for joined, apart in zip(
        outcome(nn.Sequential.__call__, model, x), outcome(one_by_one, model, x), strict=True
    ):
        assert joined.dtype == apart.dtype == np.dtype(dtype)
        assert np.array_equal(joined, apart)
    with tensor.no_grad():
        assert np.array_equal(model(x).numpy(), one_by_one(model, x).numpy())


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("shape", [(2000, 3), (300, 90)])
def test_large_outputs_are_the_same_on_one_thread_and_on_several(
    activation: str, shape: tuple[int, ...]
) -> None:
    model = nn.Sequential(nn.Linear(shape[-1], 1000), ACTIVATIONS[activation]())
    x = random(*shape)
    threads = tensor.get_num_threads()
    with tensor.no_grad():
        wanted = one_by_one(model, x).numpy()
        for count in (1, 2, 3):
            tensor.set_num_threads(count)
            assert np.array_equal(model(x).numpy(), wanted)
    tensor.set_num_threads(threads)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_nan_and_infinity_go_through(activation: str) -> None:
    model = nn.Sequential(nn.Linear(1, 1), ACTIVATIONS[activation]())
    x = tensor.tensor([[float("nan")], [float("inf")], [float("-inf")]])
    assert np.array_equal(model(x).detach().numpy(), one_by_one(model, x).detach().numpy(), equal_nan=True)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_tensor_in_between_is_never_made(activation: str) -> None:
    model = nn.Sequential(nn.Linear(4, 8), ACTIVATIONS[activation]())
    x = random(3, 4)
    with new_dispose_scope() as scope:
        before = statistics.created_in_scope_count
        out = model(x)
        assert statistics.created_in_scope_count == before + 1
        assert out in scope


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_graph_has_the_nodes_of_both(activation: str) -> None:
    model = nn.Sequential(nn.Linear(4, 8), ACTIVATIONS[activation]())
    out = model(random(3, 4))
    apart = one_by_one(model, random(3, 4))
    assert str(autograd.graph_statistics(out)) == str(autograd.graph_statistics(apart))
    assert repr(out.grad_fn) == repr(apart.grad_fn)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_second_derivatives_are_the_same(activation: str) -> None:
    model = nn.Sequential(nn.Linear(3, 4), ACTIVATIONS[activation](), nn.Linear(4, 1)).double()
    found = []
    for run in (nn.Sequential.__call__, one_by_one):
        x = random(2, 3, dtype="float64").requires_grad_()
        (first,) = autograd.grad((run(model, x) ** 2).sum(), [x], create_graph=True)
        (second,) = autograd.grad((first**2).sum(), [x])
        found.append(second.numpy())
    assert np.array_equal(*found)


@pytest.mark.parametrize("place", [0, 1])
def test_hooks_of_a_linear_and_of_a_relu_see_their_own_arguments(place: int) -> None:
    model = nn.Sequential(nn.Linear(1, 1), nn.ReLU())
    with tensor.no_grad():
        model[0].weight.fill_(1.0)
        model[0].bias.fill_(-3.0)
    seen = []
    model[place].register_forward_pre_hook(lambda module, args: seen.append(args[0].item()))
    model[place].register_forward_hook(lambda module, args, out: seen.append(out.item()))
    assert model(tensor.tensor([[1.0]])).item() == 0.0
    assert seen == ([1.0, -2.0] if place == 0 else [-2.0, 0.0])


def test_a_forward_of_the_users_own_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.Sequential(nn.Linear(1, 1), nn.ReLU())
    model[1].forward = lambda input: input * 0 + 7
    assert model(tensor.ones((1, 1))).item() == 7.0
    model = nn.Sequential(nn.Linear(1, 1), nn.ReLU())
    monkeypatch.setattr(nn.Linear, "forward", lambda self, input: input + 1)
    assert model(tensor.ones((1, 1))).item() == 2.0


def test_a_subclass_is_called() -> None:
    class Shifted(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            return super().forward(input) * 0 + 5

    class Doubled(nn.ReLU):
        def forward(self, input: Tensor) -> Tensor:
            return super().forward(input) * 2

    assert nn.Sequential(Shifted(1, 1), nn.ReLU())(tensor.ones((1, 1))).item() == 5.0
    model = nn.Sequential(nn.Linear(1, 1), Doubled())
    with tensor.no_grad():
        model[0].weight.fill_(1.0)
        model[0].bias.fill_(2.0)
    assert model(tensor.ones((1, 1))).item() == 6.0


def test_errors_name_disposed_tensors_as_the_modules_themselves_do() -> None:
    model = nn.Sequential(nn.Linear(1, 1), nn.ReLU())
    model[0].bias.dispose()
    with pytest.raises(TensorDisposedError, match="parameter 'bias' of Linear"):
        model(tensor.ones((1, 1)))
    for place, name in enumerate(["Linear", "ReLU"]):
        model = nn.Sequential(nn.Linear(1, 1), nn.ReLU())
        model[place].dispose()
        with pytest.raises(TensorDisposedError, match=name):
            model(tensor.ones((1, 1)))
    x = tensor.ones((1, 1))
    x.dispose()
    with pytest.raises(TensorDisposedError, match="it was disposed by dispose"):
        nn.Sequential(nn.Linear(1, 1), nn.ReLU())(x)


def test_shapes_that_do_not_fit_raise_the_error_of_the_linear_map() -> None:
    with pytest.raises(ValueError, match="in_features"):
        nn.Sequential(nn.Linear(2, 1), nn.ReLU())(tensor.ones((1, 3)))


def test_a_relu_in_place_writes_over_nothing_of_the_users() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(inplace=True))
    x = random(3, 2)
    before = x.numpy().copy()
    model(x)
    assert np.array_equal(x.numpy(), before)


def test_parts_that_are_computed_again_are_joined_too() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1), nn.ReLU())
    again = nn.Sequential(*model, checkpoint_every=2)
    x = random(5, 3)
    for a, b in zip(outcome(nn.Sequential.__call__, again, x), outcome(one_by_one, model, x), strict=True):
        assert np.array_equal(a, b)


@pytest.mark.parametrize("shape", [(10_000, 1), (10_000, 10)])
@pytest.mark.parametrize("records", [True, False])
def test_a_result_over_the_limit_is_an_error_and_nothing_is_left(
    shape: tuple[int, int], records: bool
) -> None:
    model, x = nn.Sequential(nn.Linear(shape[1], 1000), nn.GELU()), tensor.ones(shape)
    before = tensor.memory.statistics().bytes_live
    with (
        tensor.memory.limit("16 MiB"),
        tensor.set_grad_enabled(records),
        pytest.raises(tensor.OutOfMemoryError),
    ):
        model(x)
    assert tensor.memory.statistics().bytes_live == before


def test_a_forward_of_another_class_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.Sequential(nn.Linear(1, 1), nn.GELU())
    monkeypatch.setattr(nn.GELU, "forward", lambda self, input: input * 0 + 7)
    assert model(tensor.ones((1, 1))).item() == 7.0
