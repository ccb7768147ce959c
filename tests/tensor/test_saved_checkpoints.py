"""Checkpoints: containers, tensors and plain data come back as they were saved, and nothing else is taken."""

from __future__ import annotations

import io
import json
from collections import OrderedDict, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy as reference
from hypothesis import given
from hypothesis import strategies as st

import nn
import tensor
from scopes import new_dispose_scope
from tensor import CheckpointError, Tensor, TensorDisposedError, memory
from tests.tensor.headers import entry, with_header


def through_a_file(x: Any) -> Any:
    file = io.BytesIO()
    tensor.save(x, file)
    return tensor.load(file)


def equal(a: Any, b: Any) -> bool:
    """Tell whether two checkpoints are the same, to the types."""
    if isinstance(a, Tensor):
        return (
            isinstance(b, Tensor)
            and a.requires_grad == b.requires_grad
            and equal(a.detach().numpy(), b.detach().numpy())
        )
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, dict):
        return list(a) == list(b) and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, (set, frozenset)):
        return sorted(map(repr, a)) == sorted(map(repr, b))  # in any order
    return repr(a) == repr(b)  # nan is nan


KEYS = st.one_of(st.text("ab._'/", max_size=3), st.integers(), st.booleans(), st.none())
LEAVES = st.one_of(
    KEYS,
    st.floats(),
    st.binary(max_size=5),
    st.sets(KEYS, max_size=3),
    st.complex_numbers(allow_nan=False),
    st.sampled_from(["float32", "float64", "int8", "complex64", "complex128", "bool"]).map(
        lambda dtype: tensor.ones((2, 1), dtype=getattr(tensor, dtype))
    ),
    st.sampled_from([np.ones((2, 0)), np.zeros((), complex), np.float16(2), np.int64(-3)]),
)


@given(
    st.recursive(
        LEAVES,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.lists(inner, max_size=3).map(tuple),
            st.dictionaries(st.one_of(KEYS, st.tuples(KEYS, KEYS)), inner, max_size=3),
        ),
        max_leaves=8,
    )
)
def test_saved_values_are_loaded(x: Any) -> None:
    with new_dispose_scope():
        assert equal(x, through_a_file(x))


def test_a_set_is_a_set_again() -> None:
    assert through_a_file({"a": {1, "b", (2, None)}, "b": frozenset()}) == {
        "a": {1, "b", (2, None)},
        "b": set(),
    }


def test_other_dicts_become_dicts_with_the_same_order() -> None:
    given = OrderedDict(b=1, a=defaultdict(list, x=[1.5]))
    found = through_a_file(given)
    assert type(found) is dict
    assert list(found) == ["b", "a"]
    assert found == {"b": 1, "a": {"x": [1.5]}}


def test_a_training_run_continues_where_it_was_saved(tmp_path: Path) -> None:
    def step(model: nn.Linear, optimizer: nn.optim.Adam) -> float:
        with new_dispose_scope():
            optimizer.zero_grad()
            loss = model(tensor.ones((3, 2))).square().mean()
            loss.backward()
            optimizer.step()
            return loss.item()

    one, other = nn.Linear(2, 4), nn.Linear(2, 4)
    optimizers = [nn.optim.Adam(model.parameters(), lr=0.1) for model in (one, other)]
    step(one, optimizers[0])
    path = tmp_path / "run"
    with new_dispose_scope() as scope:
        tensor.save({"epoch": 3, "model": one.state_dict(), "optimizer": optimizers[0].state_dict()}, path)
        found = tensor.load(path)
        other.load_state_dict(found["model"])
        optimizers[1].load_state_dict(found["optimizer"])
        assert found["epoch"] == 3
        assert len(scope) > 0
    assert [step(one, optimizers[0]) for _ in range(3)] == [step(other, optimizers[1]) for _ in range(3)]


def test_a_flat_dict_of_tensors_is_a_plain_safetensors_file(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    tensor.save({"a": tensor.ones((2,)), "b.weight": tensor.zeros((1, 3))}, path)
    theirs = reference.load_file(path)
    assert {name: x.tolist() for name, x in theirs.items()} == {"a": [1.0, 1.0], "b.weight": [[0.0] * 3]}
    reference.save_file({"x": np.arange(3)}, path)
    assert tensor.load(path)["x"].tolist() == [0, 1, 2]


def test_the_same_tensor_twice_is_one_tensor_again() -> None:
    x = tensor.ones((2, 2)).requires_grad_()
    found = through_a_file({"encoder": x, "decoder": [x]})
    assert found["encoder"] is found["decoder"][0]
    assert found["encoder"].requires_grad


def test_views_of_the_same_part_share_memory_again_and_clones_do_not() -> None:
    model = nn.Linear(2, 2)
    tied = {
        "weight": model.weight.detach(),
        "tied": model.weight.detach(),
        "clone": model.weight.detach().clone(),
    }
    found = through_a_file(tied)
    found["weight"].fill_(7.0)
    assert found["tied"].tolist() == [[7.0, 7.0]] * 2
    assert found["clone"].tolist() == model.weight.tolist()


def test_tied_tensors_are_written_once() -> None:
    x = tensor.ones((2**15,))
    file = io.BytesIO()
    tensor.save([x, x.detach(), x], file)
    assert len(file.getvalue()) < 2 * x.nbytes


def test_a_path_is_mapped_and_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "x"
    tensor.save([tensor.zeros((2**20,))], path)
    with new_dispose_scope():
        before = memory.statistics().bytes_allocated
        (x,) = tensor.load(path)
        assert memory.statistics().bytes_allocated == before
        with pytest.raises(TypeError, match="has type object"):
            tensor.save([x, object()], path)
        assert tensor.load(path)[0].shape == (2**20,)


def test_names_that_would_collide_are_distinguished() -> None:
    ones, zeros = tensor.ones((1,)), tensor.zeros((1,))
    found = through_a_file({"a": {"b": ones}, "a.b": zeros, "__metadata__": ones, "": zeros})
    assert [found["a"]["b"].item(), found["a.b"].item(), found["__metadata__"].item(), found[""].item()] == [
        *(1.0, 0.0, 1.0, 0.0)
    ]


def test_a_lone_tensor_and_a_lone_number_can_be_saved() -> None:
    assert through_a_file(tensor.ones((2,))).tolist() == [1.0, 1.0]
    assert through_a_file(3) == 3


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (nn.Linear(1, 1), r"the object has type Linear, .*: save its state_dict\(\)"),
        ({"a": [1, object()]}, "'a.1' has type object, but checkpoints hold only tensors"),
        ({"a": len}, "'a' has type builtin_function_or_method"),
        ({frozenset(): 1}, r"a key or a member of a set at '' is frozenset\(\)"),
        ({"a": {((1,),): 1}}, r"at 'a' is \(\(1,\),\)"),
        ({"a": np.array(["x"])}, "save: 'a' has dtype <U1, which the format does not support"),
    ],
    ids=["a module", "an object", "a function", "a key", "a deep key", "texts in an array"],
)
def test_objects_that_loading_would_have_to_run_are_not_saved(x: object, message: str) -> None:
    file = io.BytesIO()
    with pytest.raises(TypeError, match=message):
        tensor.save(x, file)
    assert file.getvalue() == b""


def test_a_disposed_tensor_is_not_saved() -> None:
    x = tensor.ones((2,))
    x.dispose()
    with pytest.raises(TensorDisposedError):
        tensor.save({"x": x}, io.BytesIO())


def test_containers_without_end_are_refused() -> None:
    deep: list[object] = []
    deep.append(deep)
    with pytest.raises(ValueError, match="contain themselves"):
        tensor.save(deep, io.BytesIO())


def test_a_file_must_be_one() -> None:
    with pytest.raises(TypeError, match="save: expected a path or a file in binary mode, not int"):
        tensor.save(1, 3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="load: expected a path or a file in binary mode, not int"):
        tensor.load(3)  # type: ignore[arg-type]


def tree(text: object, data: bytes = bytes(4), **texts: str) -> bytes:
    metadata = {"tensor.tree": text if isinstance(text, str) else json.dumps(text), **texts}
    return with_header({"__metadata__": metadata, "x": entry()}, data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "at least 8 bytes"),
        (b"\x93NUMPY\x01\x00", r"numpy\.load"),
        (tree("{"), "its tree is not JSON"),
        (tree("[" * 100_000), "nested too deeply|not JSON"),
        (tree('{"list":[' * 9_000 + "1" + "]}" * 9_000), "nested too deeply|not JSON"),
        (tree([1]), r"its tree has an invalid node \[1\]"),
        (tree({"tensor": "y"}), "a tensor 'y', which does not exist"),
        (tree({"tensor": "x", "requires_grad": 1, "more": 2}), "its tree has invalid attributes"),
        (tree({"dict": [[1]]}), "its tree has an invalid node"),
        (tree({"dict": [[{"list": []}, 1]]}), r"a key in it is \[\]"),
        (tree({"set": [{"list": []}]}), r"a key in it is \[\]"),
        (tree({"bytes": "%"}), "expected bytes as hexadecimal digits"),
        (tree(1, **{"tensor.complex128": '["x"]'}), "as pairs, found float32"),
        (tree(1, **{"tensor.complex128": "5"}), "expected names in"),
    ],
)
def test_a_broken_file_is_refused(data: bytes, message: str) -> None:
    with pytest.raises((CheckpointError, tensor.SafetensorsError), match=message):
        tensor.load(io.BytesIO(data))
