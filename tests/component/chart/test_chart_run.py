"""The containers of the rendered chart, run by the real program on real servers of this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from controller_model.records.changes import ChangeKind
from kcm.run.exporter_client import ClusterSeen, read_cluster
from kcm.servers.jars import Jars
from kcm.servers.kafka import KraftBroker
from kcm.servers.ports import free_port
from kcm.servers.supervisor import Supervisor
from kcm.servers.zookeeper import ZooKeeper
from pipeline.java import find_java
from tests.component.chart.chart import (
    CHART,
    NEEDS_HELM,
    USER,
    Local,
    answer,
    can_confine,
    confined,
    container_of,
    image,
    localize,
    pod_of,
    render,
    running,
    workloads,
)
from tests.component.watcher.test_watcher_tls import KEY_PASSWORD, TOPIC, zookeeper_with
from tests.component.watcher.watching import LogReader, settings_for
from tests.support.certificates import NEEDS_OPENSSL, make_authority, make_certificate
from tests.support.registered import registered
from tests.support.waiting import wait_until

LEAST = CHART / "ci" / "least-values.yaml"
EVERYTHING = CHART / "ci" / "all-values.yaml"
CLUSTER = "prod"
READY_S = 180.0
"""Spark starts in 10 s; on a machine that does much else at once, in minutes."""
REFUSED_S = 60.0
"""A part that is to fail fast waits 5 s for Kafka."""
GRACE_S = 30
"""Kubernetes' own terminationGracePeriodSeconds."""
UNREACHABLE = 3

pytestmark = [NEEDS_HELM, pytest.mark.timeout(600)]

TREE = {
    "/brokers/ids/1": {
        "version": 5,
        "endpoints": ["PLAINTEXT://kafka-1:9092"],
        "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
        "host": "kafka-1",
        "port": 9092,
        "jmx_port": -1,
        "timestamp": "1795250708602",
    },
    "/controller": {"version": 1, "brokerid": 1, "timestamp": "1795250708602"},
    "/controller_epoch": 7,
    "/cluster/id": {"version": "1", "id": "chart-cluster"},
    "/brokers/topics/t": {"version": 1, "partitions": {"0": [1]}},
    "/brokers/topics/t/partitions/0/state": {
        "controller_epoch": 7,
        "leader": 1,
        "version": 1,
        "leader_epoch": 0,
        "isr": [1],
    },
}
"""One broker, one topic: enough to differ from nothing."""


def ca_certificate(folder: Path) -> str:
    """Return a certificate as PEM text, made by Java's own tool."""
    keytool = find_java(os.environ).path.resolve().with_name("keytool")
    store = ["-keystore", str(folder / "ca.p12"), "-storepass", "changeit", "-alias", "ca"]
    made = [*("-genkeypair", "-keyalg", "EC", "-dname", "CN=ca", "-storetype", "PKCS12"), *store]
    subprocess.run([str(keytool), *made], check=True, capture_output=True, timeout=60)
    exported = subprocess.run(
        [str(keytool), "-exportcert", "-rfc", *store],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return exported.stdout


@pytest.mark.full
def test_each_part_starts_with_every_value_of_the_chart(tmp_path: Path, jars: Jars) -> None:
    """With everything turned on, each part starts, and its one complaint is that no Kafka answers."""
    nobody = f"127.0.0.1:{free_port()}"
    overrides = {
        "kafka.bootstrapServers": nobody,
        "settings.fail_fast": "true",
        "listenAddress": "127.0.0.1",
    }
    manifests = render(EVERYTHING, *(f"--set={name}={value}" for name, value in overrides.items()))
    secrets = {
        "kcm-kafka": {"kafka.json": json.dumps({"sasl.username": "u", "sasl.password": 'p"\\'})},
        "kcm-kafka-tls": {"ca.crt": ca_certificate(tmp_path)},
        "zk-prod": {"auth": "digest:kcm:secret", "key-password": "secret"},
        "zk-prod-tls": dict.fromkeys(("ca.crt", "tls.crt", "tls.key"), "not read before Kafka"),
        "zk-own": {"auth": "digest:kcm:secret"},
    }
    outputs: dict[str, tuple[subprocess.Popen[bytes], Path]] = {}
    with ExitStack() as stack:
        for workload in workloads(manifests):
            name = workload["metadata"]["name"]
            local = localize(
                workload, manifests, tmp_path / name, secrets=secrets, image=image(jars)
            )
            output = tmp_path / f"{name}.out"
            outputs[name] = (stack.enter_context(running(local, output)), output)
        assert len(outputs) == len(["exporter", "stream", "three watchers", "", ""])
        for name, (process, output) in outputs.items():
            code = process.wait(REFUSED_S)
            said = output.read_text()
            assert code == UNREACHABLE, f"{name}: {code}: {said}"
            assert said.count("kcm: ") == 1, f"{name}: {said}"
            assert f"kcm: the pipeline's Kafka at {nobody} does not answer" in said


@pytest.mark.full
def test_parts_stay_alive_without_kafka_and_zookeeper_and_stop_on_sigterm(
    tmp_path: Path, jars: Jars
) -> None:
    """Without Kafka and ZooKeeper no part is restarted: each waits, says so, and ends in good time.

    The exporter gets no traffic then, because it has nothing to show: it has not started up.
    """
    nobody = f"127.0.0.1:{free_port()}"
    overrides = {
        "kafka.bootstrapServers": nobody,
        f"clusters.{CLUSTER}.zookeeper": nobody,
        "watcher.replicas": 1,
        "exporter.replicas": 1,
        "listenAddress": "127.0.0.1",
    }
    manifests = render(LEAST, *(f"--set={name}={value}" for name, value in overrides.items()))
    pods = {each["metadata"]["name"]: each for each in workloads(manifests)}
    with ExitStack() as stack:
        running_pods: dict[str, tuple[Local, subprocess.Popen[bytes]]] = {}
        for name, workload in pods.items():
            local = localize(workload, manifests, tmp_path / name, image=image(jars))
            process = stack.enter_context(running(local, tmp_path / f"{name}.out"))
            running_pods[name] = (local, process)
        for name, (local, _) in running_pods.items():
            output = tmp_path / f"{name}.out"
            wait_until(output.read_text, lambda text: "trying again" in text)
            liveness = local.probes["liveness"]
            wait_until(
                lambda url=liveness: answer(url)[0],  # type: ignore[misc]  # lambdas have no types
                lambda status: status == 200,
            )
            is_exporter = "exporter" in name
            first = local.probes["startup" if is_exporter else "readiness"]
            assert answer(first)[0] == (503 if is_exporter else 200), name
        for name, (_, process) in running_pods.items():
            took_s = _end(process, tmp_path / f"{name}.out")
            assert took_s < GRACE_S, name


@pytest.mark.full
def test_a_fold_that_lost_its_kafka_ends_within_its_grace_period(
    tmp_path: Path, jars: Jars
) -> None:
    """Spark, which waits for a dead broker, is not waited for: the pod is never killed in the middle."""
    with Supervisor(tmp_path / "stack", kill_on_exit=True) as supervisor:
        broker = KraftBroker(supervisor, jars, tmp_path / "kafka")
        broker.start()
        overrides = {
            "kafka.bootstrapServers": broker.bootstrap_servers,
            "settings.replication_factor": 1,
            "stream.settings.driver_memory": "512m",
            "listenAddress": "127.0.0.1",
        }
        manifests = render(LEAST, *(f"--set={name}={value}" for name, value in overrides.items()))
        (workload,) = [each for each in workloads(manifests) if each["kind"] == "StatefulSet"]
        local = localize(workload, manifests, tmp_path / "stream", image=image(jars))
        output = tmp_path / "stream.out"
        with running(local, output) as process:

            def up() -> str:
                assert process.poll() is None, output.read_text()
                return answer(f"http://127.0.0.1:{local.port}/metrics")[1].decode()

            wait_until(up, lambda said: "kcm_fold_up 1.0" in said, deadline_s=READY_S)
            broker.kill()
            wait_until(
                output.read_text, lambda said: "the fold waits for it" in said, deadline_s=READY_S
            )
            assert answer(local.probes["liveness"])[0] == 200
            took_s = _end(process, output)
        assert took_s < pod_of(workload)["terminationGracePeriodSeconds"]


@NEEDS_OPENSSL
@pytest.mark.full
def test_the_charts_certificates_open_zookeepers_tls_port(
    tmp_path: Path, jars: Jars, supervisor: Supervisor, pipeline_broker: KraftBroker
) -> None:
    """A watcher gets the secret's files and the key's password, and reads the whole tree with them."""
    certificates = tmp_path / "certificates"
    certificates.mkdir()
    make_authority(certificates)
    make_certificate(certificates, "chart", "localhost")
    make_certificate(certificates, "watcher", "watcher", "-passout", f"pass:{KEY_PASSWORD}")
    both = [(certificates / name).read_text() for name in ("chart.key", "chart.pem")]
    (certificates / "chart-store.pem").write_text("".join(both))
    with zookeeper_with(supervisor, jars, certificates, "chart") as secure:
        tls = f"clusters.{CLUSTER}.tls"
        opened = f"clusters.{CLUSTER}.tlsKeyPasswordSecret"
        overrides = {
            "kafka.bootstrapServers": pipeline_broker.bootstrap_servers,
            f"clusters.{CLUSTER}.zookeeper": f"localhost:{secure.port}",
            f"{tls}.enabled": "true",
            f"{tls}.secret": "zk-tls",
            f"{tls}.ca": "ca.pem",
            f"{tls}.cert": "watcher.pem",
            f"{tls}.key": "watcher.key",
            f"{opened}.name": "zk",
            f"{opened}.key": "key-password",
            "election.path": "",
            "watcher.replicas": "1",
            "settings.replication_factor": "1",
            "settings.topic_prefix": tmp_path.name,
            "listenAddress": "127.0.0.1",
        }
        manifests = render(LEAST, *(f"--set={name}={value}" for name, value in overrides.items()))
        (watcher,) = [each for each in workloads(manifests) if "-w-" in each["metadata"]["name"]]
        files = {path.name: path.read_text() for path in certificates.glob("*.*")}
        secrets = {"zk-tls": files, "zk": {"key-password": KEY_PASSWORD}}
        local = localize(watcher, manifests, tmp_path / "watcher", secrets=secrets)
        output = tmp_path / "watcher.out"
        settings = settings_for("unused:1", pipeline_broker, topic_prefix=tmp_path.name)
        with running(local, output), LogReader(settings) as log:
            log.wait_for(ChangeKind.RESYNC_FINISHED)
            assert log.reader.mzxids[TOPIC], output.read_text()


def _end(process: subprocess.Popen[bytes], output: Path) -> float:
    """Ask a part to end; return how long it took."""
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert process.wait(GRACE_S) == 0, output.read_text()
    return time.monotonic() - began


@pytest.fixture
def watched(zookeeper: ZooKeeper, zk_chroot: str) -> Iterator[str]:
    """A small cluster's ZooKeeper with the election's path made, as NOTES.txt asks for."""
    connect = zookeeper.connect_string + zk_chroot
    with registered(connect, TREE) as client:
        client.ensure_path("/kcm/election")
        yield connect


@pytest.mark.full
def test_the_rendered_chart_watches_a_cluster(
    tmp_path: Path, jars: Jars, watched: str, pipeline_broker: KraftBroker
) -> None:
    """All pods of the least values answer their probes, one watcher leads, and the figures are live.

    Asked to end, each ends by itself within its grace period. Where this machine lets us make a view of the
    files of our own, each runs as the images' user on a root file system that is read-only.
    """
    overrides = {
        "kafka.bootstrapServers": pipeline_broker.bootstrap_servers,
        f"clusters.{CLUSTER}.zookeeper": watched,
        "settings.replication_factor": 1,
        "settings.topic_prefix": tmp_path.name,
        "listenAddress": "127.0.0.1",
    }
    manifests = render(LEAST, *(f"--set={name}={value}" for name, value in overrides.items()))
    pods: dict[str, Local] = {}
    grace: dict[str, int] = {}
    is_confined = can_confine()
    for workload in workloads(manifests):
        for number in range(workload["spec"]["replicas"]):
            name = f"{workload['metadata']['name']}-{number}"
            folder = tmp_path / name
            pods[name] = localize(workload, manifests, folder, image=image(jars))
            mounts = container_of(workload)["volumeMounts"]
            if is_confined:
                volumes = [each["mountPath"] for each in mounts if not each.get("readOnly")]
                pods[name] = confined(pods[name], folder, volumes)
            grace[name] = pod_of(workload).get("terminationGracePeriodSeconds", GRACE_S)
    with ExitStack() as stack:
        processes = {
            name: stack.enter_context(running(local, tmp_path / f"{name}.out"))
            for name, local in pods.items()
        }
        _wait_for_probes(pods, processes, tmp_path)
        exporters = [local for name, local in pods.items() if "exporter" in name]
        watchers = [local for name, local in pods.items() if "-w-" in name]
        assert len(exporters) == len(watchers) == 2
        for exporter in exporters:
            seen = _wait_for_figures(exporter)
            assert (seen.controller_id, seen.epoch, seen.live_brokers) == (1, 7, 1)
        wait_until(
            lambda: sorted(_leads(watcher) for watcher in watchers), lambda found: found == [0, 1]
        )
        for process in processes.values():
            if is_confined:
                assert f"Uid:\t{USER}" in Path(f"/proc/{process.pid}/status").read_text()
            process.send_signal(signal.SIGTERM)
        for name, process in processes.items():
            assert process.wait(grace[name]) == 0, (tmp_path / f"{name}.out").read_text()


def _wait_for_probes(
    pods: dict[str, Local], processes: dict[str, subprocess.Popen[bytes]], folder: Path
) -> None:
    """Wait until every probe of every pod is answered as the kubelet wants it."""
    for name, local in pods.items():

        def probes_of(name: str = name, local: Local = local) -> dict[str, tuple[int, bytes]]:
            said = (folder / f"{name}.out").read_text()
            assert processes[name].poll() is None, f"{name} ended: {said}"
            return {kind: answer(url) for kind, url in local.probes.items()}

        wait_until(
            probes_of,
            lambda seen: all(status == 200 for status, _ in seen.values()),
            deadline_s=READY_S,
        )


def _wait_for_figures(exporter: Local) -> ClusterSeen:
    """Wait until an exporter's figures are proven and follow ZooKeeper."""
    seen = wait_until(
        lambda: read_cluster(f"http://127.0.0.1:{exporter.port}", CLUSTER),
        lambda seen: isinstance(seen, ClusterSeen) and seen.live,
        deadline_s=READY_S,
    )
    assert isinstance(seen, ClusterSeen)
    return seen


def _leads(watcher: Local) -> float:
    """Return the watcher's own word on whether it leads; -1 where it says nothing."""
    _, body = answer(f"http://127.0.0.1:{watcher.port}/metrics")
    for family in text_string_to_metric_families(body.decode()):
        for sample in family.samples:
            if sample.name == "kcm_watcher_leader":
                return sample.value
    return -1
