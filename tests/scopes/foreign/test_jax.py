"""JAX's arrays in scopes: found late, deleted at the end."""

from __future__ import annotations

import copy
import pickle
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import scopes
from scopes import DisposeStatistics, TensorDisposedError, dispose, disposing, new_dispose_scope, statistics

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402

import scopes.jax  # noqa: E402

Window = Callable[[], DisposeStatistics]


def test_new_arrays_belong_to_the_scope_that_they_were_created_in() -> None:
    early = jnp.ones(3)
    with scopes.jax.owning():
        with new_dispose_scope() as outer:
            x = jnp.ones(3) * 2
            with new_dispose_scope() as inner:
                y = x + 1
                z = inner.move_to_outer(y * 2)
                assert y in inner
                assert x not in inner
            assert y.is_deleted()
            assert z in outer
            assert not x.is_deleted()
        assert x.is_deleted()
        assert z.is_deleted()
    assert early.tolist() == [1.0, 1.0, 1.0]


USES: dict[str, Callable[[Any], object]] = {
    "arithmetic": lambda x: x + 1,
    "arithmetic, reflected": lambda x: 1 + x,
    "a function": lambda x: jnp.sin(x),
    "a compiled function": lambda x: SQUARE(x),
    "a gradient": lambda x: jax.grad(lambda y: (y * y).sum())(x),
    "vmap": lambda x: jax.vmap(lambda y: y + 1)(x),
    "a method": lambda x: x.sum(),
    "matrix product": lambda x: x @ x,
    "index": lambda x: x[0],
    "an update": lambda x: x.at[0].set(1),
    "stack": lambda x: jnp.stack([x, x]),
    "iteration": list,
    "tolist": lambda x: x.tolist(),
    "numpy.asarray": np.asarray,
    "dlpack": np.from_dlpack,
    "repr": repr,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": pickle.dumps,
    "printing one that is put to a device": lambda x: str(jax.device_put(x)),
}
SQUARE = jax.jit(lambda x: x * x)


@pytest.mark.parametrize("use", USES)
def test_each_use_of_a_disposed_array_is_an_error_that_names_it(use: str) -> None:
    with scopes.jax.owning(), new_dispose_scope("step"):
        x = jnp.ones(3)
    with pytest.raises(
        TensorDisposedError,
        match=r"this jax array \(shape \(3,\), dtype float32\) is empty: its dispose scope 'step' ended\. "
        r"Move it out before that scope ends",
    ):
        USES[use](x)


def test_with_tracking_the_error_names_the_line() -> None:
    with scopes.track(), scopes.jax.owning():
        with new_dispose_scope():
            x = jnp.ones(3)
        with pytest.raises(
            TensorDisposedError, match=r"created by \S*test_jax\.py:\d+ in test_with_tracking"
        ):
            x + 1


@pytest.mark.parametrize("use", [lambda x: x.block_until_ready(), lambda x: x.unsafe_buffer_pointer()])
def test_use_of_only_the_buffer_raises_the_error_of_jax(use: Callable[[Any], object]) -> None:
    with scopes.jax.owning(), new_dispose_scope():
        x = jnp.ones(3)
    with pytest.raises(RuntimeError, match="deleted or donated buffer"):
        use(x)


def test_what_a_user_deletes_is_jaxs_own_error() -> None:
    x = jnp.ones(3)
    x.delete()
    with pytest.raises(RuntimeError, match="Array has been deleted") as caught:
        x + 1
    assert not isinstance(caught.value, TensorDisposedError)


def test_attach_works_without_owning_and_a_disposed_one_is_refused(window: Window) -> None:
    x = jnp.ones(3)
    with new_dispose_scope() as scope:
        scope.attach({"x": x})
        assert scope.nbytes == 12
    assert x.is_deleted()
    with new_dispose_scope() as scope:
        with pytest.raises(
            TensorDisposedError, match=r"this jax array \(shape \(3,\), dtype float32\) is empty"
        ):
            scope.attach(x)
    assert window().attached_to_scope_count == 1


def test_a_scope_keeps_no_array_alive(window: Window) -> None:
    with scopes.jax.owning(), new_dispose_scope() as scope:
        for _ in range(10):
            x = jnp.ones(3)
            assert x in scope
            del x
        assert len(scope) == 0
    assert window().live_count == 0


def test_outside_of_the_block_nothing_is_found() -> None:
    with new_dispose_scope() as scope:
        x = jnp.ones(3)
        assert x not in scope
    assert not x.is_deleted()


def test_jitted_functions_gradients_and_keys_work_again_after_the_scope() -> None:
    function = jax.jit(lambda x: x * jnp.array([1.0, 2.0, 3.0]) + jax.random.normal(jax.random.key(0), (3,)))
    loss = jax.value_and_grad(lambda w: (function(w) ** 2).sum())
    weights = jnp.ones(3)
    with scopes.jax.owning():
        values = []
        for _ in range(3):
            with new_dispose_scope() as scope:
                value, gradient = loss(weights)
                values.append(value.item())
                assert gradient in scope
    assert len(set(values)) == 1


def test_training_step_returns_its_pytree_to_the_callers_scope() -> None:
    @disposing
    def step(parameters: dict[str, Any], x: Any) -> dict[str, Any]:
        gradients = jax.grad(lambda p: ((x @ p["w"] + p["b"]) ** 2).mean())(parameters)
        return jax.tree.map(lambda p, g: p - 0.1 * g, parameters, gradients)

    with scopes.jax.owning(), new_dispose_scope() as scope:
        parameters = {"w": jnp.ones((4, 2)), "b": jnp.zeros(2)}
        for _ in range(3):
            parameters = step(parameters, jnp.ones((8, 4)))
            assert parameters["w"] in scope
        assert np.isfinite(np.asarray(parameters["w"])).all()


def test_a_random_key_moves_out_with_its_array() -> None:
    with scopes.jax.owning(), new_dispose_scope():
        with new_dispose_scope() as inner:
            key = inner.move_to_outer(jax.random.split(jax.random.key(0))[0])
        assert jax.random.normal(key, (2,)).shape == (2,)


def test_donated_arguments_count_as_disposed(window: Window) -> None:
    donate = jax.jit(lambda x: x * 2, donate_argnums=0)
    with scopes.jax.owning(), new_dispose_scope() as scope:
        x = jnp.ones(3)
        assert x in scope
        y = donate(x)
        assert x.is_deleted()
        assert scope.disposables_view == (y,)
        assert window().disposed_in_scope_count >= 1


def test_an_array_of_numpy_stays_valid() -> None:
    with scopes.jax.owning(), new_dispose_scope():
        x = jnp.arange(5.0)
        array = np.asarray(x)
    assert array.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_statistics_and_reports_include_arrays_of_jax() -> None:
    kind = type(jnp.ones(1))
    one = jnp.ones(250)
    one * 2  # the first call compiles, which creates other arrays
    before = statistics.of(kind).snapshot()
    with scopes.track(), scopes.jax.owning(), new_dispose_scope() as scope:
        kept = [one * 2 for _ in range(3)]
        assert len(scope) == 3
        (row,) = scope.survivors().rows
        assert (row.count, row.nbytes, row.kinds) == (3, 3000, ("jax.ArrayImpl",))
    assert (statistics.of(kind).snapshot() - before).disposed_in_scope_count == 3
    assert all(x.is_deleted() for x in kept)


def arrays_of(work: Callable[[], object]) -> DisposeStatistics:
    """Return what the statistics of JAX's arrays count while `work` runs."""
    kind = type(ONE)
    before = statistics.of(kind).snapshot()
    work()
    return statistics.of(kind).snapshot() - before


ONE = jnp.ones(3)
COMPILED = [ONE * n for n in (2, 3, 4)]


def three_arrays() -> list[Any]:
    # JAX makes one array for each of these. Other functions also make some for themselves.
    return [ONE * 2, ONE * 3, ONE * 4]


def test_arrays_that_end_before_a_figure_is_read_are_counted() -> None:
    with scopes.jax.owning():
        found = arrays_of(three_arrays)
    assert (found.created_outside_scope_count, found.live_count, found.finalized_count) == (3, 0, 3)
    with scopes.track():
        found = arrays_of(three_arrays)
    assert (found.created_in_scope_count, found.live_count) == (0, 0)
    assert found.created_outside_scope_count == 3


def test_arrays_that_end_in_a_scope_count_there() -> None:
    kept: list[Any] = []

    def work() -> None:
        with new_dispose_scope() as scope:
            three_arrays()
            kept.append(scope.detach(three_arrays()[0]))

    with scopes.jax.owning():
        found = arrays_of(work)
    assert (found.created_in_scope_count, found.created_outside_scope_count) == (6, 0)
    assert (found.live_count, found.finalized_count) == (1, 5)
    assert arrays_of(kept.clear).live_count == -1


def test_arrays_that_the_program_deletes_are_not_alive() -> None:
    with scopes.jax.owning():
        kept: list[Any] = []

        def work() -> None:
            kept.extend(three_arrays())
            kept[0].delete()

        assert arrays_of(work).live_count == 2
        assert arrays_of(kept.clear).live_count == -2


def test_a_reset_forgets_arrays_that_were_not_read_yet() -> None:
    with scopes.jax.owning():
        kept = [jnp.ones(3) for _ in range(5)]
        statistics.reset()
        found = statistics.of(type(kept[0])).snapshot()
        assert (found.created_outside_scope_count, found.live_count) == (0, 0)


def test_arrays_of_other_threads_count_outside_of_scopes() -> None:
    def work() -> None:
        thread = threading.Thread(target=three_arrays)
        thread.start()
        thread.join()

    with scopes.jax.owning(), new_dispose_scope():
        found = arrays_of(work)
    assert (found.created_outside_scope_count, found.live_count) == (3, 0)


def test_outside_of_owning_and_tracking_no_array_counts() -> None:
    assert arrays_of(three_arrays).created_outside_scope_count == 0


def test_another_thread_gets_an_error_that_says_to_wait() -> None:
    raised: list[BaseException] = []

    def work() -> None:
        try:
            with scopes.jax.owning():
                pass
        except RuntimeError as error:
            raised.append(error)

    with scopes.jax.owning():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert "scopes.jax.owning() is open in another thread" in str(raised[0])


def test_enable_owns_until_disable() -> None:
    scopes.jax.enable()
    with new_dispose_scope() as scope:
        assert jnp.ones(2) in scope
    scopes.jax.disable()
    with new_dispose_scope() as scope:
        assert jnp.ones(2) not in scope


UNARY = [
    jnp.sin,
    jnp.negative,
    lambda x: x.T,
    lambda x: x[:2],
    jax.jit(jnp.tanh),
    lambda x: x.sum(0, keepdims=True),
]
BINARY = [jnp.add, jnp.multiply, jnp.maximum, lambda x, y: jnp.where(x > 0, x, y), lambda x, y: x @ y.T]


GRADIENT = jax.grad(lambda x: (x * x).sum())
Instruction = tuple[str, int, int, int]


def programs(count: int) -> Iterator[list[Instruction]]:
    """Yield programs: of each instruction what it does, which of its kind, and of which earlier results."""
    for seed in range(count):
        draw = random.Random(seed)
        program = []
        for step in range(draw.randint(6, 24)):
            kinds = ["make", "unary", "binary", "gradient", "open", "close", "end", "move"]
            kind = draw.choices(kinds, [4, 4, 4, 2, 2, 2, 2, 1])[0]
            program.append((kind, draw.randrange(30), draw.randrange(step + 1), draw.randrange(step + 1)))
        yield program


def compute(step: int, instruction: Instruction, slots: dict[int, Any]) -> None:
    kind, which, one, two = instruction
    if kind == "make":
        slots[step] = jax.random.normal(jax.random.key(step), (3, 4))
    elif kind == "unary" and one in slots:
        slots[step] = UNARY[which % len(UNARY)](slots[one])
    elif kind == "binary" and one in slots and two in slots:
        slots[step] = BINARY[which % len(BINARY)](slots[one], slots[two])
    elif kind == "gradient" and one in slots:
        slots[step] = GRADIENT(slots[one])


def run_owned(program: list[Instruction]) -> tuple[dict[int, str | None], dict[int, bytes]]:
    """Run it with scopes; return what steps raised that used nothing deleted, and the bits of what lives."""
    slots: dict[int, Any] = {}
    raised: dict[int, str | None] = {}
    opened = []
    for step, instruction in enumerate(program):
        kind, _, one, two = instruction
        if kind == "open":
            opened.append(new_dispose_scope())
        elif kind == "close" and opened:
            opened.pop().dispose()
        elif kind == "end" and one in slots:
            dispose(slots[one])
        elif kind == "move" and opened:
            opened[-1].move_to_outer([slots.get(one)])
        is_dead = any(slots[i].is_deleted() for i in (one, two)[: 1 + (kind == "binary")] if i in slots)
        try:
            compute(step, instruction, slots)
        except Exception as error:  # noqa: BLE001
            if not is_dead:
                raised[step] = type(error).__name__
        else:
            if not is_dead or kind == "make":
                raised[step] = None
    alive = {step: np.asarray(x).tobytes() for step, x in slots.items() if not x.is_deleted()}
    for scope in reversed(opened):
        scope.dispose()
    return raised, alive


@pytest.mark.parametrize("count", [30, pytest.param(2000, marks=pytest.mark.soak)])
def test_random_programs_give_the_same_bits_under_scopes(count: int) -> None:
    for program in programs(count):
        with scopes.jax.owning():
            raised, alive = run_owned(program)
        slots: dict[int, Any] = {}
        for step, name in raised.items():
            try:
                compute(step, program[step], slots)
            except Exception as error:  # noqa: BLE001
                assert type(error).__name__ == name, program  # noqa: PT017
            else:
                assert name is None, program
        assert {step: np.asarray(slots[step]).tobytes() for step in alive} == alive, program
