"""What is absent where the watcher may not read."""

from __future__ import annotations

import pytest

from tests.support.metric_samples import of_cluster
from tests.support.samples import cluster_view, log_view


@pytest.mark.parametrize(
    ("denied", "controller", "offline"),
    [
        ((), 1, 1),
        (("/config/brokers",), 1, 1),
        (("/controller",), 0, 1),
        (("/brokers/ids/1",), 1, 0),
        (("/",), 0, 0),
    ],
)
def test_what_the_watcher_may_not_read_has_no_sample(
    denied: tuple[str, ...], controller: int, offline: int
) -> None:
    """An id of -1, or partitions offline for want of a registration, would be wrong numbers."""
    view = cluster_view(log=log_view(denied=denied))
    assert len(of_cluster("kafka_controller_id", view)) == controller
    assert len(of_cluster("kafka_cluster_offline_partitions", view)) == offline
    assert of_cluster("kcm_cluster_denied_paths", view) == [((), len(denied))]
    # What Kafka's own ACLs deny everybody is assumed: else no such cluster were ever complete.
    missed = bool(denied) and denied != ("/config/brokers",)
    assert of_cluster("kcm_cluster_incomplete", view) == [((), int(missed))]
