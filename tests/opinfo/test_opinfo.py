"""Some entries of PyTorch's data bases, chosen by a seed; `make opinfo` runs all."""

from __future__ import annotations

import random
from importlib import import_module
from typing import Any

import pytest

from tests.opinfo.results import Counts

# PyTorch, and what its test helpers import.
methods = pytest.importorskip("torch.testing._internal.common_methods_invocations")
module_db = import_module("torch.testing._internal.common_modules").module_db
optim_db = import_module("torch.testing._internal.common_optimizers").optim_db
run_module = import_module("tests.opinfo.modules").run_module
run_op = import_module("tests.opinfo.ops").run_op
run_optimizer = import_module("tests.opinfo.optimizers").run_optimizer
RULES = import_module("tests.opinfo.refusals").RULES

# What was wrong once, and some more.
ALWAYS = ("index_fill", "index_select", "matmul", "quantile", "std_mean", "take_along_dim")
OPS: list[Any] = [op for op in methods.op_db if op.name in ALWAYS]
OPS += random.Random(30).sample([op for op in methods.op_db if op.name not in ALWAYS], 40)
# Some samples of these are known to be refused: the page tells how many.
SMALL = 6


def wrong(counts: Counts) -> list[str]:
    return [line for line in counts.lines if " different: " in line or " bare: " in line]


@pytest.mark.parametrize("op", OPS, ids=lambda op: f"{op.name}-{op.variant_test_name}")
def test_an_op_gives_what_pytorch_gives(op: Any) -> None:
    counts = run_op(op, SMALL)
    assert counts.outcomes
    assert wrong(counts) == []


@pytest.mark.parametrize("info", random.Random(30).sample(module_db, 12), ids=lambda info: info.name)
def test_a_module_gives_what_pytorchs_gives(info: Any) -> None:
    assert wrong(run_module(info)) == []


@pytest.mark.parametrize(
    "info", random.Random(30).sample(optim_db, 4), ids=lambda info: info.optim_cls.__name__
)
def test_an_optimizer_gives_what_pytorchs_gives(info: Any) -> None:
    assert wrong(run_optimizer(info)) == []


def test_each_rule_names_what_it_refuses_and_why() -> None:
    assert len({rule.title for rule in RULES}) == len(RULES)
    assert all(rule.reason and rule.names for rule in RULES)
