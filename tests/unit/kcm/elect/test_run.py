"""A run of elections: its chunks, and its summary."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pytest

from controller_model.kafka.ids import TopicPartition
from controller_model.records.completeness import Status
from controller_model.records.views import Capability
from kcm.elect.admin import ElectionRefusedError
from kcm.elect.run import POLL_INTERVAL_S, ElectionRun
from kcm.elect.watch import ClusterSample, ClusterWatch
from tests.support.elections import Cluster
from tests.support.in_process_api import api_of

NOT_SEEN = "were asked for, and were not seen to be led by their preferred replica"


def run_on(
    cluster: Cluster, *chunks: list[int], wait_s: float = 0
) -> tuple[ElectionRun, list[str]]:
    """Return a run over partitions of t, and the list of its lines."""
    said: list[str] = []
    run = ElectionRun(
        [[TopicPartition("t", number) for number in chunk] for chunk in chunks],
        elect=cluster.elect,
        watch=ClusterWatch(api_of(cluster.served), "prod"),
        pause_s=0,
        wait_s=wait_s,
        say=said.append,
    )
    return run, said


def test_each_chunk_is_elected_and_its_effect_is_checked(cluster: Cluster) -> None:
    """They run in order, with a line each; a partition that is already led as preferred is counted apart."""
    cluster.leaders[3] = cluster.leaders[4] = 1
    run, said = run_on(cluster, [0, 1, 3], [2, 4])
    assert run.run() is None
    assert cluster.asked == [[0, 1, 3], [2, 4]]
    assert [re.sub(r"after \d\.\d s", "after 0 s", line) for line in said] == [
        (
            "chunk 1 of 2: 2 elected, 1 did not need it; seen after 0 s, "
            "3 in the cluster are not led by their preferred replica"
        ),
        (
            "chunk 2 of 2: 1 elected, 1 did not need it; seen after 0 s, "
            "2 in the cluster are not led by their preferred replica"
        ),
    ]
    assert run.summary() == ["done        3 of 5 elected, 2 did not need it"]


def test_an_effect_that_comes_late_is_waited_for(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka may answer before the leader moves, and the monitor shows the move a moment later."""
    paused: list[float] = []

    def leader_moves(seconds: float) -> None:
        paused.append(seconds)
        cluster.leaders[0] = 1
        cluster.show()

    monkeypatch.setattr("kcm.elect.run.time.sleep", leader_moves)
    cluster.deaf.add(0)
    cluster.late[1] = "REQUEST_TIMED_OUT"
    run, _ = run_on(cluster, [0, 1], wait_s=60)
    assert run.run() is None
    assert paused == [POLL_INTERVAL_S]
    assert run.summary() == ["done        2 of 2 elected, 0 did not need it"]


def test_a_surprise_ends_the_wait_for_an_effect(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is reported at once, not when the time for the effect is over."""
    paused: list[float] = []

    def broker_dies(seconds: float) -> None:
        assert not paused
        paused.append(seconds)
        cluster.live.discard(2)
        cluster.show()

    monkeypatch.setattr("kcm.elect.run.time.sleep", broker_dies)
    cluster.deaf.add(0)
    run, _ = run_on(cluster, [0], wait_s=60)
    assert run.run() == "broker 2 is gone"
    assert paused == [POLL_INTERVAL_S]
    assert run.summary()[1:] == [f"not seen    1 {NOT_SEEN} (t-0)"]


def test_the_effect_is_the_leader_and_not_what_kafka_reports(cluster: Cluster) -> None:
    """A reassigned partition is led right though it counts as imbalanced; a deleted one is led by nobody."""

    def deleted() -> None:
        cluster.there = range(6)

    cluster.adding = {4}
    cluster.after[2] = deleted
    cluster.show()
    run, _ = run_on(cluster, [4], [5, 6])
    assert run.run() == (
        "1 of chunk 2 are not led by their preferred replica 0 s after the election, such as t-6"
    )
    assert run.summary() == [
        "done        2 of 3 elected, 0 did not need it",
        f"not seen    1 {NOT_SEEN} (t-6)",
    ]


def test_an_exporter_without_the_cluster_ends_the_run(cluster: Cluster) -> None:
    """Without figures the run does not continue."""
    cluster.after[1] = lambda: cluster.served.collector.update([], {})
    cluster.show = lambda: None  # type: ignore[method-assign]  # nothing is shown any more
    run, _ = run_on(cluster, [0], [1])
    assert str(run.run()).startswith("what happens cannot be seen: ")
    assert cluster.asked == [[0]]


def test_the_first_failure_ends_the_run_and_the_summary_counts_every_partition(
    cluster: Cluster,
) -> None:
    """One partition is refused, the effect of two is not seen, one is not tried."""
    cluster.refuses[1] = "PREFERRED_LEADER_NOT_AVAILABLE"
    cluster.deaf |= {2, 4}
    run, said = run_on(cluster, [0, 1, 2, 4], [3])
    assert run.run() == (
        "2 of chunk 1 are not led by their preferred replica 0 s after the election, such as t-2"
    )
    assert (cluster.asked, said) == ([[0, 1, 2, 4]], [])
    assert run.summary() == [
        "done        1 of 5 elected, 0 did not need it",
        "refused     1 PREFERRED_LEADER_NOT_AVAILABLE (t-1)",
        f"not seen    2 {NOT_SEEN} (t-2, t-4)",
        "not tried   1",
    ]


def test_a_refused_partition_ends_the_run_after_its_chunk(cluster: Cluster) -> None:
    """The errors are counted, the most frequent first."""
    cluster.refuses |= {
        1: "NOT_CONTROLLER",
        2: "PREFERRED_LEADER_NOT_AVAILABLE",
        3: "PREFERRED_LEADER_NOT_AVAILABLE",
    }
    run, said = run_on(cluster, [0, 1, 2, 3], [4])
    assert run.run() == "Kafka refused 3, such as t-1: NOT_CONTROLLER"
    assert len(said) == 1
    assert run.summary() == [
        "done        1 of 5 elected, 0 did not need it",
        "refused     2 PREFERRED_LEADER_NOT_AVAILABLE, 1 NOT_CONTROLLER (t-1, t-2, t-3)",
        "not tried   1",
    ]


def unanswered(cluster: Cluster, then: Callable[[], object]) -> ElectionRun:
    """Return a run of two chunks whose first request is lost, after which this happens and is shown."""

    def no_answer(_partitions: Sequence[TopicPartition]) -> dict[TopicPartition, str | None]:
        then()
        cluster.show()
        raise ElectionRefusedError("it timed out")

    run, _ = run_on(cluster, [0, 1], [2])
    run._elect = no_answer
    return run


def test_of_a_request_without_an_answer_counts_what_is_seen(cluster: Cluster) -> None:
    """What it elected is done; none of its other partitions counts as not tried."""
    run = unanswered(cluster, lambda: cluster.leaders.__setitem__(1, 1))
    assert run.run() == "Kafka did not answer for chunk 1: it timed out"
    assert run.summary() == [
        "done        1 of 3 elected, 0 did not need it",
        f"not seen    1 {NOT_SEEN} (t-0)",
        "not tried   1",
    ]


def test_a_request_without_an_answer_is_explained_by_what_is_seen(cluster: Cluster) -> None:
    """A controller that was deposed never answers; who it was then is the reason."""
    run = unanswered(cluster, lambda: setattr(cluster, "controller", 2))
    assert run.run() == (
        "Kafka did not answer for chunk 1: it timed out; the controller changed: broker 0, epoch 7, "
        "is now broker 2, epoch 9"
    )


def test_a_request_without_an_answer_and_without_figures_may_have_elected_all(
    cluster: Cluster,
) -> None:
    """Kafka's silence stays the reason, as nothing else is known."""

    def nothing_is_shown() -> None:
        cluster.served.collector.update([], {})
        cluster.show = lambda: None  # type: ignore[method-assign]

    run = unanswered(cluster, nothing_is_shown)
    assert run.run() == "Kafka did not answer for chunk 1: it timed out"
    assert run.summary() == [
        "done        0 of 3 elected, 0 did not need it",
        f"not seen    2 {NOT_SEEN} (t-0, t-1)",
        "not tried   1",
    ]


def test_a_partition_that_loses_its_preferred_leader_again_ends_the_run(cluster: Cluster) -> None:
    """Whether elected or not needed, such a partition is counted as lost only."""

    def loses() -> None:
        cluster.leaders[0] = cluster.leaders[2] = 0

    cluster.leaders[2] = cluster.leaders[3] = cluster.leaders[5] = 1
    cluster.after[2] = loses
    run, _ = run_on(cluster, [0, 1, 2, 3, 5, 6], [4])
    assert run.run() == "2 lost their preferred leader again, such as t-0"
    assert run.summary() == [
        "done        2 of 7 elected, 2 did not need it",
        f"not seen    1 {NOT_SEEN} (t-4)",
        (
            "lost again  2 had their preferred replica as leader, and another leads them now "
            "(t-0, t-2)"
        ),
    ]


def test_a_cluster_without_a_controller_gets_no_election_request(cluster: Cluster) -> None:
    """The cluster is checked before the first election."""
    cluster.controller = -1
    cluster.show()
    run, _ = run_on(cluster, [0])
    assert run.run() == "the cluster has no controller"
    assert cluster.asked == []
    assert run.summary() == ["done        0 of 1 elected, 0 did not need it", "not tried   1"]


class Late:
    """Makes the figures lag for a number of samples, from the second on, and records the elections by then."""

    def __init__(self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, looks: int) -> None:
        self.asked_meanwhile: list[int] = []
        self.pauses: list[float] = []
        self._cluster = cluster
        self._left = iter([False, *[True] * looks])
        self._sample = ClusterWatch.sample

        def sample(watch: ClusterWatch) -> ClusterSample:
            return self.poll(watch)

        monkeypatch.setattr(ClusterWatch, "sample", sample)
        monkeypatch.setattr("kcm.elect.run.time.sleep", self.pauses.append)

    def poll(self, watch: ClusterWatch) -> ClusterSample:
        """Return the sample, with the current status."""
        sample = self._sample(watch)
        if not next(self._left, False):
            return sample
        self.asked_meanwhile.append(len(self._cluster.asked))
        return sample._replace(status=Status.BEHIND)


def test_an_election_waits_while_the_figures_are_behind(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is elected meanwhile, and afterwards everything is."""
    late = Late(cluster, monkeypatch, looks=3)
    run, _ = run_on(cluster, [0], [1], wait_s=60)
    assert run.run() is None
    assert late.asked_meanwhile == [0, 0, 0]
    assert late.pauses[:3] == [POLL_INTERVAL_S] * 3
    assert cluster.asked == [[0], [1]]


def test_figures_that_stay_behind_end_the_run(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the time that an effect may take, this is a surprise like any other."""
    Late(cluster, monkeypatch, looks=1000)
    run, _ = run_on(cluster, [0])
    assert run.run() == "the monitor's figures are behind: it cannot be seen what happens"
    assert cluster.asked == []


@pytest.mark.parametrize("hidden", Capability)
def test_what_cannot_be_seen_ends_the_run_where_it_is_needed(
    cluster: Cluster, hidden: Capability
) -> None:
    """Nothing is elected whose effect on brokers, controller or partitions would not be seen."""
    cluster.hidden = (hidden,)
    cluster.show()
    run, _ = run_on(cluster, [0])
    ended = run.run()
    if hidden is Capability.BROKER_CONFIGS:  # Kafka's own ACLs hide them from everybody
        assert ended is None
        return
    of_samples = {Capability.CONTROLLER, Capability.BROKERS, Capability.TOPICS}
    is_needed = hidden in of_samples | {Capability.DELETIONS}
    assert ended == (
        "what happens cannot be seen: a part of the cluster is not known: the watcher may not read it"
        if is_needed
        else "the monitor's figures are incomplete: it cannot be seen what happens"
    )
    assert cluster.asked == []


def test_a_broker_that_dies_in_the_pause_ends_the_run_before_the_next_chunk(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cluster is checked after the pause, so that a broker that dies in it stops the run."""

    def broker_dies(_seconds: float) -> None:
        cluster.live.discard(2)
        cluster.show()

    monkeypatch.setattr("kcm.elect.run.time.sleep", broker_dies)
    run, _ = run_on(cluster, [0], [1])
    assert run.run() is not None
    assert cluster.asked == [[0]]
    assert "not tried   1" in run.summary()
