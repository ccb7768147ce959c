"""Half of the precision in, half of it out: no derivative computes in float64 what was given in float32."""

from __future__ import annotations

import numpy as np
import pytest

import tensor
from tensor.kernels import xp
from tests.tensor import samples, samples_shapes
from tests.tensor.gradients import Sample, values

REAL = [
    *samples.ELEMENTWISE,
    *samples.REDUCTIONS,
    *samples.LINEAR_ALGEBRA,
    *[Sample(*sample) for sample in samples_shapes.SAMPLES],
]
# Of each of these, one sample asks for float64.
ASKING = {"sum", "astype"}
SAMPLES = {f"{sample.rule}-{i}": sample for i, sample in enumerate(REAL)}


def derivatives(out: tensor.Tensor):
    """Yield each derivative on the tape behind `out`, as the table gives it, before the engine casts it."""
    stack, seen = [out.grad_fn], set()
    while stack:
        node = stack.pop()
        if node is None or node in seen or not node.next:
            continue
        seen.add(node)
        stack += node.next
        g = np.ones(node.shape, node.dtype)
        for i, function, places in node.plan.steps:
            shape = node.next[i].shape if node.next[i] else ()
            given = [node.saved[p] if p >= 0 else i if p == -1 else shape for p in places]
            yield node.rule.name, function(xp, g, *given)


@pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES)
def test_float32_stays_float32_forward_and_backward(sample):
    rng = np.random.default_rng(0)
    arrays = [values(shape, sample.domain, np.float64, rng).astype(np.float32) for shape in sample.shapes]
    out = sample.function(*[tensor.tensor(array, requires_grad=True) for array in arrays])
    if sample.rule in ASKING and out.dtype == tensor.float64:
        return
    assert out.dtype == tensor.float32
    for name, gradient in derivatives(out):
        assert gradient is None or np.asarray(gradient).real.dtype == np.float32, name
