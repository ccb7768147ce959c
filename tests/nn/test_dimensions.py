"""Functions and layers for one, two and three dimensions: each is complete by itself."""

from __future__ import annotations

import inspect
import pickle
import re

import pytest

import nn
import tensor

FUNCTIONS = sorted(name for name in nn.functional.__all__ if re.fullmatch(r"[a-z_]+[123]d", name))
LAYERS = sorted(name for name in nn.__all__ if re.fullmatch(r"\w+[123]d", name) and name != "Softmax2d")


def test_there_are_functions_for_each_number_of_dimensions() -> None:
    families = {name[:-2] for name in FUNCTIONS}
    assert {"conv", "conv_transpose", "max_pool", "max_unpool", "lp_pool", "avg_pool", "dropout"} < families
    of_planes_and_volumes = {"fractional_max_pool"}
    wanted = {f"{family}{dims}d" for family in families - of_planes_and_volumes for dims in (1, 2, 3)}
    assert wanted < set(FUNCTIONS)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_stands_in_the_source_under_its_name(name: str) -> None:
    function = getattr(nn.functional, name)
    assert function.__name__ == function.__qualname__ == inspect.unwrap(function).__code__.co_name == name
    source = inspect.getsource(function)
    assert f"\ndef {name}(" in f"\n{source}"
    assert f"nn.functional.{name}(" in source
    assert pickle.loads(pickle.dumps(function)) is function


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_and_its_siblings_take_the_same_arguments(name: str) -> None:
    of_planes = list(inspect.signature(getattr(nn.functional, f"{name[:-2]}2d")).parameters)
    if name == "avg_pool1d":
        of_planes.remove("divisor_override")  # PyTorch has it in 2d and 3d only
    assert list(inspect.signature(getattr(nn.functional, name)).parameters) == of_planes


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_error_about_a_missing_argument_names_the_function(name: str) -> None:
    with pytest.raises(TypeError, match=rf"^nn.functional.{name}\(\) missing \d+ required"):
        getattr(nn.functional, name)()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_error_about_the_shape_names_the_function(name: str) -> None:
    function = getattr(nn.functional, name)
    required = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty]
    x = tensor.ones((2,) * 7)
    given = [x if p.name in ("input", "weight", "indices") else 2 for p in required]
    options = {"output_size": 1} if name.startswith("fractional") else {}
    # The norm of windows is computed from their means.
    named = name.replace("lp_pool", "avg_pool")
    with pytest.raises(ValueError, match=rf"^{named}: input must have"):
        function(*given, **options)


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_has_its_own_docstring_with_parameters_and_an_example(name: str) -> None:
    layer = getattr(nn, name)
    doc = inspect.getdoc(layer)
    assert doc is not None
    assert ">>> import nn, tensor\n" in doc
    assert f"nn.{name}(" in doc
    assert "Parameters\n----------\n" in doc
    assert "{" not in doc


def test_there_are_families_of_layers() -> None:
    assert {"Conv2d", "LazyConvTranspose3d", "BatchNorm1d", "CircularPad2d", "FractionalMaxPool3d"} < set(
        LAYERS
    )


def test_a_class_of_the_user_keeps_its_docstring() -> None:
    class Gated(nn.Conv2d):
        """Mine."""

    class Silent(nn.Conv2d):
        pass

    assert (Gated.__doc__, Silent.__doc__) == ("Mine.", None)
    assert Gated(1, 1, 1).weight.shape == Silent(1, 1, 1).weight.shape == (1, 1, 1, 1)
