"""The chart by helm itself, Kubernetes' own schemas, and kcm's own settings."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from exporter.config import ExportSettings
from kcm.parts import EXPORT, PARTS, STREAM, WATCH
from kcm.stack.jars import Jars
from pipeline.settings import CONFIG_FILE_VARIABLE, PipelineSettings
from streaming.config import StreamSettings
from tests.component.chart import (
    CHART,
    DOCKERFILE,
    NEEDS_HELM,
    ROOT,
    VALUE_SETS,
    Manifest,
    container_of,
    helm,
    pod_of,
    render,
    template,
    variables,
    workloads,
)
from zk_source.config import WatchSettings

OLDEST_KUBERNETES = "1.25"
LONGEST_NAME = 63
OPERATORS_KINDS = {"ServiceMonitor", "PrometheusRule"}
"""Their schemas belong to the Prometheus operator, not to Kubernetes."""

LEAST = CHART / "ci" / "least-values.yaml"
EVERYTHING = CHART / "ci" / "all-values.yaml"
SCHEMA = json.loads((CHART / "values.schema.json").read_text())

SETTINGS: dict[str, type[PipelineSettings]] = {
    "commonSettings": PipelineSettings,
    "watcherSettings": WatchSettings,
    "streamSettings": StreamSettings,
    "exporterSettings": ExportSettings,
}
GIVEN_BY_THE_CHART = {
    *("bootstrap_servers", "kafka_properties", "metrics_host"),
    *("cluster", "zookeeper", "zk_auth", "election_path", "election_zookeeper"),
    *("zk_tls", "zk_tls_ca", "zk_tls_cert", "zk_tls_key", "zk_tls_key_password"),
    *("election_auth", "election_tls", "watcher_metrics_port"),
    *("checkpoint_dir", "connector_jars", "java_home", "stream_metrics_port"),
    *("host", "port"),
}
"""Settings that have values of their own, or follow from the pod."""

each_set = pytest.mark.parametrize("values", VALUE_SETS, ids=lambda path: path.stem)


@NEEDS_HELM
@each_set
def test_helm_finds_nothing_to_complain_of(values: Path) -> None:
    """`helm lint --strict` passes with each value set."""
    done = helm("lint", "--strict", str(CHART), "--values", str(values))
    assert done.returncode == 0, done.stdout + done.stderr


@NEEDS_HELM
@each_set
def test_every_resource_has_a_name_of_its_own(values: Path) -> None:
    """No two resources meet, and every name is short enough for a label and a host name."""
    manifests = render(values)
    names = [(each["kind"], each["metadata"]["name"]) for each in manifests]
    assert len(set(names)) == len(names)
    assert all(len(name) <= LONGEST_NAME for _, name in names)


@NEEDS_HELM
def test_long_names_stay_apart_and_short_enough() -> None:
    """The longest release and cluster names give names that Kubernetes takes, still all different."""
    twins = ["x" * 63 + "a", "x" * 63 + "b", "X" * 64]
    given = [f"--set=clusters.{name}.zookeeper=zk:2181" for name in twins]
    manifests = render(LEAST, *given, "--set", f"fullnameOverride={'r' * 53}")
    watchers = [each for each in workloads(manifests) if container_of(each)["name"] == "watcher"]
    names = {each["metadata"]["name"] for each in watchers}
    assert len(names) == len(twins) + 1
    assert all(len(name) <= LONGEST_NAME for name in names)


@NEEDS_HELM
@each_set
def test_kubernetes_takes_every_manifest(values: Path) -> None:
    """Each manifest is valid by the schemas of the oldest Kubernetes that is allowed and the newest."""
    validator: Any = pytest.importorskip(
        "kubernetes_validate", reason="kubernetes-validate is not installed"
    )
    for manifest in render(values):
        if manifest["kind"] not in OPERATORS_KINDS:
            for version in (OLDEST_KUBERNETES, validator.latest_version()):
                validator.validate(manifest, version, strict=True)


@NEEDS_HELM
def test_the_schemas_refuse_what_kubernetes_would() -> None:
    """The check can fail: a misspelled field of a rendered pod is refused."""
    validator: Any = pytest.importorskip(
        "kubernetes_validate", reason="kubernetes-validate is not installed"
    )
    broken = workloads(render(LEAST))[0]
    pod_of(broken)["enableServiceLink"] = False
    with pytest.raises(validator.ValidationError):
        validator.validate(broken, OLDEST_KUBERNETES, strict=True)


@NEEDS_HELM
@pytest.mark.parametrize(
    "where",
    [
        *("", "image.", "kafka.", "kafka.propertiesSecret.", "settings.", "election."),
        *("clusters.prod.", "clusters.prod.tls.", "clusters.prod.settings.", "watcher."),
        *("watcher.settings.", "stream.", "stream.settings.", "stream.persistence."),
        "stream.executors.",
        *("exporter.", "exporter.settings.", "exporter.service.", "networkPolicy."),
        *("serviceMonitor.", "prometheusRule.", "dashboards.", "serviceAccount."),
    ],
)
def test_an_unknown_value_is_refused_by_name(where: str) -> None:
    """A misspelled key is an error that names it, wherever it stands."""
    done = template("--values", str(LEAST), "--set", f"{where}mistyped=1")
    assert done.returncode != 0
    assert "'mistyped'" in done.stderr


@NEEDS_HELM
@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("kafka.bootstrapServers=", "kafka.bootstrapServers"),
        ("clusters=null", "clusters: name at least one"),
        ("election.path=", "watcher.replicas: without election.path"),
        ("watcher.replicas=0", "/watcher/replicas"),
        ("kafka.properties.sasl\\.password=x", "/kafka/properties"),
        ("stream.settings.spark_master=yarn", "/stream/settings/spark_master"),
        ("clusters.prod.zookeeper=zk", "/clusters/prod/zookeeper"),
        ("clusters.prod.tls.key=tls.key", "/clusters/prod/tls"),
    ],
)
def test_a_bad_value_is_told_by_its_place(given: str, told: str) -> None:
    """What cannot work is refused before anything is installed, and the line says what it is."""
    done = template("--values", str(LEAST), "--set", given)
    assert done.returncode != 0
    assert told in done.stderr


def _closed(schema: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of objects with named keys that take other keys, too."""
    if isinstance(schema, dict):
        kind = schema.get("type")
        if (
            kind == "object"
            and "properties" in schema
            and schema.get("additionalProperties") is not False
        ):
            yield path
        for key, value in schema.items():
            yield from _closed(value, f"{path}/{key}")


def test_every_object_of_the_values_schema_is_closed() -> None:
    """No object with named keys takes a key that is not named."""
    assert list(_closed(SCHEMA)) == []


@pytest.mark.parametrize("name", SETTINGS)
def test_the_values_schema_knows_the_settings_of_kcm(name: str) -> None:
    """The settings of each part, with their kinds and choices, are those of the program."""
    fields = SETTINGS[name].model_json_schema()["properties"]
    shared = set() if name == "commonSettings" else set(PipelineSettings.model_fields)
    expected = fields.keys() - shared - GIVEN_BY_THE_CHART
    told = SCHEMA["$defs"][name]["properties"]
    assert told.keys() == expected
    for setting in expected:
        for key in ("type", "enum", "minimum", "maximum", "exclusiveMinimum"):
            assert told[setting].get(key) == fields[setting].get(key), (setting, key)


@NEEDS_HELM
@each_set
def test_every_variable_is_a_setting_of_its_part(values: Path) -> None:
    """No container has a KCM_ variable that its part would ignore."""
    parts = {part.verb: part for part in PARTS}
    for workload in workloads(render(values)):
        container = container_of(workload)
        program, verb = container["command"]
        assert program == "kcm"
        names = {name for name in variables(container) if name.startswith("KCM_")}
        known = {f"KCM_{name.upper()}" for name in parts[verb].settings.model_fields}
        assert names - known <= {CONFIG_FILE_VARIABLE}, verb
        assert len(container["env"]) == len(variables(container)), "a variable is given twice"


@NEEDS_HELM
def test_numbers_and_maps_arrive_as_kcm_reads_them() -> None:
    """A million is not 1e+06, a fraction stays one, a map is JSON, and a cluster's own setting wins."""
    found = {each["metadata"]["name"]: each for each in workloads(render(EVERYTHING))}
    prod = variables(container_of(found["kcm-w-prod"]))
    assert prod["KCM_BUFFER_CHANGES"] == "1000000"
    assert prod["KCM_SESSION_TIMEOUT_S"] == "4.5"
    assert prod["KCM_AUDIT_S"] == "600"
    other = variables(container_of(found["kcm-w-staging-eu-1"]))
    assert other["KCM_AUDIT_S"] == "900"
    assert "KCM_BUFFER_CHANGES" not in other
    stream = variables(container_of(found["kcm-stream"]))
    assert json.loads(str(stream["KCM_SPARK_CONF"])) == {
        "spark.cleaner.periodicGC.interval": "10min"
    }


@NEEDS_HELM
def test_no_secret_is_in_the_manifests() -> None:
    """What is secret comes by reference, and the properties in clear are TOML that kcm merges with it."""
    manifests = render(EVERYTHING)
    assert not [each for each in manifests if each["kind"] == "Secret"]
    for workload in workloads(manifests):
        assert variables(container_of(workload))["KCM_KAFKA_PROPERTIES"] == (
            "kcm-kafka",
            "kafka.json",
        )
    (config,) = [each for each in manifests if "kcm.toml" in each.get("data", {})]
    properties = tomllib.loads(config["data"]["kcm.toml"])["kafka_properties"]
    assert properties["security.protocol"] == "SASL_SSL"


@NEEDS_HELM
@each_set
def test_pods_keep_to_the_restricted_standard(values: Path) -> None:
    """Pods run as nobody in particular, write only to their volumes, and know of no service."""
    user = re.search(r"^USER (\d+):(\d+)$", DOCKERFILE.read_text(), re.MULTILINE)
    assert user
    for workload in workloads(render(values)):
        pod, container = pod_of(workload), container_of(workload)
        # Spark's driver makes pods, where executors are asked for; nothing else talks to Kubernetes.
        drives = str(variables(container).get("KCM_SPARK_MASTER", "")).startswith("k8s:")
        assert pod["automountServiceAccountToken"] is drives
        assert pod["enableServiceLinks"] is False
        context = pod["securityContext"]
        assert context["runAsNonRoot"] is True
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        assert (str(context["runAsUser"]), str(context["runAsGroup"])) == user.groups()
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}
        assert "memory" in container["resources"]["limits"]


@NEEDS_HELM
@each_set
def test_services_budgets_and_policies_select_pods_that_exist(values: Path) -> None:
    """Every selector holds for at least one pod, and for no pod of another part."""
    manifests = render(values)
    pods = [each["spec"]["template"]["metadata"]["labels"] for each in workloads(manifests)]
    for manifest in manifests:
        spec = manifest.get("spec", {})
        selector = spec.get("podSelector") or spec.get("selector")
        if selector is None or manifest["kind"] == "ServiceMonitor":
            continue
        labels = selector.get("matchLabels", selector)
        chosen = [pod for pod in pods if labels.items() <= pod.items()]
        assert chosen, manifest["metadata"]["name"]
        component = "app.kubernetes.io/component"
        if component in labels:
            assert {pod[component] for pod in chosen} == {labels[component]}


@NEEDS_HELM
def test_the_service_monitor_finds_all_three_parts() -> None:
    """It selects the services of watchers, fold and exporters, and their port exists."""
    manifests = render(EVERYTHING)
    monitors = {m["metadata"]["name"]: m for m in manifests if m["kind"] == "ServiceMonitor"}
    services = [each for each in manifests if each["kind"] == "Service"]

    def chosen(monitor: Manifest) -> set[str]:
        labels = monitor["spec"]["selector"]["matchLabels"]
        (endpoint,) = monitor["spec"]["endpoints"]
        assert endpoint["honorLabels"] is True
        found = [s for s in services if labels.items() <= s["metadata"]["labels"].items()]
        assert all([p["name"] for p in s["spec"]["ports"]] == [endpoint["port"]] for s in found)
        return {each["metadata"]["name"] for each in found}

    assert chosen(monitors["kcm"]) == {"kcm-watcher", "kcm-stream", "kcm-exporter"}
    assert chosen(monitors["kcm-partitions"]) == {"kcm-exporter"}


@NEEDS_HELM
def test_the_chart_ships_the_generated_boards_as_they_are() -> None:
    """Each board is a ConfigMap of its own with the sidecar's label, and small enough for one."""
    boards = {path.name: json.loads(path.read_text()) for path in CHART.glob("files/dashboards/*")}
    assert boards
    shipped = {}
    for manifest in render(EVERYTHING):
        if manifest["metadata"].get("labels", {}).get("grafana_dashboard") == "1":
            ((name, text),) = manifest["data"].items()
            shipped[name.removeprefix("kcm-")] = json.loads(text)
            assert len(text) < 1 << 20
            assert manifest["metadata"]["namespace"] == "monitoring"
    assert shipped == boards


@NEEDS_HELM
def test_the_chart_ships_the_generated_rules_as_they_are(tmp_path: Path) -> None:
    """The PrometheusRule holds the groups of the generated files, and Prometheus takes them."""
    groups = [
        group
        for path in sorted(CHART.glob("files/rules/*.yaml"))
        for group in yaml.safe_load(path.read_text())["groups"]
    ]
    (rule,) = [each for each in render(EVERYTHING) if each["kind"] == "PrometheusRule"]
    assert rule["spec"] == {"groups": groups}
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian: apt-get install prometheus)")
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump(rule["spec"]))
    done = subprocess.run(
        [promtool, "check", "rules", str(path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_chart_runs_the_release_that_it_lies_beside() -> None:
    """The chart's appVersion is the version of the Python package."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert chart["appVersion"] == project["version"]


def test_the_image_names_the_jars_that_are_pinned(jars: Jars) -> None:
    """The connector's jars that the image gives to kcm are those that it copies."""
    given = re.search(r"KCM_CONNECTOR_JARS=(\S+)", DOCKERFILE.read_text())
    assert given
    named = [Path(path) for path in given.group(1).split(",")]
    assert sorted(path.name for path in named) == sorted(path.name for path in jars.connector)
    assert {str(path.parent) for path in named} == {"/opt/connector"}


def test_the_images_copy_every_package_that_the_wheel_needs() -> None:
    """What the build may see holds all packages, and the extras of the three parts are installed."""
    seen = (ROOT / "docker" / "Dockerfile.dockerignore").read_text().split()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert {f"!{name}" for name in packages} <= set(seen)
    text = DOCKERFILE.read_text()
    assert all(f"--extra {part.extra}" in text for part in (WATCH, STREAM, EXPORT))


def test_the_image_with_spark_has_what_executors_run() -> None:
    """The template's command is a program that the image gets, and that may be run."""
    given = re.search(
        r"^COPY (docker/\S+) /opt/kcm/bin/spark-executor$", DOCKERFILE.read_text(), re.MULTILINE
    )
    assert given
    assert os.access(ROOT / given.group(1), os.X_OK)
    assert f"!{given.group(1)}" in (ROOT / "docker" / "Dockerfile.dockerignore").read_text().split()
