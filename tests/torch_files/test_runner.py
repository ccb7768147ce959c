"""The runner of PyTorch's test files on a small file of the same form."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch.testing._internal.common_utils")

from tests.torch_files.__main__ import kind_of, run
from tests.torch_files.differences import DIFFERENCES
from tests.torch_files.refusals import RULES, rule_of

FILE = """
import torch
from torch.testing import make_tensor
from torch.testing._internal.common_utils import TestCase, parametrize
from torch.testing._internal.common_device_type import dtypes, instantiate_device_type_tests, onlyCUDA
from torch.testing._internal.common_dtype import floating_types


class TestSums(TestCase):
    @dtypes(torch.int64, *floating_types())
    def test_dtype(self, device, dtype):
        x = make_tensor((3,), dtype=dtype, device=device)
        self.assertEqual(x.mean().dtype if dtype.is_floating_point else x.dtype, dtype)

    @parametrize("dim", [0, 1])
    def test_wrong_value(self, device, dim):
        self.assertEqual(torch.ones(2, 3).sum(dim), torch.full((3 - dim,), 2.0))

    def test_wrong_dtype(self, device):
        self.assertEqual(torch.ones(2), torch.ones(2, dtype=torch.float64))

    def test_wrong_shape(self, device):
        self.assertEqual(torch.ones(1, 2), torch.ones(2))

    def test_accepts(self, device):
        self.assertRaisesRegex(RuntimeError, "size", lambda: torch.ones(2) + torch.ones(2))

    def test_absent(self, device):
        self.assertRaisesRegex(RuntimeError, "size", lambda: torch.nowhere(2))

    def test_crash(self, device):
        import os
        os.abort()

    @onlyCUDA
    def test_other_device(self, device):
        raise RuntimeError


instantiate_device_type_tests(TestSums, globals())
"""


def test_a_file_of_tests_runs_and_what_differs_fails(tmp_path: Path) -> None:
    file = tmp_path / "test_small.py"
    file.write_text(FILE, encoding="utf-8")
    found = run(file, tmp_path / "outcomes.jsonl", "")
    by_outcome: dict[str, set[str]] = {}
    for test, line in found.items():
        name = test.rpartition(".")[2].removeprefix("test_").replace("_cpu", "")
        by_outcome.setdefault(line["outcome"], set()).add(name)
    names = {f"dtype_{kind}" for kind in ("int64", "float32", "float64")}
    assert by_outcome["passed"] == {*names, "wrong_value_dim_0"}
    assert by_outcome["failed"] == {
        "wrong_value_dim_1",
        "wrong_dtype",
        "wrong_shape",
        "accepts",
        "absent",
        "crash",
    }
    assert found["test_small.TestSumsCPU.test_absent_cpu"]["absent"] == "nowhere"
    assert by_outcome.get("skipped", set()) <= {"other_device"}


def test_a_rule_excuses_a_name_or_what_is_absent_and_nothing_else() -> None:
    assert rule_of("test_x.TestX.test_sparse_cpu", None, "TypeError: wrong") is not None
    assert rule_of("test_x.TestX.test_y_cpu", "jit", "AttributeError: jit") is not None
    assert rule_of("test_x.TestX.test_y_cpu", None, "TypeError: unexpected keyword argument 'memory_format'")
    assert rule_of("test_x.TestX.test_y_cpu", None, "TypeError: wrong") is None
    assert (
        rule_of("test_x.TestX.test_y_cpu", None, "AssertionError: can't write to this expanded view") is None
    )
    assert rule_of("test_x.TestX.test_sparse_cpu", "jit", "AssertionError: 1 is not 2") is None
    assert rule_of("test_x.TestX.test_sparse_cpu", None, "GradcheckError: 1 is not 2") is None
    assert len({rule.title for rule in RULES}) == len(RULES)
    assert all(rule.reason and (rule.tests or rule.absent or rule.errors) for rule in RULES)


def test_an_entry_of_the_list_is_for_one_assertion_of_a_test() -> None:
    wrong = {"error": "AssertionError: 5 is not 7", "line": "605: self.assertTrue(self.is_view_of(t, v))"}
    test = "test_view_ops.TestViewOpsCPU.test_unfold_view_cpu"
    assert kind_of(test, wrong) == "listed"
    assert kind_of(test, {**wrong, "line": "606: self.assertEqual(t, v)"}) == "failed"
    assert kind_of(test.replace("unfold", "fold"), wrong) == "failed"
    assert all(each.reason and all(text for _, text in each.assertions) for each in DIFFERENCES)
