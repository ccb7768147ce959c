"""Every op through hooks: gradients are the same to the last bit, and saved values take no memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensor
from tensor import autograd
from tensor.autograd.graph import Node, saved_tensors_hooks
from tests.tensor.gradients import Sample, values
from tests.tensor.test_writes_over_all_saved import SAMPLES, gradients


def samples_of(rule: str) -> list[tuple[Sample, list[np.ndarray]]]:
    found = []
    for seed, sample in enumerate(SAMPLES):
        if sample.rule == rule:
            rng = np.random.default_rng(seed)
            found.append(
                (sample, [values(shape, sample.domain, sample.dtype, rng) for shape in sample.shapes])
            )
    return found


def nodes_of(x: tensor.Tensor) -> list[Node]:
    """Return all nodes of the graph of `x`."""
    found: list[Node] = []
    waiting: list[Node | None] = [x.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in found:
            found.append(node)
            waiting += [after for after, _ in node.next_functions]
    return found


RULES = sorted({sample.rule for sample in SAMPLES})


@pytest.mark.parametrize("rule", RULES)
def test_values_that_hooks_keep_elsewhere_give_the_same_gradients_and_take_no_memory(rule):
    for sample, arrays in samples_of(rule):
        plain = [tensor.tensor(array, requires_grad=True) for array in arrays]
        expected = gradients(sample.function(*plain), plain)
        kept: list[np.ndarray] = []

        def pack(x: tensor.Tensor, kept: list[np.ndarray] = kept) -> int:
            kept.append(np.array(x.detach().clone().numpy()))
            return len(kept) - 1

        def unpack(place: int, kept: list[np.ndarray] = kept) -> tensor.Tensor:
            return tensor.tensor(kept[place])

        inputs = [tensor.tensor(array, requires_grad=True) for array in arrays]
        with saved_tensors_hooks(pack, unpack):
            out = sample.function(*inputs)
        if out.requires_grad:
            assert autograd.graph_statistics(out).bytes_saved == 0
        for ours, right in zip(gradients(out, inputs), expected, strict=True):
            np.testing.assert_array_equal(ours, right)


@pytest.mark.parametrize("rule", RULES)
def test_hooks_on_all_nodes_that_return_what_they_get_change_no_gradient(rule):
    for sample, arrays in samples_of(rule):
        plain = [tensor.tensor(array, requires_grad=True) for array in arrays]
        expected = gradients(sample.function(*plain), plain)
        inputs = [tensor.tensor(array, requires_grad=True) for array in arrays]
        out = sample.function(*inputs)
        calls: list[Any] = []
        nodes = nodes_of(out)
        for node in nodes:
            node.register_prehook(lambda outputs: outputs)
            node.register_hook(lambda inputs, outputs, calls=calls: calls.append(inputs) or inputs)
        for ours, right in zip(gradients(out, inputs), expected, strict=True):
            np.testing.assert_array_equal(ours, right)
        assert len(calls) == len(nodes)
