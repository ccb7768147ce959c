"""docs/opinfo.md: what a run gave, op by op."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.opinfo.refusals import RULES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.opinfo.results import Counts

FORMS = ("function", "method", "in place", "out=")
TITLE = """# PyTorch's own test data

`make opinfo` writes this page. It runs the samples that PyTorch tests itself with, on PyTorch and on
`tensor.torch`: those of `op_db`, `module_db` and `optim_db` in `torch.testing._internal`. Values are of
float32, int64 and bool, gradients of float64. Of an op at most {limit} samples of a dtype run. Each
sample runs as a function, as a method, in place and with `out=`, where PyTorch has that form.

All forms also run with samples of bfloat16. Such a result is equal if it is within PyTorch's own tolerance
for bfloat16 (1.6%) of PyTorch's result, or of PyTorch's float32 result rounded once: some functions of
PyTorch's round several times on the way.

"""
RULES_TITLE = """
## What is refused on purpose

A rule excuses an error, never another value. `tests/opinfo/refusals.py` holds the list.

| what | why | ops |
|---|---|---|
"""


def written(results: list[tuple[str, Counts]], limit: int) -> str:
    """Return the page for the results of all entries, each with the name of its data base."""
    ops, modules, optimizers = (
        [c for base, c in results if base == name] for name in ("op", "module", "optim")
    )
    lines = [TITLE.format(limit=limit)]
    lines.append("| | equal | different | refused | refused by rule |\n|---|---|---|---|---|\n")
    lines += [_row(f"ops as {form}", ops, [form]) for form in FORMS]
    lines.append(_row("ops in bfloat16, all forms", ops, ["bfloat16"]))
    lines.append(_row("gradients of ops", ops, ["gradient"]))
    lines.append(_row("modules, with gradients", modules, ["module"]))
    lines.append(_row("optimizers", optimizers, ["optimizer"]))
    raised, accepted = (sum(c.total("error", outcome=x) for _, c in results) for x in ("raised", "accepted"))
    lines.append(f"\nOf {raised + accepted} wrong inputs {accepted} are accepted.\n")
    lines.append(RULES_TITLE)
    for rule in RULES:
        names = ", ".join(f"`{name}`" for name in rule.names)
        lines.append(f"| {rule.title} | {rule.reason} | {names} |\n")
    lines.append(
        "\n## Op by op\n\nSamples in all forms. An op is left out where a rule refuses all its samples.\n\n"
    )
    lines.append(
        "| op | equal | different | refused | refused by rule | bfloat16 equal | gradients equal | "
        "wrong inputs accepted |\n"
    )
    lines.append("|---|---|---|---|---|---|---|---|\n")
    lines += [_line(c) for c in ops if c.total(*FORMS, outcome="equal") or c.total(*FORMS, outcome="refused")]
    for title, kind, entries in (("modules", "module", modules), ("optimizers", "optimizer", optimizers)):
        lines.append(f"\n## The {title}\n\n| | equal | different | refused | refused by rule |\n")
        lines.append("|---|---|---|---|---|\n")
        lines += [_row(f"`{c.name}`", [c], [kind]) for c in entries]
    return "".join(lines)


def _row(title: str, entries: Iterable[Counts], kinds: list[str]) -> str:
    entries = list(entries)
    cells = [
        sum(c.total(*kinds, outcome=outcome) for c in entries)
        for outcome in ("equal", "different", "refused", "by rule")
    ]
    return f"| {title} | {' | '.join(str(n) for n in cells)} |\n"


def _line(c: Counts) -> str:
    cells = [c.total(*FORMS, outcome=outcome) for outcome in ("equal", "different", "refused", "by rule")]
    cells += [
        c.total("bfloat16", outcome="equal"),
        c.total("gradient", outcome="equal"),
        c.total("error", outcome="accepted"),
    ]
    return f"| `{c.name}` | {' | '.join(str(n) for n in cells)} |\n"
