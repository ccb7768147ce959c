"""The report of all living tensors has those of PyTorch, by class, shape, dtype and device."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

pytest.importorskip("torch")
import torch

import scopes.torch
from scopes import new_dispose_scope
from scopes.reports.living import LivingKind, LivingReport, living


@pytest.fixture(autouse=True)
def nothing_else_is_seen() -> Iterator[None]:
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def of_torch(report: LivingReport) -> dict[LivingKind, tuple[int, int, int]]:
    rows = [row for row in report.rows if row.kind.name.startswith("torch.")]
    return {row.kind: (row.count, row.nbytes, row.op_count) for row in rows}


def test_tensors_of_pytorch_have_rows_of_their_own() -> None:
    xs = [torch.ones(3, 4), torch.ones(3, 4), torch.ones(5, dtype=torch.int64), torch.ones(7, device="meta")]
    parameter = torch.nn.Parameter(torch.ones(6))
    view = xs[0][:2]
    assert of_torch(living()) == {
        LivingKind("torch.Tensor", (3, 4), "float32", ""): (2, 96, 0),
        LivingKind("torch.Tensor", (5,), "int64", ""): (1, 40, 0),
        LivingKind("torch.Tensor", (2, 4), "float32", ""): (1, 0, 0),
        LivingKind("torch.Tensor", (7,), "float32", "meta"): (1, 0, 0),
        LivingKind("torch.Parameter", (6,), "float32", ""): (1, 24, 0),
    }
    assert (len(xs), view.shape, parameter.shape) == (4, (2, 4), (6,))


def test_disposed_tensors_are_not_alive_and_a_graph_keeps_operations_and_memory() -> None:
    weight = torch.ones(1009, 1, 1, 1, requires_grad=True)
    with scopes.torch.owning(), new_dispose_scope() as scope:
        kept = torch.ones(1013)
        loss = scope.detach((weight.exp() * 2).sum(0, keepdim=True))
    assert kept.is_invalid
    gc.unfreeze()  # the end of a scope froze what is young, because the rest is frozen
    found = {kind.shape: figures for kind, figures in of_torch(living()).items()}
    assert (1013,) not in found
    assert found[1009, 1, 1, 1] == (1, 4036, 0)
    count, nbytes, op_count = found[1, 1, 1, 1]
    assert count == 1
    assert loss.nbytes + 4036 <= nbytes < 2 * 4036  # with the result of `exp`
    assert op_count >= 3
