"""Averages of models, batch norms under new data, and the step sizes of that time."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pytest

import nn
import tensor
from nn.optim import swa_utils
from scopes import new_dispose_scope


def network(lib):
    return lib.Sequential(lib.Linear(3, 4), lib.BatchNorm1d(4), lib.Linear(4, 2))


def same(x, y):
    return np.array_equal(x.detach().numpy(), y.detach().numpy())


def changed(model, by):
    """Add a number to all parameters and floating buffers."""
    with tensor.no_grad():
        for x in [*model.parameters(), *model.buffers()]:
            x.add_(int(by) if x.dtype.kind == "i" else by)


def test_the_average_is_the_mean_of_all_updates_and_buffers_are_the_last():
    model = network(nn)
    averaged = swa_utils.AveragedModel(model)
    start = {name: x.detach().numpy().copy() for name, x in model.state_dict().items()}
    for by in (0.0, 1.0, 4.0):  # at 0, 1, 5
        changed(model, by)
        averaged.update_parameters(model)
    for name, x in averaged.module.named_parameters():
        np.testing.assert_allclose(x.detach().numpy(), start[name] + 2.0, rtol=1e-5, atol=1e-6)
    assert averaged.module[1].running_mean.tolist() == [5.0] * 4
    assert averaged.module[1].num_batches_tracked.item() == 5
    assert averaged.n_averaged.item() == 3


def test_an_averaged_model_computes_trains_saves_and_loads_as_other_modules():
    model = network(nn)
    averaged = swa_utils.AveragedModel(model)
    averaged.update_parameters(model)
    changed(model, 1.0)
    x = tensor.ones((2, 3))
    assert not same(averaged.eval()(x), model.eval()(x))
    other = swa_utils.AveragedModel(model)
    other.load_state_dict(averaged.state_dict())
    assert same(other.eval()(x), averaged(x))
    assert other.n_averaged.item() == 1
    assert list(averaged.state_dict()) == ["n_averaged", *(f"module.{name}" for name in model.state_dict())]


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_and_pickles_of_an_averaged_model_continue_its_average(duplicate):
    model = nn.Linear(2, 1)
    averaged = swa_utils.AveragedModel(model, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.5))
    averaged.update_parameters(model)
    again = duplicate(averaged)
    changed(model, 1.0)
    averaged.update_parameters(model)
    again.update_parameters(model)
    assert same(again.module.weight, averaged.module.weight)
    assert not same(again.module.weight, model.weight)


def test_updates_in_a_scope_leave_nothing_but_the_average(window):
    model = network(nn)
    averaged = swa_utils.AveragedModel(model)
    live = window().live_count
    for fn in (None, swa_utils.get_ema_avg_fn()):
        averaged.avg_fn = fn
        with new_dispose_scope() as scope:
            for _ in range(3):
                averaged.update_parameters(model)
            assert len(scope) == 0
            assert window().live_count == live
    assert not any(x.is_invalid for x in averaged.state_dict().values())


def test_the_average_has_no_history_and_the_models_gradients_stay():
    model = nn.Linear(2, 1)
    averaged = swa_utils.AveragedModel(model)
    model(tensor.ones((1, 2))).sum().backward()
    for _ in range(2):
        averaged.update_parameters(model)
    assert model.weight.grad is not None
    assert averaged.module.weight.grad is None
    assert averaged.module.weight.is_leaf


def test_a_model_that_is_not_like_the_copied_one_is_refused_and_nothing_has_changed():
    averaged = swa_utils.AveragedModel(nn.Linear(2, 1))
    before = averaged.module.weight.tolist()
    for other, named in (
        (nn.Linear(3, 1), r"'weight' of shape \(1, 2\), and model has 'weight' of shape \(1, 3\)"),
        (nn.Linear(2, 1, bias=False), r"'bias' of shape \(1,\), and model has nothing"),
        (nn.Sequential(nn.Linear(2, 1), nn.Tanh(), nn.Linear(1, 1)), "has nothing, and model has '2.weight'"),
        (nn.PReLU(), "'weight' of shape .* model has 'weight'"),
    ):
        with pytest.raises(ValueError, match=named):
            averaged.update_parameters(other)
    assert averaged.module.weight.tolist() == before
    assert averaged.n_averaged.item() == 0


def test_an_average_continues_with_a_wrapped_model_and_without_the_wrapper():
    model = network(nn)
    around = nn.Sequential(model)
    for copied, trained in ((model, around), (around, model)):
        averaged = swa_utils.AveragedModel(copied)
        averaged.update_parameters(trained)
        changed(model, 2.0)
        averaged.update_parameters(trained)
        expected = model[0].weight.detach().numpy() - 1.0
        weight = next(averaged.parameters()).detach().numpy()
        np.testing.assert_allclose(weight, expected, rtol=1e-5, atol=1e-6)


def optimizer_of_two_groups(lib):
    groups = [{"params": [lib.nn.Parameter(lib.zeros((1,)))], "lr": rate} for rate in (1.0, 0.2)]
    return lib.optim.SGD(groups, lr=1.0)


class Ours:
    nn, optim = nn, nn.optim
    zeros = staticmethod(tensor.zeros)


@pytest.mark.parametrize(
    ("call", "error", "named"),
    [
        (lambda o: swa_utils.AveragedModel([1]), TypeError, "requires an nn.Module, not list"),
        (
            lambda o: swa_utils.AveragedModel(
                nn.Linear(1, 1), avg_fn=swa_utils.get_swa_avg_fn(), multi_avg_fn=print
            ),
            ValueError,
            "either avg_fn or multi_avg_fn",
        ),
        (lambda o: swa_utils.get_ema_avg_fn(1.5), ValueError, "from 0 to 1, not 1.5"),
        (lambda o: swa_utils.get_ema_multi_avg_fn(-0.1), ValueError, "from 0 to 1, not -0.1"),
        (
            lambda o: swa_utils.SWALR(o, [0.1]),
            ValueError,
            "swa_lr must be .* 2 parameter groups, not 1 values",
        ),
        (
            lambda o: swa_utils.SWALR(o, 0.1, anneal_strategy="step"),
            ValueError,
            "'cos' or 'linear', not 'step'",
        ),
        (lambda o: swa_utils.SWALR(o, 0.1, anneal_epochs=-1), ValueError, "at least 0, not -1"),
        (lambda o: swa_utils.SWALR(nn.Linear(1, 1), 0.1), TypeError, "an optimizer, not Linear"),
    ],
)
def test_wrong_use_names_the_culprit(call, error, named):
    optimizer = optimizer_of_two_groups(Ours)
    with pytest.raises(error, match=named):
        call(optimizer)
    assert "swa_lr" not in optimizer.param_groups[0]


def test_batch_norms_have_the_figures_of_the_new_data_and_their_modes_and_momenta_as_before():
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3, momentum=0.3), nn.Dropout(0.5)).eval()
    batches = [tensor.randn(8, 2) for _ in range(3)]
    with new_dispose_scope() as scope:
        swa_utils.update_bn(((x, None) for x in batches), model)
        assert len(scope) == 0
    outs = [model[0](x).detach().numpy() for x in batches]
    norm = model[1]
    np.testing.assert_allclose(norm.running_mean, np.mean([o.mean(0) for o in outs], 0), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(norm.running_var, np.mean([o.var(0, ddof=1) for o in outs], 0), rtol=1e-4)
    assert (norm.momentum, model.training, norm.num_batches_tracked.item()) == (0.3, False, 3)


def test_a_batch_that_fails_leaves_modes_and_momenta_as_before():
    model = nn.BatchNorm1d(3, momentum=0.3).eval()
    with pytest.raises(ValueError, match="BatchNorm1d"):
        swa_utils.update_bn([tensor.ones((2, 5))], model)
    assert (model.momentum, model.training) == (0.3, False)


def test_a_model_without_batch_norms_is_not_called():
    swa_utils.update_bn(iter(lambda: pytest.fail("asked for a batch"), None), nn.Linear(1, 1))


# Against PyTorch.


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def pairs(torch):
    theirs = network(torch.nn)
    ours = network(nn)
    ours.load_state_dict({name: x.numpy() for name, x in theirs.state_dict().items()})
    return ours, theirs


def assert_same(ours, theirs):
    expected = theirs.state_dict()
    assert list(ours.state_dict()) == list(expected)
    for name, x in ours.state_dict().items():
        np.testing.assert_allclose(x.numpy(), expected[name].numpy(), rtol=1e-6, atol=1e-6, err_msg=name)


@pytest.mark.parametrize(
    ("options", "use_buffers"),
    [
        *(
            (options, use_buffers)
            for use_buffers in (False, True)
            for options in (
                lambda u: {},
                lambda u: {"avg_fn": u.get_swa_avg_fn()},
                lambda u: {"avg_fn": u.get_ema_avg_fn(0.9)},
                lambda u: {"multi_avg_fn": u.get_ema_multi_avg_fn(0.9)},
                lambda u: {"avg_fn": lambda a, b, n: a * (n / (n + 1)) + b / (n + 1)},
            )
        ),
        # PyTorch's can't take the mean of integers, such as the number of batches.
        (lambda u: {"multi_avg_fn": u.get_swa_multi_avg_fn()}, False),
    ],
)
def test_averages_are_pytorchs(torch, options, use_buffers):
    ours, theirs = pairs(torch)
    here = swa_utils.AveragedModel(ours, **options(swa_utils), use_buffers=use_buffers)
    there = torch.optim.swa_utils.AveragedModel(
        theirs, **options(torch.optim.swa_utils), use_buffers=use_buffers
    )
    random = np.random.default_rng(0)
    for _ in range(5):
        here.update_parameters(ours)
        there.update_parameters(theirs)
        x = random.standard_normal((6, 3)).astype("float32")
        ours(tensor.tensor(x))
        theirs(torch.tensor(x))
        with torch.no_grad(), tensor.no_grad():
            for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
                by = random.standard_normal(tuple(a.shape)).astype("float32")
                a.add_(tensor.tensor(by))
                b.add_(torch.tensor(by))
    assert_same(here, there)
    batches = [random.standard_normal((5, 3)).astype("float32") for _ in range(4)]
    swa_utils.update_bn([tensor.tensor(x) for x in batches], here)
    torch.optim.swa_utils.update_bn([[torch.tensor(x)] for x in batches], there)
    assert_same(here, there)


@pytest.mark.parametrize(
    "options",
    [
        {"swa_lr": 0.05},
        {"swa_lr": [0.05, 0.6], "anneal_epochs": 4, "anneal_strategy": "linear"},
        {"swa_lr": 0.5, "anneal_epochs": 0},
        {"swa_lr": 0.5, "anneal_epochs": 0, "anneal_strategy": "linear"},
        {"swa_lr": 0.05, "anneal_epochs": 1},
    ],
)
def test_step_sizes_and_states_of_schedules_are_pytorchs(torch, options):
    ours, theirs = optimizer_of_two_groups(Ours), optimizer_of_two_groups(torch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's, of schedules that step without their optimizers
        here = swa_utils.SWALR(ours, **options)
        there = torch.optim.swa_utils.SWALR(theirs, **options)
        for epoch in range(16):
            np.testing.assert_allclose(here.get_last_lr(), there.get_last_lr(), rtol=1e-12)
            here.step()
            there.step()
            if epoch == 2:  # another schedule's change of the step sizes
                for group in (*ours.param_groups, *theirs.param_groups):
                    group["lr"] *= 0.5
            if epoch == 7:
                state = there.state_dict()
                there.load_state_dict(here.state_dict())
                here.load_state_dict(state)
    np.testing.assert_allclose(here.get_last_lr(), there.get_last_lr(), rtol=1e-12)
    assert [g["swa_lr"] for g in ours.param_groups] == [g["swa_lr"] for g in theirs.param_groups]


@pytest.mark.parametrize("kind", ["ema", "swa"])
def test_lists_of_different_lengths_are_refused(kind):
    average = getattr(swa_utils, f"get_{kind}_multi_avg_fn")()
    with pytest.raises(ValueError, match="shorter"):
        average([tensor.ones(2), tensor.ones(2)], [tensor.ones(2)], 1)
