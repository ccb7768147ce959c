"""The report of ``scopes.torch.fits``, without PyTorch: each form says what the figures leave out."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from scopes.reports.fits import FitsReport

REMARK = "PyTorch's own code is not counted"
REPORT = FitsReport(
    peak_bytes=3000,
    memory=4096,
    parts={"parameters": 1000, "activations": 2000},
    modules=(),
    lines=(),
    batch=8,
    largest_batch=10,
    checkpoints=(),
    remarks=(REMARK, "x.item() < 0 is unknown"),
)


def printed(report: FitsReport) -> str:
    stream = io.StringIO()
    report.print(stream)
    return stream.getvalue()


@pytest.mark.parametrize(
    "form",
    [str, printed, FitsReport._repr_html_, FitsReport.to_html, lambda report: json.dumps(report.to_dict())],
    ids=["text", "print", "notebook", "page", "json"],
)
def test_each_form_of_the_report_has_the_remarks(form: Callable[[FitsReport], str]) -> None:
    assert REMARK in form(REPORT).replace("&#x27;", "'")


@pytest.mark.parametrize("form", [FitsReport._repr_html_, FitsReport.to_html])
def test_remarks_are_escaped_in_html(form: Callable[[FitsReport], str]) -> None:
    assert "x.item() &lt; 0 is unknown" in form(REPORT)


def test_what_was_not_measured_is_said_to_be_about_right() -> None:
    assert "needs about 2.93 KiB at its peak" in REPORT.verdict
    assert "a real step with a batch of 8 needs 2.93 KiB" in replace(REPORT, is_measured=True).verdict
