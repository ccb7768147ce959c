"""A cluster for each file that tests `nn.parallel` on Ray."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """Start one node of Ray with four processors, on any machine."""
    ray = pytest.importorskip("ray")
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
def cluster_is_left_clean(cluster: None) -> Iterator[None]:
    """Check that a test leaves nothing behind in the cluster."""
    from tests.nn.parallel_cluster import nothing_left_behind

    with nothing_left_behind():
        yield
