"""Constructors that follow from annotated attributes, and examples that decorators add."""

from __future__ import annotations

import inspect
from dataclasses import KW_ONLY, InitVar, field
from typing import Any, ClassVar

import pytest

import nn
from nn.module.docstrings import example
from nn.module.options import option, options


class Holder:
    def _set_options(self, given: dict[str, Any]) -> None:
        vars(self).update(given)


@options
class First(Holder):
    a: int
    b: InitVar[float] = 2.0
    last: bool = field(default=False, kw_only=True)
    not_an_option: ClassVar[int] = 5


@options
class Second(First):
    b: InitVar[float] = 3.0
    c: str = "c"
    _: KW_ONLY
    d: int = 4


def test_options_of_bases_come_first_and_keep_their_places():
    assert vars(Second(1)) == {"a": 1, "b": 3.0, "last": False, "c": "c", "d": 4}
    assert vars(Second(1, 2.5, "x", last=True, d=6)) == {"a": 1, "b": 2.5, "last": True, "c": "x", "d": 6}


def test_the_signature_shows_types_and_defaults():
    expected = "(a: 'int', b: 'float' = 3.0, c: 'str' = 'c', *, last: 'bool' = False, d: 'int' = 4) -> 'None'"
    assert str(inspect.signature(Second)) == expected


def test_wrong_arguments_name_the_class():
    with pytest.raises(TypeError, match=r"^Second.__init__\(\) missing 1 required positional argument: 'a'$"):
        Second()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^Second.__init__\(\) got an unexpected keyword argument 'e'$"):
        Second(1, e=1)  # type: ignore[call-arg]


def test_a_default_is_no_attribute_of_the_class():
    assert not hasattr(First, "b")
    assert not hasattr(nn.optim.Adam, "lr")
    assert First.not_an_option == 5


@options
class Third(Second):
    b: InitVar[float] = option(init=False)
    _size: InitVar[int] = option(default=7, alias="size")
    found: str = option(init=False)


def test_an_alias_names_the_parameter_and_a_subclass_removes_an_option():
    assert vars(Third(1, "x", 8)) == {"a": 1, "last": False, "c": "x", "size": 8, "d": 4}
    assert list(inspect.signature(Third).parameters) == ["a", "c", "size", "last", "d"]
    assert not hasattr(Third, "_size")
    with pytest.raises(TypeError, match="unexpected keyword argument 'b'"):
        Third(1, b=2.0)  # type: ignore[call-arg]


def test_a_lazy_layer_takes_the_options_of_its_layer_but_the_inferred_one():
    for lazy, layer, inferred in (
        (nn.LazyLinear, nn.Linear, "in_features"),
        (nn.LazyConv2d, nn.Conv2d, "in_channels"),
        (nn.LazyConvTranspose3d, nn.ConvTranspose3d, "in_channels"),
        (nn.LazyBatchNorm1d, nn.BatchNorm1d, "num_features"),
    ):
        expected = dict(inspect.signature(layer).parameters)
        assert expected.pop(inferred)
        assert dict(inspect.signature(lazy).parameters) == expected


def test_annotations_of_a_subclass_without_the_decorator_are_not_options():
    class Scaled(nn.ELU):
        scale: float = 2.0

    assert inspect.signature(Scaled) == inspect.signature(nn.ELU)
    assert Scaled(0.5).scale == 2.0


def test_a_constructor_has_the_globals_of_its_class_so_that_errors_clear_its_frame():
    assert Second.__init__.__globals__["__name__"] == __name__


def test_an_example_follows_other_sections():
    @example("double(2)", 4)
    def double(x):
        """Return twice `x`.

        Parameters
        ----------
        x
            A number.
        """

    expected = [
        *("Return twice `x`.", "", "Parameters", "----------", "x", "    A number.", ""),
        *("Examples", "--------", ">>> import nn, tensor", ">>> double(2)", "4"),
    ]
    assert inspect.getdoc(double).splitlines() == expected
