"""Errors of wrong calls name the function and the argument that the user wrote, and advise what works."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nn
import tensor
from nn import functional as F
from nn.data import DataLoader, RandomSampler, WeightedRandomSampler, random_split
from nn.utils.rnn import unpack_sequence

ONES = tensor.ones((2, 3))


def _first_batch(samples: list[Any]) -> Any:
    return next(iter(DataLoader(samples, batch_size=len(samples))))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        # The name of the function or of the argument
        (lambda: F.binary_cross_entropy(ONES, ONES, tensor.ones((2,))), ValueError, "^binary_cross_entropy:"),
        (
            lambda: F.binary_cross_entropy_with_logits(ONES, ONES, pos_weight=tensor.ones((2,))),
            ValueError,
            "^binary_cross_entropy_with_logits: pos_weight must broadcast",
        ),
        (lambda: F.batch_norm(ONES, tensor.ones((2,)), None), ValueError, "running_mean must have shape"),
        (lambda: F.batch_norm(ONES, None, tensor.ones((2,))), ValueError, "running_var must have shape"),
        (
            lambda: F.cosine_embedding_loss(ONES, ONES[:, :2], tensor.ones((2,))),
            ValueError,
            r"input1 and input2 must have the same shape, not \(2, 3\) and \(2, 2\)$",
        ),
        (lambda: unpack_sequence(3), TypeError, "^unpack_sequence"),  # type: ignore[arg-type]
        (lambda: nn.Dropout(ONES), TypeError, "Dropout: p must be a number from 0 to 1, not Tensor"),  # type: ignore[arg-type]
        (lambda: F.dropout(ONES, "0.5"), TypeError, "dropout: p must be a number from 0 to 1, not str"),  # type: ignore[arg-type]
        (lambda: nn.CrossEntropyLoss(weight=[1.0]), TypeError, "buffer 'weight' of CrossEntropyLoss must be"),  # type: ignore[arg-type]
        (lambda: nn.ModuleList([nn.ReLU(), 3]), TypeError, "module '1' of ModuleList must be an nn.Module"),  # type: ignore[list-item]
        # The value that the user passed
        (lambda: F.adaptive_max_pool2d(tensor.ones((1, 1, 4, 4)), -1), ValueError, "2 of them, not -1$"),
        (lambda: F.max_pool2d(tensor.ones((1, 1, 4, 4)), 2, dilation=9), ValueError, "spans 10 elements"),
        (lambda: F.binary_cross_entropy(ONES * 3, ONES), ValueError, "but it holds 3.0. For logits use"),
        (lambda: F.binary_cross_entropy(ONES * np.nan, ONES), ValueError, "but it holds nan"),
        (lambda: random_split(range(5), [0.5, 0.4]), ValueError, r"\[0.5, 0.4\] sum to 0.9"),
        (lambda: WeightedRandomSampler([1.0, np.inf], 1), ValueError, r"finite numbers .* not \[1.0, inf\]"),
        (lambda: nn.optim.Adam([ONES], betas=(0.9,)), ValueError, r"betas must be two numbers, not \(0.9,\)"),  # type: ignore[arg-type]
        (lambda: nn.optim.Adam([ONES], betas=0.9), ValueError, "betas must be two numbers, not 0.9"),  # type: ignore[arg-type]
        # Errors instead of a wrong result, an endless loop or an error of Python
        (lambda: random_split(range(5), [-1, 6]), ValueError, r"lengths must be at least 0, not \[-1, 6\]"),
        (lambda: list(RandomSampler([], num_samples=3)), ValueError, "can't draw 3 samples from an empty"),
        (lambda: F.glu(ONES, dim=4), IndexError, "dimension 4 is out of range"),
        (lambda: F.lp_pool1d(ONES, 0, 2), ValueError, "lp_pool1d: norm_type must not be 0"),
        (lambda: F.layer_norm(ONES, ()), ValueError, "normalized_shape must hold at least one size"),
        (lambda: F.one_hot(tensor.tensor([1]), 0), IndexError, "below num_classes, 0, but input holds 1"),
        (
            lambda: nn.Linear(1, 1).load_state_dict(3),
            TypeError,
            "requires a dict from names to tensors, not int",
        ),  # type: ignore[arg-type]
        (lambda: nn.optim.SGD([ONES]).load_state_dict(3), TypeError, "requires a dict from state_dict"),  # type: ignore[arg-type]
        (lambda: nn.optim.SGD([ONES]).load_state_dict({}), KeyError, "with the key 'param_groups'"),
        (lambda: nn.optim.SGD([ONES]).add_param_group(3), TypeError, "must be a dict .* not 3"),  # type: ignore[arg-type]
        (lambda: DataLoader([1], num_workers=1, timeout="1"), ValueError, "timeout must be a number"),  # type: ignore[arg-type]
        (lambda: nn.utils.vector_to_parameters(3, []), TypeError, "vec must be a tensor, not int"),  # type: ignore[arg-type]
        (lambda: _first_batch([(1, 2), 3]), TypeError, "different types, tuple and int"),
        (lambda: _first_batch([{"a": 1}, 3]), TypeError, "different types, dict and int"),
        (lambda: _first_batch([ONES, 3]), TypeError, "different types, Tensor and int"),
        (lambda: _first_batch(["a", 3]), TypeError, "different types, str and int"),
        (lambda: _first_batch([(1, 2), "ab"]), TypeError, "different types, tuple and str"),
        # Advice
        (lambda: nn.MSELoss(ONES, ONES), TypeError, r"write nn.MSELoss\(\)\(input, target\)"),  # type: ignore[call-arg, arg-type]
        (lambda: nn.LogSigmoid(ONES), TypeError, r"write nn.LogSigmoid\(\)\(x\)"),  # type: ignore[call-arg]
        (lambda: nn.GRU(2, 3, proj_size=2), TypeError, "omit proj_size="),  # type: ignore[call-arg]
        (lambda: nn.ConvTranspose2d(1, 1, 1, padding="same"), ValueError, "must be integers, not 'same'"),  # type: ignore[arg-type]
        (
            lambda: F.grid_sample(tensor.ones((1, 1, 2, 2, 2)), tensor.ones((1, 2, 2, 2, 3)), mode="bicubic"),
            ValueError,
            "mode 'bicubic' requires an input with 4 dimensions",
        ),
        (
            lambda: nn.BatchNorm1d(2).load_state_dict({"num_batches_tracked": ONES[0, 0]}, strict=False),
            TypeError,
            r"convert the value with x.to\(tensor.int64\)$",
        ),
        (lambda: setattr(nn.Linear(1, 1), "weight", ONES), TypeError, r"Write nn.Parameter\(x\)"),
    ],
)
def test_an_error_names_the_mistake(call: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_a_list_of_sequences_names_no_expression_that_does_not_compile() -> None:
    with pytest.raises(TypeError, match=r"sequence 0 must be a tensor, not int: write tensor.tensor\(data\)"):
        nn.utils.rnn.pack_sequence([3])  # type: ignore[list-item]


def test_samples_of_different_number_types_are_one_batch() -> None:
    assert _first_batch([1.0, np.float32(2), tensor.tensor(3.0)]).tolist() == [1.0, 2.0, 3.0]


def test_a_module_without_super_init_is_named() -> None:
    class Unfinished(nn.Module):
        def __init__(self) -> None:
            self.x = 3

    with pytest.raises(AttributeError, match=r"^Unfinished is not initialized: call super\(\).__init__\(\)"):
        repr(Unfinished())


def test_a_disposed_module_is_named_once() -> None:
    layer = nn.Linear(2, 2)
    layer.dispose()
    with pytest.raises(tensor.TensorDisposedError, match=r"^this Linear is disposed"):
        layer(tensor.ones((1, 2)))


def test_python_suggests_the_name_of_a_layer() -> None:
    run = subprocess.run(
        [sys.executable, "-c", "import nn; nn.Cov2d"], capture_output=True, text=True, check=False
    )
    assert "module 'nn' has no attribute 'Cov2d': did you mean 'Conv2d'?" in run.stderr


def test_a_similar_attribute_is_suggested_once() -> None:
    run = subprocess.run(
        [sys.executable, "-c", "import nn; nn.Linear(2, 2).wieght"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stderr.rstrip().endswith("Linear has no attribute 'wieght': did you mean 'weight'?")


@pytest.mark.parametrize("name", ["weight", "inner", "mean", "plain"])
@pytest.mark.parametrize(
    ("register", "kind"),
    [("register_parameter", "weight"), ("register_buffer", "mean"), ("add_module", "inner")],
)
def test_registration_replaces_no_value_of_another_kind(name: str, register: str, kind: str) -> None:
    module = nn.Module()
    module.weight = nn.Parameter(tensor.ones((1,)))
    module.inner = nn.Linear(1, 1)
    module.register_buffer("mean", tensor.zeros((1,)))
    module.plain = 3
    before = getattr(module, name)
    if name == kind:
        getattr(module, register)(name, None)
        assert getattr(module, name) is None
    else:
        with pytest.raises(KeyError, match=f"already has an attribute '{name}'"):
            getattr(module, register)(name, None)
        assert getattr(module, name) is before


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda x: nn.init.normal_(x, std=-1.0), "normal_: std must be at least 0, not -1"),
        (lambda x: nn.init.normal_(x, std=float("nan")), "std must be at least 0, not nan"),
        (
            lambda x: nn.init.uniform_(x, 3.0, 1.0),
            r"a must be at most b, but a = 3\.0 and b = 1\.0",
        ),
    ],
)
def test_initial_values_refuse_an_empty_range(call: Any, says: str) -> None:
    x = tensor.ones((2,))
    with pytest.raises(ValueError, match=says):
        call(x)
    assert x.tolist() == [1.0, 1.0]
