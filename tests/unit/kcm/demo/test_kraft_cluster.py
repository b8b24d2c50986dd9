"""What Kafka's own client says is compared with the truth and with what is served: each difference is named."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.demo.figures import TrueFigures
from kcm.demo.kafka_admin import MANY_RECORDS, Described
from kcm.demo.kraft_cluster import _contradiction
from kcm.demo.monitor import BROKER_LAG, CONTROLLER_LAG
from kcm.run.exporter_client import Scrape

TRUTH = TrueFigures(
    controller=3001,
    epoch=7,
    elections=3,
    brokers=(0, 1),
    leaders=(),
    not_led=(),
    topics=1,
    partitions=2,
    offline=0,
    under_replicated=0,
    imbalance=0,
    fenced=(2,),
    elr=1,
    empty_isr=0,
    under_min_isr=0,
    unclean=0,
    voters=2,
    candidacies=0,
)
TOLD = Described(
    leader=3001,
    epoch=7,
    voters=(3001, 3002),
    observers=(0, 1, 2),
    behind=(2,),
    fetched={},
    brokers=(0, 1),
    fenced=(2,),
    elr=1,
)
SHOWN: Scrape = {
    **{(CONTROLLER_LAG, node): 0.0 for node in ("3001", "3002")},
    **{(BROKER_LAG, broker): 0.0 for broker in ("0", "1")},
    (BROKER_LAG, "2"): MANY_RECORDS + 1.0,
}


def test_what_agrees_is_no_contradiction() -> None:
    """A replica that lacks some records, as each does at times, follows."""
    assert _contradiction(TOLD, TRUTH, SHOWN) == ""
    assert _contradiction(TOLD, TRUTH, SHOWN | {(BROKER_LAG, "0"): float(MANY_RECORDS)}) == ""


@pytest.mark.parametrize(
    ("field", "value", "name"),
    [
        ("leader", 3002, "controller"),
        ("epoch", 8, "epoch"),
        ("voters", (3001,), "voters"),
        ("brokers", (0, 1, 2), "brokers"),
        ("fenced", (), "fenced"),
        ("elr", 0, "elr"),
    ],
)
def test_each_figure_of_kafkas_client_is_compared(field: str, value: Any, name: str) -> None:
    """One that is different is named."""
    problem = _contradiction(TOLD._replace(**{field: value}), TRUTH, SHOWN)
    assert problem == f"Kafka's client says otherwise than the controllers' files: {name}"


@pytest.mark.parametrize(
    "shown",
    [
        SHOWN | {(BROKER_LAG, "2"): 0.0},
        SHOWN | {(CONTROLLER_LAG, "3002"): MANY_RECORDS + 1.0},
        SHOWN | {(BROKER_LAG, "9"): 0.0},
        {place: lag for place, lag in SHOWN.items() if place[1] != "0"},
    ],
    ids=["follows", "behind", "unknown", "missing"],
)
def test_each_replica_of_the_metadata_log_is_compared(shown: Scrape) -> None:
    """One that is shown otherwise than DescribeQuorum has it, and one that is not shown, or is none."""
    assert _contradiction(TOLD, TRUTH, shown).startswith("DIFFERENT: behind in the metadata log")
