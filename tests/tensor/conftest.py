"""Fixtures that several tests of tensors use."""

import gc
from collections.abc import Iterator

import pytest

from tensor import memory


@pytest.fixture
def fresh_allocator() -> Iterator[None]:
    """Begin with empty pools, and restore the allocator's configuration."""
    gc.collect()
    memory.trim()
    before = memory.configuration()
    yield
    memory.configure(**before._asdict())
