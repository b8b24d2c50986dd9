"""Every endpoint as Prometheus' own linter reads it: names, types, units and HELP of all that a scrape gets."""

from __future__ import annotations

import subprocess

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from tests.component.rules.promtool import NEEDS_PROMTOOL, PROMTOOL
from tests.support.api_server import Served
from tests.support.samples import broker_view, cluster_view, topic_view
from tools.docs.parts_metrics import fold_registry, kraft_watcher_registry, watcher_registry

pytestmark = NEEDS_PROMTOOL


def _complaints(exposition: bytes) -> str:
    """Return what `promtool check metrics` says; its exit code must agree."""
    assert PROMTOOL is not None
    done = subprocess.run(
        [PROMTOOL, "check", "metrics"],
        input=exposition,
        capture_output=True,
        check=False,
        timeout=60,
    )
    said = done.stderr.decode()
    assert (done.returncode == 0) == (not said.strip()), said
    return said


@pytest.mark.parametrize(
    "registry",
    [watcher_registry(), kraft_watcher_registry(), fold_registry()],
    ids=["watcher", "kraft-watcher", "fold"],
)
def test_metrics_of_a_part_pass_the_linter(registry: CollectorRegistry) -> None:
    """What watchers and the fold serve on their own ports, with the build that they are."""
    exposition = generate_latest(registry)
    assert b"\nkcm_build_info{" in exposition
    assert _complaints(exposition) == ""


def test_metrics_of_a_cluster_pass_the_linter(bad: Served) -> None:
    """What the exporter serves of a cluster after a bad hour, and of itself."""
    exposition = bad.get("/metrics").content
    assert b"\nkafka_controller_id{" in exposition
    assert b"\nkcm_build_info{" in exposition
    assert _complaints(exposition) == ""


def test_series_of_partitions_keep_the_names_of_kafka_exporter() -> None:
    """The linter has one complaint: names that people's boards already use are not renamed for it."""
    served = Served(partition_metrics=True)
    served.write(broker_view(1), topic_view("t"), cluster_view())
    exposition = served.get("/metrics/partitions").content
    assert b"\nkafka_topic_partition_leader{" in exposition
    assert _complaints(exposition) == ""


def test_the_linter_would_complain() -> None:
    """A counter without its suffix is named."""
    assert "should have" in _complaints(b"# HELP a_b b\n# TYPE a_b counter\na_b 1\n")
