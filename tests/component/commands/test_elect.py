"""`kcm elect` against the exporter's real server: what it plans, and what it refuses.

Kafka is played here, since a real one does not fail on request; a story on a real one is among
the system tests.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controller_model.kafka.ids import TopicPartition
from controller_model.records.views import Counts
from exporter.serve.server import HttpServer
from kcm.__main__ import main
from kcm.elect.admin import ElectionRefusedError, Elections
from kcm.elect.elect import make_plan, read_election
from kcm.elect.watch import ClusterWatch
from kcm.queries.api_client import ExporterApi
from kcm.servers.ports import free_port
from pipeline.runtime import UsageError
from tests.support.api_server import Served
from tests.support.elections import Cluster
from tests.support.samples import T0, broker_view, cluster_view, topic_view


def test_a_plan_counts_a_reassigned_partition_as_still_imbalanced(
    cluster: Cluster, url: str
) -> None:
    """What is left afterwards is what the exporter computes; of a part of it, it is not claimed."""
    cluster.adding = {4}
    cluster.show()
    api = ExporterApi(url)
    whole = make_plan(api, "prod", None, None)
    assert (whole.before, whole.after) == (7, 1)
    assert make_plan(api, "prod", None, [TopicPartition("t", 0)]).after is None
    cluster.adding = set()
    cluster.show()
    assert make_plan(api, "prod", None, [TopicPartition("t", 0)]).after == 6


class Counting(ExporterApi):
    """A client that counts what it asks."""

    asked = 0

    def get(self, path: str, **params: Any) -> Any:
        """Ask."""
        self.asked += 1
        return super().get(path, **params)


def test_partitions_of_many_topics_are_asked_for_together() -> None:
    """A look at what is not led right costs a request or two, however many topics it is about."""
    served = Served()
    names = [f"t{number:03}" for number in range(60)]
    wrong = set(names[::10])
    served.write(
        broker_view(0),
        broker_view(1),
        *(topic_view(name, leader=(0, 0 if name in wrong else 1)) for name in names),
        cluster_view(counts=Counts(topics=60, partitions=120, preferred_imbalance=len(wrong))),
    )
    partitions = [TopicPartition(name, 1) for name in names]
    gone = TopicPartition("gone", 0)
    with HttpServer(served.app, "127.0.0.1", 0) as server:
        api = Counting(server.url)
        watch = ClusterWatch(api, "prod")
        assert watch.led_wrong([*partitions, gone]) == {TopicPartition(name, 1) for name in wrong}
        assert api.asked == 1
        assert watch.not_led([*partitions, gone]) == {
            gone,
            *(TopicPartition(name, 1) for name in wrong),
        }


def test_partitions_of_a_file_that_need_no_election_are_skipped(cluster: Cluster, url: str) -> None:
    """A file may be old: what is led right already, or does not exist, is skipped and answer."""
    cluster.leaders[0] = 1
    cluster.show()
    wanted = [TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("gone", 0)]
    plan = make_plan(ExporterApi(url), "prod", None, wanted)
    assert plan.partitions == [TopicPartition("t", 1)]
    assert plan.skipped == [TopicPartition("t", 0), TopicPartition("gone", 0)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"partitions":[{"topic":"t"}]}',
        '{"partitions":[{"topic":"t","partition":"0"}]}',
    ],
)
def test_a_file_of_another_form_is_refused(text: str, tmp_path: Path) -> None:
    """It says what makes such a file."""
    path = tmp_path / "election.json"
    path.write_text(text)
    with pytest.raises(UsageError, match="kcm recommend --json makes one"):
        read_election(path)


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str, code: int) -> str:
    """Return the only line with which the command fails."""
    assert main(["elect", *arguments]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    return line


def test_an_unreachable_kafka_is_one_line(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is planned before it is known to be the same cluster."""
    away = f"127.0.0.1:{free_port()}"
    line = complaint(capsys, "--exporter", url, "--bootstrap-servers", away, code=3)
    assert away in line


KAFKAS_TIMEOUT_S = 60.0
"""librdkafka's own socket.timeout.ms."""


def test_an_unanswered_election_request_times_out() -> None:
    """Kafka may go between the plan and the election: the request ends, and says that it failed."""
    kafka = Elections(f"127.0.0.1:{free_port()}", None, within_s=1.0)
    began = time.monotonic()
    with pytest.raises(ElectionRefusedError):
        kafka.elect([TopicPartition("t", 0)])
    assert time.monotonic() - began < KAFKAS_TIMEOUT_S


def test_figures_that_are_not_live_are_not_acted_on(
    cluster: Cluster, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command ends before any request to Kafka."""
    cluster.served.now = T0 + 60_000
    away = f"127.0.0.1:{free_port()}"
    line = complaint(capsys, "--exporter", url, "--bootstrap-servers", away, code=3)
    assert "figures of prod are behind" in line
    assert "nothing was done" in line


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--bootstrap-servers", "kafka1"), "--bootstrap-servers"),
        (("--bootstrap-servers", "k:1", "--chunk", "501"), "--chunk"),
        (("--bootstrap-servers", "k:1", "--file", "x", "--broker", "1"), "not both"),
        (("--bootstrap-servers", "k:1", "--file", "/nowhere/x"), "/nowhere/x"),
        (("--bootstrap-servers", "k:1", "--command-config", "/nowhere/x"), "/nowhere/x"),
        ((), "--bootstrap-servers"),
    ],
)
def test_a_mistake_is_one_line(
    arguments: tuple[str, ...], named: str, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It names the option; the exit code is that of bad use."""
    assert named in complaint(capsys, "--exporter", url, *arguments, code=2)


def test_a_secret_in_the_properties_is_not_repeated(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line that is no key=value, and a property that the client refuses, keep their values."""
    path = tmp_path / "client.properties"
    for text in ("hunter2\n", "sasl.mechanism=PLAIN\nsasl.passwort=hunter2\n"):
        path.write_text(text)
        options = ("--bootstrap-servers", "k:1", "--command-config", str(path))
        assert "hunter2" not in complaint(capsys, "--exporter", url, *options, code=2)


def test_the_plan_is_json_that_the_file_option_takes(url: str, tmp_path: Path) -> None:
    """What kcm recommend --json prints is what --file reads."""
    plan = make_plan(ExporterApi(url), "prod", 1, None)
    body = {"partitions": [msgspec.to_builtins(p._asdict()) for p in plan.partitions]}
    path = tmp_path / "election.json"
    path.write_text(json.dumps(body))
    assert read_election(path) == plan.partitions
