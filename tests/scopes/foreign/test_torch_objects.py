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
from scopes.core.containers import find

torch = pytest.importorskip("torch")
import scopes.torch  # noqa: E402


def is_tensor(x: object) -> bool:
    return isinstance(x, torch.Tensor)


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


def a_lazy_tensordict(x: Any) -> Any:
    parts = a_tensordict(x), a_tensordict(x * 3)
    return installed("tensordict").LazyStackedTensorDict(*parts, stack_dim=0)


def a_tensorclass(x: Any) -> Any:
    return installed("tensordict").tensorclass(Pair)(x, x * 2, batch_size=[])


def a_graph_of_pyg(x: Any) -> Any:
    edges = torch.ones(2, 1, dtype=torch.int64)
    return installed("torch_geometric.data").Data(x=x[:, None], edge_index=edges, more={"y": [x * 2]})


def a_batch_of_pyg(x: Any) -> Any:
    graphs = [a_graph_of_pyg(x), a_graph_of_pyg(x * 2)]
    return installed("torch_geometric.data").Batch.from_data_list(graphs)


def a_heterogeneous_graph_of_pyg(x: Any) -> Any:
    graph = installed("torch_geometric.data").HeteroData()
    graph["papers"].x = x[:, None]
    graph["papers", "cite", "papers"].edge_index = torch.ones(2, 1, dtype=torch.int64)
    return graph


class Pair:
    x: torch.Tensor
    y: torch.Tensor


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
    "a lazy tensordict": a_lazy_tensordict,
    "a tensorclass": a_tensorclass,
    "a graph of PyG": a_graph_of_pyg,
    "a batch of PyG": a_batch_of_pyg,
    "a heterogeneous graph of PyG": a_heterogeneous_graph_of_pyg,
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
        assert all(x.sum().item() >= 0 for x in kept)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("name", MAKERS)
def test_what_an_object_holds_is_detached_with_it(name: str, exact: bool) -> None:
    with scopes.torch.owning(exact=exact), new_dispose_scope() as scope:
        made = scope.detach(MAKERS[name](torch.ones(2)))
    held = find([made], is_tensor, False)
    assert len(held) >= (1 if name == "a packed sequence" else 2)
    assert all(x.sum().item() >= 0 for x in held)


@pytest.mark.parametrize("name", MAKERS)
def test_what_an_object_holds_is_attached_with_it(name: str) -> None:
    made = MAKERS[name](torch.ones(2))
    held = find([made], is_tensor, False)
    # Some objects make others for each look.
    held = [x for x in find([made], is_tensor, False) if any(x is y for y in held)]
    assert held
    with new_dispose_scope() as scope:
        assert scope.attach(made) is made
    for x in held:
        with pytest.raises(scopes.TensorDisposedError):
            x.sum()


def test_an_object_without_tensors_gives_a_warning() -> None:
    with new_dispose_scope() as scope, pytest.warns(UserWarning, match="found no tensor.*in this Graph"):
        scope.move_to_outer(Graph())
