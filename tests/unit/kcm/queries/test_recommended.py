"""A whole recommendation, read page by page."""

from __future__ import annotations

import pytest

from controller_model.kafka.ids import TopicPartition
from kcm.queries.recommended import RecommendedElections, read_recommended
from pipeline.runtime import UsageError
from tests.support.api_server import Served
from tests.support.elections import Cluster
from tests.support.in_process_api import api_of

PATH = "/clusters/prod/recommendations"


@pytest.fixture
def cluster() -> Cluster:
    """Seven partitions of t are led by broker 1, which is not their preferred replica."""
    cluster = Cluster(Served())
    cluster.show()
    return cluster


def test_all_that_is_recommended_is_read(cluster: Cluster) -> None:
    """The result is in the format of Kafka's own tool."""
    found = read_recommended(api_of(cluster.served), PATH, None)
    assert found.partitions == [TopicPartition("t", number) for number in range(7)]
    assert found.election()["partitions"][0] == {"topic": "t", "partition": 0}


def test_a_broker_without_recommended_elections_has_none(cluster: Cluster) -> None:
    """Only elections that make it a leader are requested."""
    api = api_of(cluster.served)
    assert read_recommended(api, PATH, 2).partitions == []
    assert len(read_recommended(api, PATH, 1).partitions) == 7


def test_a_chunk_number_beyond_the_last_is_refused(cluster: Cluster) -> None:
    """The error says how many chunks there are."""
    api = api_of(cluster.served)
    assert len(read_recommended(api, PATH, None, 1).chunks) == 1
    with pytest.raises(UsageError, match="option --chunk: there is 1 chunk"):
        read_recommended(api, PATH, None, 2)


def test_a_partition_of_two_chunks_is_elected_once() -> None:
    """The order is that of the chunks."""
    names = [[{"topic": "t", "partition": number}] for number in (1, 0, 1)]
    chunks = [{"election": {"partitions": partitions}} for partitions in names]
    found = RecommendedElections({}, chunks)
    assert found.partitions == [TopicPartition("t", 1), TopicPartition("t", 0)]
