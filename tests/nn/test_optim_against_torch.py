"""Steps, states and descriptions of optimizers are PyTorch's."""

from __future__ import annotations

import importlib
import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nn
import tensor
from nn import optim
from nn.optim.line_search import Point, strong_wolfe

torch = pytest.importorskip("torch")

STEPS = 60
MORE = {"maximize": True, "weight_decay": 0.1}
CASES: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in ("SGD", "Adam", "AdamW", "RMSprop")),
    *(
        (name, options)
        for name in ("ASGD", "Adadelta", "Adagrad", "Adamax", "NAdam", "RAdam")
        for options in ({}, MORE)
    ),
    ("Adadelta", {"lr": 0.3, "rho": 0.5, "eps": 1e-3}),
    ("Adadelta", {"rho": 1.0}),
    ("Adagrad", {"lr": 0.3, "lr_decay": 0.1, "initial_accumulator_value": 0.5, "eps": 1e-3}),
    ("Adamax", {"lr": 0.3, "betas": (0.5, 0.6), "eps": 1e-3}),
    ("NAdam", {"lr": 0.3, "betas": (0.5, 0.6), "eps": 1e-3, "momentum_decay": 0.1}),
    ("NAdam", {"decoupled_weight_decay": True, "weight_decay": 0.1}),
    ("RAdam", {"lr": 0.3, "betas": (0.5, 0.6), "eps": 1e-3}),
    ("RAdam", {"betas": (0.9, 0.99), "decoupled_weight_decay": True, "weight_decay": 0.1}),
    ("ASGD", {"lr": 0.3, "lambd": 0.1, "alpha": 0.5, "t0": 4}),
    ("ASGD", {"t0": 0}),
    ("Rprop", {}),
    ("Rprop", {"maximize": True}),
    ("Rprop", {"lr": 0.3, "etas": (0.3, 1.7), "step_sizes": (0.1, 0.6)}),
    ("Adafactor", {}),
    ("Adafactor", MORE),
    ("Adafactor", {"lr": 0.3, "beta2_decay": -0.5, "eps": (0.2, 0.7), "d": 1.5}),
    ("Adafactor", {"lr": math.inf, "d": math.inf}),
]
# The last is more than the steps work on at a time.
SHAPES = [(3, 4), (5,), (), (0,), (200, 201)]
# None is empty: PyTorch's Adafactor divides by the number of elements. Some are of many matrices, some large.
FACTORED_SHAPES = [(3, 4), (5,), (), (3, 2, 1, 4), (200, 201), (2, 2, 33_000), (1, 3), (2, 1), (33_000,)]


@pytest.fixture(autouse=True)
def one_thread():
    """Keep PyTorch's threads from waiting for processors that others use."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Pair:
    """The same parameters and the same optimizer here and in PyTorch."""

    def __init__(self, name: str, options: dict[str, Any], dtype: str = "float64") -> None:
        self.random = np.random.default_rng(0)
        starts = [self.drawn(shape, dtype) for shape in (FACTORED_SHAPES if name == "Adafactor" else SHAPES)]
        self.ours = [nn.Parameter(tensor.tensor(start)) for start in starts]
        self.theirs = [torch.nn.Parameter(torch.tensor(start)) for start in starts]
        self.optimizer = getattr(optim, name)(self.ours, **options)
        self.reference = getattr(torch.optim, name)(self.theirs, **options)

    def drawn(self, shape: tuple[int, ...], dtype: str) -> Any:
        values = self.random.standard_normal(shape)
        if dtype.startswith("complex"):
            values = values + 1j * self.random.standard_normal(shape)
        return np.asarray(values).astype(dtype)

    def step(self, count: int = 1) -> None:
        for _ in range(count):
            for x, y in zip(self.ours, self.theirs, strict=True):
                g = self.drawn(tuple(x.shape), str(x.dtype))
                x.grad, y.grad = tensor.tensor(g), torch.tensor(g)
            self.optimizer.step()
            self.reference.step()

    def assert_equal(self, rtol: float) -> None:
        for x, y in zip(self.ours, self.theirs, strict=True):
            np.testing.assert_allclose(x.detach().numpy(), y.detach().numpy(), rtol=rtol, atol=rtol)


@pytest.mark.parametrize(("name", "options"), CASES)
def test_many_steps_are_pytorchs(name, options):
    pair = Pair(name, options)
    pair.step(STEPS)
    pair.assert_equal(1e-12)
    rtol = 1e-11 if name == "Adafactor" else 1e-12  # means over rows, added in another order
    for x, y in zip(pair.ours[:2], pair.theirs[:2], strict=True):  # a matrix and a vector
        held, expected = pair.optimizer.state[x], pair.reference.state[y]
        for key, value in expected.items():
            if value is not None:
                np.testing.assert_allclose(np.asarray(held[key]), np.asarray(value), rtol=rtol, err_msg=key)
        assert set(held) == {key for key, value in expected.items() if value is not None}


@pytest.mark.parametrize(
    ("name", "options", "dtype"),
    [
        (name, options, dtype)
        for name, options in CASES
        for dtype in ("float32", "complex128")
        if dtype == "float32" or name != "Adafactor"  # which takes no complex ones
    ],
)
def test_steps_in_other_dtypes_are_pytorchs(name, options, dtype):
    pair = Pair(name, options, dtype)
    pair.step(5)
    pair.assert_equal(2e-5 if dtype == "float32" else 1e-12)


@pytest.mark.parametrize(("name", "options"), CASES)
def test_training_continues_from_a_state_of_pytorch(name, options):
    pair = Pair(name, options)
    pair.step(3)
    saved = pair.reference.state_dict()
    state = {
        number: {key: x.numpy() if isinstance(x, torch.Tensor) else x for key, x in held.items()}
        for number, held in saved["state"].items()
    }
    pair.optimizer = type(pair.optimizer)(pair.ours)
    pair.optimizer.load_state_dict({**saved, "state": state})
    pair.step(3)
    pair.assert_equal(1e-12)


@pytest.mark.parametrize(("name", "options"), CASES)
def test_pytorch_continues_from_our_state(name, options):
    pair = Pair(name, options)
    pair.step(3)
    saved = pair.optimizer.state_dict()
    state = {
        number: {
            key: torch.tensor(x.numpy()) if isinstance(x, tensor.Tensor) else x for key, x in held.items()
        }
        for number, held in saved["state"].items()
    }
    pair.reference = type(pair.reference)(pair.theirs)
    pair.reference.load_state_dict({**saved, "state": state})
    pair.step(3)
    # PyTorch makes a double number of NAdam's product of shares, which it keeps as a single one before.
    pair.assert_equal(1e-8 if name == "NAdam" else 1e-12)


def test_rprop_leaves_nan_and_parameters_without_gradient_as_pytorch_does():
    ours, theirs = nn.Parameter(tensor.zeros(3)), torch.nn.Parameter(torch.zeros(3))
    optimizer, reference = optim.Rprop([ours], lr=0.1), torch.optim.Rprop([theirs], lr=0.1)
    for row in ([1.0, 0.0, np.nan], [1.0, 1.0, 1.0], [-1.0, 0.0, 1.0]):
        ours.grad, theirs.grad = tensor.tensor(row), torch.tensor(row)
        optimizer.step()
        reference.step()
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-6)


@pytest.mark.parametrize("name", [*dict.fromkeys(name for name, _ in CASES), "LBFGS", "Muon"])
def test_a_description_is_pytorchs_but_for_how_the_step_is_run(name):
    pair = Matrices([(2, 3)], "float64", {}) if name == "Muon" else Pair(name, {})
    without = ("capturable:", "differentiable:", "foreach:", "fused:")
    lines = [line for line in repr(pair.reference).splitlines() if not line.strip().startswith(without)]
    if name == "AdamW":  # derives from Adam in both, but is decoupled by name here
        lines.remove("    decoupled_weight_decay: True")
    if name == "Adam":
        lines.remove("    decoupled_weight_decay: False")
    assert repr(pair.optimizer).splitlines() == lines


MUON_CASES: list[dict[str, Any]] = [
    {},
    {"lr": 0.05, "weight_decay": 0.5, "momentum": 0.5, "nesterov": False},
    {"lr": 0.05, "adjust_lr_fn": "match_rms_adamw", "ns_steps": 3, "eps": 0.1},
    {"lr": 0.05, "adjust_lr_fn": "original", "ns_coefficients": (2.0, -1.5, 0.5), "ns_steps": 9},
]


class Matrices:
    """The same matrices and Muon here and in PyTorch."""

    def __init__(self, shapes: list[tuple[int, int]], dtype: str, options: dict[str, Any]) -> None:
        self.random = np.random.default_rng(0)
        starts = [self.random.standard_normal(shape).astype(dtype) for shape in shapes]
        self.ours = [nn.Parameter(tensor.tensor(start)) for start in starts]
        self.theirs = [torch.nn.Parameter(torch.tensor(start)) for start in starts]
        self.optimizer = optim.Muon(self.ours, **options)
        self.reference = torch.optim.Muon(self.theirs, **options)

    def step(self, drawn: Callable[[tuple[int, ...]], Any]) -> None:
        for x, y in zip(self.ours, self.theirs, strict=True):
            g = drawn(tuple(x.shape)).astype(str(x.dtype))
            x.grad, y.grad = tensor.tensor(g), torch.tensor(g)
        self.optimizer.step()
        self.reference.step()

    def diagonal(self, shape: tuple[int, ...]) -> Any:
        """Return a gradient of whose products each sum has one term: the same in any order."""
        g = np.zeros(shape)
        np.fill_diagonal(g, self.random.standard_normal(min(shape)))
        return g


@pytest.mark.parametrize("options", MUON_CASES)
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_muon_steps_equal_those_of_pytorch_if_sums_have_one_term(options, dtype):
    matrices = Matrices([(4, 4), (3, 5), (5, 2), (1, 1), (6, 1)], dtype, options)
    for _ in range(10):
        matrices.step(matrices.diagonal)
    # Rounding to bfloat16 may still turn a last bit of single precision into one of 8.
    tolerance = {"float64": 1e-4, "float32": 1e-4, "float16": 5e-3}[dtype]
    for x, y in zip(matrices.ours, matrices.theirs, strict=True):
        np.testing.assert_allclose(x.detach().numpy(), y.detach().numpy(), rtol=tolerance, atol=tolerance)
        held, expected = matrices.optimizer.state[x], matrices.reference.state[y]
        assert set(held) == set(expected)
        means = held["momentum_buffer"].numpy(), expected["momentum_buffer"].numpy()
        np.testing.assert_allclose(*means, rtol=tolerance, atol=tolerance)


def test_muons_least_norm_is_rounded_as_pytorchs_is():
    matrices = Matrices([(1, 1)], "float32", {"lr": 1.0})
    matrices.step(lambda shape: np.full(shape, 3e-8))
    assert matrices.ours[0].item() == matrices.theirs[0].item()


@pytest.mark.parametrize("options", MUON_CASES)
def test_muons_steps_along_any_gradient_differ_by_the_last_bits_of_bfloat16(options):
    matrices = Matrices([(20, 30), (30, 20), (8, 8)], "float64", options)
    before = [x.detach().numpy().copy() for x in matrices.ours]
    matrices.step(matrices.random.standard_normal)
    for start, x, y in zip(before, matrices.ours, matrices.theirs, strict=True):
        made, expected = x.detach().numpy() - start, y.detach().numpy() - start
        assert np.linalg.norm(made - expected) < 0.01 * np.linalg.norm(expected)


def test_muon_continues_from_a_state_of_pytorch_and_pytorch_from_ours():
    matrices = Matrices([(4, 4), (3, 5)], "float64", {"lr": 0.1})
    matrices.step(matrices.diagonal)
    theirs, ours = matrices.reference.state_dict(), matrices.optimizer.state_dict()
    matrices.optimizer = optim.Muon(matrices.ours)
    matrices.optimizer.load_state_dict(
        {**theirs, "state": {i: {k: v.numpy() for k, v in s.items()} for i, s in theirs["state"].items()}}
    )
    matrices.reference = torch.optim.Muon(matrices.theirs)
    matrices.reference.load_state_dict(
        {
            **ours,
            "state": {
                i: {k: torch.tensor(v.numpy()) for k, v in s.items()} for i, s in ours["state"].items()
            },
        }
    )
    matrices.step(matrices.diagonal)
    for x, y in zip(matrices.ours, matrices.theirs, strict=True):
        np.testing.assert_allclose(x.detach().numpy(), y.detach().numpy(), rtol=1e-4, atol=1e-4)


def rosenbrock(x: Any) -> Any:
    return ((x[1:] - x[:-1] ** 2) ** 2).sum() + 0.01 * ((1 - x[:-1]) ** 2).sum()


def losses_of(optimizer: Any, x: Any, w: Any, steps: int) -> list[float]:
    """Return the losses of all evaluations."""
    seen: list[float] = []

    def closure() -> Any:
        optimizer.zero_grad()
        loss = rosenbrock(x) + ((w - 2) ** 4).sum()
        loss.backward()
        seen.append(loss.item())
        return loss

    for _ in range(steps):
        optimizer.step(closure)
    return seen


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"lr": 0.1, "max_iter": 5},
        {"lr": 0.5, "max_iter": 4, "history_size": 2},
        {"line_search_fn": "strong_wolfe"},
        {"line_search_fn": "strong_wolfe", "history_size": 3, "max_iter": 7, "max_eval": 9},
        {"line_search_fn": "strong_wolfe", "lr": 30.0},
        {"line_search_fn": "strong_wolfe", "tolerance_change": 1e-3},
        {"tolerance_grad": 1.0, "lr": 0.2},
    ],
)
def test_lbfgs_evaluates_what_pytorchs_does(options):
    starts = np.linspace(-1.5, 1.5, 6), np.ones((2, 3))
    ours = [nn.Parameter(tensor.tensor(start)) for start in starts]
    theirs = [torch.nn.Parameter(torch.tensor(start)) for start in starts]
    optimizer, reference = optim.LBFGS(ours, **options), torch.optim.LBFGS(theirs, **options)
    found, expected = (losses_of(o, *x, 2) for o, x in ((optimizer, ours), (reference, theirs)))
    # Later ones depend on the last bits of the first.
    np.testing.assert_allclose(found[:25], expected[:25], rtol=1e-6, atol=1e-12)
    if len(expected) <= 25:
        held, state = optimizer.state[ours[0]], reference.state[theirs[0]]
        assert held["func_evals"] == state["func_evals"] == len(found) == len(expected)
        assert held["n_iter"] == state["n_iter"]
        np.testing.assert_allclose(held["prev_flat_grad"].numpy(), state["prev_flat_grad"], rtol=1e-6)
        assert set(state) - set(held) <= {"al"}


def our_search(losses: Any, slopes: Any, slope: float, first: float, most: int) -> list[float]:
    """Return the step lengths that the line search tries, and its result."""
    tried: list[float] = []

    def evaluate(t: float) -> Point:
        tried.append(t)
        at = len(tried) - 1
        return Point(t, losses[at], slopes[at : at + 1], slopes[at])

    start = Point(0.0, 0.0, np.array([slope]), slope)
    found, count = strong_wolfe(evaluate, start, first, 1.0, most)
    return [*tried, found.t, found.loss, found.gradient.item(), count]


def their_search(losses: Any, slopes: Any, slope: float, first: float, most: int) -> list[float]:
    tried: list[float] = []

    def evaluate(x: Any, t: float, d: Any) -> tuple[float, Any]:
        tried.append(float(t))
        at = len(tried) - 1
        return losses[at], torch.tensor(slopes[at : at + 1])

    search = importlib.import_module("torch.optim.lbfgs")._strong_wolfe
    d, g = torch.ones(1).double(), torch.tensor([slope], dtype=torch.float64)
    loss, gradient, t, count = search(evaluate, None, first, d, 0.0, g, g.dot(d), max_ls=most)
    return [*tried, float(t), loss, gradient.item(), count]


@pytest.mark.parametrize("most", [25, 3, 1])
def test_the_line_search_tries_what_pytorchs_tries(most):
    for seed in range(300):
        rng = np.random.default_rng(seed)
        slope, first = -abs(rng.normal()) - 0.1, float(rng.choice([0.1, 1.0, 10.0]))
        # Of no function, so that all cases occur; rounded, so that some are equal.
        losses, slopes = np.round(rng.normal(0, 1, 40), 1), np.round(rng.normal(-0.3, 1, 40), 1)
        found, expected = (f(losses, slopes, slope, first, most) for f in (our_search, their_search))
        np.testing.assert_allclose(found, expected, rtol=1e-9, err_msg=f"seed {seed}")


@pytest.mark.parametrize("name", sorted({name for name, _ in CASES} | {"LBFGS", "Muon"}))
def test_arguments_by_position_are_the_first_of_pytorchs(name):
    found, expected = (
        [
            parameter.name
            for parameter in inspect.signature(getattr(library, name)).parameters.values()
            if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        ]
        for library in (optim, torch.optim)
    )
    assert found == expected[: len(found)]


def test_a_parameter_of_two_groups_has_pytorchs_number_in_a_state_dict():
    for library, zeros in ((optim, tensor.zeros), (torch.optim, torch.zeros)):
        xs = [zeros((1,)).requires_grad_() for _ in range(3)]
        optimizer = library.SGD([{"params": xs[:2]}, {"params": xs[2:]}])
        optimizer.param_groups.insert(1, dict(optimizer.param_groups[0]))
        groups = optimizer.state_dict()["param_groups"]
        assert [group["params"] for group in groups] == [[0, 1], [0, 1], [4]]


@pytest.mark.parametrize("name", sorted({name for name, _ in CASES}))
def test_optimizers_accept_the_implementations_that_pytorchs_do(name):
    for option in ("foreach", "fused"):
        if option in torch.optim.__dict__[name].__init__.__annotations__:
            optimizer = getattr(optim, name)([tensor.zeros((1, 1)).requires_grad_()], **{option: True})
            assert option not in optimizer.param_groups[0]
