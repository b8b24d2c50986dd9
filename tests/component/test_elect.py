"""`kcm elect` against the exporter's real server: what it refuses, what it watches, where it stops.

Kafka is played here, since a real one does not fail on request; a story on a real one stands among
the system tests.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controller_model.changes import SessionState
from controller_model.ids import TopicPartition
from controller_model.views import ControllerView, Counts
from exporter.server import HttpServer
from kcm.__main__ import main
from kcm.api_client import ExporterApi
from kcm.elect import make_plan, read_election, run_and_tell
from kcm.elect_kafka import NOT_NEEDED, ElectionRefusedError, Elections
from kcm.elect_run import ElectionRun, Pace
from kcm.elect_watch import ClusterWatch
from kcm.stack.ports import free_port
from pipeline.runtime import UsageError
from tests.unit.exporter.api_server import Served
from tests.unit.exporter.samples import T0, as_of, broker_view, cluster_view, log_view, topic_view

PARTITIONS = 7
"""Of topic t, whose preferred replica is broker 1 and whose leader is broker 0."""


class Cluster:
    """A played cluster, shown by the real exporter; it elects when it is asked to."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.leaders = [0] * PARTITIONS
        self.live = {0, 1, 2}
        self.controller = 0
        self.session = SessionState.CONNECTED
        self.offline = 0
        self.cluster_id: str | None = "played"
        self.asked: list[list[int]] = []
        self.after: dict[int, Callable[[], None]] = {}
        """What else happens with the request of this number, from 1."""
        self.refuses: dict[int, str] = {}
        """Errors by partition; such a partition keeps its leader."""
        self.deaf: set[int] = set()
        """Partitions that Kafka says were elected and whose leader does not move."""
        self._seq = itertools.count(1)

    def show(self) -> None:
        """Let the exporter show how it is."""
        at = as_of(next(self._seq))
        wrong = sum(leader != 1 for leader in self.leaders)
        self.served.write(
            *(broker_view(id_, at, live=id_ in self.live) for id_ in range(3)),
            topic_view(
                "t",
                at,
                partitions=tuple(range(PARTITIONS)),
                replicas=((1, 0),) * PARTITIONS,
                leader=tuple(self.leaders),
                isr=((0, 1),) * PARTITIONS,
                leader_epoch=(1,) * PARTITIONS,
                controller_epoch=(7,) * PARTITIONS,
                partition_epoch=(1,) * PARTITIONS,
                leader_recovery_state=(None,) * PARTITIONS,
            ),
            cluster_view(
                at=at,
                cluster_id=self.cluster_id,
                brokers_live=tuple(sorted(self.live)),
                brokers_known=(0, 1, 2),
                log=log_view(session=self.session),
                controller=ControllerView(id=self.controller, epoch=7 + self.controller),
                counts=Counts(
                    topics=1,
                    partitions=PARTITIONS,
                    offline=self.offline,
                    preferred_imbalance=wrong,
                    preferred_electable=wrong,
                ),
            ),
        )

    def elect(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, str | None]:
        """Elect the preferred replicas, as Kafka does."""
        self.asked.append([p.partition for p in partitions])
        answer: dict[TopicPartition, str | None] = {}
        for each in partitions:
            error = self.refuses.get(each.partition)
            if error is None and self.leaders[each.partition] == 1:
                error = NOT_NEEDED
            if error is None and each.partition not in self.deaf:
                self.leaders[each.partition] = 1
            answer[each] = error
        self.after.get(len(self.asked), lambda: None)()
        self.show()
        return answer


@pytest.fixture
def cluster() -> Cluster:
    """A played cluster."""
    played = Cluster(Served())
    played.show()
    return played


@pytest.fixture
def url(cluster: Cluster) -> Iterator[str]:
    """The exporter that shows it."""
    with HttpServer(cluster.served.app, "127.0.0.1", 0) as server:
        yield server.url


class Ran:
    """A run that has ended."""

    def __init__(self, cluster: Cluster, url: str, *, chunk: int = 3) -> None:
        api = ExporterApi(url)
        plan = make_plan(api, "prod", None, None)
        chunks = [plan.partitions[at : at + chunk] for at in range(0, len(plan.partitions), chunk)]
        self.said: list[str] = []
        run = ElectionRun(
            chunks,
            kafka=cluster,
            watch=ClusterWatch(api, "prod"),
            pace=Pace(pause_s=0.01, wait_s=1.0),
            say=self.said.append,
        )
        self.surprise = run.run()
        self.summary = "\n".join(run.summary())


def test_all_that_is_recommended_is_elected_in_chunks(cluster: Cluster, url: str) -> None:
    """Each chunk is asked for once, in order, and its effect is seen before the next."""
    ran = Ran(cluster, url)
    assert ran.surprise is None
    assert cluster.asked == [[0, 1, 2], [3, 4, 5], [6]]
    assert cluster.leaders == [1] * PARTITIONS
    assert [line.split(";")[0] for line in ran.said] == [
        "chunk 1 of 3: 3 elected, 0 did not need it",
        "chunk 2 of 3: 3 elected, 0 did not need it",
        "chunk 3 of 3: 1 elected, 0 did not need it",
    ]
    assert ran.said[-1].endswith("0 in the cluster are not led by their preferred replica")
    assert ran.summary == "done        7 of 7 elected, 0 did not need it"


def test_a_partition_that_is_led_right_meanwhile_is_no_surprise(cluster: Cluster, url: str) -> None:
    """Kafka's ELECTION_NOT_NEEDED is counted apart, and all goes on."""

    def meanwhile() -> None:
        cluster.leaders[4] = 1

    cluster.after[1] = meanwhile
    ran = Ran(cluster, url)
    assert ran.surprise is None
    assert ran.summary == "done        6 of 7 elected, 1 did not need it"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"controller": 2}, "the controller changed: broker 0, epoch 7, is now broker 2, epoch 9"),
        ({"controller": -1}, "no controller"),
        ({"live": {0, 1}}, "broker 2 is gone"),
        ({"live": {1}}, "brokers 0, 2 are gone"),
        ({"offline": 1}, "partitions went offline: 1 are, 0 were"),
        ({"session": SessionState.SUSPENDED}, "figures are blind"),
    ],
)
def test_what_elections_do_not_do_ends_the_run(
    cluster: Cluster, url: str, change: dict[str, Any], told: str
) -> None:
    """After a surprise nothing more is asked for, and what is open is told as such."""
    cluster.after[2] = lambda: cluster.__dict__.update(change)
    ran = Ran(cluster, url)
    assert told in str(ran.surprise)
    assert len(cluster.asked) == 2
    assert "done        3 of 7 elected" in ran.summary
    assert "not seen    3" in ran.summary
    assert "not tried   1" in ran.summary


def test_a_refused_partition_ends_the_run_after_the_effect_of_the_others(
    cluster: Cluster, url: str
) -> None:
    """Kafka's name of the error is told with the partition; the rest of its chunk is accounted for."""
    cluster.refuses[1] = "PREFERRED_LEADER_NOT_AVAILABLE"
    ran = Ran(cluster, url)
    assert ran.surprise == "Kafka refused 1, such as t-1: PREFERRED_LEADER_NOT_AVAILABLE"
    assert cluster.asked == [[0, 1, 2]]
    assert "done        2 of 7 elected" in ran.summary
    assert "refused     1 PREFERRED_LEADER_NOT_AVAILABLE (t-1)" in ran.summary
    assert "not tried   4" in ran.summary


def test_an_effect_that_is_not_seen_ends_the_run(cluster: Cluster, url: str) -> None:
    """Kafka's word is not enough: the monitor must show the new leader in time."""
    cluster.deaf.add(4)
    ran = Ran(cluster, url)
    assert "1 of chunk 2 are not led by their preferred replica 1 s after" in str(ran.surprise)
    assert "t-4" in str(ran.surprise)
    assert "done        5 of 7 elected" in ran.summary
    assert "not seen    1 were asked for" in ran.summary


def test_a_kafka_that_does_not_answer_leaves_its_chunk_open(cluster: Cluster, url: str) -> None:
    """Whether it elected is not known, and not claimed either way."""

    def silent() -> None:
        raise ElectionRefusedError("timed out")

    cluster.after[1] = silent
    ran = Ran(cluster, url)
    assert ran.surprise == "Kafka did not answer for chunk 1: timed out"
    assert "not seen    3" in ran.summary
    assert "not tried   4" in ran.summary


def test_an_exporter_that_goes_ends_the_run(cluster: Cluster, url: str) -> None:
    """What cannot be seen is not gone on with."""
    cluster.after[1] = lambda: cluster.served.collector.update([], {})
    cluster.show = lambda: None  # type: ignore[method-assign]  # nothing is shown any more
    ran = Ran(cluster, url)
    assert "what happens cannot be seen" in str(ran.surprise)
    assert len(cluster.asked) == 1


def test_ctrl_c_tells_what_was_done(
    cluster: Cluster, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever interrupts it still learns what was elected and what is open."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    cluster.after[2] = interrupt
    api = ExporterApi(url)
    chunks = [[TopicPartition("t", 0)], [TopicPartition("t", 1)], [TopicPartition("t", 2)]]
    run = ElectionRun(
        chunks,
        kafka=cluster,
        watch=ClusterWatch(api, "prod"),
        pace=Pace(pause_s=0, wait_s=1.0),
        say=lambda _: None,
    )
    with pytest.raises(KeyboardInterrupt):
        run_and_tell(run)
    told = capsys.readouterr().out
    assert "done        1 of 3 elected" in told
    assert "not seen    1" in told
    assert "not tried   1" in told


def test_only_what_can_be_elected_now_is_taken_of_a_file(cluster: Cluster, url: str) -> None:
    """A file may be old: what is led right already, or does not exist, is skipped and told."""
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


def test_kafka_that_is_away_is_one_line(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is planned before it is known to be the same cluster."""
    away = f"127.0.0.1:{free_port()}"
    line = complaint(capsys, "--exporter", url, "--bootstrap-servers", away, code=3)
    assert away in line


def test_an_election_that_nobody_answers_ends_in_time() -> None:
    """Kafka may go between the plan and the election: the request ends, and says that it failed."""
    kafka = Elections(f"127.0.0.1:{free_port()}", None, within_s=1.0)
    began = time.monotonic()
    with pytest.raises(ElectionRefusedError):
        kafka.elect([TopicPartition("t", 0)])
    assert time.monotonic() - began < 10


def test_figures_that_are_not_live_are_not_acted_on(
    cluster: Cluster, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command ends before Kafka is asked anything."""
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
