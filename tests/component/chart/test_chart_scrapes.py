"""What Prometheus makes of the chart's ServiceMonitors, PodMonitors and ScrapeConfigs: two exporters must not double a sum."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.component.chart.chart import (
    CHART,
    NAMESPACE,
    NEEDS_HELM,
    Manifest,
    container_of,
    render,
    template,
    workloads,
)
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


def _scrapes(kind: str, *values: str) -> list[Manifest]:
    """Return what tells the operator to scrape."""
    settings = (f"serviceMonitor.kind={kind}", "exporter.settings.partition_metrics=true", *values)
    arguments = [each for value in settings for each in ("--set", value)]
    kinds = {"ServiceMonitor", "PodMonitor", "ScrapeConfig"}
    return [each for each in render(EVERYTHING, *arguments) if each["kind"] in kinds]


@pytest.mark.parametrize(
    ("kind", "of_partitions"),
    [
        ("ServiceMonitor", "ServiceMonitor"),
        ("PodMonitor", "ScrapeConfig"),
        ("ScrapeConfig", "ScrapeConfig"),
    ],
)
def test_everything_is_scraped_by_one_kind(kind: str, of_partitions: str) -> None:
    """Whichever is chosen, there is one object for all parts and one for partitions, and no second one doubles a series."""
    found = {each["metadata"]["name"]: each["kind"] for each in _scrapes(kind)}
    assert found == {"kcm": kind, "kcm-partitions": of_partitions}


def test_a_pod_monitor_selects_each_part_by_its_port() -> None:
    """Labels and port are those of every pod that serves metrics."""
    monitor, *_ = [each for each in _scrapes("PodMonitor") if each["kind"] == "PodMonitor"]
    selected = monitor["spec"]["selector"]["matchLabels"].items()
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint["honorLabels"]
    parts = workloads(render(EVERYTHING))
    assert parts
    for each in parts:
        assert selected <= each["spec"]["template"]["metadata"]["labels"].items()
        assert endpoint["port"] in {port["name"] for port in container_of(each)["ports"]}


def test_prometheus_finds_the_pods_of_a_scrape_config(tmp_path: Path) -> None:
    """Of the pods that Kubernetes has, the ports of metrics that run; Debian's promtool is told what Kubernetes would tell it."""
    (config,) = [each for each in _scrapes("ScrapeConfig") if each["metadata"]["name"] == "kcm"]
    spec = config["spec"]
    (selector,) = spec["kubernetesSDConfigs"][0]["selectors"]
    wanted = dict(label.split("=") for label in selector["label"].split(","))
    for each in workloads(render(EVERYTHING)):
        assert wanted.items() <= each["spec"]["template"]["metadata"]["labels"].items()
    meta = "__meta_kubernetes"
    job = {
        "job_name": spec["jobName"],
        "metrics_path": spec["metricsPath"],
        "honor_labels": spec["honorLabels"],
        "static_configs": [
            {
                "targets": ["10.0.0.1:9640"],
                "labels": {
                    f"{meta}_pod_container_port_name": port,
                    f"{meta}_pod_phase": phase,
                    f"{meta}_pod_name": f"{phase}-{port}".lower(),
                    f"{meta}_namespace": NAMESPACE,
                },
            }
            for port in ("metrics", "proxy")
            for phase in ("Running", "Succeeded")
        ],
        "relabel_configs": [
            {_snake(key): value for key, value in rule.items()} for rule in spec["relabelings"]
        ],
    }
    file = tmp_path / "prometheus.yaml"
    file.write_text(json.dumps({"scrape_configs": [job]}))
    done = promtool("check", "service-discovery", "--timeout=3s", str(file), "kcm")
    assert done.returncode == 0, done.stderr
    kept = [labels for each in json.loads(done.stdout) if (labels := each.get("labels"))]
    assert [(each["pod"], each["namespace"], each["site"]) for each in kept] == [
        ("running-metrics", NAMESPACE, "eu-1")
    ]


def test_a_kind_that_the_operator_does_not_have_is_refused() -> None:
    """By the name of the value."""
    done = template("--values", str(EVERYTHING), "--set", "serviceMonitor.kind=Probe")
    assert done.returncode != 0
    assert re.search(r"serviceMonitor[./]kind", done.stderr)
