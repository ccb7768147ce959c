"""A cluster for each file that tests `nn.parallel` on Ray."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """One node with four processors, as far as Ray knows."""
    ray = pytest.importorskip("ray", reason="needs Ray: pip install 'disposescope[ray]', or make test-ray")
    # Not at the top: `nn.parallel` needs files and locks of POSIX, which the other tests here do without.
    from tests.nn.parallel_cluster import environment, start

    def one_node() -> None:
        ray.init(
            "local",
            num_cpus=4,
            include_dashboard=False,
            object_store_memory=200 * 2**20,
            logging_level="error",
            log_to_driver=False,
        )

    with environment():
        start(one_node)
        yield
        ray.shutdown()


@pytest.fixture
def at_its_start(cluster: None) -> Iterator[None]:
    """Hold that a test leaves nothing behind in the cluster."""
    from tests.nn.parallel_cluster import nothing_left_behind

    with nothing_left_behind():
        yield
