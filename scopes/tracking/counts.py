"""Counts of references to objects, taken in one way so that they can be compared."""

from __future__ import annotations

from collections.abc import Sequence
from sys import getrefcount
from typing import Any

__all__ = ["reference_counts"]


def reference_counts(items: Sequence[tuple[object, Any]]) -> list[int]:
    """Return the references to each second item, which include that of its tuple and of this call."""
    return [getrefcount(item[1]) for item in items]
