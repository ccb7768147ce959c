"""Random tensors: seeds, states, threads, ranges."""

import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tensor

DRAWS = {
    "rand": lambda g: tensor.rand(4, generator=g),
    "randn": lambda g: tensor.randn(4, generator=g),
    "randint": lambda g: tensor.randint(0, 9, (4,), generator=g),
    "randperm": lambda g: tensor.randperm(9, generator=g),
    "normal": lambda g: tensor.normal(0.0, 1.0, (4,), generator=g),
    "bernoulli": lambda g: tensor.bernoulli(tensor.full((9,), 0.5), generator=g),
    "multinomial": lambda g: tensor.multinomial(tensor.ones((9,)), 4, generator=g),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_a_seed_repeats_the_draws(draw):
    g = tensor.Generator().manual_seed(1)
    first, second = draw(g).tolist(), draw(g).tolist()
    g.manual_seed(1)
    assert draw(g).tolist() == first
    assert draw(g).tolist() == second


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_the_default_generator_is_seeded_by_manual_seed(draw):
    tensor.manual_seed(2)
    first = draw(None).tolist()
    tensor.manual_seed(2)
    assert draw(None).tolist() == first == draw(tensor.Generator().manual_seed(2)).tolist()


def test_a_state_survives_pickle():
    g = tensor.Generator()
    state = pickle.loads(pickle.dumps(g.get_state()))
    first = tensor.rand(3, generator=g).tolist()
    g.set_state(state)
    assert tensor.rand(3, generator=g).tolist() == first
    with pytest.raises(ValueError, match=r"get_state\(\)"):
        g.set_state({"seed": 1})


def test_generators_without_a_seed_differ():
    assert tensor.Generator().initial_seed() != tensor.Generator().initial_seed()


def test_threads_never_draw_the_same_numbers():
    with ThreadPoolExecutor(8) as pool:
        drawn = list(pool.map(lambda _: tensor.rand(100).tolist(), range(40)))
    assert len({number for numbers in drawn for number in numbers}) > 3990


def test_float32_numbers_are_drawn_as_such():
    assert tensor.rand(1).dtype == tensor.randn(1).dtype == tensor.float32
    assert tensor.rand(2, 3, dtype="float64").dtype == tensor.float64
    assert tensor.randn((2, 3), dtype="complex64").is_complex()
    assert tensor.rand_like(tensor.zeros((2,), dtype="float16")).dtype == tensor.float16
    with pytest.raises(TypeError, match="randint"):
        tensor.rand(2, dtype="int64")


def test_moments_are_about_right():
    g = tensor.Generator().manual_seed(0)
    normal, even = tensor.randn(100_000, generator=g).numpy(), tensor.rand(100_000, generator=g).numpy()
    assert abs(normal.mean()) < 0.02
    assert abs(normal.std() - 1) < 0.02
    assert abs(even.mean() - 0.5) < 0.01
    assert even.min() >= 0
    assert even.max() < 1


def test_integers_stay_in_their_range():
    assert set(tensor.randint(2, 4, (100,)).tolist()) == {2, 3}
    with pytest.raises(ValueError, match="low must be less than high, but low = 4 and high = 4"):
        tensor.randint(4, 4, (1,))
    with pytest.raises(TypeError, match=r"randint\(0, 10, \(4,\)\)"):
        tensor.randint(0, 4)


@pytest.mark.parametrize("name", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_integers_reach_both_ends_of_every_dtype(name):
    limits = tensor.iinfo(name)
    for value in (limits.min, limits.max):
        assert tensor.randint(value, value + 1, (3,), dtype=name).tolist() == [value] * 3
        assert tensor.zeros((3,), dtype=name).random_(value, value + 1).tolist() == [value] * 3
    drawn = tensor.randint(limits.min, limits.max + 1, (100,), dtype=name).tolist()
    quarter = (limits.max - limits.min) // 4
    assert min(drawn) < limits.min + quarter
    assert max(drawn) > limits.max - quarter


def test_random_reaches_the_largest_integer():
    assert max(tensor.zeros((9_000,), dtype="uint8").random_().tolist()) == 255
    assert max(tensor.zeros((3_000,), dtype="int8").random_().tolist()) == 127
    assert set(tensor.zeros((100,), dtype="bool").random_().tolist()) == {False, True}
    assert max(tensor.zeros((100,), dtype="uint64").random_().tolist()) > 2**63
    assert max(tensor.zeros((60_000,), dtype="float16").random_().tolist()) == 2**11
    for name, last in (("float32", 2**24), ("float64", 2**53)):
        drawn = tensor.zeros((100,), dtype=name).random_().tolist()
        assert last / 2 < max(drawn) <= last


def test_a_range_of_integers_that_the_dtype_lacks_is_an_error():
    ranges = ("uint8", 0, 257), ("uint8", -1, 5), ("int8", -129, 0), ("bool", 0, 3), ("float16", 0, 70_000)
    for name, low, high in (*ranges, ("int64", 0, 2**63 + 1), ("uint64", 0, 2**64 + 1)):
        x = tensor.zeros((2,), dtype=name)
        with pytest.raises(ValueError, match=rf"random_: {name} has integers from .* pass a smaller range"):
            x.random_(low, high)
        with pytest.raises(ValueError, match=rf"randint: {name} has integers from"):
            tensor.randint(low, high, (2,), dtype=name)
        assert not x.any()


def test_rounding_to_a_floating_dtype_does_not_leave_the_range():
    assert set(tensor.randint(2049, 2052, (50,), dtype="float16").tolist()) == {2050}
    assert set(tensor.randint(2**24 + 1, 2**24 + 4, (50,), dtype="float32").tolist()) == {2**24 + 2}
    assert max(tensor.randint(0, 2**62, (200_000,), dtype="float32").tolist()) < 2**62
    with pytest.raises(ValueError, match="randint: float16 has no integer in this range"):
        tensor.randint(2049, 2050, (2,), dtype="float16")


def test_multinomial_follows_its_weights():
    g = tensor.Generator().manual_seed(0)
    weights = tensor.tensor([[1.0, 3.0], [0.0, 5.0]])
    drawn = tensor.multinomial(weights, 10_000, replacement=True, generator=g).numpy()
    assert abs(drawn[0].mean() - 0.75) < 0.02
    assert (drawn[1] == 1).all()
    once = tensor.multinomial(tensor.tensor([1.0, 2.0, 0.0]), 2, generator=g)
    assert sorted(once.tolist()) == [0, 1]
    with pytest.raises(ValueError, match="can't draw 3 indices"):
        tensor.multinomial(tensor.tensor([1.0, 2.0, 0.0]), 3)


def test_wrong_parameters_are_explained():
    with pytest.raises(ValueError, match="from 0 to 1"):
        tensor.bernoulli(tensor.tensor([2.0]))
    with pytest.raises(ValueError, match="at least 0"):
        tensor.normal(0.0, -1.0, (2,))
    with pytest.raises(TypeError, match="needs a shape"):
        tensor.normal(0.0, 1.0)
    with pytest.raises(TypeError, match=r"tensor\.Generator"):
        tensor.rand(1, generator=np.random.default_rng())
    with pytest.raises(TypeError, match="a seed must be an integer"):
        tensor.manual_seed(1.5)
    with pytest.raises(ValueError, match=r"\(2, -1\) is not a shape"):
        tensor.randn(2, -1)
    with pytest.raises(TypeError, match="randperm takes an integer"):
        tensor.randperm(2.5)


def test_importing_loads_no_random_module():
    code = "import sys, tensor; sys.exit('numpy.random' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
