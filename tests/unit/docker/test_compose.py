"""The compose file compared with everything that it names; `python -m tests.images` runs it."""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from kcm.cli.parts import EXPORT, KRAFT_WATCH, STREAM, WATCH, Part, all_names, load_part, watch_part
from pipeline.runtime import ENV_PREFIX
from web.guard import is_own_host

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "docker"
PROMTOOL = shutil.which("promtool")
OURS: dict[str, Part] = {"watcher": WATCH, "stream": STREAM, "exporter": EXPORT}
METRICS_PORTS = {"exporter": 9640, "watcher": 9641, "stream": 9642}
_WITH_DEFAULT = re.compile(r"\$\{(\w+):-([^}]*)\}")

Yaml = dict[str, Any]


def read(path: Path) -> Yaml:
    """Return the content of a YAML file."""
    held: Yaml = yaml.safe_load(path.read_text(encoding="utf-8"))
    return held


@pytest.fixture
def compose() -> Yaml:
    """The compose file."""
    return read(FOLDER / "compose.yaml")


def filled_in(text: str, given: dict[str, str]) -> str:
    """Return a value as compose fills it in for a user who sets these variables."""
    return _WITH_DEFAULT.sub(lambda found: given.get(found[1]) or found[2], text)


def mounts(service: Yaml) -> list[tuple[Path, str]]:
    """Return this repository's mounted files, and their paths in the container."""
    split = [each.split(":") for each in service.get("volumes", [])]
    return [(FOLDER / parts[0], parts[1]) for parts in split if parts[0].startswith(".")]


@pytest.mark.parametrize("given", [{"ZOOKEEPER": "zk1:2181/kafka"}, {"CONTROLLERS": "c1:9093"}])
@pytest.mark.parametrize("name", OURS)
def test_a_part_starts_with_settings_that_it_takes(
    compose: Yaml, name: str, given: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each variable of a service is a setting, and the part of its command takes their values; what is empty is not given."""
    for variable in [each for each in os.environ if each.startswith(ENV_PREFIX)]:
        monkeypatch.delenv(variable)
    service = compose["services"][name]
    assert service["command"] == [OURS[name].verb]
    for variable, value in service["environment"].items():
        assert variable.removeprefix(ENV_PREFIX).lower() in all_names()
        monkeypatch.setenv(variable, filled_in(str(value), given))
    part = watch_part(None, {}) if name == "watcher" else OURS[name]
    assert part is (KRAFT_WATCH if name == "watcher" and "CONTROLLERS" in given else OURS[name])
    settings = load_part(part, None, {})
    assert settings.bootstrap_servers == "kafka:9092"
    assert is_own_host(f"{name}:{METRICS_PORTS[name]}", settings.allowed_hosts.split(","))
    assert settings.metrics_host == "0.0.0.0"  # noqa: S104  # what it must listen on to be scraped


def test_a_user_who_names_no_cluster_is_told_so(compose: Yaml) -> None:
    """Compose fills in one of the two variables, or ends with the sentence that names both."""
    label = compose["services"]["watcher"]["labels"]["kcm.watches"]
    assert re.fullmatch(r"\$\{ZOOKEEPER:-\$\{CONTROLLERS:\?[^}]+\}\}", label)


@pytest.mark.parametrize("name", OURS)
def test_a_part_is_asked_on_its_own_port_whether_it_works(compose: Yaml, name: str) -> None:
    """The health check asks the port of the part for /healthz, with the Python of its image."""
    check = compose["services"][name]["healthcheck"]["test"]
    assert check[:3] == ["CMD", "python", "-c"]
    assert f"'http://127.0.0.1:{METRICS_PORTS[name]}/healthz'" in check[3]
    compile(check[3], "healthcheck", "exec")


def test_memory_is_limited_for_every_service(compose: Yaml) -> None:
    """No container can take the machine's memory; Kafka's heap leaves half of its limit."""
    example = read(FOLDER / "example-cluster.yaml")["services"]
    services = compose["services"] | example
    assert all(re.fullmatch(r"\d+[mg]", each["mem_limit"]) for each in services.values())


def test_the_example_cluster_is_a_quorum_that_the_watcher_finds(compose: Yaml) -> None:
    """Its nodes advertise the controllers that its first lines name, under one id, and none is called as a service of the monitor."""
    nodes = read(FOLDER / "example-cluster.yaml")["services"]
    assert not nodes.keys() & compose["services"].keys()
    voters = ",".join(
        f"{each['environment']['KAFKA_NODE_ID']}@{name}:9093" for name, each in nodes.items()
    )
    for name, each in nodes.items():
        held = each["environment"]
        assert held["KAFKA_CONTROLLER_QUORUM_VOTERS"] == voters
        assert f"CONTROLLER://{name}:9093" in held["KAFKA_ADVERTISED_LISTENERS"]
        assert len(base64.urlsafe_b64decode(f"{held['CLUSTER_ID']}==")) == 16
    text = (FOLDER / "example-cluster.yaml").read_text(encoding="utf-8")
    assert f"CONTROLLERS={','.join(f'{name}:9093' for name in nodes)} " in text


@pytest.mark.parametrize("name", OURS)
def test_a_part_is_built_from_a_target_of_the_dockerfile(compose: Yaml, name: str) -> None:
    """The target in `build` exists, and what the fold must keep is on a volume."""
    build = compose["services"][name]["build"]
    assert (FOLDER / build["context"]).resolve() == ROOT
    text = (ROOT / build["dockerfile"]).read_text(encoding="utf-8")
    stage = text.partition(f" AS {build['target']}\n")[2].partition("\nFROM ")[0]
    assert 'ENTRYPOINT ["kcm"]' in stage
    kept = compose["services"][name].get("volumes", [])
    assert [f"VOLUME {each.split(':')[1]}\n" in stage for each in kept] == [True] * len(kept)
    assert bool(kept) is (name == "stream")


def test_every_volume_is_declared_and_every_mounted_file_is_there(compose: Yaml) -> None:
    """No mounted file is missing: compose would create an empty folder in its place."""
    declared = set(compose["volumes"])
    for service in compose["services"].values():
        assert all(path.exists() for path, _ in mounts(service))
        named = {each.split(":")[0] for each in service.get("volumes", []) if each[0] not in "./"}
        assert named <= declared
        declared -= named
    assert declared == set()


def test_only_this_machine_may_reach_the_ports(compose: Yaml) -> None:
    """A port is bound to the loopback address, because the monitor asks for no password."""
    ports = [port for each in compose["services"].values() for port in each.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_prometheus_scrapes_every_part_and_loads_the_rules(compose: Yaml) -> None:
    """All three parts are targets on their ports, and the rules' folder is the chart's."""
    config = read(FOLDER / "compose" / "prometheus.yaml")
    (job,) = config["scrape_configs"]
    targets = [target for each in job["static_configs"] for target in each["targets"]]
    assert sorted(targets) == sorted(f"{name}:{port}" for name, port in METRICS_PORTS.items())
    assert job["honor_labels"] is True
    held = {inside: path for path, inside in mounts(compose["services"]["prometheus"])}
    (pattern,) = config["rule_files"]
    folder = held[str(Path(pattern).parent)]
    assert list(folder.glob(Path(pattern).name))
    assert "/etc/prometheus/prometheus.yaml" in held


@pytest.mark.skipif(
    PROMTOOL is None, reason="promtool is not installed (Debian: apt-get install prometheus)"
)
def test_prometheus_takes_its_configuration(tmp_path: Path) -> None:
    """Prometheus' own tool accepts the file and the rules that it names."""
    assert PROMTOOL is not None
    rules = ROOT / "helm" / "kafka-controller-monitor" / "files" / "rules"
    text = (FOLDER / "compose" / "prometheus.yaml").read_text(encoding="utf-8")
    config = tmp_path / "prometheus.yaml"
    config.write_text(text.replace("/etc/prometheus/rules", str(rules)), encoding="utf-8")
    done = subprocess.run(
        [PROMTOOL, "check", "config", str(config)],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "rules found" in done.stdout


def test_grafana_finds_its_data_source_and_the_boards(compose: Yaml) -> None:
    """The data source is the Prometheus of this file, and the dashboards are where Grafana looks."""
    held = {inside: path for path, inside in mounts(compose["services"]["grafana"])}
    (source,) = read(held["/etc/grafana/provisioning/datasources/kcm.yaml"])["datasources"]
    assert (source["type"], source["isDefault"]) == ("prometheus", True)
    assert source["url"].removeprefix("http://").split(":")[0] in compose["services"]
    (provider,) = read(held["/etc/grafana/provisioning/dashboards/kcm.yaml"])["providers"]
    assert list(held[provider["options"]["path"]].glob("*.json"))


def test_the_pipelines_kafka_has_a_valid_cluster_id(compose: Yaml) -> None:
    """A cluster's id is 16 bytes in URL-safe base64 without padding."""
    text = compose["services"]["kafka"]["environment"]["CLUSTER_ID"]
    assert len(base64.urlsafe_b64decode(f"{text}==")) == 16
