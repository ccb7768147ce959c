"""Algorithms of Stable-Baselines3 with a scope for each update: the same weights, and no scope stays open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("stable_baselines3")
import gymnasium
import torch
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.env_util import make_vec_env

import scopes
from scopes import current_dispose_scope
from scopes.integrations.stable_baselines3 import ScopesMixin

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

names: set[str | None] = set()


class Hidden(torch.nn.Tanh):  # type: ignore[misc, name-defined]
    """An activation that notes the current scope."""

    failing = False

    def forward(self, x: Any) -> Any:
        scope = current_dispose_scope()
        names.add(None if scope is None else scope.name)
        if Hidden.failing and scope is not None and scope.name == "update":
            raise ZeroDivisionError
        y = super().forward(x)
        if scope is not None:
            assert y in scope
        return y


class ScopedPPO(ScopesMixin, PPO):  # type: ignore[misc]
    pass


class ScopedDQN(ScopesMixin, DQN):  # type: ignore[misc]
    pass


OPTIONS: dict[type, dict[str, Any]] = {
    PPO: {"n_steps": 64, "batch_size": 32, "n_epochs": 2},
    DQN: {"learning_starts": 50, "batch_size": 16, "target_update_interval": 50},
}


def figures(kind: type, of: type, folder: Path) -> list[Any]:
    """Learn with evaluations, save, load, go on, and predict."""
    names.clear()
    environment, evaluation, third = (make_vec_env("CartPole-v1", seed=seed) for seed in range(3))
    policy = {"net_arch": [16], "activation_fn": Hidden}
    model = kind("MlpPolicy", environment, policy_kwargs=policy, seed=0, device="cpu", **OPTIONS[of])
    callback = EvalCallback(evaluation, n_eval_episodes=2, eval_freq=64, verbose=0)
    model.learn(192, callback=callback)
    model.save(folder / "model.zip")
    resumed = kind.load(folder / "model.zip", env=third, device="cpu")
    resumed.set_random_seed(1)
    resumed.learn(128, reset_num_timesteps=False)
    observation, _ = gymnasium.make("CartPole-v1").reset(seed=0)
    action, _ = resumed.predict(observation, deterministic=True)
    assert current_dispose_scope() is None
    weights = [parameter.tolist() for parameter in resumed.policy.parameters()]
    return [callback.last_mean_reward, int(action), weights]


@pytest.mark.parametrize(("scoped", "plain"), [(ScopedPPO, PPO), (ScopedDQN, DQN)])
def test_figures_are_the_same_to_the_bit(scoped: type, plain: type, tmp_path: Path) -> None:
    expected = figures(plain, plain, tmp_path)
    assert names == {None}
    assert figures(scoped, plain, tmp_path) == expected
    assert names == {None, "rollouts", "update"}  # None: the prediction at the end


def test_an_update_that_raises_ends_its_scope(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Hidden, "failing", True)
    policy = {"activation_fn": Hidden}
    model = ScopedPPO("MlpPolicy", gymnasium.make("CartPole-v1"), policy_kwargs=policy, **OPTIONS[PPO])
    with pytest.raises(ZeroDivisionError):
        model.learn(128)
    assert current_dispose_scope() is None
    with scopes.new_dispose_scope() as scope:
        assert torch.ones(3) not in scope
