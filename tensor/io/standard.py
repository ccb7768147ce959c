"""Attributes that the array API standard requires of a namespace and its arrays, besides functions."""

from __future__ import annotations

import math
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from scopes._shared.naming import set_module
from tensor._devices import CPU, Device, require_cpu
from tensor._dtypes import KINDS, SUPPORTED, Dtype, complex64, float16, float32, int64, is_bfloat16
from tensor._errors import InvalidArgumentError, shown
from tensor.ops.expanding import broadcast_arrays
from tensor.ops.joining import meshgrid

if TYPE_CHECKING:
    from tensor._tensor import Tensor

__array_api_version__ = "2024.12"
# The versions of the standard that are fully supported.
_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")

e: float = math.e
pi: float = math.pi
inf: float = math.inf
nan: float = math.nan
newaxis: None = None


class _Inspection:
    """The part of the inspection API that is equal in all versions."""

    def capabilities(self) -> dict[str, Any]:
        """Return the capabilities of arrays: boolean indexing, data-dependent shapes, maximum dimensions.

        Examples
        --------
        >>> import tensor
        >>> tensor.__array_namespace_info__().capabilities()["max dimensions"]
        64
        """
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Device:
        """Return the device of new tensors, the CPU.

        Examples
        --------
        >>> import tensor
        >>> tensor.__array_namespace_info__().default_device() == "cpu"
        True
        """
        return CPU

    def default_dtypes(self, *, device: str | None = None) -> dict[str, Dtype]:
        """Return the default dtypes of new tensors.

        Examples
        --------
        >>> import tensor
        >>> str(tensor.__array_namespace_info__().default_dtypes()["real floating"])
        'float32'
        """
        require_cpu(device)
        return {"real floating": float32, "complex floating": complex64, "integral": int64, "indexing": int64}

    def dtypes(
        self, *, device: str | None = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, Dtype]:
        """Return the dtypes of the standard by name: all, or those of one or several kinds.

        float16 and bfloat16 are not included, because they are not in the standard.

        Raises
        ------
        ValueError
            If `kind` is unknown.

        Examples
        --------
        >>> import tensor
        >>> list(tensor.__array_namespace_info__().dtypes(kind="real floating"))
        ['float32', 'float64']
        """
        require_cpu(device)
        kinds = tuple(KINDS) if kind is None else kind if isinstance(kind, tuple) else (kind,)
        letters = ""
        for one in kinds:
            if one not in KINDS:
                raise InvalidArgumentError(
                    f"{shown(one)} is not a kind of dtype: write one of {', '.join(map(repr, KINDS))}"
                )
            letters += KINDS[one]
        found = [dtype for dtype in SUPPORTED if dtype.kind in letters and dtype != float16]
        return {dtype.name: dtype for dtype in found if not is_bfloat16(dtype)}


@set_module("tensor")
class NamespaceInfo(_Inspection):
    """The inspection API of the namespace `tensor`, as the array API standard defines it.

    Examples
    --------
    >>> import tensor
    >>> tensor.__array_namespace_info__().default_device()
    device(type='cpu')
    """

    def devices(self) -> list[Device]:
        """Return all devices: the CPU.

        Examples
        --------
        >>> import tensor
        >>> tensor.__array_namespace_info__().devices()
        [device(type='cpu')]
        """
        return [CPU]


def __array_namespace_info__() -> NamespaceInfo:  # noqa: N807 - the standard's name
    """Return the inspection API of the namespace `tensor`: devices, dtypes, capabilities.

    Examples
    --------
    >>> import tensor
    >>> str(tensor.__array_namespace_info__().default_dtypes()["integral"])
    'int64'
    """
    return NamespaceInfo()


class _NamespaceInfo2025(_Inspection):
    def devices(self) -> tuple[Device, ...]:
        return (CPU,)


class _Namespace2025(ModuleType):
    """The namespace `tensor` for version 2025.12, with tuples where earlier versions have lists."""

    __array_api_version__ = "2025.12"

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.modules["tensor"], name)

    def __dir__(self) -> list[str]:
        return dir(sys.modules["tensor"])

    @staticmethod
    def __array_namespace_info__() -> _NamespaceInfo2025:
        return _NamespaceInfo2025()

    @staticmethod
    def broadcast_arrays(*arrays: Tensor) -> tuple[Tensor, ...]:
        return tuple(broadcast_arrays(*arrays))

    @staticmethod
    def meshgrid(*arrays: Tensor, indexing: str = "xy") -> tuple[Tensor, ...]:
        return tuple(meshgrid(*arrays, indexing=indexing))


# A single object, because libraries compare the namespaces of their arguments.
_NAMESPACE_2025 = _Namespace2025("tensor")


def namespace_for(api_version: str | None) -> ModuleType:
    """Return the namespace of that version of the standard."""
    if api_version is not None and api_version not in _VERSIONS:
        raise InvalidArgumentError(
            f"version {shown(api_version)} of the array API standard is not supported. Tensors follow "
            f"{', '.join(_VERSIONS)}"
        )
    if api_version == _NAMESPACE_2025.__array_api_version__:
        return _NAMESPACE_2025
    return sys.modules["tensor"]
