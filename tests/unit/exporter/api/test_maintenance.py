"""Planned work as the exporter shows it: while it lasts, and how far it has come."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller_model.records.views import BrokerView
from exporter.core.render import Format
from exporter.intake.maintenance import Progress, progress_of
from pipeline.maintenance import VERSION, PlannedWork
from tests.support.api_server import Served
from tests.support.samples import T0, broker_view, cluster_view

EPOCH = 2**60 + 1
"""The epoch of the samples' brokers."""


def work(broker: int, cluster: str = "prod", **fields: Any) -> PlannedWork:
    """Return work that was planned a second ago for a minute, but for these fields."""
    planned = PlannedWork(
        v=VERSION,
        cluster=cluster,
        broker=broker,
        started_at=T0 - 1000,
        until=T0 + 60_000,
        epoch=EPOCH,
    )
    return msgspec.structs.replace(planned, **fields)


def served(*works: PlannedWork) -> Served:
    """Return a server of brokers 0 and 1 with these marks."""
    shown = Served()
    shown.write(broker_view(0), broker_view(1), cluster_view())
    shown.collector.planned.show({(each.cluster, each.broker): each for each in works})
    return shown


def samples(shown: Served, now: int = T0) -> list[str]:
    """Return the lines about planned work."""
    body = shown.collector.scrape(Format.TEXT, now).decode()
    return [line for line in body.splitlines() if line.startswith("kcm_broker_maintenance")]


def test_a_mark_is_a_metric_while_it_lasts() -> None:
    """It is 1 with the time of its end, and absent from that moment on, without anybody's help."""
    shown = served(work(1))
    labels = '{cluster="prod",broker="1"}'
    end_s = (T0 + 60_000) / 1000
    wanted = [
        f"kcm_broker_maintenance{labels} 1",
        f"kcm_broker_maintenance_end_timestamp_seconds{labels} {end_s}",
    ]
    assert samples(shown) == wanted
    assert samples(shown, T0 + 59_999) == wanted
    assert samples(shown, T0 + 60_000) == []


def test_without_marks_there_is_no_sample() -> None:
    """No planned work is no series, and marks of clusters that are not shown are none."""
    assert samples(served()) == []
    assert samples(served(work(1, "other"))) == []


def test_the_brokers_carry_their_marks() -> None:
    """The list of brokers and the list of planned work tell the same."""
    shown = served(work(1, reason="3.9.1"))
    (planned,) = shown.json("/api/v1/clusters/prod/maintenance")["planned"]
    assert planned == {
        "broker": 1,
        "started_at": T0 - 1000,
        "until": T0 + 60_000,
        "reason": "3.9.1",
        "epoch": str(EPOCH),
        "progress": "waiting",
        "since": T0,
        "in_isr": 0,
        "replicas": 0,
    }
    brokers = shown.json("/api/v1/clusters/prod/brokers")["brokers"]
    assert [broker["maintenance"] for broker in brokers] == [None, planned]
    shown.now = T0 + 60_000
    assert shown.json("/api/v1/clusters/prod/maintenance")["planned"] == []


def test_a_mark_of_an_unknown_broker_is_listed_without_progress() -> None:
    """Nothing is claimed about a broker that the figures do not know."""
    (planned,) = served(work(9)).json("/api/v1/clusters/prod/maintenance")["planned"]
    assert (planned["progress"], planned["replicas"]) == (None, None)


@pytest.mark.parametrize(
    ("broker", "progress"),
    [
        (broker_view(1, replicas=5, in_isr=5), Progress.WAITING),
        (broker_view(1, replicas=5, in_isr=4), Progress.WAITING),
        (broker_view(1, live=False, replicas=5), Progress.DOWN),
        (broker_view(1, live=False, epoch=EPOCH + 1), Progress.DOWN),
        (broker_view(1, epoch=EPOCH + 1, replicas=5, in_isr=4), Progress.BACK),
        (broker_view(1, epoch=EPOCH + 1, replicas=5, in_isr=5), Progress.CAUGHT_UP),
        (None, None),
    ],
)
def test_progress_follows_the_brokers_epoch(
    broker: BrokerView | None, progress: Progress | None
) -> None:
    """Another epoch than the mark's means that it has started anew, whatever clocks say."""
    assert progress_of(broker, work(1)) is progress


def test_a_broker_that_was_down_when_it_was_marked_is_back_with_a_new_epoch() -> None:
    """Its last epoch stands in the mark; one that never registered has none."""
    assert progress_of(broker_view(1, live=False), work(1)) is Progress.DOWN
    never = work(1, epoch=None)
    assert progress_of(broker_view(1, epoch=7), never) is Progress.CAUGHT_UP
