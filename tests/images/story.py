"""The first steps of an operator through compose: a cluster in KRaft mode and one with ZooKeeper, seen on the page and in Prometheus."""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

import yaml

from kcm.run.exporter_client import ClusterSeen, read_cluster
from tests.images.checks import ROOT, USER
from tests.images.compose import PROJECT, Compose
from tests.images.engine import Engine
from tests.support.waiting import wait_until

EXPORTER = "http://127.0.0.1:9640"
PROMETHEUS = "http://127.0.0.1:9090"
PARTS = ("watcher", "stream", "exporter")
LIVE_S = 240.0
"""Spark starts in 10 s; on a machine that does much else at once, in minutes."""
SCRAPED_S = 90.0
FENCED_S = 120.0
"""Kafka fences a broker that is silent for 9 s, and one that starts takes 10 s; on a busy machine, a minute."""
ZOOKEEPER, BROKER = "kcm-test-zookeeper", "kcm-test-broker"
NODES = {1: "node-1", 2: "node-2", 3: "node-3"}
_BROKER = """broker.id=0
zookeeper.connect=zookeeper:2181/kafka
listeners=PLAINTEXT://:9092
advertised.listeners=PLAINTEXT://broker:9092
log.dirs=/tmp/data
log.cleaner.dedupe.buffer.size=16777216
"""


def steps(engine: Engine, compose: Compose, kafka: str) -> Iterator[str]:
    """Play the story; yield what was seen in each step."""
    kraft = {
        "CONTROLLERS": ",".join(f"{node}:9093" for node in NODES.values()),
        "CLUSTER": "example",
    }
    compose.run("up", "--detach", "--no-build", **kraft)
    seen = wait_for(lambda seen: seen.live and seen.live_brokers == len(NODES))
    yield f"a KRaft cluster is live: controller {seen.controller_id}, {seen.live_brokers} brokers"
    yield f"each part runs as it ships: {', '.join(_shipped(engine, compose, part) for part in PARTS)}"
    yield _scraped()
    before = seen.controller_id
    assert before in NODES, seen
    compose.run("kill", NODES[before], **kraft)
    seen = wait_for(lambda seen: seen.live and seen.controller_id in NODES.keys() - {before})
    yield f"its controller {before} is killed: the controller is {seen.controller_id}"
    wait_for(lambda seen: seen.live_brokers == len(NODES) - 1, FENCED_S)
    wait_until(
        lambda: _value('kafka_cluster_brokers{cluster="example"}'),
        lambda n: n == 2,
        deadline_s=SCRAPED_S,
    )
    yield "Prometheus shows two brokers"
    compose.run("start", NODES[before], **kraft)
    wait_for(lambda seen: seen.live and seen.live_brokers == len(NODES), FENCED_S)
    yield f"{NODES[before]} is started: three brokers"
    yield from _with_zookeeper(engine, compose, kafka)
    yield f"memory: {_memory(engine)}"


def _with_zookeeper(engine: Engine, compose: Compose, kafka: str) -> Iterator[str]:
    network = ("--network", f"{PROJECT}_default")
    engine.podman(
        *("run", "--detach", "--name", ZOOKEEPER, *network, "--network-alias", "zookeeper"),
        *(kafka, "/etc/kafka/docker/run", "zookeeper"),
    )
    configured = f"printf '{_BROKER}' >/tmp/broker; exec /etc/kafka/docker/run /tmp/broker"
    engine.podman(
        *("run", "--detach", "--name", BROKER, *network, "--network-alias", "broker"),
        *("--entrypoint", '["sh", "-c"]', kafka, configured),
    )
    compose.run(
        "up",
        "--detach",
        "--no-build",
        "--no-deps",
        "watcher",
        ZOOKEEPER="zookeeper:2181/kafka",
        CLUSTER="old",
    )
    seen = wait_for(lambda seen: seen.live and seen.controller_id == 0, cluster="old")
    yield f"a cluster with ZooKeeper is live: controller {seen.controller_id}, epoch {seen.epoch}"


def remove(engine: Engine, compose: Compose) -> None:
    """Stop and remove everything that the story started."""
    engine.podman("rm", "--force", "--time", "1", "--ignore", BROKER, ZOOKEEPER, check=False)
    compose.run("down", "--volumes", "--timeout", "10", CONTROLLERS="node-1:9093")
    left = engine.podman(
        "ps", "--all", "--quiet", "--filter", f"label=io.podman.compose.project={PROJECT}"
    )
    assert left == "", left


def wait_for(holds: Any, deadline_s: float = LIVE_S, *, cluster: str = "example") -> ClusterSeen:
    """Wait until the exporter shows a cluster so."""
    seen = wait_until(
        lambda: read_cluster(EXPORTER, cluster),
        lambda seen: isinstance(seen, ClusterSeen) and holds(seen),
        deadline_s=deadline_s,
    )
    assert isinstance(seen, ClusterSeen)
    return seen


def _shipped(engine: Engine, compose: Compose, part: str) -> str:
    """Check one part's container, and say how it does."""
    name = compose.container(part)
    (held,) = json.loads(engine.podman("inspect", name))
    assert held["HostConfig"]["ReadonlyRootfs"] is True
    limit = held["HostConfig"]["Memory"]
    assert limit > 0
    status = engine.podman("exec", name, "cat", "/proc/1/status").splitlines()
    inside = {key: value.split() for key, _, value in (line.partition(":") for line in status)}
    user, group = USER.split(":")
    assert (set(inside["Uid"]), set(inside["Gid"])) == ({user}, {group})
    assert int(inside["CapEff"][0], 16) == int(inside["CapBnd"][0], 16) == 0
    assert inside["NoNewPrivs"] == ["1"]
    engine.podman("healthcheck", "run", name)
    return f"{part} (uid {user}, read-only, healthy)"


def _scraped() -> str:
    """Wait until Prometheus scrapes all parts and has loaded every rule."""

    def healths() -> list[str]:
        return sorted(each["health"] for each in _ask("targets")["activeTargets"])

    wait_until(healths, lambda held: held == ["up"] * len(PARTS), deadline_s=SCRAPED_S)
    files = (ROOT / "helm" / "kafka-controller-monitor" / "files" / "rules").glob("*.yaml")
    written = [
        rule
        for path in files
        for group in yaml.safe_load(path.read_text())["groups"]
        for rule in group["rules"]
    ]
    loaded = [rule for group in _ask("rules")["groups"] for rule in group["rules"]]
    assert len(loaded) == len(written)
    return f"Prometheus scrapes {len(PARTS)} parts and has {len(loaded)} rules"


def _value(expression: str) -> float | None:
    result = _ask(f"query?{urllib.parse.urlencode({'query': expression})}")["result"]
    return float(result[0]["value"][1]) if result else None


def _ask(path: str) -> Any:
    with urllib.request.urlopen(f"{PROMETHEUS}/api/v1/{path}", timeout=10) as answer:
        return json.load(answer)["data"]


def _memory(engine: Engine) -> str:
    """Return what each container takes, as the engine counts it."""
    names = engine.podman("ps", "--format", "{{.Names}}").split()
    form = "{{.Name}} {{.MemUsage}}"
    lines = engine.podman("stats", "--no-stream", "--format", form, *names).splitlines()
    return ", ".join(line.partition(" / ")[0].strip() for line in sorted(lines))
