"""PyTorch's tensors in objects of libraries are moved out of a scope with the object."""

from __future__ import annotations

import importlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

import scopes
from scopes import new_dispose_scope

torch = pytest.importorskip("torch")
import scopes.torch  # noqa: E402


def installed(name: str) -> Any:
    return pytest.importorskip(name)


def a_cache_of_transformers(x: Any) -> Any:
    cache = installed("transformers").DynamicCache()
    cache.update(x[None, None], x[None, None] * 2, 0)
    return cache


def an_output_of_transformers(x: Any) -> Any:
    installed("transformers")
    outputs = importlib.import_module("transformers.modeling_outputs")
    return outputs.CausalLMOutputWithPast(logits=x, past_key_values=((x * 2, x * 3),))


def a_class_of_attrs(x: Any) -> Any:
    attr = installed("attrs")
    return attr.make_class("Attrs", ["x", "more"], slots=True)(x, [x * 2])


def a_tensordict(x: Any) -> Any:
    return installed("tensordict").TensorDict({"x": x, "deep": {"y": x * 2}}, batch_size=[])


@dataclass
class Graph:
    """As a batch of PyTorch Geometric: attributes in a store of its own."""

    store: dict[str, Any] = field(default_factory=dict)


class Plain:
    def __init__(self, x: Any) -> None:
        self.layers = [Slotted(x), Slotted(x * 2)]


class Slotted:
    __slots__ = ("x",)

    def __init__(self, x: Any) -> None:
        self.x = x


class Outputs(OrderedDict[str, Any]):
    pass


MAKERS: dict[str, Callable[[Any], Any]] = {
    "transformers' cache": a_cache_of_transformers,
    "transformers' output": an_output_of_transformers,
    "attrs": a_class_of_attrs,
    "tensordict": a_tensordict,
    "a dataclass": lambda x: Graph({"x": x, "y": [x * 2]}),
    "an object": Plain,
    "a subclass of OrderedDict": lambda x: Outputs(x=x, y=x * 2),
    "torch's return type": lambda x: torch.return_types.max((x, x.to(torch.int64))),
    "a packed sequence": lambda x: torch.nn.utils.rnn.pack_sequence([x]),
}


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("name", MAKERS)
def test_what_an_object_holds_moves_with_it(name: str, exact: bool) -> None:
    with scopes.torch.owning(exact=exact), new_dispose_scope() as outer:
        with new_dispose_scope() as inner:
            made = MAKERS[name](torch.ones(2))
            moved = inner.move_to_outer(made)
            assert moved is made
        kept = [x for x in outer.disposables_view if isinstance(x, torch.Tensor)]
        assert len(kept) >= (1 if name == "a packed sequence" else 2)
        assert all(x.sum().item() > 0 for x in kept)


def test_an_object_without_tensors_gives_a_warning() -> None:
    with new_dispose_scope() as scope, pytest.warns(UserWarning, match="found no tensor.*in this Graph"):
        scope.move_to_outer(Graph())
