"""`kcm elect` on the client library's own words for a Kafka that does not answer; no server is needed for them."""

from __future__ import annotations

import time

import pytest

from controller_model.kafka.ids import TopicPartition
from exporter.serve.server import HttpServer
from kcm.elect.admin import ElectionRefusedError, Elections
from kcm.servers.ports import free_port
from pipeline.runtime import UnreachableError
from tests.support.api_server import Served
from tests.support.commands import complaint
from tests.support.elections import Cluster

KAFKAS_TIMEOUT_S = 60.0
"""librdkafka's own socket.timeout.ms."""


def test_an_unreachable_kafka_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is planned before it is known to be the same cluster."""
    cluster = Cluster(Served())
    cluster.show()
    away = f"127.0.0.1:{free_port()}"
    with HttpServer(cluster.served.app, "127.0.0.1", 0) as server:
        options = ("--exporter", server.url, "--bootstrap-servers", away)
        assert away in complaint(capsys, "elect", *options, code=UnreachableError.exit_code)


def test_an_unanswered_election_request_times_out() -> None:
    """Kafka may go between the plan and the election: the request ends, and says that it failed."""
    kafka = Elections(f"127.0.0.1:{free_port()}", None, within_s=1.0)
    began = time.monotonic()
    with pytest.raises(ElectionRefusedError):
        kafka.elect([TopicPartition("t", 0)])
    assert time.monotonic() - began < KAFKAS_TIMEOUT_S
