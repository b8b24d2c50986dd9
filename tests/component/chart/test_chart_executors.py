"""Spark on Kubernetes: the chart's driver makes executors' pods, and they fold."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from controller_model.kafka.ids import partition_of
from controller_model.records.views import AnyView, ClusterView, decode_view
from kcm.servers.jars import Jars
from kcm.servers.kafka import KraftBroker
from pipeline.topics import TopicNames, topic_names
from streaming.watchdog import FIRST_BATCH_S, START_S
from tests.component.chart.chart import (
    CHART,
    NAMESPACE,
    NEEDS_HELM,
    ROOT,
    Manifest,
    answer,
    container_of,
    image,
    localize,
    pod_of,
    render,
    running,
    template,
    workloads,
)
from tests.component.chart.kubernetes_api import Kubernetes, Pod
from tests.support.histories import History, encode_changes, small_cluster
from tests.support.waiting import DEADLINE_S, wait_until

EXECUTORS = CHART / "ci" / "executors-values.yaml"
OLDEST_KUBERNETES = "1.25"
OLDEST_FOR_SPARK = "1.27"
"""Spark sets a resizePolicy, which an older Kubernetes drops."""
PARTITIONS = 2
READY_S = START_S + FIRST_BATCH_S
"""As long as the fold itself waits for its session and its first batch: all starts on two processors that do much else."""
CLUSTERS = {partition_of(name, PARTITIONS): name for name in ("a", "b", "c", "d")}
"""One for each partition: both are folded at once, each in an executor of its own or not."""

pytestmark = [NEEDS_HELM, pytest.mark.full, pytest.mark.timeout(1200)]


def one_of(manifests: list[Manifest], kind: str, name: str) -> Manifest:
    """Return the manifest of a kind and name."""
    (found,) = [m for m in manifests if (m["kind"], m["metadata"]["name"]) == (kind, name)]
    return found


def spark_conf(workload: Manifest) -> dict[str, str]:
    """Return Spark's properties as the fold gets them."""
    (text,) = [e["value"] for e in container_of(workload)["env"] if e["name"] == "KCM_SPARK_CONF"]
    found: dict[str, str] = json.loads(text)
    return found


def test_a_fold_alone_needs_no_secret_but_kafkas() -> None:
    """In a namespace of its own, what the driver's account could mount is what the fold has anyway."""
    alone = "watcher.enabled=false,exporter.enabled=false,dashboards.enabled=false"
    zookeepers = "clusters.prod.authSecret.name=zk-prod,clusters.prod.authSecret.key=auth"
    kafkas = "kafka.propertiesSecret.name=kafka-own"
    text = json.dumps(render(EXECUTORS, "--set", alone, "--set", zookeepers, "--set", kafkas))
    assert "kafka-own" in text
    assert "kcm-kafka-tls" in text
    assert "zk-prod" not in text


def test_executors_run_as_restricted_pods() -> None:
    """Executors run without root, without a token and without Kubernetes' service variables."""
    validator: Any = pytest.importorskip(
        "kubernetes_validate", reason="kubernetes-validate is not installed"
    )
    manifests = render(EXECUTORS)
    pod_template = yaml.safe_load(
        one_of(manifests, "ConfigMap", "kcm-executor")["data"]["pod.yaml"]
    )
    (container,) = pod_template["spec"]["containers"]
    container["image"] = "given by Spark"
    validator.validate(pod_template | {"metadata": {"name": "x"}}, OLDEST_KUBERNETES, strict=True)
    driver = one_of(manifests, "StatefulSet", "kcm-stream")
    for same in ("securityContext", "imagePullSecrets", "enableServiceLinks"):
        assert pod_template["spec"][same] == pod_of(driver)[same]
    assert container["securityContext"] == container_of(driver)["securityContext"]
    assert pod_template["spec"]["automountServiceAccountToken"] is False
    assert pod_template["spec"]["serviceAccountName"] != pod_of(driver)["serviceAccountName"]


def test_the_driver_alone_gets_a_token_and_a_role() -> None:
    """Its account is bound to a Role for pods of the release's namespace, and to nothing else."""
    manifests = render(EXECUTORS)
    for workload in workloads(manifests):
        drives = workload["kind"] == "StatefulSet"
        assert pod_of(workload)["automountServiceAccountToken"] is drives
    account = pod_of(one_of(manifests, "StatefulSet", "kcm-stream"))["serviceAccountName"]
    binding = one_of(manifests, "RoleBinding", "kcm-stream")
    assert binding["roleRef"]["name"] == "kcm-stream"
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}
    ]
    (rule,) = one_of(manifests, "Role", "kcm-stream")["rules"]
    assert (rule["apiGroups"], rule["resources"]) == ([""], ["pods"])


def test_a_named_account_gets_the_role_where_none_is_made() -> None:
    """With an account of the user's own nothing is bound to the namespace's default one."""
    given = ("serviceAccount.create=false", "serviceAccount.name=spark")
    manifests = render(EXECUTORS, *(f"--set={each}" for each in given))
    (subject,) = one_of(manifests, "RoleBinding", "kcm-stream")["subjects"]
    assert subject["name"] == "spark"
    assert pod_of(one_of(manifests, "StatefulSet", "kcm-stream"))["serviceAccountName"] == "spark"
    assert not [each for each in manifests if each["kind"] == "ServiceAccount"]


def test_executors_find_the_driver_and_the_checkpoint() -> None:
    """Host, ports, claim and template that Spark gets are those of the manifests."""
    manifests = render(EXECUTORS)
    driver = one_of(manifests, "StatefulSet", "kcm-stream")
    conf = spark_conf(driver)
    service = one_of(manifests, "Service", "kcm-stream")
    pod = f"{driver['metadata']['name']}-0"
    assert conf["spark.driver.host"] == f"{pod}.{driver['spec']['serviceName']}.{NAMESPACE}.svc"
    assert driver["spec"]["serviceName"] == service["metadata"]["name"]
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert conf["spark.kubernetes.driver.pod.name"] == pod
    ports = {each["name"]: str(each["port"]) for each in service["spec"]["ports"]}
    assert ports["driver"] == conf["spark.driver.port"]
    assert ports["blocks"] == conf["spark.driver.blockManager.port"]
    policy = one_of(manifests, "NetworkPolicy", "kcm")
    for rules in (policy["spec"]["ingress"], policy["spec"]["egress"]):
        opened = {str(port["port"]) for port in rules[-1]["ports"]}
        assert opened == {ports["driver"], ports["blocks"]}
        assert opened == {conf["spark.driver.port"], conf["spark.blockManager.port"]}
    (claim,) = driver["spec"]["volumeClaimTemplates"]
    pod_template = yaml.safe_load(
        one_of(manifests, "ConfigMap", "kcm-executor")["data"]["pod.yaml"]
    )
    volumes = {volume["name"]: volume for volume in pod_template["spec"]["volumes"]}
    named = volumes["checkpoint"]["persistentVolumeClaim"]["claimName"]
    assert named == f"{claim['metadata']['name']}-{pod}"
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    mounts = container_of(driver)["volumeMounts"]
    (shared,) = [m["mountPath"] for m in mounts if m["name"] == "checkpoint"]
    assert shared in [m["mountPath"] for m in pod_template["spec"]["containers"][0]["volumeMounts"]]
    # A property of the user's own wins.
    assert conf["spark.executor.cores"] == "3"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("stream.persistence.accessMode=ReadWriteOnce", "accessMode=ReadWriteMany"),
        ("stream.persistence.enabled=false", "stream.persistence.enabled=true"),
        ("stream.executors.memory=lots", "/stream/executors/memory"),
        ("stream.executors.mistyped=1", "'mistyped'"),
        ("serviceAccount.create=false", "serviceAccount.name: stream.executors give"),
    ],
)
def test_executors_that_could_not_work_are_refused(given: str, expected: str) -> None:
    """Executors without a volume that they can share are refused before anything is installed."""
    done = template("--values", str(EXECUTORS), "--set", given)
    assert done.returncode != 0
    assert expected in done.stderr


class Pods:
    """Runs executors' pods on this machine: folders in place of mounts, addresses of this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, pod: Pod) -> subprocess.Popen[bytes]:
        """Start what a pod's container runs."""
        name = pod["metadata"]["name"]
        (container,) = pod["spec"]["containers"]
        own = self.folder / name
        own.mkdir(parents=True)
        fields = {"status.podIP": "127.0.0.1", "metadata.name": name}
        given = {}
        for each in container["env"]:
            source = each.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
            given[each["name"]] = fields[source] if source else each.get("value", "")
        given |= {"SPARK_LOCAL_DIRS": str(own), "HOME": str(own)}
        path = f"{ROOT / 'docker'}:{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}"
        with (self.folder / f"{name}.out").open("wb") as output:
            return subprocess.Popen(
                [*container["command"], *container["args"]],
                env={"PATH": path} | given,
                cwd=own,
                stdout=output,
                stderr=subprocess.STDOUT,
            )


@pytest.fixture
def kubernetes(tmp_path: Path) -> Iterator[Kubernetes]:
    """An API whose pods run here; the driver's own pod is known to it."""
    api = Kubernetes(NAMESPACE, Pods(tmp_path / "pods").run)
    api.add(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "kcm-stream-0"},
            "spec": {"containers": [{"name": "stream"}]},
        }
    )
    yield api
    api.close()


class Log:
    """The log of both clusters, and the views that come out of it."""

    def __init__(self, broker: KraftBroker, names: TopicNames) -> None:
        servers = {"bootstrap.servers": broker.bootstrap_servers, "log_level": 2}
        self._names = names
        self._producer = Producer(servers)
        self._consumer = Consumer(servers | {"group.id": f"test-{uuid.uuid4().hex}"})
        self._consumer.assign(
            [TopicPartition(names.views, p, OFFSET_BEGINNING) for p in range(PARTITIONS)]
        )
        self._views: dict[str, AnyView] = {}

    def append_new(self, history: History, changes: int) -> None:
        """Append the last changes of a history."""
        self._producer.produce(
            self._names.changes,
            value=encode_changes(history.changes[-changes:]),
            key=history.cluster,
            partition=partition_of(history.cluster, PARTITIONS),
        )
        assert self._producer.flush(DEADLINE_S) == 0

    def view(self, history: History) -> ClusterView | None:
        """Return the cluster's view once all of its history is folded."""
        for message in self._consumer.consume(500, timeout=0.1):
            if message.error() is None and message.value() is not None:
                self._views[(message.key() or b"").decode()] = decode_view(message.value() or b"")
        view = self._views.get(f"{history.cluster}/cluster")
        whole = isinstance(view, ClusterView) and view.as_of.seq >= history.seq
        return view if whole and isinstance(view, ClusterView) else None

    def close(self) -> None:
        """Leave the broker."""
        self._consumer.close()


def test_the_driver_makes_executors_that_fold(
    tmp_path: Path, jars: Jars, pipeline_broker: KraftBroker, kubernetes: Kubernetes
) -> None:
    """Both clusters are folded in executors' pods, also after one of them was killed.

    The driver asks Kubernetes for all that its Role allows and no more, and asked to end takes its executors along.
    """
    prefix = f"chart-{uuid.uuid4().hex[:8]}"
    manifests = render(_values(tmp_path, pipeline_broker.bootstrap_servers, prefix))
    workload = one_of(manifests, "StatefulSet", "kcm-stream")
    local = localize(workload, manifests, tmp_path / "driver", image=image(jars))
    conf = json.loads(local.environment["KCM_SPARK_CONF"])
    assert Path(conf["spark.kubernetes.executor.podTemplateFile"]).is_file()
    # All pods are on one machine: they cannot have a port each of the same number, nor names.
    here = {name: "0" for name in conf if name.endswith(".port")}
    here |= {"spark.driver.host": "127.0.0.1", "spark.local.dir": str(tmp_path)}
    local.environment["KCM_SPARK_CONF"] = json.dumps(conf | here)
    local.environment["KCM_SPARK_MASTER"] = f"k8s://{kubernetes.url}"
    output = tmp_path / "driver.out"
    histories = [_cluster(name) for name in CLUSTERS.values()]
    with running(local, output) as driver:

        def up() -> str:
            assert driver.poll() is None, output.read_text()
            _, body = answer(f"http://127.0.0.1:{local.port}/metrics")
            return body.decode()

        wait_until(up, lambda said: "kcm_fold_up 1.0" in said, deadline_s=READY_S)
        log = Log(pipeline_broker, topic_names(prefix))
        try:
            for history in histories:
                log.append_new(history, len(history.changes))
            views = [_folded(log, history) for history in histories]
            assert [view.counts.partitions for view in views] == [2, 2]
            kubernetes.processes()[0].kill()
            for history in histories:
                history.elect(2)
                log.append_new(history, 2)
            assert [
                getattr(_folded(log, history).controller, "id", None) for history in histories
            ] == [2, 2]
            wait_until(lambda: len(kubernetes.made) == 3 and len(kubernetes.processes()) == 2)
        finally:
            log.close()
        driver.send_signal(signal.SIGTERM)
        grace = pod_of(workload)["terminationGracePeriodSeconds"]
        assert driver.wait(grace) == 0, output.read_text()
    wait_until(lambda: not kubernetes.processes(), deadline_s=grace)
    (rule,) = one_of(manifests, "Role", "kcm-stream")["rules"]
    assert kubernetes.asked == {(verb, "pods") for verb in rule["verbs"]}
    _check_pods(kubernetes, workload)


def _values(folder: Path, bootstrap_servers: str, prefix: str) -> Path:
    """Write the value set of executors, for a Kafka without TLS and for small executors."""
    values = yaml.safe_load(EXECUTORS.read_text())
    values["kafka"] = {"bootstrapServers": bootstrap_servers}
    values["settings"] = {
        "partitions": PARTITIONS,
        "replication_factor": 1,
        "topic_prefix": prefix,
    }
    values["listenAddress"] = "127.0.0.1"
    values["stream"]["settings"] = {"driver_memory": "512m"}
    small = {"cores": 1, "memory": "512m", "memoryOverhead": "256m"}
    values["stream"]["executors"] |= small
    path = folder / "values.yaml"
    path.write_text(yaml.safe_dump(values))
    return path


def _cluster(name: str) -> History:
    history = small_cluster()
    history.cluster = name
    history.changes = [msgspec.structs.replace(c, cluster=name) for c in history.changes]
    return history


def _folded(log: Log, history: History) -> ClusterView:
    view = wait_until(lambda: log.view(history), deadline_s=READY_S)
    assert view is not None
    return view


def _check_pods(kubernetes: Kubernetes, driver: Manifest) -> None:
    """Kubernetes would take the pods that Spark made, and they are as restricted as the others."""
    validator: Any = pytest.importorskip(
        "kubernetes_validate", reason="kubernetes-validate is not installed"
    )
    for pod in kubernetes.made:
        validator.validate(pod, OLDEST_FOR_SPARK, strict=True)
        (container,) = pod["spec"]["containers"]
        assert container["image"] == container_of(driver)["image"]
        assert container["securityContext"] == container_of(driver)["securityContext"]
        assert pod["spec"]["automountServiceAccountToken"] is False
        assert pod["spec"]["securityContext"] == pod_of(driver)["securityContext"]
        assert container["resources"]["limits"]["memory"] == "768Mi"
        (owner,) = pod["metadata"]["ownerReferences"]
        assert owner["name"] == "kcm-stream-0"
