"""`kcm elect`, from its options to its exit code: an exporter in this process, and a Kafka that is played.

A real Kafka does not fail on request; a story on a real one is among the system tests.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from controller_model.kafka.ids import TopicPartition
from controller_model.records.changes import decode_message
from kcm.__main__ import main
from kcm.cli.exits import BAD_USE, INTERRUPTED, NOT_CONFIRMED, STOPPED
from kcm.elect.elect import Plan, make_plan, plan_lines, read_election
from kcm.queries.api_client import ExporterApi
from pipeline.runtime import UnreachableError
from tests.support.commands import complaint
from tests.support.elections import PARTITIONS, Cluster, ElectingAdmin
from tests.support.in_process_api import api_of
from tests.support.kafka_client import Admin, Client, use_client
from tests.support.kafka_producer import FakeProducer, use_producer
from tests.support.samples import T0

VERB = ("elect", "--bootstrap-servers", "kafka1:9092")
CONFIRMED = (*VERB, "--confirm", "--pause", "0")
NO_GRADE = "grade       cannot name these elections: give --pipeline-servers, or --config\n"
SEVEN = "t-0, t-1, t-2, t-3, t-4 and 2 more"


@pytest.fixture(autouse=True)
def _exporter(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the commands ask the exporter that shows the cluster."""

    def made(*_: Any) -> ExporterApi:
        return api_of(cluster.served)

    monkeypatch.setattr("kcm.elect.elect.ExporterApi", made)
    monkeypatch.setattr("kcm.queries.recommend.ExporterApi", made)


@pytest.fixture
def kafka(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> ElectingAdmin:
    """The Kafka of the cluster."""
    return ElectingAdmin(cluster, monkeypatch)


@contextmanager
def piped(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Let standard output be a pipe; yield the end that its reader may close."""
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as output, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", output)
        yield reading


@pytest.mark.usefixtures("kafka")
def test_what_is_recommended_is_elected_in_chunks_and_recorded(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each chunk is recorded in the pipeline's log, and its effect is seen before the next."""
    producer = FakeProducer()
    use_producer(monkeypatch, producer)
    use_client(monkeypatch, Client())
    monkeypatch.setattr("pipeline.topics.AdminClient", lambda *_, **__: Admin({"kcm.changes": "i"}))
    options = ("--chunk", "3", "--wait", "20", "--pipeline-servers", "pipeline:1")
    assert main([*CONFIRMED, *options]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert re.sub(r"after \d\.\d s", "after 0 s", out) == (
        f"elect       7 in 3 chunks: {SEVEN}\n"
        "imbalance   7, then 0\n"
        "chunk 1 of 3: 3 elected, 0 did not need it; seen after 0 s, "
        "4 in the cluster are not led by their preferred replica\n"
        "chunk 2 of 3: 3 elected, 0 did not need it; seen after 0 s, "
        "1 in the cluster are not led by their preferred replica\n"
        "chunk 3 of 3: 1 elected, 0 did not need it; seen after 0 s, "
        "0 in the cluster are not led by their preferred replica\n"
        "done        7 of 7 elected, 0 did not need it\n"
    )
    assert cluster.asked == [[0, 1, 2], [3, 4, 5], [6]]
    assert cluster.leaders == [1] * PARTITIONS
    requests = [
        request for each in producer.values for request in decode_message(each or b"").requests
    ]
    assert [[number for _, number in request.partitions] for request in requests] == cluster.asked
    assert {(request.cluster, request.holds_ms) for request in requests} == {("prod", 40_000)}


@pytest.mark.usefixtures("kafka")
def test_without_confirm_the_plan_is_only_printed(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is one of its own, except where there is nothing to elect."""
    assert main([*VERB, "--broker", "1"]) == NOT_CONFIRMED
    assert capsys.readouterr().out == (
        f"elect       7 in 1 chunk: {SEVEN}\n"
        "imbalance   7 of broker 1, then 0\n"
        f"{NO_GRADE}"
        "nothing was done: give --confirm to run the elections\n"
    )
    for options in ((), ("--confirm",)):
        assert main([*VERB, "--broker", "2", *options]) == 0
        assert capsys.readouterr() == ("nothing to elect; imbalance of broker 2 0\n", "")
    assert cluster.asked == []


@pytest.mark.usefixtures("kafka")
def test_the_file_that_recommend_makes_is_elected(
    cluster: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Also when it is old: what is led right by now, or does not exist, is skipped."""
    assert main(["recommend", "--json"]) == 0
    election = capsys.readouterr().out
    path = tmp_path / "election.json"
    path.write_text(election)
    assert read_election(path) == [TopicPartition("t", number) for number in range(PARTITIONS)]
    cluster.leaders[0] = 1
    cluster.there = range(6)
    cluster.show()
    monkeypatch.setattr("sys.stdin", io.StringIO(election))
    assert main([*CONFIRMED, "--file", "-"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(
        "skipped     2 of the file: their preferred replica leads already, or is not live and in sync "
        "(t-0, t-6)\n"
        "elect       5 in 1 chunk: t-1, t-2, t-3, t-4, t-5\n"
        f"imbalance   5, then 0\n{NO_GRADE}chunk 1 of 1: 5 elected"
    )
    assert cluster.asked == [[1, 2, 3, 4, 5]]


def test_a_partition_that_a_file_names_twice_is_elected_once(tmp_path: Path) -> None:
    """The order is that of the file."""
    path = tmp_path / "election.json"
    partitions = [{"topic": "t", "partition": number} for number in (4, 2, 4)]
    path.write_text(json.dumps({"partitions": partitions}))
    assert read_election(path) == [TopicPartition("t", 4), TopicPartition("t", 2)]


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
def test_a_file_of_another_form_is_refused(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error names the command that makes such a file."""
    path = tmp_path / "election.json"
    path.write_text(text)
    assert complaint(capsys, *VERB, "--file", str(path)) == (
        f'option --file: {path} is not {{"partitions":[{{"topic":"t","partition":0}}]}}; '
        "kcm recommend --json makes one"
    )


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((), "--bootstrap-servers"),
        (
            ("--bootstrap-servers", "kafka1"),
            "option --bootstrap-servers: 'kafka1' is not host:port",
        ),
        ((*VERB[1:], "--chunk", "501"), "--chunk"),
        ((*VERB[1:], "--file", "x", "--broker", "1"), "give --file or --broker, not both"),
        (
            (*VERB[1:], "--file", "/nowhere/x"),
            "option --file: cannot read /nowhere/x: No such file",
        ),
        ((*VERB[1:], "--command-config", "/nowhere/x"), "/nowhere/x"),
    ],
)
def test_a_mistake_is_one_line(
    arguments: tuple[str, ...], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It names the option; the exit code is that of bad use."""
    assert named in complaint(capsys, "elect", *arguments)


def test_nothing_is_elected_unless_the_monitor_shows_that_cluster(
    cluster: Cluster, kafka: ElectingAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its figures must be live, which comes first, and Kafka must answer with the id of that cluster."""
    kafka.is_away = True
    assert complaint(capsys, *CONFIRMED, code=UnreachableError.exit_code) == (
        "Kafka at kafka1:9092 does not answer: connection refused; check --bootstrap-servers"
    )
    kafka.is_away = False
    kafka.cluster_id = "other"
    assert complaint(capsys, *CONFIRMED, code=BAD_USE) == (
        "Kafka at kafka1:9092 is cluster other, and the monitor's prod is played: correct "
        "--bootstrap-servers or --cluster; nothing was done"
    )
    cluster.cluster_id = None
    cluster.show()
    assert complaint(capsys, *CONFIRMED, code=UnreachableError.exit_code).startswith(
        "the monitor does not know the id of prod (/cluster/id), so nothing proves that Kafka at kafka1:9092 is"
    )
    cluster.served.now = T0 + 60_000
    kafka.is_away = True
    assert complaint(capsys, *CONFIRMED, code=UnreachableError.exit_code).startswith(
        "the monitor's figures of prod are behind, "
    )
    assert cluster.asked == []


def test_an_early_end_has_its_own_exit_code_and_a_summary(
    cluster: Cluster, kafka: ElectingAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    """What ended the run is on standard error, what was done on standard output, also after Ctrl-C."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    def goes_away() -> None:
        kafka.is_away = True

    cluster.after = {1: goes_away, 2: interrupt}
    assert main([*CONFIRMED, "--chunk", "2"]) == STOPPED
    out, err = capsys.readouterr()
    assert err == "kcm: stopped: Kafka did not answer for chunk 2: Local: Timed out\n"
    left = "were asked for, and were not seen to be led by their preferred replica"
    assert out.splitlines()[-3:] == [
        "done        2 of 7 elected, 0 did not need it",
        f"not seen    2 {left} (t-2, t-3)",
        "not tried   3",
    ]
    kafka.is_away = False
    assert main([*CONFIRMED, "--chunk", "2"]) == INTERRUPTED
    out, err = capsys.readouterr()
    assert err == ""
    assert out.splitlines()[-3:] == [
        "done        0 of 5 elected, 0 did not need it",
        f"not seen    2 {left} (t-2, t-3)",
        "not tried   3",
    ]


@pytest.mark.usefixtures("kafka")
def test_a_closed_output_stops_the_run(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing begins without a reader; where elections ran already, standard error has the summary."""
    for options, code in ((VERB, NOT_CONFIRMED), (CONFIRMED, STOPPED)):
        with piped(monkeypatch) as reading:
            os.close(reading)
            assert main(options) == code
    stopped = "kcm: stopped: the output was closed"
    assert capsys.readouterr().err == f"{stopped}; nothing was done\n"
    assert cluster.asked == []
    with piped(monkeypatch) as reading:
        cluster.after[1] = lambda: os.close(reading)
        assert main([*CONFIRMED, "--chunk", "3"]) == STOPPED
    assert capsys.readouterr().err == (
        f"{stopped}\nkcm: done        3 of 7 elected, 0 did not need it\nkcm: not tried   4\n"
    )
    assert cluster.asked == [[0, 1, 2]]


def test_a_plan_counts_a_reassigned_partition_as_still_imbalanced(cluster: Cluster) -> None:
    """What is left afterwards is what the exporter computes; of a part of it, it is not claimed."""
    cluster.adding = {4}
    cluster.show()
    api = api_of(cluster.served)
    whole = make_plan(api, "prod", None, None)
    assert (whole.before, whole.after) == (7, 1)
    part = make_plan(api, "prod", None, [TopicPartition("t", 0)])
    assert part.after is None
    assert plan_lines(part, 1)[-1] == "imbalance   7"
    cluster.adding = set()
    cluster.show()
    part = make_plan(api, "prod", 1, [TopicPartition("t", 0), TopicPartition("gone", 0)])
    assert part == Plan([TopicPartition("t", 0)], [TopicPartition("gone", 0)], 1, 7, 6)
