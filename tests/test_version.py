"""One version, of all packages and of what is installed."""

from __future__ import annotations

from importlib.metadata import version

import disposescope
import nn
import scopes
import tensor


def test_all_packages_have_the_version_that_is_installed() -> None:
    versions = {package.__version__ for package in (disposescope, nn, scopes, tensor)}
    assert versions == {version("disposescope")}
