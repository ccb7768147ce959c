"""Format numbers as an HTML table."""

from __future__ import annotations

from collections.abc import Mapping


def figures_to_html(figures: Mapping[str, str]) -> str:
    """Return `figures` as an HTML table with one row each, for notebooks.

    Examples
    --------
    >>> from scopes._shared.html import figures_to_html
    >>> figures_to_html({"live_count": "2"})
    '<table><tr><th>live_count</th><td style="text-align: right">2</td></tr></table>'
    """
    rows = [
        f'<tr><th>{name}</th><td style="text-align: right">{figure}</td></tr>'
        for name, figure in figures.items()
    ]
    return f"<table>{''.join(rows)}</table>"
