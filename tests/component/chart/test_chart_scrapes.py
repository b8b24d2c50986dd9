"""What Prometheus makes of the chart's ServiceMonitors: two exporters must not double a sum."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.component.chart.chart import CHART, NAMESPACE, NEEDS_HELM, render
from tests.component.rules.promtool import NEEDS_PROMTOOL, promtool

pytestmark = [NEEDS_HELM, NEEDS_PROMTOOL]

EVERYTHING = CHART / "ci" / "all-values.yaml"
PODS = {"kcm-exporter-a": "10.0.0.1:9640", "kcm-exporter-b": "10.0.0.2:9640"}
OF_THE_OPERATOR = ("pod", "container", "endpoint")
"""Labels that the operator gives each target from what Kubernetes says of it."""


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def _targets(folder: Path) -> list[dict[str, str]]:
    """Return the labels of the targets of /metrics/partitions, as Prometheus relabels them."""
    values = ("--set", "exporter.settings.partition_metrics=true")
    (monitor,) = [
        each
        for each in render(EVERYTHING, *values)
        if each["kind"] == "ServiceMonitor" and each["metadata"]["name"].endswith("-partitions")
    ]
    (endpoint,) = monitor["spec"]["endpoints"]
    wanted = [
        {_snake(key): value for key, value in each.items()} for each in endpoint["relabelings"]
    ]
    job = {
        "job_name": "partitions",
        "metrics_path": endpoint["path"],
        "static_configs": [
            {"targets": [address], "labels": dict.fromkeys(OF_THE_OPERATOR, pod)}
            for pod, address in PODS.items()
        ],
        "relabel_configs": wanted,
    }
    config = folder / "prometheus.yaml"
    config.write_text(json.dumps({"scrape_configs": [job]}))
    done = promtool("check", "service-discovery", "--timeout=3s", str(config), "partitions")
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return [each["labels"] for each in found]


def test_exporter_replicas_are_one_scrape_target_for_partition_metrics(tmp_path: Path) -> None:
    """All pods get the labels and the address of the service: Prometheus scrapes equal targets once."""
    targets = _targets(tmp_path)
    assert len(targets) == len(PODS)
    assert targets[0] == targets[1]
    service = f"kcm-exporter.{NAMESPACE}.svc:9640"
    assert (targets[0]["__address__"], targets[0]["instance"]) == (service, service)
    assert targets[0]["metrics_path"] == "/metrics/partitions"
