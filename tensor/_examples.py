"""The section "Examples" of docstrings."""

from collections.abc import Callable
from typing import TypeVar

Described = TypeVar("Described")


def example(call: str, result: object, *, imports: str = "import tensor") -> Callable[[Described], Described]:
    """Return a decorator that adds the section "Examples" with one call and the repr of its result.

    Parameters
    ----------
    call
        The call. Statements before it are separated by ``"; "``, and get their own lines.
    result
        The result.
    imports
        The first line of the example.

    Examples
    --------
    >>> @example("half(3)", 1.5)
    ... def half(x):
    ...     "Return half of `x`."
    >>> half.__doc__.splitlines()[-3:]
    ['>>> import tensor', '>>> half(3)', '1.5']
    """

    def add(described: Described) -> Described:
        if doc := described.__doc__:  # none with `python -OO`
            steps = call.replace("; ", "\n>>> ")
            section = f"\n\nExamples\n--------\n>>> {imports}\n>>> {steps}\n{result!r}\n"
            # Before Python 3.13, the last line of a longer docstring holds its indentation.
            indentation = doc[len(doc.rstrip(" ")) :]
            described.__doc__ = doc.rstrip() + section.replace("\n", f"\n{indentation}")
        return described

    return add
