"""The demo reads /metrics: the monitor's figures as Prometheus would get them."""

from __future__ import annotations

from kcm.demo.figures import TrueFigures
from kcm.demo.monitor import NAMES, figures_of_scrape
from kcm.run.exporter_client import parse_scrape

SCRAPE = """\
# HELP kafka_controller_id Broker that holds /controller.
# TYPE kafka_controller_id gauge
kafka_controller_id{cluster="demo"} 0
kafka_controller_id{cluster="other"} 9
kafka_controller_epoch{cluster="demo"} 7
kafka_controller_elections_total{cluster="demo"} 3
kafka_cluster_topics{cluster="demo"} 2
kafka_cluster_partitions{cluster="demo"} 5
kafka_cluster_offline_partitions{cluster="demo"} 1
kafka_cluster_under_replicated_partitions{cluster="demo"} 2
kafka_cluster_preferred_replica_imbalance{cluster="demo"} 2
kafka_broker_live{cluster="demo",broker="0"} 1
kafka_broker_live{cluster="demo",broker="1"} 1
kafka_broker_live{cluster="demo",broker="2"} 0
kafka_broker_leaders{cluster="demo",broker="1"} 1
kafka_broker_leaders{cluster="demo",broker="0"} 2
kafka_broker_leaders{cluster="demo",broker="2"} 0
kafka_broker_leaders{cluster="other",broker="2"} 8
kafka_broker_preferred_not_led{cluster="demo",broker="2"} 2
kafka_broker_preferred_not_led{cluster="demo",broker="0"} 0
kcm_cluster_status{cluster="demo",status="live"} 1
kcm_cluster_status{cluster="demo",status="blind"} 0
something_else{cluster="demo"} 4
"""


def test_figures_are_read_from_the_metrics() -> None:
    """Each figure comes from its metric, of the demo's cluster only; brokers with 0 are left out."""
    assert figures_of_scrape(parse_scrape(SCRAPE, "demo", NAMES), base_elections=1) == TrueFigures(
        controller=0,
        epoch=7,
        elections=2,
        brokers=(0, 1),
        leaders=((0, 2), (1, 1)),
        not_led=((2, 2),),
        topics=2,
        partitions=5,
        offline=1,
        under_replicated=2,
        imbalance=2,
    )


def test_a_cluster_that_is_not_served_has_no_figures() -> None:
    """A scrape without the cluster gives no figures, rather than zeros."""
    assert figures_of_scrape(parse_scrape(SCRAPE, "third", NAMES)) is None


def test_a_missing_sample_is_no_zero() -> None:
    """A figure without a sample equals no truth, and a missing epoch is unknown."""
    lines = [line for line in SCRAPE.splitlines() if "epoch" not in line and "offline" not in line]
    figures = figures_of_scrape(parse_scrape("\n".join(lines), "demo", NAMES))
    assert figures is not None
    assert figures.offline == -1
    assert figures.epoch is None
