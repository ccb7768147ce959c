"""scikit-learn's own tests of arrays that follow the standard, with tensors as those arrays.

``SCIPY_ARRAY_API=1 python -m tests.interop.sklearn_suite`` runs all of them, each in float64 and in float32,
and ends as pytest does; it takes pytest's options. As a plugin of pytest this module is what gives the tests
the namespace `tensor`, and leaves out those that take none.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

NAMESPACE = "tensor"
_PARAMETERS = (
    "yield_namespaces",
    "yield_namespace_device_dtype_combinations",
    "yield_mixed_namespace_input_permutations",
)


def _namespaces(include_numpy_namespaces: bool = True) -> list[str]:
    del include_numpy_namespaces
    return [NAMESPACE]


def _combinations(include_numpy_namespaces: bool = True) -> list[tuple[str, None, str]]:
    del include_numpy_namespaces
    return [(NAMESPACE, None, dtype) for dtype in ("float64", "float32")]


def _mixed() -> list[tuple[object, object, str]]:
    from sklearn.utils import _array_api

    ours, numpys = (_array_api.NamespaceAndDevice(name, None) for name in (NAMESPACE, "numpy"))
    return [(ours, numpys, f"{NAMESPACE} to numpy"), (numpys, ours, f"numpy to {NAMESPACE}")]


def pytest_configure() -> None:
    """Give tensors to tests that are imported from now on."""
    from sklearn.utils import _array_api, estimator_checks

    for name, given in zip(_PARAMETERS, (_namespaces, _combinations, _mixed), strict=True):
        for module in (_array_api, estimator_checks):
            if hasattr(module, name):  # by the version
                setattr(module, name, given)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests whose parameters name the namespace."""
    kept = [item for item in items if NAMESPACE in item.name.partition("[")[2]]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept


def main(options: list[str]) -> int:
    """Run the tests of all files that ask for arrays of the standard; return pytest's exit status."""
    import sklearn

    folder = Path(sklearn.__file__).parent
    files = [
        str(path)
        for path in sorted(folder.glob("**/tests/test_*.py"))
        if any(name in path.read_text(encoding="utf-8") for name in _PARAMETERS)
    ]
    # Neither our settings nor files beside scikit-learn's.
    alone = ["-c", os.devnull, "--rootdir", str(folder), "-p", "no:cacheprovider", "-p", "no:asyncio"]
    return pytest.main(["-p", __spec__.name, "-q", "-W", "ignore", *alone, *options, *files])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
