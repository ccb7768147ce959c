"""The geometry of a convolution's patches."""

from __future__ import annotations

from typing import NamedTuple


class Geometry(NamedTuple):
    """The geometry of patches in the input. Each tuple has one entry for each spatial dimension.

    Attributes
    ----------
    kernel
        The sizes of a patch, in elements of the kernel.
    stride
        The distance between adjacent patches.
    padding
        The number of implicit zeros before and after the input.
    dilation
        The distance between adjacent elements of a patch.
    groups
        The number of groups of channels. Each group is a separate convolution.
    """

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    groups: int

    def spans(self) -> tuple[int, ...]:
        """Return the number of elements of the input that a patch spans."""
        return tuple([step * (size - 1) + 1 for size, step in zip(self.kernel, self.dilation, strict=True)])

    def padded(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """Return the sizes of an input of these `sizes` with its padding."""
        return tuple([size + sum(pad) for size, pad in zip(sizes, self.padding, strict=True)])

    def outputs(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """Return the number of patches in an input of these `sizes`; below 1 if none fits."""
        return tuple(
            [
                (size - span) // step + 1
                for size, span, step in zip(self.padded(sizes), self.spans(), self.stride, strict=True)
            ]
        )
