"""The examples run, and show what they promise."""

from __future__ import annotations

import importlib.util
import math
import random
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[name]
    return module


@pytest.mark.parametrize(("epochs", "accuracy"), [(3, 0.85), pytest.param(40, 0.97, marks=pytest.mark.soak)])
def test_train_digits_learns_and_leaves_no_tensor(capsys, epochs: int, accuracy: float):
    result = load("train_digits").main(["--quiet", "--epochs", str(epochs)])
    assert result.accuracy >= accuracy
    assert len({epoch.live_tensors for epoch in result.epochs}) == 1
    assert len({epoch.bytes_held for epoch in result.epochs}) == 1
    assert result.left.live_count == 0
    printed = capsys.readouterr().out
    assert "held-out accuracy" in printed
    assert "live_count: 0;" in printed


@pytest.mark.parametrize(("epochs", "accuracy"), [(2, 0.3), pytest.param(15, 0.95, marks=pytest.mark.soak)])
def test_digits_are_learnt_by_convolution_in_flat_memory(capsys, epochs: int, accuracy: float):
    result = load("digits_convolution").main(["--epochs", str(epochs)])
    assert result.epochs[-1].accuracy >= accuracy
    assert result.epochs[-1].loss < result.epochs[0].loss
    assert len({(epoch.live_tensors, epoch.peak_bytes) for epoch in result.epochs}) == 1
    assert result.left.live_count == 0
    assert "live_count: 0;" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "share"),
    [(["--below", "300", "--epochs", "4"], 0.0), pytest.param([], 0.6, marks=pytest.mark.soak)],
)
def test_numbers_are_spelled_and_nothing_is_left(capsys, arguments: list[str], share: float):
    result = load("characters").main(["--quiet", *arguments])
    assert result.epochs[-1].loss < result.epochs[0].loss
    assert result.share_of_numbers >= share
    assert len({(epoch.live_tensors, epoch.bytes_live) for epoch in result.epochs}) == 1
    assert {epoch.live_sequences for epoch in result.epochs} == {0}
    assert result.left.live_count == 0
    assert "live_count: 0;" in capsys.readouterr().out


def test_numbers_in_words():
    words = load("characters")
    assert [words.spelled(n) for n in (0, 19, 40, 700, 9_999)] == [
        "zero",
        "nineteen",
        "forty",
        "seven hundred",
        "nine thousand nine hundred ninety-nine",
    ]
    assert {c for n in range(10_000) for c in words.spelled(n)} | {words.END} == set(words.CHARACTERS)


@pytest.mark.parametrize(
    ("arguments", "share"),
    [(["--steps", "30"], 0.0), pytest.param([], 0.3, marks=pytest.mark.soak)],
)
def test_a_gpt_writes_sums_and_nothing_is_left(capsys, arguments: list[str], share: float):
    gpt = load("small_gpt")
    result = gpt.main(["--quiet", *arguments])
    assert result.marks[-1].loss < result.marks[0].loss
    assert len({(mark.live_tensors, mark.bytes_live) for mark in result.marks}) == 1
    assert result.share_of_right >= share
    assert {c for text in result.written for c in text} <= set(gpt.CHARACTERS)
    assert result.left.live_count == 0
    assert "live_count: 0;" in capsys.readouterr().out


def test_a_missing_extra_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(SystemExit, match=r"pip install '\.\[examples\]'"):
        load("train_digits").main(["--quiet", "--epochs", "1"])


def test_the_tour_shows_that_nothing_is_left(capsys):
    load("scopes_tour").main()
    printed = capsys.readouterr().out
    assert "x.is_invalid = True" in printed
    assert "tensors left: 0" in printed
    assert "in the end: live_count: 0;" in printed


def test_the_cart_and_its_pole_obey_newton():
    dqn = load("dqn_memory")
    cart = dqn.CartPole(0)
    states = random.Random(0)
    mass, length, total = dqn.POLE_MASS, dqn.HALF_LENGTH, dqn.POLE_MASS + dqn.CART_MASS
    for action in (0, 1) * 10:
        cart.state = x, speed, angle, spin = [states.uniform(-2, 2) for _ in range(4)]
        # The equations of Lagrange for the cart's place and the pole's angle, a uniform rod.
        coupling = mass * length * math.cos(angle)
        inertia = np.array([[total, coupling], [coupling, 4 / 3 * mass * length**2]])
        force = 10.0 * (2 * action - 1) + mass * length * spin**2 * math.sin(angle)
        torque = mass * dqn.GRAVITY * length * math.sin(angle)
        pull, turn = np.linalg.solve(inertia, [force, torque])
        expected = (x + 0.02 * speed, speed + 0.02 * pull, angle + 0.02 * spin, spin + 0.02 * turn)
        assert cart.step(action) == pytest.approx(expected)


def test_an_episode_ends_in_failure_or_at_its_full_length():
    cart = load("dqn_memory").CartPole(0)
    while not cart.done:
        cart.step(1)
    assert cart.failed
    assert 5 < cart.steps < 15  # the pole falls to the left

    cart.reset()
    while not cart.done:
        cart.state = 0.0, 0.0, 0.0, 0.0
        cart.step(0)
    assert not cart.failed
    assert cart.steps == 500


def test_memory_grows_with_outputs_fed_back_and_each_fix_keeps_it_flat(capsys):
    result = load("dqn_memory").main(["--quick"])
    trouble, *cures = result.loops.values()
    assert [mark.node_count for mark in trouble.marks] == [200, 400, 600, 800, 1000]
    for before, after in zip(trouble.marks, trouble.marks[1:], strict=False):
        assert after.bytes_live - before.bytes_live >= 100 * 8096 * 4  # each pass keeps the hidden layer
        assert after.bytes_in_graph - before.bytes_in_graph == after.bytes_live - before.bytes_live
    for cure in cures:
        assert {(mark.bytes_live, mark.node_count) for mark in cure.marks} == {(16, 0)}  # x alone
    assert len(cures) == 3
    assert {loop.left for loop in result.loops.values()} == {0}
    assert len(result.growth) == 1
    assert 200 <= result.growth[0].steps < 500
    assert "Python warned:\n  forward passes accumulate" in capsys.readouterr().out


def test_the_agent_learns_in_memory_that_stays_flat_and_is_given_back(capsys):
    dqn = load("dqn_memory")
    result = dqn.main(["--quick", "--seed", "1"])
    played = np.cumsum([episode.steps for episode in result.episodes])
    # Adam's moments are made in the first step that learns.
    learning = [episode for episode, end in zip(result.episodes, played, strict=True) if end > 1024]
    assert len(learning) > 20
    assert len({(episode.live_tensors, episode.bytes_live) for episode in learning}) == 1
    assert result.balanced > 60  # by chance: 22
    assert result.left.live_count == 0
    assert result.bytes_left == 0
    printed = capsys.readouterr().out
    assert "bytes left: 0; live_count: 0;" in printed


@pytest.mark.parametrize("epochs", [10, pytest.param(40, marks=pytest.mark.soak)])
def test_the_three_leaks_are_found_and_cured(capsys, monkeypatch, epochs: int):
    leaks = load("find_a_leak")
    monkeypatch.setattr(leaks, "EPOCHS", epochs)
    result = leaks.main([])
    # Each epoch leaves an Adam with two moments for each of four parameters, its activations, and a loss.
    activations, optimizers, losses = result.report.rows[:3]
    assert [activations.count, optimizers.count, losses.count] == [8 * epochs, 9 * epochs, epochs]
    assert activations.nbytes == 8 * epochs * 64 * 128 * 4
    moments = 2 * 4 * (64 * 128 + 128 + 128 * 10 + 10)
    assert optimizers.nbytes == epochs * moments
    for row, said in ((losses, "leak 1"), (activations, "leak 2"), (optimizers, "leak 3")):
        assert row.is_growing
        assert f"# {said}" in row.site.text
    assert not any(row.is_growing for row in result.report.rows[3:])
    # Memory says the same: each epoch adds what those lines leave. The graphs of the losses keep
    # the data too, which was there before.
    grown = result.leaking.bytes_live[-1] - result.leaking.bytes_live[0]
    left = sum(row.nbytes for row in (activations, optimizers, losses)) - 9 * 64 * 64 * 4
    assert grown == pytest.approx(left * (epochs - 1) / epochs, rel=0.001)

    assert len(set(result.cured.live_tensors)) == 1
    assert len(set(result.cured.bytes_live)) == 1
    assert result.report_of_cured.count == 0
    assert capsys.readouterr().out.endswith(
        "lines that keep more and more: 0; left beside the data: 0 tensors\n"
    )


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(5))
def test_the_agent_learns_to_balance_the_pole(seed):
    assert load("dqn_memory").main(["--seed", str(seed)]).balanced >= 400


def test_the_pytorch_loop_leaks_without_scopes_and_is_flat_with_them(capsys, tmp_path):
    pytest.importorskip("torch")
    example = load("torch_training")
    leaky, cured = example.main([])
    assert leaky.losses == cured.losses
    assert leaky.curve[-1] > 10 * leaky.curve[0]
    assert len(set(cured.curve)) == 1
    printed = capsys.readouterr().out
    assert "loss = torch.nn.functional.mse_loss(self.model(x), y)" in printed
    assert "the same losses to the last bit: True" in printed


@pytest.mark.parametrize("steps", [4, pytest.param(40, marks=pytest.mark.soak)])
def test_a_network_is_trained_in_half_its_memory_with_the_same_losses(capsys, tmp_path, steps: int):
    arguments = ["--quiet", "--steps", str(steps), "--batch-size", "512", "--width", "32", "--depth", "10"]
    if importlib.util.find_spec("matplotlib") is not None:
        arguments += ["--plot", str(tmp_path / "memory.png")]
    result = load("train_in_budget").main(arguments)
    assert result.losses[:2] == result.plain_losses
    assert max(result.peaks) <= result.budget < 0.51 * result.plain_peak
    assert result.statistics.recomputed_bytes + result.statistics.spilled_bytes > 0
    assert result.losses[-1] < result.losses[0]
    assert "equal to the bit" in capsys.readouterr().out
    assert (tmp_path / "memory.png").exists() == ("--plot" in arguments)
