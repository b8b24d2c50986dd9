"""The rows and pictures that the live page is sent."""

from __future__ import annotations

from typing import Any

import msgspec

from controller_model.insight.thresholds import THRESHOLDS
from controller_model.metrics.metric import Moment
from controller_model.records.completeness import Completeness, Stage, Status
from controller_model.records.quorum import QuorumView
from controller_model.records.views import ABSENT_IN_KRAFT, ControllerView, Counts
from exporter.api.problems import problems_of
from exporter.core.records import ClusterSnapshot
from exporter.live.picture import badness, cluster_picture, failed_row, fleet_row
from tests.support.samples import T0, broker_view, cluster_view, log_view

LIVE = Completeness(status=Status.LIVE, since=None, stage=None, verified_at=T0)


def snapshot(name: str = "prod", **fields: Any) -> ClusterSnapshot:
    """Return a cluster of no broker."""
    return ClusterSnapshot(
        name=name, partition=0, view=cluster_view(name, **fields), brokers={}, topics={}
    )


def row(shown: ClusterSnapshot, completeness: Completeness) -> dict[str, Any]:
    """Return a cluster's row, with the problems that it has."""
    moment = Moment(completeness=completeness, behind_ms={}, vacant_ms=None)
    return fleet_row(shown, completeness, problems_of(shown, moment, T0, THRESHOLDS))


def test_the_fleet_lists_the_worst_cluster_first() -> None:
    """Unknown and not followed, no controller, by partitions, then by other problems."""
    behind = Completeness(status=Status.BEHIND, since=1, stage=Stage.WATCHER, verified_at=None)
    clusters = [
        (snapshot(name="a-well"), LIVE),
        (
            snapshot(name="b-migrating", log=log_view(kraft_since=T0)),
            LIVE,
        ),
        (snapshot(name="c-under-replicated", counts=Counts(under_replicated=1)), LIVE),
        (snapshot(name="d-offline", counts=Counts(offline=1)), LIVE),
        (snapshot(name="e-more-offline", counts=Counts(offline=2)), LIVE),
        (snapshot(name="f-nobody", controller=ControllerView(id=-1)), LIVE),
        (snapshot(name="g-behind"), behind),
    ]
    rows = [row(each, completeness) for each, completeness in clusters]
    rows = sorted([*rows, failed_row("h-failed")], key=badness)
    assert [each["name"][0] for each in rows] == list("hgfedcba")
    assert rows[-1]["headline"] is None
    assert rows[1]["status"] == "behind"


def test_the_row_of_a_cluster_whose_update_failed_has_no_figures() -> None:
    """It has the fields of any row, so that the page can show it, and refers to the log."""
    failed = failed_row("prod")
    judged = row(snapshot(), LIVE)
    assert failed.keys() == judged.keys()
    assert failed["counts"].keys() == msgspec.structs.asdict(judged["counts"]).keys()
    assert set(failed["counts"].values()) == {None}
    assert (failed["status"], failed["severity"]) == (None, "warning")
    assert "see its log" in failed["headline"]


def test_a_row_says_whether_the_controller_is_a_broker() -> None:
    """In a KRaft cluster it need not be one; without that, and while nobody is known, it counts as one."""

    def is_broker(shown: ClusterSnapshot) -> bool:
        found: bool = row(shown, LIVE)["controller"]["is_broker"]
        return found

    kraft: Any = {"log": log_view(absent=ABSENT_IN_KRAFT)}
    in_quorum = snapshot(controller=ControllerView(id=3000), **kraft)
    assert not is_broker(in_quorum)
    combined = msgspec.structs.replace(in_quorum, brokers={3000: broker_view(3000)})
    assert is_broker(combined)
    assert is_broker(snapshot(controller=ControllerView(id=3000)))
    assert is_broker(snapshot(controller=None, **kraft))


def test_a_picture_lists_at_most_three_partitions_of_an_event() -> None:
    """The API lists more of them, and has the fields that only programs need."""
    partitions = [{"topic": "t", "partition": number} for number in range(9)]
    event = {"id": "L1/1/1/0", "kind": "IsrShrunk", "source_number": "1", "position": {"seq": 1}}
    wide = event | {"partitions": partitions, "partition_count": 9}
    counted = event | {"partitions": 4}
    picture = cluster_picture(snapshot(), [], [wide, counted], [], T0)
    shown = {"id": "L1/1/1/0", "kind": "IsrShrunk"}
    assert picture["events"] == [
        shown | {"partitions": partitions[:3], "partition_count": 9},
        shown | {"partitions": 4},
    ]
    assert (picture["name"], picture["problems"], picture["elections"]) == ("prod", [], [])
    assert picture["elections_from"] == T0


def test_a_picture_says_which_controllers_may_be_stopped() -> None:
    """With what that does to the quorum; what is not known has no verdict, and a cluster in ZooKeeper has none to list."""
    assert cluster_picture(snapshot(), [], [], [], T0)["controllers_if_lost"] == []
    quorum = QuorumView(voters=(3000, 3001, 3002))
    shown = snapshot(quorum=quorum, controllers_safe_to_stop={3000: False})
    (first, second, _) = cluster_picture(shown, [], [], [], T0)["controllers_if_lost"]
    assert (first["id"], first["safe"]) == (3000, False)
    assert (second["id"], second["safe"]) == (3001, None)
    assert "needs DESCRIBE on Cluster" in second["text"]
