"""A run of `kcm elect` against the exporter's real server: what it watches, and where it stops.

Kafka is played here, since a real one does not fail on request; a story on a real one is among
the system tests.
"""

from __future__ import annotations

import os
import sys

import pytest

from controller_model.kafka.ids import TopicPartition
from kcm.cli.exits import STOPPED
from kcm.elect.elect import _say, run_and_report
from kcm.elect.run import ElectionRun
from kcm.elect.watch import ClusterWatch
from kcm.queries.api_client import ExporterApi
from tests.support.elections import PARTITIONS, Cluster, Ran


def test_all_recommended_partitions_are_elected_in_chunks(cluster: Cluster, url: str) -> None:
    """Each chunk is requested once, in order, and its effect is seen before the next."""
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


def test_a_partition_deleted_before_its_election_is_not_counted_as_elected(
    cluster: Cluster, url: str
) -> None:
    """A partition that is not listed any more does not count as elected, also if Kafka says so."""

    def deleted() -> None:
        cluster.there = range(3)

    cluster.after[2] = deleted
    ran = Ran(cluster, url)
    assert "3 of chunk 2 are not led by their preferred replica" in str(ran.surprise)
    assert "done        3 of 7 elected" in ran.summary
    assert "not seen    3 were asked for" in ran.summary


def test_a_partition_that_is_being_reassigned_is_seen_to_be_led(cluster: Cluster, url: str) -> None:
    """Kafka counts it as imbalanced though it is led right, so its leader is what counts."""
    cluster.adding = {4, 6}
    cluster.show()
    ran = Ran(cluster, url)
    assert ran.surprise is None
    assert ran.summary == "done        7 of 7 elected, 0 did not need it"


def test_an_exporter_without_the_cluster_ends_the_run(cluster: Cluster, url: str) -> None:
    """Without figures the run does not continue."""
    cluster.after[1] = lambda: cluster.served.collector.update([], {})
    cluster.show = lambda: None  # type: ignore[method-assign]  # nothing is shown any more
    ran = Ran(cluster, url)
    assert "what happens cannot be seen" in str(ran.surprise)
    assert len(cluster.asked) == 1


def test_ctrl_c_prints_the_summary(
    cluster: Cluster, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """After an interrupt the summary shows what was elected and what is open."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    cluster.after[2] = interrupt
    api = ExporterApi(url)
    chunks = [[TopicPartition("t", 0)], [TopicPartition("t", 1)], [TopicPartition("t", 2)]]
    run = ElectionRun(
        chunks,
        elect=cluster.elect,
        watch=ClusterWatch(api, "prod"),
        pause_s=0,
        wait_s=1.0,
        say=lambda _: None,
    )
    with pytest.raises(KeyboardInterrupt):
        run_and_report(run)
    answer = capsys.readouterr().out
    assert "done        1 of 3 elected" in answer
    assert "not seen    1" in answer
    assert "not tried   1" in answer


def test_a_closed_output_stops_the_run_and_reports_on_standard_error(
    cluster: Cluster, url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a closed pipe the summary is on standard error, and the exit code shows an early end."""
    api = ExporterApi(url)
    chunks = [[TopicPartition("t", number)] for number in range(3)]
    run = ElectionRun(
        chunks,
        elect=cluster.elect,
        watch=ClusterWatch(api, "prod"),
        pause_s=0,
        wait_s=1.0,
        say=_say,
    )
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as nobody:
        monkeypatch.setattr(sys, "stdout", nobody)
        code = run_and_report(run)
        monkeypatch.undo()
    assert code == STOPPED
    assert cluster.asked == [[0]]
    answer = capsys.readouterr().err
    assert "kcm: done        1 of 3 elected" in answer
    assert "kcm: not tried   2" in answer
    assert "stopped: the output was closed" in answer
