"""All cases, by family. A family is imported when one of its cases is used."""

from collections.abc import Iterator
from functools import cache
from importlib import import_module

from benchmarks.harness import Case

FAMILIES = {
    "ops": "ops",
    "memory": "memory",
    "kept": "kept_results",
    "fresh": "fresh",
    "reductions": "reductions",
    "layers": "layers",
    "products": "products",
    "training": "training",
    "convolutions": "convolutions",
    "recurrent": "recurrent",
    "attention": "attention",
    "inference": "inference",
    "optimizers": "optimizers",
    "scopes": "lifetimes",
    "tracking": "tracking",
    "scaling": "scaling",
    "peaks": "peaks",
    "imports": "imports",
}
"""What the names of a family's cases begin with, and the module that has them."""


def all_cases() -> Iterator[Case]:
    """Yield every case, family by family."""
    for family in FAMILIES:
        yield from _cases(family)


def case_of(name: str) -> Case:
    """Return the case of that name."""
    (case,) = (case for case in _cases(family_of(name)) if case.name == name)
    return case


def family_of(name: str) -> str:
    """Return the family of a case."""
    return name.partition("/")[0]


@cache
def _cases(family: str) -> tuple[Case, ...]:
    return tuple(import_module(f"benchmarks.{FAMILIES[family]}").cases())
