"""A cluster that the exporter shows, without a server."""

from __future__ import annotations

import pytest

from controller_model.records.views import Counts
from tests.support.api_server import Served
from tests.support.samples import as_of, broker_view, cluster_view, elected, topic_view


@pytest.fixture
def served() -> Served:
    """One partition has one replica in sync, another has the wrong leader; there were thirty elections."""
    served = Served()
    counts = Counts(
        topics=2, partitions=4, under_replicated=1, preferred_imbalance=1, preferred_electable=1
    )
    served.write(
        broker_view(0, rack="a", leaders=3, offline_if_lost=1),
        broker_view(1, rack="b", leaders=1),
        topic_view("t", leader=(0, 0)),
        topic_view("u", isr=((0,), (1, 0))),
        cluster_view(at=as_of(30), counts=counts),
    )
    served.publish(*(elected(seq) for seq in range(1, 31)))
    return served
