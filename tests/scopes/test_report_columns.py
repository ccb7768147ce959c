"""Columns of numbers are aligned right in each report, and sorted as numbers; columns of words are not."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

import nn
import scopes
import tensor
from scopes import new_dispose_scope
from scopes.reports.differences import differences
from scopes.reports.living import living
from scopes.reports.tables import Report
from tests.run_records import record, row

REPORTS: dict[str, Callable[[], Report]] = {
    "leaks": scopes.leaks,
    "owners": scopes.owners,
    "living": living,
    "changes of what lives": lambda: living().since(living()),
    "scope_tree": scopes.scope_tree,
    "differences": lambda: differences(
        record(row(1, 500), row(2, 90)), record(row(1, 800, is_growing=True), row(3, 70, holder="cache"))
    ),
}


@pytest.fixture(autouse=True)
def _something_to_report() -> Iterator[None]:
    with scopes.track():
        model = nn.Linear(20, 20)
        with new_dispose_scope("step") as scope:
            kept = [scope.detach(model(tensor.ones((5, 20)))) for _ in range(3)]
        yield
        assert len(kept) == 3


@pytest.mark.parametrize("name", REPORTS)
def test_numbers_are_aligned_right_and_words_left(name: str) -> None:
    page = REPORTS[name]()._repr_html_()
    cells = re.findall(r'<td class="(figure|words)[^>]*? data-label="([^"]*)" data-order="([^"]*)"', page)
    assert len(cells) > 3
    for kind, label, order in cells:
        is_number = re.fullmatch(r"-?\d+(\.\d+)?(e[-+]\d+)?", order) is not None
        assert is_number == (kind == "figure"), (label, order)
