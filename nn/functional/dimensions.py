"""The text of docstrings of layers that exist for one, two and three dimensions."""

from __future__ import annotations

_COUNTS = {1: "one dimension", 2: "two dimensions", 3: "three dimensions"}
_SPACE = {1: "length", 2: "height, width", 3: "depth, height, width"}


class _Sizes:
    """Writes the sizes of an example: ``{sizes[8,6,4]}`` is ``8, 6`` for two dimensions."""

    def __init__(self, dims: int) -> None:
        self.dims = dims

    def __getitem__(self, sizes: int | str) -> str:
        return ", ".join((str(sizes).split(",") * self.dims)[: self.dims])


def filled(template: str, name: str, dims: int) -> str:
    """Return the template of a docstring, filled in for the layer `name` over `dims` dimensions.

    Examples
    --------
    >>> filled("{name} over {dimensions}: ({sizes[8,6,4]}), (batch, {space})", "conv2d", 2)
    'conv2d over two dimensions: (8, 6), (batch, height, width)'
    """
    return template.format(
        name=name, dims=dims, dimensions=_COUNTS[dims], space=_SPACE[dims], sizes=_Sizes(dims)
    )
