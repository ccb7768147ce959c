"""Training with Flax and Optax: equal numbers in scopes, a flat count, and a leak by its line."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

import scopes
from scopes import new_dispose_scope, statistics

jax = pytest.importorskip("jax")
linen = pytest.importorskip("flax.linen")
nnx = pytest.importorskip("flax.nnx")
optax = pytest.importorskip("optax")
import jax.numpy as jnp  # noqa: E402

import scopes.jax  # noqa: E402

STEPS = 6


class Network(linen.Module):  # type: ignore[misc, name-defined]
    """Two layers with a norm."""

    @linen.compact
    def __call__(self, x: Any) -> Any:
        return linen.Dense(1)(linen.LayerNorm()(linen.tanh(linen.Dense(16)(x))))


def _step_scope(*, scoped: bool) -> AbstractContextManager[Any]:
    return new_dispose_scope("step") if scoped else nullcontext()


def _batch(key: Any) -> tuple[Any, Any]:
    x = jax.random.normal(key, (8, 4))
    return x, x.sum(1, keepdims=True)


def train(
    *, scoped: bool, kept: list[Any] | None = None, detached: bool = False
) -> tuple[list[float], list[int]]:
    """Return losses with the sums of the weights, and how many arrays live after each step."""
    network, optimizer = Network(), optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-2))
    key = jax.random.key(0)
    weights = network.init(key, jnp.zeros((1, 4)))
    state = optimizer.init(weights)

    def loss_of(weights: Any, x: Any, y: Any) -> Any:
        return jnp.mean((network.apply(weights, x) - y) ** 2)

    @jax.jit
    def update(weights: Any, state: Any, x: Any, y: Any) -> tuple[Any, Any, Any]:
        loss, gradients = jax.value_and_grad(loss_of)(weights, x, y)
        updates, state = optimizer.update(gradients, state, weights)
        return optax.apply_updates(weights, updates), state, loss

    losses, alive = [], []
    for _ in range(STEPS):
        with _step_scope(scoped=scoped) as scope:
            key, used = jax.random.split(key)
            weights, state, loss = update(weights, state, *_batch(used))
            losses.append(loss.item())
            if kept is not None:
                kept.append(loss)
            if scope is not None:
                scope.detach((weights, state, key, kept if detached else ()))
        alive.append(statistics.of(jax.Array).live_count)
    return losses + [leaf.sum().item() for leaf in jax.tree.leaves((weights, state))], alive


def test_a_scope_for_each_step_changes_no_bit_and_keeps_the_count_flat() -> None:
    plain, _ = train(scoped=False)
    with scopes.jax.owning():
        found, alive = train(scoped=True)
    assert found == plain
    assert alive[1:] == alive[1:2] * (STEPS - 1)


def test_a_kept_loss_is_deleted_with_its_step() -> None:
    kept: list[Any] = []
    with scopes.jax.owning():
        train(scoped=True, kept=kept)
    assert [loss.is_deleted() for loss in kept] == [True] * STEPS


def test_a_loss_that_leaves_its_step_is_found_as_a_leak_with_its_holder() -> None:
    kept: list[Any] = []
    with scopes.track(), scopes.jax.owning(), new_dispose_scope("training"):
        train(scoped=True, kept=kept, detached=True)
        report = scopes.leaks()
    growing = [row for row in report.rows if row.count_per_round >= 1]
    assert [row.holder.partition(",")[0] for row in growing] == ["kept[...]"]
    assert (growing[0].count, growing[0].scope) == (STEPS, ("training", "step"))


def test_modules_and_an_optimizer_that_change_in_place_are_detached_as_they_are() -> None:
    def run(*, scoped: bool) -> list[float]:
        rngs = nnx.Rngs(0)
        model = nnx.Sequential(nnx.Linear(4, 16, rngs=rngs), nnx.tanh, nnx.Linear(16, 1, rngs=rngs))
        optimizer = nnx.Optimizer(model, optax.adamw(1e-2), wrt=nnx.Param)

        @nnx.jit
        def update(model: Any, optimizer: Any, x: Any, y: Any) -> Any:
            loss, gradients = nnx.value_and_grad(lambda model: jnp.mean((model(x) - y) ** 2))(model)
            optimizer.update(model, gradients)
            return loss

        losses = []
        for step in range(STEPS):
            with _step_scope(scoped=scoped) as scope:
                losses.append(update(model, optimizer, *_batch(jax.random.key(step))).item())
                if scope is not None:
                    scope.detach([model, optimizer])
        return losses + [leaf.sum().item() for leaf in jax.tree.leaves(nnx.state(model))]

    plain = run(scoped=False)
    with scopes.jax.owning():
        assert run(scoped=True) == plain
