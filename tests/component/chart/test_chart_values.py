"""The chart's values: what is refused, and what arrives at kcm of what is not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller_model.sources.zookeeper.znode_kinds import WATCHED_SUBTREES
from exporter.core.config import ExportSettings
from kcm.cli.parts import EXPORT, KRAFT_WATCH, STREAM, WATCH
from kraft_source.config import KraftSettings
from pipeline.settings import CONFIG_FILE_VARIABLE, PipelineSettings, load
from streaming.config import StreamSettings
from tests.component.chart.chart import (
    CHART,
    NEEDS_HELM,
    VALUE_SETS,
    container_of,
    render,
    template,
    variables,
    workloads,
)
from zk_source.config import WatchSettings

LEAST = CHART / "ci" / "least-values.yaml"
EVERYTHING = CHART / "ci" / "all-values.yaml"
KRAFT = CHART / "ci" / "kraft-values.yaml"
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
SETTINGS: dict[str, type[PipelineSettings]] = {
    "commonSettings": PipelineSettings,
    "watcherSettings": WatchSettings,
    "kraftWatcherSettings": KraftSettings,
    "streamSettings": StreamSettings,
    "exporterSettings": ExportSettings,
}
GIVEN_BY_THE_CHART = {
    *("bootstrap_servers", "kafka_properties", "metrics_host", "web_config_file", "allowed_hosts"),
    *("cluster", "zookeeper", "zk_auth", "election_path", "election_zookeeper"),
    *("zk_tls", "zk_tls_ca", "zk_tls_cert", "zk_tls_key", "zk_tls_key_password"),
    *("election_auth", "election_tls", "watcher_metrics_port"),
    *(name for name in KraftSettings.model_fields if name.startswith("controller")),
    *("checkpoint_dir", "class_archive", "connector_jars", "java_home", "stream_metrics_port"),
    *("host", "port", "secrets_dir", "alerts"),
}
"""Settings that have values of their own, or follow from the pod."""

each_set = pytest.mark.parametrize("values", VALUE_SETS, ids=lambda path: path.stem)


@NEEDS_HELM
@pytest.mark.parametrize(
    "where",
    [
        *("", "image.", "kafka.", "kafka.propertiesSecret.", "settings.", "election."),
        *("clusters.prod.", "clusters.prod.tls.", "clusters.prod.settings.", "watcher."),
        *("watcher.resources.", "watcher.podDisruptionBudget."),
        *("watcher.settings.", "stream.", "stream.settings.", "stream.persistence."),
        "stream.executors.",
        *("exporter.", "exporter.settings.", "exporter.service.", "networkPolicy."),
        *("serviceMonitor.", "prometheusRule.", "dashboards.", "serviceAccount."),
        *("ingress.", "serviceMonitor.limits.", "serviceMonitor.partitionLimits."),
    ],
)
def test_an_unknown_value_is_refused_by_name(where: str) -> None:
    """A misspelled key is an error that names it, at every level."""
    done = template("--values", str(LEAST), "--set", f"{where}mistyped=1")
    assert done.returncode != 0
    assert "'mistyped'" in done.stderr


@NEEDS_HELM
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("kafka.bootstrapServers=", "kafka.bootstrapServers: name the Kafka"),
        ("kafka.bootstrapServers=kafka:99999", "kafka.bootstrapServers: kafka:99999: ports end"),
        ("clusters.prod=null", "/clusters/prod"),
        ("election.path=", "watcher.replicas: without election.path"),
        ("election.path=/kcm/../e", "election.path: /kcm/../e is no path"),
        ("election.zookeeper=zk:65536", "election.zookeeper: zk:65536: ports end"),
        (
            "election.path=,watcher.replicas=1,election.zookeeper=zk:1",
            "election.zookeeper: without election.path",
        ),
        (
            "clusters.prod.tlsKeyPasswordSecret.name=s,clusters.prod.tlsKeyPasswordSecret.key=k",
            "clusters.prod.tlsKeyPasswordSecret: there is no key",
        ),
        ("election.tls=true", "election.tls, election.authSecret: they are for"),
        ("election.authSecret.name=s", "election.tls, election.authSecret: they are for"),
        ("clusters.prod.tls.secret=s", "clusters.prod.tls: it names a secret, and nothing"),
        ("clusters.prod.zookeeper=zk:99999/k", "clusters.prod.zookeeper: zk:99999/k: ports end"),
        ("clusters.prod.zookeeper=zk:2181//k", "/clusters/prod/zookeeper"),
        ("clusters.prod.zookeeper=", "/clusters/prod/zookeeper"),
        ("kafka.properties.ssl\\.key\\.pem=x", "/kafka/properties/ssl.key.pem"),
        ("kafka.properties.sasl\\.oauthbearer\\.config=x", "/kafka/properties/sasl.oauthbearer"),
        ("nameOverride=my app", "/nameOverride"),
        ("nameOverride=My_App", "/nameOverride"),
        ("nameOverride=a.b", "/nameOverride"),
        ("watcher.replicas=0", "/watcher/replicas"),
        ("kafka.properties.sasl\\.password=x", "/kafka/properties"),
        ("stream.settings.spark_master=yarn", "/stream/settings/spark_master"),
        ("clusters.prod.zookeeper=zk", "/clusters/prod/zookeeper"),
        ("clusters.prod.tls.key=tls.key", "/clusters/prod/tls"),
        ("ingress.enabled=true", "ingress.hosts: name at least one"),
        (
            "ingress.enabled=true,ingress.hosts={kcm.example.com},exporter.enabled=false",
            "ingress.enabled: the exporter is what it leads to",
        ),
        ("ingress.hosts={https://kcm.example.com}", "/ingress/hosts/0"),
        ("ingress.tls[0].secretName=kcm-tls", "/ingress/tls/0"),
        ("watcher.podLabels.app\\.kubernetes\\.io/name=x", "/watcher/podLabels"),
        ("stream.podLabels.team=1", "/stream/podLabels/team"),
        ("exporter.extraContainers[0].name=proxy", "/exporter/extraContainers/0"),
        ("watcher.extraContainers[0].name=watcher", "/watcher/extraContainers/0"),
        (
            "watcher.topologySpreadConstraints[0].topologyKey=zone",
            "/watcher/topologySpreadConstraints/0",
        ),
        ("serviceMonitor.limits.sampleLimit=-1", "/serviceMonitor/limits/sampleLimit"),
        (
            "serviceMonitor.partitionLimits.bodySizeLimit=1e6",
            "/serviceMonitor/partitionLimits/body",
        ),
        ("serviceMonitor.relabelings[0]=drop", "/serviceMonitor/relabelings/0"),
        ("serviceMonitor.metricRelabelings=drop", "/serviceMonitor/metricRelabelings"),
    ],
)
def test_a_bad_value_is_reported_by_its_place(given: str, expected: str) -> None:
    """What cannot work is refused before anything is installed, and the line says what it is."""
    done = template("--values", str(LEAST), "--set", given)
    assert done.returncode != 0
    assert expected in done.stderr


@NEEDS_HELM
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("clusters.modern.mistyped=1", "'mistyped'"),
        ("clusters.modern.zookeeper=zk:2181", "'zookeeper'"),
        ("clusters.modern.authSecret.name=s", "'authSecret'"),
        ("clusters.modern.settings.session_timeout_s=4", "'session_timeout_s'"),
        ("clusters.modern.controllers=", "/clusters/modern/controllers"),
        ("clusters.modern.controllers=c:9093/kafka", "/clusters/modern/controllers"),
        ("clusters.modern.controllers=c:99999", "clusters.modern.controllers: c:99999: ports end"),
        ("clusters.modern.clusterId=short", "/clusters/modern/clusterId"),
        ("clusters.modern.tls.enabled=false", "clusters.modern.tls: it names a secret"),
        (
            "clusters.modern.tls.enabled=false,election.zookeeper=zk:1,election.tls=true",
            "clusters.modern.tls: it names a secret",
        ),
        ("clusters.modern.sasl.mechanism=GSSAPI", "/clusters/modern/sasl/mechanism"),
        ("clusters.modern.sasl.mistyped=1", "'mistyped'"),
        ("clusters.tokens.sasl.mechanism=PLAIN", "/clusters/tokens/sasl"),
        ("clusters.tokens.sasl.user=kcm", "/clusters/tokens/sasl"),
        ("clusters.plain.sasl.mechanism=PLAIN", "'user', 'passwordSecret'"),
        ("clusters.plain.sasl.mechanism=OAUTHBEARER", "'tokenSecret'"),
        (
            "clusters.plain.tlsKeyPasswordSecret.name=s,clusters.plain.tlsKeyPasswordSecret.key=k",
            "clusters.plain.tlsKeyPasswordSecret: there is no key",
        ),
    ],
)
def test_what_a_kraft_cluster_cannot_have_is_reported_by_its_place(
    given: str, expected: str
) -> None:
    """What only ZooKeeper has, what is missing for a login, and what kcm would refuse at its start."""
    done = template("--values", str(KRAFT), "--set", given)
    assert done.returncode != 0
    assert expected in done.stderr


@NEEDS_HELM
def test_watchers_need_a_cluster(tmp_path: Path) -> None:
    """Without a cluster there is nothing to watch: the line says how to name one."""
    path = tmp_path / "values.yaml"
    path.write_text("kafka: {bootstrapServers: 'kafka:9092'}")
    assert "clusters: name at least one" in template("--values", str(path)).stderr


@NEEDS_HELM
@pytest.mark.parametrize("path", WATCHED_SUBTREES)
def test_an_election_among_kafkas_own_znodes_is_refused(path: str) -> None:
    """No path that the watcher would refuse at its start is installed."""
    done = template("--values", str(LEAST), "--set", f"election.path={path}/kcm")
    assert f"election.path: {path}/kcm is below Kafka's own znodes" in done.stderr


@NEEDS_HELM
@pytest.mark.parametrize(
    ("path", "refused"), [("/brokers", True), ("/brokersx", False), ("/config", False)]
)
def test_only_kafkas_own_znodes_are_refused(path: str, refused: bool) -> None:
    """A path is held against theirs name by name."""
    done = template("--values", str(LEAST), "--set", f"election.path={path}")
    assert (done.returncode != 0) is refused, done.stderr


@NEEDS_HELM
@pytest.mark.parametrize(
    "path", ["settings", "clusters", "stream.executors", "watcher.settings", "kafka.properties"]
)
def test_null_is_reported_by_its_place(path: str) -> None:
    """A value that null takes away is an error that names it, never one of helm's own insides."""
    done = template("--values", str(LEAST), "--set", f"{path}=null")
    assert f"missing property '{path.rpartition('.')[2]}'" in done.stderr


def _optional(schema: Any, values: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of values that the chart has by default, and that its schema lets be null."""
    schema = SCHEMA["$defs"][schema["$ref"].rsplit("/", 1)[1]] if "$ref" in schema else schema
    if isinstance(values, dict) and schema.get("additionalProperties") is False:
        for name, value in values.items():
            if name not in schema.get("required", []):
                yield f"{path}/{name}"
            yield from _optional(schema["properties"][name], value, f"{path}/{name}")


def test_every_value_with_a_default_is_required() -> None:
    """Templates rely on every value of values.yaml; settings, resources and the pods' user may be left out."""
    free = re.compile(r"(^|/)settings/|/resources/|^/podSecurityContext$")
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    assert [path for path in _optional(SCHEMA, defaults) if not free.search(path)] == []


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
    held = SCHEMA["$defs"][name]["properties"]
    assert held.keys() == expected
    for setting in expected:
        kind = next(
            iter(fields[setting].get("anyOf", ())), fields[setting]
        )  # a chart leaves out what is None
        for key in ("type", "enum", "minimum", "maximum", "exclusiveMinimum"):
            assert held[setting].get(key) == kind.get(key), (setting, key)


@NEEDS_HELM
@each_set
def test_every_variable_is_a_setting_of_its_part(values: Path) -> None:
    """No container has a KCM_ variable that its part would ignore."""
    for workload in workloads(render(values)):
        container = container_of(workload)
        program, verb = container["command"]
        assert program == "kcm"
        names = {name for name in variables(container) if name.startswith("KCM_")}
        watch = KRAFT_WATCH if "KCM_CONTROLLERS" in names else WATCH
        part = {each.verb: each for each in (watch, STREAM, EXPORT)}[verb]
        known = {f"KCM_{name.upper()}" for name in part.settings.model_fields}
        assert names - known <= {CONFIG_FILE_VARIABLE}, verb
        assert len(container["env"]) == len(variables(container)), "a variable is given twice"


@NEEDS_HELM
def test_numbers_and_maps_arrive_as_kcm_reads_them() -> None:
    """A million is not 1e+06, a fraction stays one, a map is JSON, and a cluster's own setting wins."""
    found = {each["metadata"]["name"]: each for each in workloads(render(EVERYTHING))}
    prod = variables(container_of(found["kcm-w-prod"]))
    assert prod["KCM_BUFFER_CHANGES"] == "1000000"
    assert prod["KCM_SESSION_TIMEOUT_S"] == "4.5"
    assert prod["KCM_RECONCILIATION_INTERVAL_S"] == "600"
    other = variables(container_of(found["kcm-w-staging-eu-1"]))
    assert other["KCM_RECONCILIATION_INTERVAL_S"] == "900"
    assert "KCM_BUFFER_CHANGES" not in other
    stream = variables(container_of(found["kcm-stream"]))
    conf = json.loads(str(stream["KCM_SPARK_CONF"]))
    assert conf == {
        "spark.cleaner.periodicGC.interval": "10min",
        "spark.memory.fraction": "0.5",
        "spark.rpc.message.maxSize": "1024",
        "spark.sql.files.maxPartitionBytes": "12345678",
        "spark.ui.enabled": "false",
    }
    assert load(StreamSettings, spark_conf=conf).spark_conf == conf
