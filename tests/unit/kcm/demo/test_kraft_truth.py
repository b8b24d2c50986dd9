"""The truth of a KRaft cluster: recorded folders of a real one, and the log of a small one that is known in full."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from controller_model.kafka import metadata_records as kafka
from kcm.demo.figures import TrueFigures
from kcm.demo.kraft_truth import QuorumTruth, ReplayedMetadata
from kcm.servers.quorum import Leader, read_leader
from tests.support import metadata_folders
from tests.support.kraft_cluster import KraftCluster


def controller(folder: Path, *, running: bool = True) -> Any:
    """Return a controller that has this folder."""
    return SimpleNamespace(
        log_dir=folder, running=running, known_leader=lambda: read_leader(folder)
    )


def read(controllers: dict[int, Any]) -> tuple[QuorumTruth, TrueFigures]:
    """Return the truth of these controllers' folders, and its figures."""
    truth = QuorumTruth(controllers)
    truth._poll()
    assert truth.observations.figures is not None
    return truth, truth.observations.figures


def test_only_committed_records_count(tmp_path: Path) -> None:
    """The one that went on without its quorum created a topic, and a record of it is in its files: it does not exist."""
    recorded = metadata_folders.unpack(tmp_path)
    abandoned = {3002: controller(tmp_path / metadata_folders.ABANDONED)}
    truth, figures = read(abandoned)
    assert [*truth._image.leaders] == [Leader(*each) for each in recorded.leaders[:2]]
    assert figures.topics == len({"orders", "clicks"})
    successor = {3003: controller(tmp_path / metadata_folders.VOTER)}
    truth, figures = read(abandoned | successor)
    assert [*truth._image.leaders] == [Leader(*each) for each in recorded.leaders]
    assert (figures.controller, figures.epoch, figures.voters) == (*recorded.leaders[-1], 3)
    assert figures.brokers == recorded.live
    assert figures.topics == len(
        {"orders", "clicks"}
    )  # those after them: one controller alone proves nothing


def test_a_leader_whose_process_has_ended_is_no_controller(tmp_path: Path) -> None:
    """Its files go on saying that it leads."""
    metadata_folders.unpack(tmp_path)
    folder = tmp_path / metadata_folders.VOTER
    assert read({3003: controller(folder, running=False)})[1].controller == -1


def test_elections_are_counted_from_the_first_step_on(tmp_path: Path) -> None:
    """Before it nothing is counted; after it, what was committed since."""
    metadata_folders.unpack(tmp_path)
    truth, figures = read({3003: controller(tmp_path / metadata_folders.VOTER)})
    assert (figures.elections, figures.unclean, figures.candidacies) == (None, None, None)
    truth.begin()
    truth._image.leaders.append(Leader(3001, 7))
    truth._poll()
    assert truth.observations.figures is not None
    counted = truth.observations.figures
    assert (counted.elections, counted.unclean, counted.candidacies) == (1, 0, 2)


def eventful() -> KraftCluster:
    """Return a cluster that has had all that the story does to one."""
    cluster = KraftCluster(elr=True)
    for broker in (0, 1, 2):
        cluster.register(broker)
        cluster.unfence(broker)
    for name, factor in (("a", 3), ("b", 2), ("c", 2), ("d", 3)):
        cluster.create(name, 3, factor)
    for name in ("b", "c", "d"):
        cluster.configure(name, kafka.MIN_ISR, "1")
    cluster.fence(1)
    cluster.stop(2)
    cluster.fence(2)
    cluster.delete("d")
    cluster.elect(3001, after_ms=3000, candidacies=2)
    cluster.unfence(1)
    for number in range(3):
        cluster.elect_unclean("b", number)
    return cluster


def figures_of(cluster: KraftCluster) -> dict[str, Any]:
    """Count a cluster's own tables."""
    parts = [each for topic in cluster.parts.values() for each in topic.values()]
    live = tuple(sorted(b for b, each in cluster.brokers.items() if not each.fenced))
    return {
        "brokers": live,
        "fenced": tuple(sorted(cluster.brokers.keys() - {*live})),
        "topics": len(cluster.topics),
        "partitions": len(parts),
        "offline": sum(each.leader < 0 for each in parts),
        "under_replicated": sum(len(each.isr) < len(each.replicas) for each in parts),
        "imbalance": sum(each.leader != each.replicas[0] for each in parts),
        "elr": sum(bool(each.elr) for each in parts),
        "empty_isr": sum(not each.isr for each in parts),
        "under_min_isr": sum(
            each.leader >= 0 and len(each.isr) < cluster._least(name, each)
            for name, number, each in cluster._all()
        ),
        "unclean": cluster.unclean_elections,
        "elections": cluster.elections,
        "candidacies": cluster.candidacies,
        "epoch": cluster.epoch,
    }


@pytest.mark.parametrize("what", ["elr", "empty_isr", "under_min_isr", "unclean", "candidacies"])
def test_the_small_cluster_has_something_of_each(what: str) -> None:
    """Otherwise the comparison would prove nothing."""
    cluster = KraftCluster(elr=True)
    assert figures_of(eventful())[what] > figures_of(cluster)[what]


def test_an_image_equals_the_cluster_that_wrote_the_log() -> None:
    """Each figure, after the last record."""
    cluster = eventful()
    image = ReplayedMetadata()
    for batch in cluster.log:
        for record in batch.records:
            image.apply(record)
    figures = image.figures(-1)
    expected = figures_of(cluster)
    assert {name: getattr(figures, name) for name in expected} == expected
