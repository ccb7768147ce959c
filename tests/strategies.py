"""Hypothesis strategies that several test files share."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import NamedTuple

from hypothesis import strategies as st

from tests.things import Holder


class Pair(NamedTuple):
    first: object
    second: object


@dataclass
class Record:
    first: object
    second: object


@dataclass(frozen=True, slots=True)
class SlottedRecord:
    first: object


def nestings(leaves: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    """Any nesting of the containers that scopes look into, around `leaves`."""
    return st.recursive(leaves, _containers, max_leaves=12)


def _containers(parts: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    lists = st.lists(parts, max_size=4)
    return st.one_of(
        lists,
        lists.map(tuple),
        lists.map(deque),
        st.builds(Pair, parts, parts),
        st.dictionaries(st.text(max_size=2), parts, max_size=3),
        st.dictionaries(st.integers(), parts, max_size=3).map(OrderedDict),
        st.builds(Record, parts, parts),
        st.builds(SlottedRecord, parts),
        st.builds(Holder, parts),
    )


# What a scope passes over.
plain = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3), st.binary(max_size=3)
)
