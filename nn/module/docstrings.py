"""Add shared sections to the docstrings of functions and classes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from functools import partial
from inspect import cleandoc
from itertools import groupby
from typing import Any, TypeVar

from tensor.lowlevel import example as example_of_tensor

Described = TypeVar("Described")

_HEADER = re.compile(r"^(\w+)\n-+$\n?", re.MULTILINE)
_ENTRY = re.compile(r"^(\S.*)\n((?:    .*\n?|\n)+)", re.MULTILINE)

# The format of a section "Examples", for the code after the prompt and the repr of its result.
EXAMPLE = "Examples\n--------\n>>> import nn, tensor\n>>> {}\n{}\n"


def complete(described: Described, texts: Mapping[str, str], raises: str = "") -> Described:
    """Add shared sections to the docstring of a function or class, and return the same object.

    Parameters
    ----------
    described
        The function or class. Its section "Parameters" may omit parameters that `texts` describes.
    texts
        The description of each shared parameter, by name.
    raises
        The section "Raises", used if the docstring has none.

    Examples
    --------
    >>> def area(width, height, scale=1):
    ...     '''Return an area.
    ...
    ...     Parameters
    ...     ----------
    ...     width, height
    ...         The sides, in meters.
    ...     '''
    >>> texts_of(complete(area, {"scale": "A factor."}))
    {'width': 'The sides, in meters.', 'height': 'The sides, in meters.', 'scale': 'A factor.'}
    """
    if not described.__doc__:  # none with `python -OO`
        return described
    start, sections = _sections_of(cleandoc(described.__doc__))
    own = dict(_ENTRY.findall(sections.pop("Parameters", "")))
    entry_of = {name: entry for entry in own for name in re.split(r",\s*", entry)}
    entries = {}
    for name in inspect.signature(described).parameters:  # type: ignore[arg-type]
        if name in entry_of:
            entries[entry_of[name]] = own[entry_of[name]].strip()
        elif name in texts:
            entries[name] = texts[name]
    groups = groupby(entries.items(), key=lambda item: item[1])
    body = "\n".join(f"{', '.join(entry for entry, _ in same)}\n    {text}" for text, same in groups)
    first = {"Parameters": body, "Returns": sections.pop("Returns", ""), "Raises": raises} | sections
    sections = {header: text for header, text in first.items() if text}
    parts = [f"{header}\n{'-' * len(header)}\n{text.strip()}\n" for header, text in sections.items()]
    described.__doc__ = "\n".join([f"{start.strip()}\n", *parts])
    return described


def sections(texts: Mapping[str, str], raises: str = "") -> Callable[[Described], Described]:
    """Return a decorator that adds shared sections, as `complete` does.

    Examples
    --------
    >>> @sections({"x": "A number."})
    ... def half(x):
    ...     "Return half of `x`."
    >>> texts_of(half)
    {'x': 'A number.'}
    """
    return partial(complete, texts=texts, raises=raises)


def example(call: str, result: object) -> Callable[[Described], Described]:
    """Return a decorator that adds the section "Examples" with one call and the repr of its result.

    Examples
    --------
    >>> @example("half(3)", 1.5)
    ... def half(x):
    ...     "Return half of `x`."
    >>> half.__doc__.splitlines()[-2:]
    ['>>> half(3)', '1.5']
    """
    return example_of_tensor(call, result, imports="import nn, tensor")


def texts_of(described: Any) -> dict[str, str]:
    """Return the description of each parameter in a docstring.

    Examples
    --------
    >>> sorted(texts_of(complete))
    ['described', 'raises', 'texts']
    """
    _, sections = _sections_of(cleandoc(described.__doc__ or ""))
    found = _ENTRY.findall(sections.get("Parameters", ""))
    return {name: text.strip() for entry, text in found for name in re.split(r",\s*", entry)}


def _sections_of(doc: str) -> tuple[str, dict[str, str]]:
    """Return the text before the first header of a docstring, and the text below each header."""
    start, *parts = _HEADER.split(f"{doc}\n")
    return start, dict(zip(parts[::2], parts[1::2], strict=True))
