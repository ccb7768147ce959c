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
    with pytest.raises(ValueError, match="no integer from 4 to 4"):
        tensor.randint(4, 4, (1,))
    with pytest.raises(TypeError, match=r"randint\(0, 10, \(4,\)\)"):
        tensor.randint(0, 4)


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
    with pytest.raises(TypeError, match="a seed is an integer"):
        tensor.manual_seed(1.5)
    with pytest.raises(ValueError, match=r"\(2, -1\) is not a shape"):
        tensor.randn(2, -1)
    with pytest.raises(TypeError, match="randperm takes an integer"):
        tensor.randperm(2.5)


def test_importing_loads_no_random_module():
    code = "import sys, tensor; sys.exit('numpy.random' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
