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
    base = {("kafka_controller_elections_total", ""): 1.0}
    assert figures_of_scrape(parse_scrape(SCRAPE, "demo", NAMES), base=base) == TrueFigures(
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


KRAFT_SCRAPE = f"""\
{SCRAPE}\
kafka_cluster_elr_partitions{{cluster="demo"}} 4
kafka_cluster_empty_isr_partitions{{cluster="demo"}} 3
kafka_cluster_under_min_isr_partitions{{cluster="demo"}} 2
kafka_broker_fenced{{cluster="demo",broker="0"}} 1
kafka_broker_fenced{{cluster="demo",broker="1"}} 0
kafka_controller_unclean_leader_elections_total{{cluster="demo"}} 5
kafka_quorum_voters{{cluster="demo"}} 3
kafka_quorum_candidacies_total{{cluster="demo"}} 6
"""


def test_a_kraft_cluster_has_figures_of_its_own() -> None:
    """A figure of KRaft without a sample equals no truth; a cluster with ZooKeeper has none of them."""
    first = parse_scrape(SCRAPE + KRAFT_SCRAPE.replace(" 5\n", " 4\n"), "demo", NAMES)
    figures = figures_of_scrape(parse_scrape(KRAFT_SCRAPE, "demo", NAMES), base=first)
    assert figures is not None
    assert (figures.elr, figures.empty_isr, figures.under_min_isr, figures.voters) == (4, 3, 2, 3)
    assert (figures.fenced, figures.unclean, figures.candidacies) == ((0,), 1, 0)
    lines = [line for line in KRAFT_SCRAPE.splitlines() if "elr_partitions" not in line]
    without = figures_of_scrape(parse_scrape("\n".join(lines), "demo", NAMES), base=first)
    assert without is not None
    assert without.elr == -1
