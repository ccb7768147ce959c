"""Families of functions and layers for one, two and three dimensions: each member is complete by itself."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import pytest

import nn
from nn.functional.dimensions import Family
from nn.layers.dimensions import Dimensional

FUNCTIONS = ["conv", "conv_transpose", "max_pool", "max_unpool", "lp_pool", "adaptive_avg_pool", "dropout"]
LAYERS = sorted(
    name for name in nn.__all__ if isinstance(layer := getattr(nn, name), type) and hasattr(layer, "_dims")
)


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("family", FUNCTIONS)
def test_a_function_has_its_own_name_docstring_and_signature(family: str, dims: int) -> None:
    function = getattr(nn.functional, f"{family}{dims}d")
    assert function.__name__ == f"{family}{dims}d"
    assert f"nn.functional.{family}{dims}d(" in function.__doc__
    assert "{" not in function.__doc__
    assert "_dims" not in inspect.signature(function).parameters
    assert pickle.loads(pickle.dumps(function)) is function


def test_an_error_about_arguments_names_the_member() -> None:
    @Family
    def _scale(x: int, *, factor: int = 1, _dims: int = 1) -> int:
        return x * factor * _dims

    assert [_scale[dims](5, factor=2) for dims in (1, 2, 3)] == [10, 20, 30]
    with pytest.raises(TypeError, match=r"^scale2d\(\) missing 1 required positional argument: 'x'"):
        _scale[2]()  # type: ignore[call-arg]


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


def test_a_class_of_the_user_keeps_its_docstring_and_the_dimensions() -> None:
    class Gated(nn.Conv2d):
        """Mine."""

    class Silent(nn.Conv2d):
        pass

    assert (Gated.__doc__, Silent.__doc__) == ("Mine.", None)
    assert Gated(1, 1, 1).weight.shape == Silent(1, 1, 1).weight.shape == (1, 1, 1, 1)


def test_a_new_family_needs_a_template_and_lines_for_its_members() -> None:
    class _Turn(Dimensional):
        _sections = """
            Examples
            --------
            {name} turns {dimensions}: {sizes[3,5]}, {space}.
        """

        def forward(self, input: Any) -> Any:
            return input

    class Turn2d(_Turn, dims=2):
        """Turns images."""

    assert (
        Turn2d.__doc__
        == "Turns images.\n\nExamples\n--------\nTurn2d turns two dimensions: 3, 5, height, width.\n"
    )
