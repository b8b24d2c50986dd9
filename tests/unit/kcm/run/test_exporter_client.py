"""What a scrape of the exporter says about one cluster."""

from __future__ import annotations

from kcm.run.exporter_client import ClusterSeen, parse_cluster

SCRAPE = """\
# TYPE kcm_cluster_status gauge
kcm_cluster_status{cluster="other",status="live"} 1
kcm_cluster_status{cluster="prod",status="live"} 0
kcm_cluster_status{cluster="prod",status="blind"} 1
# TYPE kafka_controller_id gauge
kafka_controller_id{cluster="other"} 1
kafka_controller_id{cluster="prod"} 2
# TYPE kafka_cluster_info gauge
kafka_cluster_info{cluster="prod",id="abc"} 1
"""


def test_a_scrape_says_what_is_served_of_a_cluster() -> None:
    """The figures are those of the cluster asked for; a sample that is absent is None."""
    seen = parse_cluster(SCRAPE, "prod")
    assert seen == ClusterSeen("blind", 2, None, None, "abc")
    assert not seen.live


def test_a_scrape_without_the_cluster_says_so() -> None:
    """Before the first view nothing is shown, and the result says so."""
    assert parse_cluster(SCRAPE, "dev") == "the exporter shows nothing of cluster dev yet"
