"""Steps against the formulas of the papers, written in plain NumPy; who owns the state; loading."""

from __future__ import annotations

import copy
import gc
import pickle
import tracemalloc

import numpy as np
import pytest

import nn
import tensor
from nn import optim
from scopes import new_dispose_scope
from tensor import TensorDisposedError
from tests.interrupts import Interrupt, interrupted_at

RNG = np.random.default_rng(0)


def sgd(p, g, s, *, lr, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False, maximize=False):
    g = (-g if maximize else g) + weight_decay * p
    if momentum:
        s["m"] = momentum * s["m"] + (1 - dampening) * g if "m" in s else g
        g = g + momentum * s["m"] if nesterov else s["m"]
    return p - lr * g


def adam(
    p,
    g,
    s,
    *,
    lr,
    betas=(0.9, 0.999),
    eps=1e-8,
    weight_decay=0.0,
    amsgrad=False,
    maximize=False,
    decoupled=False,
):
    s["t"] = s.get("t", 0) + 1
    g = -g if maximize else g
    if decoupled:
        p = p * (1 - lr * weight_decay)
    else:
        g = g + weight_decay * p
    s["m"] = betas[0] * s.get("m", 0) + (1 - betas[0]) * g
    s["v"] = betas[1] * s.get("v", 0) + (1 - betas[1]) * g * g
    m, v = s["m"] / (1 - betas[0] ** s["t"]), s["v"]
    if amsgrad:
        v = s["max"] = np.maximum(s.get("max", 0), v)
    return p - lr * m / (np.sqrt(v / (1 - betas[1] ** s["t"])) + eps)


def adamw(p, g, s, **options):
    return adam(p, g, s, decoupled=True, **{"weight_decay": 0.01, **options})


def rmsprop(p, g, s, *, lr, alpha=0.99, eps=1e-8, momentum=0.0, centered=False, weight_decay=0.0):
    g = g + weight_decay * p
    s["v"] = alpha * s.get("v", 0) + (1 - alpha) * g * g
    s["g"] = alpha * s.get("g", 0) + (1 - alpha) * g
    step = g / (np.sqrt(s["v"] - s["g"] ** 2 * centered) + eps)
    s["m"] = momentum * s.get("m", 0) + step
    return p - lr * s["m"]


def lion(p, g, s, *, lr, betas=(0.9, 0.99), weight_decay=0.0, maximize=False):
    g = -g if maximize else g
    m = s.get("m", np.zeros_like(p))
    s["m"] = betas[1] * m + (1 - betas[1]) * g
    return p - lr * (np.sign(betas[0] * m + (1 - betas[0]) * g) + weight_decay * p)


def adafactor(p, g, s, *, lr, beta2_decay=-0.8, eps=(2**-52, 1e-3), d=1.0, weight_decay=0.0, maximize=False):
    g, s["t"] = (-g if maximize else g), s.get("t", 0) + 1
    share, squares = s["t"] ** beta2_decay, g * g
    kept = {"v": squares} if p.ndim < 2 else {"r": squares.mean(-1), "c": squares.mean(-2)}
    for name, value in kept.items():
        s[name] = s.get(name, 0) * (1 - share) + value * share
    v = s["v"] if p.ndim < 2 else np.outer(s["r"], s["c"]) / max(s["r"].mean(), eps[0])
    u = g / np.maximum(np.sqrt(v), eps[0])
    rate = min(lr, s["t"] ** -0.5) * max(eps[1], np.sqrt((p * p).mean()))
    return p * (1 - lr * weight_decay) - rate * u / max(1, np.sqrt((u * u).mean()) / d)


CASES = [
    (optim.SGD, sgd, {"lr": 0.1}),
    (optim.SGD, sgd, {"lr": 0.1, "momentum": 0.9}),
    (optim.SGD, sgd, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    (optim.SGD, sgd, {"lr": 0.1, "momentum": 0.9, "dampening": 0.5, "weight_decay": 0.1, "maximize": True}),
    (optim.Adam, adam, {"lr": 0.01}),
    (optim.Adam, adam, {"lr": 0.01, "betas": (0.8, 0.9), "eps": 1e-3, "weight_decay": 0.1}),
    (optim.Adam, adam, {"lr": 0.01, "amsgrad": True, "maximize": True}),
    (optim.AdamW, adamw, {"lr": 0.01}),
    (optim.AdamW, adamw, {"lr": 0.01, "weight_decay": 0.5, "amsgrad": True}),
    (optim.RMSprop, rmsprop, {"lr": 0.01}),
    (optim.RMSprop, rmsprop, {"lr": 0.01, "momentum": 0.9, "centered": True, "weight_decay": 0.1}),
    (optim.Lion, lion, {"lr": 0.01}),
    (optim.Lion, lion, {"lr": 0.01, "betas": (0.5, 0.6), "weight_decay": 0.1, "maximize": True}),
    (optim.Adafactor, adafactor, {"lr": 0.01}),
    (optim.Adafactor, adafactor, {"lr": 0.8, "beta2_decay": -0.5, "eps": (0.5, 2.0), "weight_decay": 0.1}),
    (optim.Adafactor, adafactor, {"lr": 0.8, "d": 1.3, "maximize": True}),
]

# All that make a step of the gradients they find. Those that are not above: see `test_optim_against_torch`.
KINDS = [
    optim.SGD, optim.Adam, optim.AdamW, optim.RMSprop, optim.Lion,
    optim.Adadelta, optim.Adagrad, optim.Adamax, optim.NAdam, optim.RAdam,
    optim.ASGD, optim.Rprop, optim.Adafactor,
]  # fmt: skip


# The last is more than the steps work on at a time.
@pytest.mark.parametrize("shape", [(), (3, 4), (150, 151), (200, 201)])
@pytest.mark.parametrize(("kind", "formula", "options"), CASES)
def test_steps_follow_the_formula(kind, formula, options, shape):
    start = np.asarray(RNG.standard_normal(shape))
    parameter = nn.Parameter(tensor.tensor(start))
    optimizer = kind([parameter], **options)
    expected, state = start, {}
    for _ in range(4):
        g = np.asarray(RNG.standard_normal(shape))
        parameter.grad = tensor.tensor(g)
        optimizer.step()
        expected = formula(expected, g, state, **options)
    np.testing.assert_allclose(parameter.detach().numpy(), expected, rtol=1e-6, atol=1e-9)


def test_a_parameter_whose_memory_is_a_transposed_view_steps_as_well():
    x = tensor.zeros((2, 3))
    parameter = nn.Parameter(x.mT)
    optimizer = optim.Adam([parameter], lr=0.5)
    parameter.grad = tensor.ones((3, 2))
    optimizer.step()
    np.testing.assert_allclose(x.numpy(), -0.5, rtol=1e-6)


def test_the_parts_of_complex_parameters_are_numbers_of_their_own():
    parameter = nn.Parameter(tensor.zeros((2,), dtype="complex64"))
    optimizer = optim.Adam([parameter], lr=0.5)
    parameter.grad = tensor.tensor([3 + 0.1j, -7j])
    optimizer.step()
    np.testing.assert_allclose(parameter.detach().numpy(), [-0.5 - 0.5j, 0.5j], rtol=1e-5, atol=1e-6)


def one(value: float = 1.0, grad: float | None = None) -> nn.Parameter:
    parameter = nn.Parameter(tensor.tensor([value]))
    if grad is not None:
        parameter.grad = tensor.tensor([grad])
    return parameter


def many(kind=optim.Adam, seed=0):
    """Return parameters of many kinds that `kind` takes, more than are joined at once."""
    random = np.random.default_rng(seed)
    shapes = [(), (3,), (2, 5), (0,), (30, 34), (1,), (9000,), *[(40, 25)] * 20]
    made = [
        nn.Parameter(tensor.tensor(random.standard_normal(shape).astype(dtype)))
        for dtype in ("float32", "float64")
        for shape in shapes
    ]
    made.append(nn.Parameter(tensor.tensor(random.standard_normal((4, 3))).mT))
    if kind is not optim.Adafactor:
        made += [nn.Parameter(tensor.tensor(random.standard_normal(n) + 1j)) for n in (3, 0)]
    return made


def give_gradients(parameters, seed):
    """Give a gradient to most of them, in whatever order of memory."""
    random = np.random.default_rng(seed)
    for x in parameters:
        g = tensor.tensor(np.asarray(random.standard_normal(x.shape)), dtype=x.dtype)
        x.grad = None if random.random() < 0.1 else g.mT.contiguous().mT if g.ndim == 2 else g


@pytest.mark.parametrize(
    ("kind", "options"),
    [*[(kind, options) for kind, _, options in CASES], *[(kind, {}) for kind in KINDS[5:]]],
)
def test_many_parameters_step_together_as_each_does_alone(kind, options):
    together, alone = many(kind), many(kind)
    one, several = kind(together, **options), [kind([x], **options) for x in alone]
    for seed in range(2):
        give_gradients(together, seed)
        give_gradients(alone, seed)
        one.step()
        for optimizer, x in zip(several, alone, strict=True):
            if x.grad is not None:
                optimizer.step()
    for a, b in zip(together, alone, strict=True):
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())
    states = [optimizer.state_dict()["state"].get(0) for optimizer in several]
    found = one.state_dict()["state"]
    assert list(map(str, map(found.get, range(len(states))))) == list(map(str, states))


@pytest.mark.parametrize("kind", [optim.SGD, optim.Adam, optim.RMSprop])
def test_large_parameters_step_on_several_threads_as_on_one(kind):
    def stepped(threads):
        tensor.set_num_threads(threads)
        random = np.random.default_rng(0)
        made = [nn.Parameter(tensor.tensor(random.standard_normal(n))) for n in (600_001, 500_000)]
        made.append(nn.Parameter(made[0].detach()[:300_000]))
        for x in made:
            x.grad = tensor.tensor(random.standard_normal(x.shape))
        for optimizer in (kind(made[:2], maximize=True), kind(made)):
            optimizer.step()
            optimizer.step()
        return [x.detach().numpy() for x in made]

    before = tensor.get_num_threads()
    try:
        for one, two in zip(stepped(1), stepped(2), strict=True):
            np.testing.assert_array_equal(one, two)
    finally:
        tensor.set_num_threads(before)


def test_small_parameters_that_share_memory_step_one_after_the_other():
    parameters = [one(1.0, 1.0) for _ in range(8)]
    shared = nn.Parameter(parameters[0].detach())
    shared.grad = tensor.tensor([1.0])
    optim.SGD([*parameters, shared], lr=0.25).step()
    assert [x.item() for x in parameters] == [0.5, *[0.75] * 7]


def test_clones_of_small_parameters_and_their_state_do_not_see_steps():
    parameters = [one(1.0, 1.0) for _ in range(8)]
    optimizer = optim.SGD(parameters, lr=0.25, momentum=0.5)
    clone, exported = parameters[0].detach().clone(), parameters[1].detach().numpy()
    optimizer.step()
    saved = optimizer.state_dict()["state"][2]["momentum_buffer"]
    optimizer.step()
    assert (clone.item(), saved.item()) == (1.0, 1.0)
    assert exported.item() == parameters[1].item() == parameters[2].item() == 0.375


def test_parameters_without_gradients_are_passed_over():
    a, b, frozen = one(grad=1.0), one(), nn.Parameter(tensor.tensor([1.0]), requires_grad=False)
    optim.SGD([a, b, frozen], lr=0.5).step()
    assert (a.item(), b.item(), frozen.item()) == (0.5, 1.0, 1.0)


def test_groups_have_options_of_their_own():
    a, b = one(grad=1.0), one(grad=1.0)
    optim.SGD([{"params": [a]}, {"params": b, "lr": 0.25}], lr=0.5).step()
    assert (a.item(), b.item()) == (0.5, 0.75)


def test_options_may_be_changed_between_steps():
    a = one(grad=1.0)
    optimizer = optim.SGD([a], lr=0.5)
    optimizer.param_groups[0]["lr"] = 0.25
    optimizer.step()
    assert a.item() == 0.75


def test_a_closure_computes_the_loss_with_gradients():
    a = one()
    optimizer = optim.SGD([a], lr=0.5)

    def closure():
        loss = (a * 2).sum()
        loss.backward()
        return loss

    with tensor.no_grad():
        assert optimizer.step(closure).item() == 2.0
    assert a.item() == 0.0


def test_a_step_before_backward_leaves_gradients_right():
    a = one(3.0)
    x = tensor.tensor([1.0], requires_grad=True)
    loss = (a * x).sum()
    a.grad = tensor.tensor([1.0])
    optim.SGD([a], lr=1.0).step()
    loss.backward()
    assert x.grad.item() == 3.0


def test_a_clone_of_a_parameter_does_not_see_steps():
    a = one(grad=1.0)
    clone = a.detach().clone()
    optim.SGD([a], lr=1.0).step()
    assert clone.item() == 1.0


def test_the_state_has_no_scope_and_is_freed_with_the_optimizer(window):
    a = one(grad=1.0)
    live = window().live_count
    optimizer = optim.Adam([a])
    with new_dispose_scope() as scope:
        optimizer.step()
        assert len(scope) == 0
        assert window().live_count == live + 2
        assert all(
            s.owning_dispose_scope is None
            for s in optimizer.state[a].values()
            if isinstance(s, tensor.Tensor)
        )
    optimizer.step()
    assert optimizer.nbytes == 8
    optimizer.dispose()
    optimizer.dispose()
    assert window().live_count == live
    assert not a.is_invalid


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_leaves_nothing_but_the_state(kind, window):
    parameters = [nn.Parameter(tensor.ones(shape)) for shape in ((3,), (200, 201))]
    for x in parameters:
        x.grad = tensor.ones(x.shape)
    live = window().live_count
    optimizer = kind(parameters)
    for _ in range(3):
        with new_dispose_scope() as scope:
            optimizer.step()
            assert len(scope) == 0
        state = [
            value
            for x in parameters
            for value in optimizer.state[x].values()
            if isinstance(value, tensor.Tensor)
        ]
        assert window().live_count == live + len(state)
    del state
    optimizer.dispose()
    assert window().live_count == live


@pytest.mark.parametrize("kind", KINDS)
def test_temporaries_of_a_plain_step_are_no_larger_than_a_piece(kind):
    class Plain(kind):
        _rule = None

    x = nn.Parameter(tensor.ones((1_000_000,)))
    x.grad = tensor.ones((1_000_000,))
    optimizer = Plain([x])
    optimizer.step()
    tracemalloc.start()
    try:
        optimizer.step()
        assert tracemalloc.get_traced_memory()[1] < x.nbytes // 2
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_that_can_not_be_made_changes_no_parameter_and_no_state(kind):
    a, b = one(grad=1.0), one(grad=1.0)
    optimizer = kind([a, b])
    optimizer.step()
    before = a.item(), str(optimizer.state[a])
    b.dispose()
    with pytest.raises(TensorDisposedError):
        optimizer.step()
    assert (a.item(), str(optimizer.state[a])) == before


def test_the_state_is_freed_with_the_last_reference(window):
    a = one(grad=1.0)
    live = window().live_count
    optim.Adam([a]).step()
    gc.collect()
    assert window().live_count == live


class Remembering(optim.Optimizer):
    """Keeps the last gradients: as PyTorch's users write optimizers."""

    def __init__(self, params, lr=0.5):
        super().__init__(params, {"lr": lr})
        for group in self.param_groups:
            for x in group["params"]:
                self.state[x]["sum"] = tensor.zeros_like(x)

    @tensor.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for x in group["params"]:
                state = self.state[x]
                state["sum"] += x.grad
                state.setdefault("last", []).append(x.grad * 1.0)
                state["direction"] = {"of": state["last"][-1] + 0.0}
                del state["last"][:-2]
                if not x.grad.isfinite().all():
                    raise ValueError("no number")
                x.sub_(state["sum"] * group["lr"])


def remembering():
    x = nn.Parameter(tensor.tensor([1.0, 2.0]))
    x.grad = tensor.tensor([1.0, 4.0])
    with new_dispose_scope("made"):
        optimizer = Remembering([x])
    return x, optimizer


def test_state_that_a_users_own_step_makes_in_a_scope_belongs_to_the_optimizer():
    x, optimizer = remembering()
    for _ in range(3):
        with new_dispose_scope("step") as scope:
            optimizer.step()
        state = optimizer.state[x]
        mine = [state["sum"], *state["last"], state["direction"]["of"]]
        assert not any(made.is_invalid or made.owning_dispose_scope for made in mine)
        assert scope.is_disposed
    assert state["sum"].tolist() == [3.0, 12.0]
    assert [last.tolist() for last in state["last"]] == [[1.0, 4.0]] * 2
    assert x.tolist() == [1.0 - 3.0, 2.0 - 12.0]


def test_other_tensors_of_a_users_step_belong_to_the_scope(window):
    _, optimizer = remembering()
    with new_dispose_scope() as scope:
        optimizer.step()
        held = tensor.ones((2,))
        assert scope.disposables_view == (held,)
    del held
    # Parameter, gradient, sum, one of the last, direction.
    assert window().live_count == 5


def test_state_that_a_users_own_step_made_before_it_failed_belongs_to_the_optimizer():
    x, optimizer = remembering()
    x.grad.fill_(float("nan"))
    with new_dispose_scope(), pytest.raises(ValueError, match="no number"):
        optimizer.step()
    assert [last.isnan().all().item() for last in optimizer.state[x]["last"]] == [True]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))])
def test_the_state_of_a_copy_is_the_copys(copied, window):
    x = nn.Parameter(tensor.tensor([1.0, 2.0]))
    x.grad = tensor.tensor([1.0, 4.0])
    optimizer = optim.Adam([x])
    optimizer.step()
    with new_dispose_scope():
        other = copied(optimizer)
    (state,) = other.state.values()
    assert state["exp_avg"].tolist() == pytest.approx([0.1, 0.4])
    assert optimizer.state[x]["exp_avg"].tolist() == pytest.approx([0.1, 0.4])


def test_tensors_in_lists_of_the_state_are_saved_loaded_and_disposed(window):
    x, optimizer = remembering()
    optimizer.step()
    with new_dispose_scope():
        saved = optimizer.state_dict()
        optimizer.step()
        y, other = remembering()
        other.load_state_dict(saved)
    assert [last.tolist() for last in other.state[y]["last"]] == [[1.0, 4.0]]
    last = optimizer.state[x]["last"]
    optimizer.dispose()
    assert all(one.is_invalid for one in last)
    assert other.state[y]["direction"]["of"].tolist() == [1.0, 4.0]
    other.dispose()
    del x, y
    assert window().live_count == 0


def test_a_state_that_contains_itself_is_refused_by_name():
    x, optimizer = remembering()
    optimizer.state[x]["last"] = endless = []
    endless.append(endless)
    with pytest.raises(ValueError, match="'last' of the state: its values are nested more than 100 levels"):
        optimizer.state_dict()
    optimizer.dispose()


def test_a_disposed_optimizer_says_so():
    with optim.SGD([one()]) as optimizer:
        pass
    assert optimizer.is_disposed
    for use in (optimizer.step, optimizer.state_dict, optimizer.__enter__):
        with pytest.raises(TensorDisposedError, match="SGD is disposed"):
            use()


def test_a_scope_that_an_optimizer_is_attached_to_disposes_it():
    with new_dispose_scope() as scope:
        optimizer = scope.attach(optim.SGD([one()]))
    assert optimizer.is_disposed


def test_a_disposed_parameter_is_an_error_and_no_other_was_updated():
    a, b = one(grad=1.0), one(grad=1.0)
    optimizer = optim.SGD([a, b], lr=0.5)
    b.dispose()
    with pytest.raises(TensorDisposedError):
        optimizer.step()
    assert a.item() == 1.0


def test_zero_grad_disposes_or_fills():
    a = one(grad=1.0)
    grad = a.grad
    optimizer = optim.SGD([a])
    optimizer.zero_grad(set_to_none=False)
    assert grad.item() == 0.0
    optimizer.zero_grad()
    assert a.grad is None
    assert grad.is_invalid


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_training_continues_from_a_saved_state(duplicate):
    def run(steps, a, optimizer):
        for i in range(steps):
            a.grad = tensor.tensor([1.0 + i])
            optimizer.step()

    a, b = one(), one()
    first, second = optim.Adam([a], lr=0.1), optim.Adam([b], lr=0.5)
    run(3, a, first)
    with tensor.no_grad():
        b.copy_(a)
    second.load_state_dict(duplicate(first.state_dict()))
    run(2, a, first)
    run(2, b, second)
    assert a.item() == b.item()


def test_a_saved_state_does_not_change_with_later_steps():
    a = one(grad=1.0)
    optimizer = optim.SGD([a], lr=0.1, momentum=0.9)
    optimizer.step()
    saved = optimizer.state_dict()["state"][0]["momentum_buffer"]
    optimizer.step()
    assert saved.item() == 1.0


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda s: s["param_groups"][0]["params"].append(2), r"\[3\].*\[2\]"),
        (lambda s: s["param_groups"].append({"params": []}), r"\[2, 0\].*\[2\]"),
        (lambda s: s["param_groups"][0].update(lr=-1), "lr"),
        (lambda s: s["state"].update({7: {}}), "parameter 7"),
        (lambda s: s["state"][1].update(momentum_buffer=tensor.ones((3,))), r"parameter 1.*\(3,\)"),
    ],
)
def test_a_state_that_does_not_fit_is_named_and_nothing_has_changed(change, named):
    a, b = one(grad=1.0), one(grad=2.0)
    optimizer = optim.SGD([a, b], lr=0.1, momentum=0.9)
    optimizer.step()
    saved = optimizer.state_dict()
    saved["param_groups"][0]["lr"] = 0.7
    change(saved)
    with pytest.raises(ValueError, match=named):
        optimizer.load_state_dict(saved)
    assert optimizer.param_groups[0]["lr"] == 0.1
    assert [optimizer.state[x]["momentum_buffer"].item() for x in (a, b)] == [1.0, 2.0]


@pytest.mark.parametrize("error", [Interrupt, MemoryError])
def test_a_load_that_stops_at_any_call_changes_all_or_nothing(error):
    parameters = [one(grad=1.0), one(grad=2.0)]
    first = optim.Adam(parameters, lr=0.1)
    first.step()
    saved = copy.deepcopy(first.state_dict())
    first.step()
    saved["param_groups"][0]["lr"] = 0.7
    new = {"lr": 0.7, "exp_avg": [0.1, 0.2], "step": [1, 1]}
    old = {"lr": 0.1, "exp_avg": [0.19, 0.38], "step": [2, 2]}
    live, event = tensor.memory.statistics().bytes_live, 1
    while interrupted_at(event, lambda: first.load_state_dict(saved), error):
        held = [first.state[x] for x in parameters]
        found = {
            "lr": first.param_groups[0]["lr"],
            "exp_avg": [round(values["exp_avg"].item(), 6) for values in held],
            "step": [values["step"] for values in held],
        }
        assert found in (old, new)
        assert tensor.memory.statistics().bytes_live == live
        event += 1
    assert event > 50
    assert first.param_groups[0]["lr"] == 0.7


@pytest.mark.parametrize(
    ("call", "error", "named"),
    [
        (lambda: optim.SGD([]), ValueError, "no parameters"),
        (lambda: optim.SGD(one()), TypeError, r"\[parameter\]"),
        (lambda: optim.SGD([1.0]), TypeError, "float"),
        (lambda: optim.SGD([one() * 2]), ValueError, "MultiplyBackward"),
        (lambda: optim.SGD([one(), *[one()] * 2]), ValueError, "parameter 2 occurs twice"),
        (lambda: optim.SGD([{"lr": 1}]), TypeError, "'params'"),
        (lambda: optim.SGD([one()], lr=-1), ValueError, "SGD: lr.*-1"),
        (lambda: optim.SGD([one()], lr=tensor.ones(2)), ValueError, r"not tensor\(\[1., 1.\]\)$"),
        (lambda: optim.SGD([one()], nesterov=True), ValueError, "nesterov"),
        (lambda: optim.Adam([one()], betas=(0.9, 1.0)), ValueError, "Adam: each of betas.*below 1"),
        (lambda: optim.AdamW([one()], eps=-1), ValueError, "AdamW: eps"),
        (lambda: optim.RMSprop([one()], alpha=-1), ValueError, "alpha"),
        (lambda: optim.Adadelta([one()], rho=1.5), ValueError, "Adadelta: rho.*at most 1,"),
        (lambda: optim.Adagrad([one()], lr_decay=-1), ValueError, "Adagrad: lr_decay"),
        (
            lambda: optim.Adagrad([one()], initial_accumulator_value=-1),
            ValueError,
            "initial_accumulator_value",
        ),
        (lambda: optim.Adamax([one()], betas=(0.9, 1.0)), ValueError, "Adamax: each of betas.*below 1"),
        (lambda: optim.NAdam([one()], momentum_decay=-1), ValueError, "NAdam: momentum_decay"),
        (lambda: optim.RAdam([one()], weight_decay=-1), ValueError, "RAdam: weight_decay"),
        (lambda: optim.ASGD([one()], weight_decay=-1), ValueError, "ASGD: weight_decay"),
        (lambda: optim.Rprop([one()], lr=-1), ValueError, "Rprop: lr"),
        (lambda: optim.Rprop([one()], etas=(1.2, 0.5)), ValueError, r"etas.*not \(1.2, 0.5\)"),
        (lambda: optim.Rprop([one()], step_sizes=0.1), ValueError, "step_sizes must be two numbers, not 0.1"),
        (lambda: optim.Lion([one()], lr="fast"), ValueError, "Lion: lr.*'fast'"),
        (
            lambda: optim.Adafactor([one()], d=0.5),
            ValueError,
            "Adafactor: d must be a number of at least 1,",
        ),
        (
            lambda: optim.Adafactor([one()], beta2_decay=0.1),
            ValueError,
            "beta2_decay must be a number of at most 0, not 0.1",
        ),
        (lambda: optim.Adafactor([one()], eps=1e-8), ValueError, "eps must be two numbers, or None.*1e-08"),
        (
            lambda: optim.Adafactor([one()], eps=(0, None)),
            ValueError,
            r"or None and one, not \(0, None",
        ),
        (
            lambda: optim.Adafactor([tensor.zeros(2, dtype="complex64")]),
            ValueError,
            "parameter 0 is complex64",
        ),
        (
            lambda: optim.Muon([matrix(), one()]),
            ValueError,
            r"parameter 1 has shape \(1,\): use another optimizer.*AdamW",
        ),
        (lambda: optim.Muon([matrix()], ns_steps=100), ValueError, "ns_steps.*below 100, not 100"),
        (lambda: optim.Muon([matrix()], ns_coefficients=(1, 2)), ValueError, r"three numbers, not \(1, 2\)"),
        (lambda: optim.Muon([matrix()], ns_coefficients=3.0), ValueError, "three numbers, not 3.0"),
        (
            lambda: optim.Muon([matrix()], ns_coefficients=(1, 2, "c")),
            ValueError,
            "must be a number, not 'c'",
        ),
        (lambda: optim.Muon([matrix()], ns_steps=2.5), ValueError, "an integer, not 2.5"),
        (lambda: optim.Muon([matrix()], adjust_lr_fn="rms"), ValueError, "match_rms_adamw', not 'rms'"),
        (
            lambda: optim.Muon([matrix("complex64")]),
            ValueError,
            "parameters of Muon must be real, but parameter 0",
        ),
        (lambda: optim.LBFGS([one()], line_search_fn="wolfe"), ValueError, "strong_wolfe.*'wolfe'"),
        (lambda: optim.LBFGS([one()]).step(), TypeError, "pass a closure"),
        (lambda: optim.LBFGS([{"params": [one()]}, {"params": [one()]}]), ValueError, "one parameter group"),
    ],
)
def test_wrong_use_names_the_culprit(call, error, named):
    with pytest.raises(error, match=named):
        call()


def matrix(dtype="float32"):
    return nn.Parameter(tensor.zeros((2, 3), dtype=dtype))


@pytest.mark.parametrize("shape", [(20, 30), (30, 20), (7, 7)])
def test_a_step_of_muon_has_singular_values_about_1_whatever_the_scale_of_the_gradient(shape):
    steps = []
    for scale in (1e-3, 1e15):
        x = nn.Parameter(tensor.zeros(shape))
        x.grad = tensor.tensor(np.random.default_rng(0).standard_normal(shape) * scale, dtype="float32")
        optim.Muon([x], lr=1.0, adjust_lr_fn="match_rms_adamw").step()
        steps.append(-x.detach().numpy() / (0.2 * np.sqrt(max(shape))))
    left, _, right = np.linalg.svd(np.random.default_rng(0).standard_normal(shape), full_matrices=False)
    for step in steps:
        assert np.linalg.norm(step - left @ right) < 0.3 * np.linalg.norm(left @ right)
        values = np.linalg.svd(step, compute_uv=False)
        assert 0.6 < values.min() <= values.max() < 1.3


def test_muon_takes_a_gradient_of_zeros_and_one_with_nan():
    x, y = matrix(), matrix()
    x.grad, y.grad = tensor.zeros((2, 3)), tensor.full((2, 3), float("nan"))
    # All bits of it are 1.
    y.grad.numpy().view(np.uint32)[:] = 0xFFFFFFFF
    optim.Muon([x, y]).step()
    assert x.tolist() == [[0.0] * 3] * 2
    assert np.isnan(y.detach().numpy()).all()


def test_the_state_of_muon_and_adafactor_belongs_to_the_optimizer_and_copies_go_on(window):
    for kind in (optim.Muon, optim.Adafactor):
        x = matrix()
        x.grad = tensor.ones((2, 3))
        live = window().live_count
        optimizer = kind([x])
        with new_dispose_scope() as scope:
            optimizer.step()
            assert len(scope) == 0
        copied = pickle.loads(pickle.dumps(optimizer))
        again = kind([x])
        again.load_state_dict(optimizer.state_dict())
        assert str(again.state[x]) == str(optimizer.state[x])
        assert list(map(str, copied.state.values())) == [str(optimizer.state[x])]
        before = x.detach().clone()
        optimizer.step()
        assert x.tolist() != before.tolist()
        for each in (optimizer, again, copied):
            each.dispose()
        del before, copied, again, each
        assert window().live_count == live


def test_the_state_of_adafactor_is_of_rows_and_columns_and_must_fit():
    x, y = nn.Parameter(tensor.zeros((2, 3, 4))), one()
    x.grad, y.grad = tensor.ones((2, 3, 4)), tensor.ones((1,))
    optimizer = optim.Adafactor([x, y])
    optimizer.step()
    shapes = {key: value.shape for key, value in optimizer.state[x].items() if key != "step"}
    assert shapes == {"row_var": (2, 3, 1), "col_var": (2, 1, 4)}
    assert set(optimizer.state[y]) == {"step", "variance"}
    saved = optimizer.state_dict()
    saved["state"][0]["row_var"] = tensor.ones((2, 3, 4))
    with pytest.raises(ValueError, match=r"'row_var' of parameter 0.*must have shape \(2, 3, 1\)"):
        optimizer.load_state_dict(saved)


@pytest.mark.parametrize("kind", [optim.SGD, optim.Adam, optim.Adafactor])
def test_numpys_numbers_are_options_as_pythons_are(kind):
    ends = []
    for rate in (0.5, np.float32(0.5), np.float64(0.5)):
        x = one()
        x.grad = tensor.ones(1)
        kind([x], lr=rate).step()
        ends.append(x.item())
    assert ends == [ends[0]] * 3


def test_a_step_of_adafactor_takes_no_memory_of_a_parameters_size():
    x = nn.Parameter(tensor.ones((1000, 1000)))
    x.grad = tensor.ones((1000, 1000))
    optimizer = optim.Adafactor([x])
    optimizer.step()
    tracemalloc.start()
    try:
        optimizer.step()
        assert tracemalloc.get_traced_memory()[1] < x.nbytes // 4
    finally:
        tracemalloc.stop()
    assert optimizer.nbytes == 4 * 2000


def test_repr_shows_the_options():
    assert repr(optim.SGD([one()], lr=0.1)).startswith("SGD (\nParameter Group 0\n    dampening: 0\n")


def test_a_disposed_tensor_is_refused_as_a_parameter():
    x = tensor.ones((2,), requires_grad=True)
    x.dispose()
    with pytest.raises(TensorDisposedError):
        optim.SGD([x], lr=0.1)
